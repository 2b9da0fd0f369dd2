"""A reselection as a program and as a flow: what it prints, what the UI shows, what it gives."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import ExecutionSettings
from chaffinch.tasks.pipeline.progress import steps_of
from chaffinch.tasks.settings.stage_titles import title_of
from tests.flows.cli.programs import chaffinch as program
from tests.flows.cli.programs import eventually, in_process
from tests.flows.conftest import day_of

LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")


@pytest.fixture(scope="module")
def newer(table, tmp_path_factory) -> Path:
    """Write later rows: what the second feature told, the first of the noise does now."""
    random = np.random.default_rng(21)
    columns = pd.read_csv(table).columns
    rows = pd.DataFrame(random.normal(size=(600, 7)).round(6), columns=columns)
    noise = 0.1 * random.normal(size=600)
    path = tmp_path_factory.mktemp("newer") / "next.csv"
    told = 3 * rows["first"] - 2 * rows["noise_a"] + noise
    rows.assign(**{"yield": told.round(6)}).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def former(table, tmp_path_factory) -> chaffinch.SelectionResult:
    store = tmp_path_factory.mktemp("store")
    result = chaffinch.select(table, "yield", n_features=2, model=LINEAR, store=store)
    assert result.features == ["first", "second"]
    return result


@pytest.mark.e2e
def test_the_command_says_what_changed_and_its_run_is_shown_again(former, newer, home):
    store = former.folder.parent.parent
    command = (former.run, str(newer), "--store", str(store), "--cluster", "none")
    ended = program("reselect", *command, home=home)
    assert ended.returncode == 0, ended.stderr
    assert "9/10 judge the changes" in ended.stderr
    shown = ended.stdout.splitlines()
    assert "Kept 2 of 6: first, noise_a" in shown
    (at,) = [place for place, line in enumerate(shown) if line.startswith("Change to the new set:")]
    assert shown[at + 1].startswith("  Returned: noise_a, which changes the test loss by -")
    assert shown[at + 2].startswith("  Left: second, which changes the test loss by ")

    (run,) = [path.name for path in (store / "runs").iterdir() if "reselect" in path.name]
    assert in_process("show", run, "--store", store).stdout == ended.stdout
    listed = in_process("runs", "--store", store, "--json")
    assert [entry["state"] for entry in json.loads(listed.stdout)] == ["finished", "finished"]
    as_json = in_process("show", run, "--store", store, "--json")
    assert json.loads(as_json.stdout)["settings"]["method"]["former"] == {
        "first": "number",
        "second": "number",
    }


def test_bad_input_is_one_line(former, newer, server, tmp_path):
    fewer = tmp_path / "fewer.csv"
    pd.read_csv(newer).drop(columns=["first", "second"]).to_csv(fewer, index=False)
    asked = ("--store", former.folder.parent.parent, "--cluster", "none")
    ended = in_process("reselect", former.run, fewer, *asked)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "'first' and 'second' (no such column)" in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("Error: ")


def test_as_a_flow(former, newer, server):
    store = former.folder.parent.parent
    execution = ExecutionSettings(store=store, cluster="none")
    state = chaffinch.reselection(former.run, str(newer), execution=execution, return_state=True)
    result = state.result()
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert run["name"] == f"next after {former.run} {day_of(run)}"
    plain = chaffinch.reselect(former, newer)
    assert (plain.run, plain.changes) == (result.run, result.changes)
    artifacts = server.artifacts(run["id"])
    assert artifacts["next-progress"]["data"] == 100
    assert result.changes["sentence"] in artifacts["next-verdict"]["data"]

    names = [title_of(step) for step in steps_of(with_changes=True)]
    assert eventually(lambda: server.completed_tasks(run["id"]) == names)
