"""What deployments/ offers, started as its README says."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.flows.cli.programs import PREFECT, eventually, processes_of, started
from tests.flows.conftest import SLOW, Server, names_of, nightly, on_new_data

FOLDER = Path(__file__).parents[3] / "deployments"


pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deployments")


@pytest.fixture(scope="module")
def deployed(server: Server, folder: Path) -> Iterator[dict[str, Any]]:
    """Make the work pool, deploy all, start a worker; return the deployments by their names."""

    def prefect(*command: str) -> None:
        subprocess.run(
            (*PREFECT, *command), env=server.env, cwd=folder, check=True, capture_output=True
        )

    prefect("work-pool", "create", "chaffinch", "--type", "process")
    prefect("--no-prompt", "deploy", "--all", "--prefect-file", str(FOLDER / "prefect.yaml"))
    worker = (*PREFECT, "worker", "start", "--pool", "chaffinch")
    with started(*worker, env=server.env, log=folder / "worker.log"):
        yield server.deployments("table")
    server.forget_deployments()


def test_all_are_deployed_to_the_work_pool_and_one_every_night(deployed):
    assert set(deployed) == names_of("table")
    assert {d["work_pool_name"] for d in deployed.values()} == {"chaffinch"}
    crons = {n: [s["schedule"]["cron"] for s in d["schedules"]] for n, d in deployed.items()}
    assert crons.pop(nightly("table")) == ["0 2 * * *"]
    assert not any(crons.values())


def test_one_is_started_by_an_event(deployed, server):
    asked = deployed[on_new_data("table")]["id"]
    expected = {
        action["deployment_id"]: automation["trigger"]["expect"]
        for automation in server.find("automations")
        for action in automation["actions"]
        if action["type"] == "run-deployment"
    }
    assert expected[asked] == ["chaffinch.new-data"]


def test_the_parameters_of_the_file_are_settings_that_validate(deployed):
    import chaffinch

    flows = {f: getattr(chaffinch, f) for f in ("feature_selection", "comparison", "reselection")}
    asked = {"reselection": {"former": "a run"}}
    for name, deployment in deployed.items():
        flow = name.partition("/")[0]
        flows[flow].validate_parameters({**deployment["parameters"], **asked.get(flow, {})})


def test_a_worker_runs_it(deployed, server, table, small, folder):
    store = folder / "store"
    parameters = {
        "data": str(table),
        "settings": small,
        "execution": {"store": str(store), "cluster": "none"},
    }
    accepted = server.accepted(deployed["feature_selection/select-on-demand"]["id"], parameters)
    run = server.ended(accepted["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    (contract,) = store.glob("runs/*/selection.json")
    assert [f["name"] for f in json.loads(contract.read_bytes())["features"]] == ["first", "second"]


def test_what_a_worker_runs_is_cancelled(deployed, server, slow, folder):
    store = folder / "cancelled"
    execution = {"store": str(store), "cluster": "none"}
    parameters = {"data": str(slow), "settings": SLOW, "execution": execution}
    select = deployed["feature_selection/select-on-demand"]["id"]
    run = server.accepted(select, parameters)["id"]
    eventually(lambda: list(store.glob("runs/*/stages/train_base_model.json")))
    server.cancel(run)
    assert server.ended(run)["state_name"] == "Cancelled"
    eventually(lambda: not processes_of(run))


def test_serve_py_serves_its_own_settings_and_schedule(server, table, folder):
    server.forget_deployments()
    command = (sys.executable, str(FOLDER / "serve.py"), str(table), "yield")
    with started(*command, env=server.env, log=folder / "serve.log"):
        served = eventually(lambda: server.deployments("harvest"))
    server.forget_deployments()
    (schedule,) = served[nightly("harvest")]["schedules"]
    assert schedule["schedule"]["timezone"] == "Europe/Vienna"
    settings = served["feature_selection/select-on-demand"]["parameters"]["settings"]
    assert settings["target"] == "yield"
    assert settings["method"] == {"kind": "flbmo", "n_features": [10]}
