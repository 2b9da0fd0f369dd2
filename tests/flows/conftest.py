"""One real Prefect server for all flow tests of a session, and a table small enough to be quick."""

import gc
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chaffinch.flows.prefect_runtime.server import prepare
from tests.flows.cli.programs import (
    AUTH,
    PREFECT,
    environment,
    eventually,
    free_port,
    started,
    with_database,
)

SERVER_SECONDS = 90
BUSY = 503  # Service Unavailable
ENDS = ("COMPLETED", "FAILED", "CRASHED", "CANCELLED")
ON_DEMAND = {
    "feature_selection/select-on-demand",
    "comparison/compare-on-demand",
    "reselection/reselect-on-demand",
}

# Settings with which a run of the table `slow` is in its search for long: boosted regressors are a
# black box.
SLOW: dict[str, Any] = {
    "target": "y",
    "method": {"kind": "flbmo", "n_features": [4]},
    "model": {"name": "AdaBoostRegressor", "tuning": "none"},
}


def nightly(data_set: str) -> str:
    """Return what the deployment of a data set is called that runs every night."""
    return f"feature_selection/nightly-{data_set}"


def on_new_data(data_set: str) -> str:
    """Return what the one is called that is started by an announcement."""
    return f"feature_selection/on-new-data-{data_set}"


def day_of(run: dict[str, Any]) -> str:
    """Return the date of a flow run's planned start, as in its name."""
    return f"{datetime.fromisoformat(run['expected_start_time']).astimezone():%Y-%m-%d}"


def names_of(*data_sets: str) -> set[str]:
    """Return the names of all deployments while these data sets are served."""
    return ON_DEMAND | {name(one) for one in data_sets for name in (nightly, on_new_data)}


