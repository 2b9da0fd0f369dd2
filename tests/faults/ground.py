"""What runs stand on: a Prefect server, its database, a Dask cluster, each as programs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import psutil
import sqlalchemy as sa

from tests.faults.jobs import SETTINGS, TARGET, write_table
from tests.faults.starter import MARK, Starter
from tests.flows.cli.programs import (
    CHAFFINCH,
    PREFECT,
    environment,
    eventually,
    free_port,
    stop,
    with_database,
)
from tests.flows.conftest import ENDS, Server
from tests.postgres import OWNER, PASSWORD, Postgres, postgres, programs

_ROOT = Path(__file__).parents[2]
_QUICK_RUNNER = {"PREFECT_RUNNER_POLL_FREQUENCY": "1"}
_ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


class Program:
    """A program that stays, and can be killed and started again as it was."""

    def __init__(self, *command: str, env: dict[str, str], log: Path) -> None:
        self._command, self._env, self._log = command, env, log
        self.start()

    def start(self) -> None:
        """Start it."""
        with self._log.open("a") as log:
            self._program = subprocess.Popen(
                self._command, env=self._env, stdout=log, stderr=log, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._program.pid

    def kill(self, *, with_all_below: bool = False) -> None:
        """Kill it as by ``kill -9``, alone or with all that it has started."""
        below = psutil.Process(self.pid).children(recursive=True) if with_all_below else []
        self._program.kill()
        for process in below:
            kill(process)
        self._program.wait()

    def stop(self) -> None:
        """Stop it in order."""
        stop(self._program)


class PrefectServer:
    """A Prefect server on SQLite, or on another database, on one port for good."""

    def __init__(self, home: Path, **more: str) -> None:
        port = free_port()
        env = environment(
            home,
            **more,
            PREFECT_SERVER_API_PORT=str(port),
            PREFECT_SERVER_UI_API_URL=f"http://127.0.0.1:{port}/api",
        )
        with_database(home)
        self.api = Server(port, env)
        command = (*PREFECT, "server", "start", "--port", str(port))
        self._program = Program(*command, env=env, log=home / "server.log")
        self.wait_until_up()

    def wait_until_up(self) -> None:
        """Wait until it answers."""
        eventually(self.api.is_up)

    def kill(self) -> None:
        """Kill it."""
        self._program.kill(with_all_below=True)

    def start(self) -> None:
        """Start it again, on the same port and database."""
        self._program.start()

    def stop(self) -> None:
        """Stop it in order."""
        self._program.stop()
        self.api.close()


class DaskCluster:
    """A scheduler at one address, and a program with two workers, as an operator starts them."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        port = str(free_port())
        self.address = f"tcp://127.0.0.1:{port}"
        where = ("--host", "127.0.0.1", "--port", port, "--no-dashboard")
        scheduler = (sys.executable, "-m", "distributed.cli.dask_scheduler", *where)
        two = ("--nworkers", "2", "--nthreads", "1", "--memory-limit", "0", "--no-dashboard")
        worker = (sys.executable, "-m", "distributed.cli.dask_worker", self.address, *two)
        env = {**env, **_ONE_THREAD, "DASK_TEMPORARY_DIRECTORY": str(home / "dask")}
        home.mkdir(parents=True, exist_ok=True)
        self.scheduler = Program(*scheduler, env=env, log=home / "scheduler.log")
        self.machine = Program(*worker, env=env, log=home / "workers.log")
        self.wait_until_up()

    @property
    def workers(self) -> list[psutil.Process]:
        """The processes of its workers."""
        return workers_below(self.machine.pid)

    def wait_until_up(self) -> None:
        """Wait until both workers have joined the scheduler."""
        from distributed import Client

        def client() -> Client | None:
            try:
                return Client(self.address, set_as_default=False, timeout=2)
            except OSError:
                return None

        with eventually(client) as connected:
            connected.wait_for_workers(2, timeout=300)

    def stop(self) -> None:
        """Stop all of it."""
        self.machine.stop()
        self.scheduler.stop()


@dataclass(frozen=True)
class ServedRun:
    """A run that was started from the form of a deployment, seen as `Running` is."""

    id: str
    api: Server

    @property
    def code(self) -> int | None:
        """0 once it is completed, 1 once it has ended otherwise, None before."""
        state = self.api.get(f"/flow_runs/{self.id}")["state_type"]
        return {"COMPLETED": 0}.get(state, 1) if state in ENDS else None

    def wait(self) -> int:
        """Return its code when it ends."""
        eventually(lambda: self.code is not None)
        return 0 if self.code == 0 else 1

    def said(self) -> list[str]:
        """Return what its last state says."""
        return [str(self.api.get(f"/flow_runs/{self.id}")["state"]["message"])]


