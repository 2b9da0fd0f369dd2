"""A run without a runner ends when it is cancelled in the UI."""

import threading

import numpy as np
import pytest
from prefect.exceptions import CancelledRun

import chaffinch
from chaffinch import ExecutionSettings, SelectionSettings
from chaffinch.storage.runs.store import Store
from tests.flows.cli.programs import eventually


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A table and settings whose elimination takes some seconds in one process."""
    random = np.random.default_rng(3)
    X = random.normal(size=(600, 40))
    path = tmp_path_factory.mktemp("slow") / "slow.csv"
    names = ",".join([*(f"feature_{j}" for j in range(40)), "yield"])
    rows = np.column_stack([X, X[:, :5].sum(axis=1)])
    np.savetxt(path, rows, "%.5f", ",", header=names, comments="")
    model = {"name": "AdaBoostRegressor", "tuning": "none"}
    method = {"kind": "flbmo", "n_features": [4]}
    return str(path), SelectionSettings(target="yield", method=method, model=model)


def cancel_when(server, store, is_time):
    """Start a thread that cancels the flow run of a store when it is time."""

    def flow_run():
        runs = server.find("flow_runs", flow_runs={"state": {"type": {"any_": ["RUNNING"]}}})
        mine = [r for r in runs if r["parameters"]["execution"]["store"] == str(store)]
        return mine[0]["id"] if mine else None

    def cancel():
        eventually(is_time)
        cancelled.append(eventually(flow_run))
        server.cancel(cancelled[0])

    cancelled = []
    thread = threading.Thread(target=cancel)
    thread.start()
    return thread, cancelled


@pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
@pytest.mark.e2e
def test_a_run_that_a_person_started_ends_when_it_is_cancelled(server, slow, tmp_path):
    table, settings = slow
    trained = "runs/*/stages/train_base_model.json"
    thread, cancelled = cancel_when(server, tmp_path, lambda: list(tmp_path.glob(trained)))
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    with pytest.raises(CancelledRun):
        chaffinch.feature_selection(table, settings, execution)
    thread.join()
    run = server.get(f"/flow_runs/{cancelled[0]}")
    assert run["state_type"] == "CANCELLED"
    assert run["state"]["message"] == "Cancelled; started again, it continues where it stopped."
    (kept,) = Store.find(tmp_path).runs()
    assert "train_base_model" in {record.stage for record in kept.records()}
