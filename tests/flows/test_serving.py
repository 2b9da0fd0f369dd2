"""`chaffinch serve` as a program of its own, with runs started as the UI and the schedule do."""

import json
import subprocess
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from tests.flows.conftest import Server
from tests.flows.programs import CHAFFINCH, environment, eventually, free_port, started

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def deployments(server: Server, table: Path, store: Path) -> Iterator[dict[str, Any]]:
    """Serve, and return the deployments by their names."""
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    more = ("--promote-as", "harvest", "--store", str(store))
    with started(*command, *more, env=server.env, log=store / "serve.log"):
        yield eventually(server.deployments)
    server.forget_deployments()


def test_both_deployments_name_the_flow_by_its_module(deployments):
    for deployment in deployments.values():
        assert deployment["entrypoint"] == "chaffinch.flows.feature_selection.feature_selection"


def test_only_the_nightly_one_has_a_schedule_and_the_server_makes_runs_of_it(deployments, server):
    schedules = {name: d["schedules"] for name, d in deployments.items()}
    assert schedules["on-demand"] == []
    assert [s["schedule"]["cron"] for s in schedules["nightly"]] == ["0 2 * * *"]

    wanted = {"id": {"any_": [deployments["nightly"]["id"]]}}
    runs = eventually(lambda: server.find("flow_runs", deployments=wanted))
    assert all(run["auto_scheduled"] and run["state_name"] == "Scheduled" for run in runs)
    assert all(run["next_scheduled_start_time"][11:16] == "02:00" for run in runs)
    assert runs[0]["parameters"]["settings"]["target"] == "yield"


def test_only_the_nightly_one_promotes_where_it_passes_the_gate(deployments):
    parameters = {name: d["parameters"] for name, d in deployments.items()}
    assert parameters["nightly"]["promotion"] == {
        "name": "harvest", "most_changed": 0.3, "tolerance": 0.05, "wait": None
    }  # fmt: skip
    assert "promotion" not in parameters["on-demand"]


def test_a_run_started_from_the_form_gives_the_features(deployments, server, table, small, store):
    parameters = {
        "data": str(table),
        "settings": small,
        "execution": {"store": str(store), "cluster": "none", "workers": None},
    }
    response = server.start(deployments["on-demand"]["id"], parameters)
    assert response.status_code == 201, response.text
    run = server.ended(response.json()["id"])
    assert run["state_type"] == "COMPLETED", run["state"]["message"]
    assert run["name"] == "harvest.csv gbmo lightgbm"
    (contract,) = store.glob("runs/*/selection.json")
    assert [f["name"] for f in json.loads(contract.read_bytes())["features"]] == ["first", "second"]


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("method.kind", "anova", "'anova'"),
        ("method.n_features", 0, "settings.method"),  # of a union the server knows no more
        ("model.folds", 1, "1 is less than the minimum of 2"),
        ("columns", {"kep": ["first"]}, "'kep' was unexpected"),
        ("model.folds", "five", "'five' is not of type 'integer'"),
    ],
)
def test_a_wrong_value_is_refused_with_the_reason(
    deployments, server, table, small, path, value, reason
):
    settings = deepcopy(small)
    *groups, last = path.split(".")
    inner = settings
    for group in groups:
        inner = inner[group]
    inner[last] = value
    response = server.start(
        deployments["on-demand"]["id"], {"data": str(table), "settings": settings}
    )
    assert response.status_code == 409
    assert reason in response.text


@pytest.mark.parametrize("url", ["", "http://127.0.0.1:{port}/api"])
def test_without_a_server_there_is_one_line_with_the_remedy(url, table, tmp_path):
    env = environment(tmp_path, PREFECT_API_URL=url.format(port=free_port()))
    if not url:
        del env["PREFECT_API_URL"]
    command = (*CHAFFINCH, "serve", "--data", str(table), "--target", "yield")
    ended = subprocess.run(
        command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "`prefect server start`" in line