class Serving:
    """``chaffinch serve`` as a program that stays."""

    def __init__(self, api: Server, table: Path, env: dict[str, str], home: Path) -> None:
        self._api, self._table = api, table
        self.mark = str(home)  # of all that it starts
        env = {**env, MARK: self.mark}
        command = (*CHAFFINCH, "serve", "--data", str(table), "--target", TARGET)
        store = ("--store", str(home / "store"))
        self._program = Program(*command, *store, env=env, log=home / "serve.log")
        self._deployments = eventually(api.deployments)

    @property
    def pids(self) -> set[int]:
        """The processes that are to stay, whatever becomes of a run."""
        return {self._program.pid}

    def start(self, store: Path) -> ServedRun:
        """Start a run of the table, as the form does."""
        execution = {"store": str(store), "cluster": "local", "workers": 2}
        asked = {"data": str(self._table), "settings": SETTINGS, "execution": execution}
        on_demand = self._deployments["feature_selection/select-on-demand"]["id"]
        made = self._api.start(on_demand, asked).raise_for_status().json()
        return ServedRun(made["id"], self._api)

    def stop(self) -> None:
        """Stop it in order."""
        self._program.stop()


class Ground:
    """What the runs of a session stand on, each part of it started when it is asked for."""

    def __init__(self, folder: Path, parts: ExitStack) -> None:
        self.folder, self._parts = folder, parts
        self.table = write_table(folder / "harvest.csv")
        self.undisturbed: dict[Any, Any] = {}  # what is measured once, by how it was started
        self._starters: dict[str, Starter] = {}

    @cached_property
    def server(self) -> PrefectServer:
        """A Prefect server on SQLite."""
        server = PrefectServer(self.folder / "sqlite")
        self._parts.callback(server.stop)
        return server

    @cached_property
    def server_on_postgres(self) -> tuple[PrefectServer, Postgres]:
        """A Prefect server on PostgreSQL, and that, which must be installed."""
        database = self._parts.enter_context(postgres(programs()))
        with database.connected("postgres") as connection:
            connection.exec_driver_sql("CREATE DATABASE prefect")
        url = sa.URL.create(
            *("postgresql+asyncpg", OWNER, PASSWORD, "127.0.0.1", database.port, "prefect")
        ).render_as_string(hide_password=False)
        server = PrefectServer(self.folder / "on-postgres", PREFECT_API_DATABASE_CONNECTION_URL=url)
        self._parts.callback(server.stop)
        return server, database

    @cached_property
    def serving(self) -> Serving:
        """The flows, served by ``chaffinch serve``."""
        env = self._environment("serving", PREFECT_API_URL=self.server.api.url, **_QUICK_RUNNER)
        serving = Serving(self.server.api, self.table, env, self.folder / "serving")
        self._parts.callback(serving.stop)
        return serving

    @cached_property
    def cluster(self) -> DaskCluster:
        """A Dask cluster."""
        cluster = DaskCluster(self.folder / "cluster", self._environment("cluster"))
        self._parts.callback(cluster.stop)
        return cluster

    def starter(self, url: str) -> Starter:
        """Return what starts runs with the Prefect server at `url`, or "" with their own."""
        if url not in self._starters:
            name = f"runs-{len(self._starters)}"
            env = self._environment(name, **({"PREFECT_API_URL": url} if url else {}))
            self._starters[url] = self._parts.enter_context(Starter(env, self.folder / name))
        return self._starters[url]

    def _environment(self, name: str, **more: str) -> dict[str, str]:
        home = with_database(self.folder / name)
        paths = [str(_ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        return environment(home, PYTHONPATH=os.pathsep.join(filter(None, paths)), **more)


@contextmanager
def ground() -> Iterator[Ground]:
    """Make a ground in a folder of its own, and take away all of it at the end."""
    with tempfile.TemporaryDirectory(prefix="chaffinch-faults-") as folder, ExitStack() as parts:
        yield Ground(Path(folder), parts)


def workers_below(pid: int) -> list[psutil.Process]:
    """Return the processes of Dask workers that a process has below it."""
    found = []
    try:
        for process in psutil.Process(pid).children(recursive=True):
            if "spawn_main" in " ".join(process.cmdline()):
                found.append(process)
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return found  # some of them have just ended
    return found


def kill(process: psutil.Process) -> bool:
    """Kill a process as by ``kill -9``; return whether it was still there."""
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return False
    return True
