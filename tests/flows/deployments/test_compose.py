"""compose.yaml by itself: order, health, volumes, memory, and what is let out of the machine."""

import re
from pathlib import Path

import pytest

from tests.flows.deployments.services import FOLDER, asked_of, compose, compose_services

WHOLE = compose()
SERVICES = WHOLE["services"]
of_every_service = pytest.mark.parametrize("name", sorted(SERVICES))
ONCE = ("s3-owner", "bucket")
DISKS = {"/tmp", "/srv/prefect"}  # noqa: S108 - where programs of our image write, beside the store
KNOWN = {
    *("image", "build", "command", "environment", "env_file", "volumes", "ports", "depends_on"),
    *("healthcheck", "restart", "init", "cap_drop", "security_opt", "deploy", "profiles"),
    *("stop_grace_period", "user", "read_only", "tmpfs", "networks", "network_mode"),
}


def bytes_of(text: str) -> float:
    """Return the bytes of Docker's 5G, which is binary, or Dask's 4GB, which is not."""
    units = {"G": 2**30, "GB": 1e9}
    number, unit = re.fullmatch(r"(\d+)(GB?)", text).groups()
    return int(number) * units[unit]


def test_it_has_what_the_specification_knows():
    assert {key for key in WHOLE if not key.startswith("x-")} == {
        *("name", "services", "volumes", "networks")
    }
    assert set().union(*SERVICES.values()) <= KNOWN


@of_every_service
def test_it_waits_for_what_is_there_and_tells_that_it_is_ready(name):
    for other, how in SERVICES[name].get("depends_on", {}).items():
        if how["condition"] == "service_healthy":
            assert SERVICES[other]["healthcheck"]["test"][0] == "CMD"
        else:
            assert how == {"condition": "service_completed_successfully"}
            assert SERVICES[other]["restart"] == "no"


def test_nobody_waits_for_himself_even_by_others():
    order: list[str] = []
    while left := set(SERVICES) - set(order):
        ready = {name for name in left if set(SERVICES[name].get("depends_on", {})) <= set(order)}
        assert ready
        order += sorted(ready)


@of_every_service
def test_it_comes_back_after_its_death_and_is_asked_whether_it_is_well(name):
    if name in ONCE:
        return
    assert SERVICES[name]["restart"] == "unless-stopped"
    check = SERVICES[name]["healthcheck"]
    assert check.keys() == {"test", "interval", "timeout", "start_period", "retries"}


@of_every_service
def test_nothing_is_published_beyond_this_machine(name):
    for port in SERVICES[name].get("ports", []):
        assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)


def test_what_must_outlive_a_container_is_in_a_volume_of_a_name():
    mounted = {
        name: [volume.partition(":")[::2] for volume in service.get("volumes", [])]
        for name, service in SERVICES.items()
    }
    named = {volume for pairs in mounted.values() for volume, _ in pairs if "/" not in volume}
    assert named == set(WHOLE["volumes"])
    assert ("store", "/srv/chaffinch") in mounted["serve"]
    assert mounted["serve"] == mounted["worker"][:2]
    assert mounted["prefect"] == [("prefect", "/srv/prefect")]
    own = (volume.partition(":")[0] for volume, _ in mounted["worker"][2:])
    assert all((FOLDER / path).exists() for path in own)


@pytest.mark.parametrize("name", ["serve", "worker", "dask-worker"])
def test_a_store_in_the_storage_has_its_cache_on_a_disk(name):
    service = SERVICES[name]
    volumes = [volume.split(":")[1] for volume in service["volumes"]]
    assert str(Path(service["environment"]["CHAFFINCH_CACHE"]).parent) in volumes


def test_of_several_writes_on_one_condition_the_storage_takes_one():
    """A store needs it, and versitygw has it from 1.8.0 on."""
    version = re.search(r"/versitygw:v(\d+)\.(\d+)\.", SERVICES["s3"]["image"])
    assert tuple(map(int, version.groups())) >= (1, 8)


def test_dask_ends_a_worker_before_the_machine_would():
    worker = SERVICES["dask-worker"]
    own = worker["command"][worker["command"].index("--memory-limit") + 1]
    assert worker["deploy"]["replicas"] == 2
    assert bytes_of(own) < bytes_of(worker["deploy"]["resources"]["limits"]["memory"])


@of_every_service
def test_it_has_no_rights_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["read_only"] is True
    user, group = map(int, service["user"].split(":"))
    assert min(user, group) > 0


@pytest.mark.parametrize("name", [s.name for s in compose_services() if s.is_ours])
def test_ours_is_built_here_and_can_write_where_it_has_to(name):
    service = SERVICES[name]
    assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    volumes = {volume.split(":")[1] for volume in service.get("volumes", [])}
    assert {*service["tmpfs"], *volumes} >= DISKS


def test_only_the_flows_reach_dask_and_only_the_server_its_database():
    networks = {
        name: set(service.get("networks", ["default"])) if "network_mode" not in service else set()
        for name, service in SERVICES.items()
    }
    met = {
        one: {other for other in SERVICES if other != one and networks[one] & networks[other]}
        for one in SERVICES
    }
    assert met["dask-scheduler"] == {"dask-worker", "serve", "worker"}
    assert met["dask-worker"] == {"dask-scheduler", "serve", "worker", "s3"}
    assert met["postgres"] == {"prefect"}
    assert met["s3"] == {"bucket", "serve", "worker", "dask-worker"}
    assert met["s3-owner"] == set()
    for service in compose_services():
        assert {host for host, _ in asked_of(service)} <= met[service.name]
    closed = {name for name, how in WHOLE["networks"].items() if how == {"internal": True}}
    assert closed == {"database", "dask", "rows"}
    assert networks["dask-worker"] <= closed


def test_every_value_that_is_asked_for_is_in_the_example_and_must_be_set():
    said = (FOLDER / "compose.yaml").read_text()
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", said)
    assert {rest for _, rest in asked} == {":?set it in .env"}
    example = (FOLDER / "env.example").read_text()
    offered = dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE))
    assert {name for name, _ in asked} == set(offered)
    assert {k for k, v in offered.items() if v} == {"TABLE", "TARGET", "STORE"}


def test_the_file_of_secrets_is_never_committed():
    ignored = (FOLDER.parent / ".gitignore").read_text().split()
    files = [file["path"] for s in SERVICES.values() for file in s.get("env_file", [])]
    assert {".env", *files} <= set(ignored)
