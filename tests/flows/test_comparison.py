"""The comparison flow against a real server: what the UI shows, and what `compare` gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import chaffinch
from chaffinch.flows.cli.terminal import Showing
from chaffinch.flows.prefect_runtime.artifacts import watching
from chaffinch.tasks.comparing.run import STEPS
from chaffinch.tasks.settings.stage_titles import title_of
from chaffinch.tasks.statistics.verdict import VERDICTS
from tests.flows.cli.programs import eventually
from tests.flows.conftest import Server, day_of

LINEAR = chaffinch.ModelSettings(name="linear", tuning="none")
ASKED: dict[str, Any] = {"methods": ("flbmo", "anova_f"), "models": (LINEAR,), "folds": 2}
ASKED |= {"seeds": 2, "sizes": (1, 3)}


@pytest.fixture(scope="module")
def flow_run(
    server: Server, table: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], chaffinch.ComparisonResult]:
    store = tmp_path_factory.mktemp("comparison")
    execution = chaffinch.ExecutionSettings(store=store, cluster="none")
    settings = chaffinch.ComparisonSettings(target="yield", **ASKED)
    state = chaffinch.comparison([str(table)], settings, execution, 60, return_state=True)
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    return run, state.result()


def test_it_is_named_by_its_tables_methods_models_and_date_and_ends_with_its_verdicts(flow_run):
    run, result = flow_run
    (table,) = result.summary.tables
    found = [outcome.verdict for outcome in table.outcomes if outcome.contender.method != "all"]
    counts = [f"{found.count(one)} {one}" for one in VERDICTS if one in found]
    assert run["state"]["message"] == ", ".join(counts)
    assert run["state_type"] == "COMPLETED"
    assert run["name"] == f"harvest: 2 methods, 1 model, {day_of(run)}"


def test_every_step_is_a_task_run(flow_run, server):
    run, _ = flow_run
    steps = [title_of(step) for step in STEPS]
    assert eventually(lambda: server.completed_tasks(run["id"]) == steps)


def test_progress_ends_at_100_and_the_verdicts_are_there_to_read(flow_run, server):
    run, result = flow_run
    artifacts = server.artifacts(run["id"])
    assert artifacts["harvest-comparison-progress"]["data"] == 100
    assert artifacts["harvest-comparison-verdicts"]["description"] == run["state"]["message"]
    verdicts = artifacts["harvest-comparison-verdicts"]["data"]
    assert all(line in verdicts for line in result.lines)
    assert str(result.folder / "report.html") in verdicts


def test_it_gives_what_compare_gives(flow_run, table):
    _, result = flow_run
    plain = chaffinch.compare(table, "yield", **ASKED)
    one, other = (
        r.results.drop(columns=["selection_seconds", "training_seconds"]) for r in (result, plain)
    )
    pd.testing.assert_frame_equal(one, other)
    assert plain.folder is None
    assert len(one) == 2 * 2 * (2 + 2 * 3)


def test_what_is_odd_about_a_table_is_beside_the_verdicts_and_told_to_whoever_watches(
    server, table, tmp_path
):
    header, *rows = table.read_text().splitlines()
    odd = tmp_path / "odd.csv"
    odd.write_text("\n".join([f"row_id *,{header}", *(f"{i},{r}" for i, r in enumerate(rows))]))
    settings = chaffinch.ComparisonSettings(target="yield", **{**ASKED, "seeds": 1})
    execution = chaffinch.ExecutionSettings(store=tmp_path, cluster="none")
    told: list[str] = []
    with watching(Showing(warn=told.extend)):
        state = chaffinch.comparison([str(odd)], settings, execution, return_state=True)
    (warning,) = state.result().warnings
    assert told == [warning]
    assert warning.startswith("odd: ")
    artifacts = server.artifacts(str(state.state_details.flow_run_id))
    *_, said, _report = artifacts["odd-comparison-verdicts"]["data"].split("\n\n")
    shown = warning.replace("_", "\\_").replace("*", "\\*")
    assert said == f"**Warning:** {shown}"


def test_tables_in_memory_are_written_to_the_store_and_stand_beside_paths(server, table, tmp_path):
    rows = pd.read_csv(table)
    execution = chaffinch.ExecutionSettings(store=tmp_path, cluster="none")
    asked = ASKED | {"methods": ("anova_f",), "seeds": 1, "sizes": (1,)}
    settings = chaffinch.ComparisonSettings(target="yield", **asked)
    tables = [rows[:120], str(table), rows[120:]]
    state = chaffinch.comparison(tables, settings, execution, return_state=True)
    given = server.get(f"/flow_runs/{state.state_details.flow_run_id}")["parameters"]["data"]
    assert given[1] == str(table)
    assert {given[0], given[2]} == {str(path) for path in (tmp_path / "tables").iterdir()}
    assert len(state.result().summary.tables) == 3
