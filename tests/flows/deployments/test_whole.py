"""The services of compose.yaml, started as programs of this machine by the same commands.

Only names of other services, ports and folders are put in place of those inside of containers;
PostgreSQL and the storage are those of the tests. Each program has a volume of its own, so that
only the storage has files for several.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import chaffinch
from chaffinch.storage.sources import source_of
from chaffinch.tasks.pipeline.run import select_features
from tests.flows.cli.programs import (
    AUTH,
    CHAFFINCH,
    PREFECT,
    environment,
    eventually,
    free_port,
    started,
)
from tests.flows.conftest import Server, day_of, names_of, nightly
from tests.flows.deployments.services import FOLDER, Service, compose, compose_services
from tests.object_storage import ObjectStorage
from tests.postgres import OWNER, PASSWORD, Postgres

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600), pytest.mark.xdist_group("whole")]

SERVICES = {service.name: service for service in compose_services()}
PROGRAMS = {
    "chaffinch": CHAFFINCH,
    "prefect": PREFECT,
    "dask": (sys.executable, "-m", "dask"),
    "python": (sys.executable,),
}
STORE = "s3://tables/store"
OWN_VOLUME = "/proc/self/cwd"  # as in containers, one path is another folder for each program
# How rows of a table larger than memory are held, however few they are.
IN_FILES = """
from chaffinch.tasks.pipeline import memory
memory.SHARE_IN_MEMORY = 0.0
"""
SECONDS = 120  # as long as each may take to be well in compose.yaml


@dataclass(frozen=True)
class Machine:
    """This machine in the place of the containers."""

    folder: Path
    values: dict[str, str]  # of the variables that are referred to
    places: dict[str, str]  # what is said in compose.yaml -> where it is here

    def here(self, said: str, more: dict[str, str] | None = None) -> str:
        """Return a word of compose.yaml as it must be on this machine."""
        said = re.sub(r"\$\{(\w+):\?[^}]*\}", lambda found: self.values[found[1]], said)
        places = {**(more or {}), **self.places}
        # in one go: what is put in may hold what another place is called
        return re.sub("|".join(map(re.escape, places)), lambda found: places[found[0]], said)

    def command(self, words: list[str], more: dict[str, str] | None = None) -> list[str]:
        """Return a command likewise, its program that of the tests."""
        program, *others = words
        return [*PROGRAMS[program], *(self.here(word, more) for word in others)]

    def environment(self, service: Service, more: dict[str, str] | None = None) -> dict[str, str]:
        """Return the environment of a service; with what its secrets are."""
        said = compose()["services"][service.name].get("environment", {})
        ours = {name: self.here(value, more) for name, value in said.items()}
        image = dict(re.findall(r"(PREFECT_\w+|DO_NOT_TRACK)=(\S+)", IMAGE))
        image["PREFECT_HOME"] = str(self.folder / "prefect")
        own = {
            "PREFECT_SERVER_DATABASE_USER": OWNER,
            "PREFECT_SERVER_DATABASE_NAME": "shop",
            "PREFECT_SERVER_DATABASE_HOST": "127.0.0.1",
            "PREFECT_RUNNER_POLL_FREQUENCY": "1",
            "PREFECT_WORKER_QUERY_SECONDS": "1",
        }
        mine = {
            name: own[name] for name in own if name in ours or "POLL" in name or "QUERY" in name
        }
        return {**environment(self.folder), **image, **ours, **mine}

    def volume(self, log: str) -> Path:
        """Return the folder of the log's service that is its /srv/chaffinch."""
        return self.folder / "volumes" / log

    @contextmanager
    def runs(
        self, name: str, log: str | None = None, **variables: str
    ) -> Iterator[subprocess.Popen[str]]:
        """Start a service with an empty volume, and give it once it says that it is well."""
        service = SERVICES[name]
        more = {"8080": str(free_port()), "8788": str(free_port())}
        env = {**self.environment(service, more), **variables}
        path, volume = self.folder / f"{log or name}.log", self.volume(log or name)
        volume.mkdir(parents=True)
        command = self.command(service.command, more)
        with started(*command, env=env, log=path, cwd=volume) as program:
            (check,) = service.checks
            asked = self.command(check, more)

            def is_well() -> bool:
                assert program.poll() is None, path.read_text()
                return subprocess.run(asked, capture_output=True, check=False).returncode == 0

            try:
                eventually(is_well, SECONDS)
            except TimeoutError as error:
                error.add_note(path.read_text())
                raise
            yield program