@pytest.hookimpl(tryfirst=True)  # before files are groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests of the server, and forgive Prefect its open sockets.

    Those that are quick share one server. The others wait for it most of the time, so that each
    xdist worker starts one, and takes whole files.
    """
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            is_quick = item.get_closest_marker("e2e") is None
            group = "prefect" if is_quick else f"prefect-{Path(item.path).stem}"
            item.add_marker(pytest.mark.xdist_group(group))
            # Prefect leaves the socket of its result storage's client to the garbage collector
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))


@pytest.fixture(scope="module", autouse=True)
def _undrawn(undrawn: None) -> None:
    """Leave charts undrawn, but where a test asks for `drawn` ones."""


class Server:
    """A running Prefect server, asked as its UI asks it."""

    def __init__(self, port: int, env: dict[str, str]) -> None:
        import httpx

        self.url = f"http://127.0.0.1:{port}/api"
        self.env = {**env, "PREFECT_API_URL": self.url}
        # a connection that is kept may be closed by a busy server just when it is asked again
        again = httpx.Limits(max_keepalive_connections=0)
        auth = httpx.BasicAuth(*AUTH.split(":"))
        self._http = httpx.Client(base_url=self.url, timeout=120, limits=again, auth=auth)

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def is_up(self) -> bool:
        """Whether it answers."""
        import httpx

        try:
            return self._http.get("/health").is_success
        except httpx.TransportError:
            return False

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """Return the response, once the server is not too busy to give one."""

        def answered() -> Any:
            response = self._http.request(method, path, json=body)
            # SQLite that is busy makes the server say 503; Prefect's own clients ask again too
            return None if response.status_code == BUSY else response

        return eventually(answered)

    def get(self, path: str) -> Any:
        """Return one thing."""
        return self.ask("GET", path).raise_for_status().json()

    def find(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        """Return the things of a kind that a filter lets through."""
        found = self.ask("POST", f"/{kind}/filter", wanted).raise_for_status().json()
        assert isinstance(found, list)
        return found

    def events(self, resource: str) -> list[dict[str, Any]]:
        """Return the events of a resource, the oldest first."""
        wanted = {"resource": {"id": [resource]}, "order": "ASC"}
        found = self.ask("POST", "/events/filter", {"filter": wanted}).raise_for_status()
        return list(found.json()["events"])

    def deployments(self, *data_sets: str) -> dict[str, dict[str, Any]]:
        """Return all deployments by flow and name, or nothing while one of those is missing."""
        found = {
            f"{d['entrypoint'].rpartition('.')[2]}/{d['name']}": d for d in self.find("deployments")
        }
        return found if set(found) >= names_of(*data_sets) else {}

    def forget_deployments(self) -> None:
        """Delete every deployment, so that the next to serve begins with none."""
        self.forget("deployments", self.find("deployments"))

    def forget(self, kind: str, things: Iterable[dict[str, Any]]) -> None:
        """Delete things of a kind."""
        for thing in things:
            self.ask("DELETE", f"/{kind}/{thing['id']}").raise_for_status()

    def artifacts(self, flow_run: str) -> dict[str, dict[str, Any]]:
        """Return a flow run's artifacts by their keys."""
        wanted = {"id": {"any_": [flow_run]}}
        return {a["key"]: a for a in self.find("artifacts", flow_runs=wanted)}

    def completed_tasks(self, flow_run: str) -> list[str]:
        """Return the names of a flow run's tasks that have ended well, in their order."""
        wanted = {"id": {"any_": [flow_run]}}
        tasks = self.find("task_runs", flow_runs=wanted, sort="EXPECTED_START_TIME_ASC")
        return [task["name"] for task in tasks if task["state_type"] == "COMPLETED"]

    def edges(self, flow_run: str) -> list[tuple[str, list[str]]]:
        """Return each task of a flow run's graph with the tasks that it is drawn after."""
        nodes = [node for _, node in self.get(f"/flow_runs/{flow_run}/graph-v2")["nodes"]]
        name = {node["id"]: node["label"] for node in nodes}
        return [(one["label"], [name[p["id"]] for p in one["parents"]]) for one in nodes]

    def log_of(self, flow_run: str, end: str) -> list[str]:
        """Return the log lines of a flow run once there is one that begins with `end`."""

        def look() -> list[str]:  # Prefect sends lines by the second, also after the end
            wanted = {"flow_run_id": {"any_": [flow_run]}}
            found = self.find("logs", logs=wanted, sort="TIMESTAMP_ASC")
            lines = [line["message"] for line in found]
            return lines if any(line.startswith(end) for line in lines) else []

        return eventually(look)

    def start(self, deployment: str, parameters: dict[str, Any]) -> Any:
        """Ask for a run of a deployment, as the UI's form does; return the server's response."""
        path = f"/deployments/{deployment}/create_flow_run"
        return self.ask("POST", path, {"parameters": parameters, "state": {"type": "SCHEDULED"}})

    def accepted(self, deployment: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Ask for a run that the server takes; return the run."""
        response = self.start(deployment, parameters)
        assert response.status_code == 201, response.text
        return dict(response.json())

    def cancel(self, flow_run: str) -> None:
        """Ask for the end of a flow run, as the UI's button does."""
        state = {"type": "CANCELLING", "name": "Cancelling"}
        self.ask("POST", f"/flow_runs/{flow_run}/set_state", {"state": state}).raise_for_status()

    def ended(self, flow_run: str) -> dict[str, Any]:
        """Return a flow run once it has come to an end."""

        def look() -> dict[str, Any]:
            run = self.get(f"/flow_runs/{flow_run}")
            return run if run["state_type"] in ENDS else {}

        return eventually(look)


@contextmanager
def prefect_server(home: Path, port: int | None = None, **more: str) -> Iterator[Server]:
    """Start `prefect server start`, by default on a free port, with its home, and stop it again."""
    port = port or free_port()
    env = environment(
        home,
        PREFECT_SERVER_API_PORT=str(port),
        PREFECT_SERVER_UI_API_URL=f"http://127.0.0.1:{port}/api",
        PREFECT_SERVER_CORS_ALLOWED_ORIGINS=f"http://127.0.0.1:{port}",
        PREFECT_RUNNER_POLL_FREQUENCY="1",
        PREFECT_WORKER_QUERY_SECONDS="1",
        **more,
    )
    server = Server(port, env)
    command = (*PREFECT, "server", "start", "--port", str(port))
    with started(*command, env=env, log=home / "server.log"):
        eventually(server.is_up, SERVER_SECONDS)
        yield server
    server.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Start a server that the flows of this process use as well."""
    with (
        prefect_server(with_database(tmp_path_factory.mktemp("prefect-server"))) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name in ("PREFECT_HOME", "PREFECT_API_URL", "PREFECT_API_AUTH_STRING", "DO_NOT_TRACK"):
            patch.setenv(name, server.env[name])
        prepare()  # before Prefect reads its environment
        from prefect.settings import (
            PREFECT_API_AUTH_STRING,
            PREFECT_API_URL,
            PREFECT_HOME,
            temporary_settings,
        )

        settings = {
            PREFECT_API_URL: server.url,
            PREFECT_API_AUTH_STRING: AUTH,
            PREFECT_HOME: Path(os.environ["PREFECT_HOME"]),
        }
        with temporary_settings(settings):
            yield server
            _flush()


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a home that Prefect and chaffinch find as new, but for Prefect's empty database."""
    return with_database(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table of two features that predict the target and four that do not."""
    random = np.random.default_rng(20)
    X = random.normal(size=(240, 6))
    y = 3 * X[:, 0] - 2 * X[:, 1] + 0.1 * random.normal(size=240)
    names = ("first", "second", "noise_a", "noise_b", "noise_c", "noise_d", "yield")
    path = tmp_path_factory.mktemp("table") / "harvest.csv"
    np.savetxt(path, np.column_stack([X, y]), "%.6f", ",", header=",".join(names), comments="")
    return path


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table whose selection with the settings `SLOW` takes long."""
    random = np.random.default_rng(3)
    X = random.normal(size=(300, 32))
    names = ",".join([*(f"feature_{j}" for j in range(32)), "y"])
    path = tmp_path_factory.mktemp("slow") / "slow.csv"
    np.savetxt(
        path, np.column_stack([X, X[:, :5].sum(axis=1)]), "%.5f", ",", header=names, comments=""
    )
    return path


@pytest.fixture(scope="session")
def small() -> dict[str, Any]:
    """Return settings, as JSON, that make a run of the table take about a second."""
    return {
        "target": "yield",
        "method": {"kind": "gbmo", "n_features": 2},
        "model": {"name": "lightgbm", "tuning": "none"},
    }


def _flush() -> None:
    """Let Prefect's threads send what they still hold while the server is there."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=10)
    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        gc.collect()
