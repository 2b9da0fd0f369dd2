"""What holds for every program of compose.yaml and of the Kubernetes manifests alike."""

import os
import re
import subprocess
import sys
from functools import cache

import pytest

from tests.flows.cli.programs import PREFECT
from tests.flows.deployments.services import (
    FOLDER,
    OURS,
    asked_of,
    compose,
    compose_services,
    kubernetes_services,
)
from tests.refusals import chaffinch_here

SERVICES = [*compose_services(), *kubernetes_services()]
of_every_service = pytest.mark.parametrize("service", SERVICES, ids=str)
of_ours = pytest.mark.parametrize("service", [s for s in SERVICES if s.is_ours], ids=str)

PROGRAMS = {
    "chaffinch": (),  # in this process
    "prefect": PREFECT,
    "dask": (sys.executable, "-m", "dask"),
    "python": (sys.executable,),
}
LISTENING = {"postgres": 5432, "prefect": 4200, "dask-scheduler": 8786, "s3": 7070}
ONE_THREAD = {f"{library}_NUM_THREADS" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


@cache
def help_of(*command: str) -> str:
    """Return what a program says of itself, once."""
    program, *subcommands = command
    if program == "chaffinch":
        return chaffinch_here(*subcommands, "--help").stdout
    ended = subprocess.run(
        (*PROGRAMS[program], *subcommands, "--help"), capture_output=True, text=True, timeout=300,
        env={**os.environ, "COLUMNS": "200"}, check=True,
    )  # fmt: skip
    return ended.stdout


def test_both_have_the_same_programs_but_the_storage():
    in_compose, in_kubernetes = (
        {s.name for s in f()} for f in (compose_services, kubernetes_services)
    )
    assert in_compose - in_kubernetes == {"s3", "s3-owner", "bucket", "worker"}
    assert in_kubernetes <= in_compose


@pytest.mark.parametrize("name", sorted({s.name for s in kubernetes_services()}))
def test_both_start_each_in_the_same_way(name):
    there, here = (
        next(s for s in found() if s.name == name)
        for found in (kubernetes_services, compose_services)
    )
    # probes of Kubernetes come from outside of the container, so that it listens to others too
    started = [re.sub(r"^127\.0\.0\.1(?=:\d+$)", "", word) for word in here.command]
    named = [re.sub(r"\$\{(\w+):\?.*\}", r"$(\1)", word) for word in started]
    assert there.command == named
    assert there.image.partition(":")[0] == here.image.partition(":")[0]
    elsewhere = {"AWS_ENDPOINT_URL", "CHAFFINCH_REPORTS_HOST"}
    assert {item for item in here.environment.items() if item[0] not in elsewhere} <= set(
        there.environment.items()
    )


@of_every_service
def test_every_variable_of_prefect_is_one_of_its_settings_and_can_be_read(service, monkeypatch):
    from prefect import settings

    of_prefect = {k: v for k, v in service.environment.items() if k.startswith("PREFECT_")}
    assert [name for name in of_prefect if not hasattr(settings, name)] == []
    for name, value in of_prefect.items():
        monkeypatch.setenv(name, "secret" if value is None else value)
    settings.Settings()


@pytest.mark.e2e
@pytest.mark.xdist_group("help")  # each program is asked once
@of_ours
def test_every_command_and_option_exists(service):
    for program, *words in service.commands:
        assert program in PROGRAMS
        if program == "python":
            option, code = words
            assert option == "-c"
            compile(code, str(service), "exec")
            continue
        options = [i for i, word in enumerate(words) if word.startswith("-")]
        subcommands = [
            word for word in words[: options[0] if options else None] if "://" not in word
        ]
        said = help_of(program, *subcommands)
        for i in options:
            assert re.search(rf"(?<!\S){words[i]}(?!\S)", said), f"{words[i]} of {service}"


@of_every_service
def test_whom_it_asks_is_there_and_listens_there(service):
    names = {other.name for other in SERVICES if other.where == service.where}
    for host, port in asked_of(service):
        assert host in names
        assert LISTENING[host] == port


def test_everybody_listens_where_they_are_asked():
    for service in SERVICES:
        said = service.environment
        if service.name == "prefect":
            assert said["PREFECT_SERVER_API_PORT"] == str(LISTENING["prefect"])
            assert said["PREFECT_SERVER_UI_API_URL"].endswith(f":{LISTENING['prefect']}/api")
        elif service.name == "dask-scheduler":
            at = service.command.index("--port") + 1
            assert service.command[at] == str(LISTENING["dask-scheduler"])
        elif service.name == "s3":
            assert said["VGW_PORT"] == f":{LISTENING['s3']}"


def test_reports_are_served_where_a_browser_of_this_machine_asks_for_them():
    (port,) = {
        service.command[service.command.index("--reports-port") + 1]
        for service in SERVICES
        if service.name == "serve"
    }
    (published,) = compose()["services"]["serve"]["ports"]
    assert published == f"127.0.0.1:{port}:{port}"
    (serve,) = (service for service in compose_services() if service.name == "serve")
    assert serve.environment["CHAFFINCH_REPORTS_HOST"] == "0.0.0.0"  # noqa: S104
    # a forwarded port enters the pod by its loopback interface
    assert f"deployment/serve {port} " in (FOLDER / "README.md").read_text()


@of_every_service
def test_no_secret_is_written_down(service):
    secret = {
        k: v for k, v in service.environment.items() if re.search("PASSWORD|SECRET|KEY|AUTH", k)
    }
    assert set(secret.values()) <= {None}


@of_every_service
def test_every_image_has_a_version(service):
    name, _, version = service.image.partition(":")
    assert version or (name == OURS and service.where == "kubernetes")  # its kustomization has it
    assert version != "latest"
    assert service.is_ours or re.fullmatch(r"\S+:[\w.]+@sha256:[0-9a-f]{64}", service.image)


@pytest.mark.parametrize("where", ["compose", "kubernetes"])
def test_the_server_asks_for_what_the_flows_send_and_keeps_foreign_pages_out(where):
    said = {s.name: s.environment for s in SERVICES if s.where == where}
    assert "PREFECT_SERVER_API_AUTH_STRING" in said["prefect"]
    for name, environment in said.items():
        assert ("PREFECT_API_URL" in environment) == ("PREFECT_API_AUTH_STRING" in environment), (
            name
        )
    origin = said["prefect"]["PREFECT_SERVER_UI_API_URL"].removesuffix("/api")
    assert said["prefect"]["PREFECT_SERVER_CORS_ALLOWED_ORIGINS"] == origin


@pytest.mark.parametrize(
    "service", [s for s in SERVICES if s.name == "dask-worker"], ids=lambda s: s.where
)
def test_a_dask_worker_has_one_thread_in_every_library(service):
    assert service.command[service.command.index("--nthreads") + 1] == "1"
    assert {k for k, v in service.environment.items() if v == "1"} == ONE_THREAD


@pytest.mark.parametrize(
    "service", [s for s in SERVICES if s.name == "prefect"], ids=lambda s: s.where
)
def test_the_server_forgets_old_runs_and_remembers_who_holds_a_limit(service, monkeypatch):
    from prefect.settings.models.root import Settings

    for name, value in service.environment.items():
        monkeypatch.setenv(name, "secret" if value is None else value)
    settings = Settings().server
    assert settings.services.db_vacuum.enabled_vacuum_types == {"events", "flow_runs", "orphans"}
    assert settings.concurrency.lease_storage.endswith(".filesystem")
    url = settings.database.connection_url.get_secret_value()
    assert url == "postgresql+asyncpg://prefect:secret@postgres:5432/prefect"