IMAGE = (FOLDER / "Dockerfile").read_text()


@pytest.fixture(scope="module")
def machine(
    postgres_server: Postgres,
    objects: ObjectStorage,
    table: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Machine:
    if not Path(OWN_VOLUME).exists():
        pytest.skip("there is no /proc/self/cwd")
    folder = tmp_path_factory.mktemp("whole")
    prefect, dask = free_port(), free_port()
    values = {
        "POSTGRES_PASSWORD": PASSWORD,
        "PREFECT_API_AUTH_STRING": AUTH,
        "AWS_ACCESS_KEY_ID": objects.key,
        "AWS_SECRET_ACCESS_KEY": objects.secret,
        "TABLE": "s3://tables/harvest.csv",
        "TARGET": "yield",
        "STORE": STORE,
    }
    places = {
        "http://prefect:4200": f"http://127.0.0.1:{prefect}",
        "tcp://dask-scheduler:8786": f"tcp://127.0.0.1:{dask}",
        "http://s3:7070": objects.endpoint,
        "/srv/chaffinch": OWN_VOLUME,
        "/srv/prefect": str(folder / "prefect"),
        "0.0.0.0": "127.0.0.1",  # noqa: S104
        "5432": str(postgres_server.port),
        "4200": str(prefect),
        "8786": str(dask),
        "8787": str(free_port()),
    }
    return Machine(folder, values, places)


@pytest.fixture(scope="module")
def up(machine: Machine, objects: ObjectStorage, table: Path) -> Iterator[Server]:
    """Start all but the flows, in their order; the bucket is made by compose.yaml's own command."""
    bucket = SERVICES["bucket"]
    for _ in range(2):  # as at every start
        subprocess.run(
            machine.command(bucket.command),
            env=machine.environment(bucket),
            check=True,
            timeout=300,
        )
    from pyarrow import fs

    fs.copy_files(str(table), "tables/harvest.csv", fs.LocalFileSystem(), objects.files)
    with ExitStack() as stack:
        stack.enter_context(machine.runs("prefect"))
        stack.enter_context(machine.runs("dask-scheduler"))
        for number in (1, 2):
            stack.enter_context(machine.runs("dask-worker", f"dask-worker-{number}"))
        port = int(machine.places["4200"])
        server = Server(port, {})
        yield server
        server.close()


def finished(server: Server, deployment: dict[str, Any], **parameters: Any) -> dict[str, Any]:
    return server.ended(server.accepted(deployment["id"], parameters)["id"])


def test_a_served_run_is_killed_and_continues_elsewhere_and_workers_read_its_rows_from_the_storage(
    up, machine, table, small, s3, tmp_path, monkeypatch
):
    alone = select_features(
        source_of(table),
        chaffinch.SelectionSettings(**small),
        chaffinch.ExecutionSettings(store=tmp_path / "store", cluster="none"),
    )
    expected = (alone.folder / "selection.json").read_bytes()
    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "of-a-person"))
    noise = chaffinch.select(
        str(table), "yield", method="anova_f", n_features=1, keep=["noise_a"], store=STORE,
        model=chaffinch.ModelSettings(**small["model"]),
    )  # fmt: skip
    chaffinch.promote(noise)
    asked = {"settings": small, "promotion": {"most_changed": 1}}

    def manifests() -> dict[str, bytes]:
        return {at: c for at, c in s3.below(STORE).items() if re.search("gbmo.*/stages/", at)}

    (tmp_path / "sitecustomize.py").write_text(IN_FILES)
    variables = {"PYTHONPATH": str(tmp_path), "CHAFFINCH_LEASE_SECONDS": "5"}
    with machine.runs("serve", **variables) as program:
        deployed = eventually(lambda: up.deployments("harvest"))
        assert set(deployed) == names_of("harvest")
        on_demand = deployed["feature_selection/select-on-demand"]
        assert on_demand["parameters"]["data"] == "s3://tables/harvest.csv"
        execution = on_demand["parameters"]["execution"]
        assert execution["cluster"] == machine.places["tcp://dask-scheduler:8786"]
        assert execution["store"] == STORE
        up.accepted(on_demand["id"], asked)
        eventually(manifests)
        os.killpg(program.pid, signal.SIGKILL)
    done = manifests()

    with machine.runs("serve", "serve-elsewhere", **variables):
        run = finished(up, on_demand, **asked)
        assert run["state_type"] == "COMPLETED", run["state"]["message"]
        assert {"chaffinch", "chaffinch.dataset.harvest"} <= set(run["tags"])
        assert manifests().items() >= done.items(), "a finished stage was repeated"
        kept = s3.below(STORE)
        (name,) = {at.split("/")[1] for at in manifests()}
        assert kept[f"runs/{name}/selection.json"] == expected
        report = httpx.get(f"http://127.0.0.1:4280/runs/{name}/report.html").content
        assert report == kept[f"runs/{name}/report.html"]

    (dataset,) = {at for at in kept if at.endswith("/table.parquet")}
    volumes = [machine.volume(f"dask-worker-{number}") for number in (1, 2)]
    fetched = [path for volume in volumes for path in volume.glob(f"cache/stores/*/{dataset}")]
    assert fetched, "rows were sent"
    assert all(path.read_bytes() == kept[dataset] for path in fetched)

    monkeypatch.setenv("CHAFFINCH_CACHE", str(tmp_path / "of-an-etl-job"))
    entry = chaffinch.promotions("harvest", store=STORE)[-1]
    assert (entry.run, entry.how) == (name, "automatic")
    contract = chaffinch.promoted("harvest", store=STORE)
    assert contract.features == ["first", "second"]
    loaded = chaffinch.load_run(name, store=STORE)
    assert loaded.contract == contract
    assert loaded.report(tmp_path / "report.html").read_bytes() == report

    log = (machine.folder / "dask-scheduler.log").read_text()
    assert log.count("Register worker") == 2
    assert "Receive client connection" in log
    names = {automation["name"] for automation in up.find("automations")}
    assert {"chaffinch: a run that fell silent", "chaffinch: a run that failed"} <= names


