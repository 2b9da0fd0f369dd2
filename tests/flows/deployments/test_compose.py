"""compose.yaml by itself: order, health, volumes, memory, and what is let out of the machine."""

import re

import pytest

from tests.flows.deployments.services import FOLDER, compose, compose_services

WHOLE = compose()
SERVICES = WHOLE["services"]
of_every_service = pytest.mark.parametrize("name", sorted(SERVICES))
ONCE = "bucket"
KNOWN = {
    *("image", "build", "command", "environment", "env_file", "volumes", "ports", "depends_on"),
    *("healthcheck", "restart", "init", "cap_drop", "security_opt", "deploy", "profiles"),
    "stop_grace_period",
}


def bytes_of(text: str) -> float:
    """Return the bytes of Docker's 5G, which is binary, or Dask's 4GB, which is not."""
    units = {"G": 2**30, "GB": 1e9}
    number, unit = re.fullmatch(r"(\d+)(GB?)", text).groups()
    return int(number) * units[unit]


def test_it_has_what_the_specification_knows():
    assert {key for key in WHOLE if not key.startswith("x-")} == {"name", "services", "volumes"}
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
    if name == ONCE:
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
    assert mounted["serve"][0] == mounted["worker"][0]
    assert mounted["prefect"] == [("prefect", "/srv/prefect")]
    own = (volume.partition(":")[0] for volume, _ in mounted["worker"][1:])
    assert all((FOLDER / path).exists() for path in own)


def test_dask_ends_a_worker_before_the_machine_would():
    worker = SERVICES["dask-worker"]
    own = worker["command"][worker["command"].index("--memory-limit") + 1]
    assert worker["deploy"]["replicas"] == 2
    assert bytes_of(own) < bytes_of(worker["deploy"]["resources"]["limits"]["memory"])


@pytest.mark.parametrize("name", [s.name for s in compose_services() if s.is_ours])
def test_ours_has_no_rights_that_it_does_not_need(name):
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert (FOLDER / service["build"]["context"] / service["build"]["dockerfile"]).is_file()


def test_every_value_that_is_asked_for_is_in_the_example_and_must_be_set():
    said = (FOLDER / "compose.yaml").read_text()
    asked = re.findall(r"\$\{(\w+)([^}]*)\}", said)
    assert {rest for _, rest in asked} == {":?set it in .env"}
    example = (FOLDER / "env.example").read_text()
    offered = dict(re.findall(r"^(\w+)=(.*)$", example, re.MULTILINE))
    assert {name for name, _ in asked} == set(offered)
    assert {k for k, v in offered.items() if v} == {"TABLE", "TARGET"}


def test_the_file_of_secrets_is_never_committed():
    ignored = (FOLDER.parent / ".gitignore").read_text().split()
    files = [file["path"] for s in SERVICES.values() for file in s.get("env_file", [])]
    assert {".env", *files} <= set(ignored)