def test_the_server_keeps_all_in_postgresql(up, postgres_server):
    with postgres_server.connected() as connection:
        asked = "SELECT count(*) FROM flow_run WHERE state_type = 'COMPLETED'"
        assert connection.exec_driver_sql(asked).scalar_one() >= 1


def test_a_schedule_makes_a_run_that_is_done(up, machine, table, tmp_path):
    env = machine.environment(SERVICES["serve"])
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--cron", "* * * * *", "--cluster", "none", "--store", str(tmp_path / "store"))
    with started(*command, *more, env=env, log=tmp_path / "serve.log"):
        deployments = eventually(lambda: up.deployments("harvest"))
        wanted = {"id": {"any_": [deployments[nightly("harvest")]["id"]]}}

        def done() -> list[str]:
            runs = up.find("flow_runs", deployments=wanted)
            assert all(run["auto_scheduled"] for run in runs)
            assert not [run for run in runs if run["state_type"] in ("FAILED", "CRASHED")]
            ended = [run for run in runs if run["state_type"] == "COMPLETED"]
            return [run["name"].removesuffix(f" {day_of(run)}") for run in ended]

        assert set(eventually(done, 150)) == {"harvest auto lightgbm"}
    up.forget_deployments()
    assert len(list(tmp_path.glob("store/runs/*/report.html"))) == 1


def test_a_worker_in_place_of_serving_runs_what_prefect_yaml_deploys(up, machine, small, tmp_path):
    worker = SERVICES["worker"]
    with machine.runs("worker"):
        copied = tmp_path / "prefect.yaml"
        shutil.copy(FOLDER / "prefect.yaml", copied)
        deploy = (*PREFECT, "--no-prompt", "deploy", "--all", "--prefect-file", str(copied))
        env = machine.environment(worker)
        subprocess.run(deploy, env=env, cwd=tmp_path, check=True, capture_output=True)
        deployed = eventually(lambda: up.deployments("table"))
        on_demand = deployed["feature_selection/select-on-demand"]
        assert on_demand["work_pool_name"] == "chaffinch"
        execution = {
            "store": str(tmp_path / "store"),
            "cluster": machine.places["tcp://dask-scheduler:8786"],
        }
        run = finished(
            up, on_demand, data="s3://tables/harvest.csv", settings=small, execution=execution
        )
        assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert list((tmp_path / "store").glob("runs/harvest-*/selection.json"))
