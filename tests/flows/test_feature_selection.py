"""The flow against a real server: what the UI shows, and that it gives what `select` gives."""

import asyncio
import base64
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from prefect import flow_engine

import chaffinch
from chaffinch import InputError, ModelSettings, PromotionSettings
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.pipeline.progress import STEPS
from chaffinch.tasks.reporting.text import NOTHING, stability_in_words, summarise_verdict
from chaffinch.tasks.settings.alternatives import AlternativeSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.settings.stage_titles import title_of
from tests.flows.cli.programs import eventually
from tests.flows.conftest import Server, day_of
from tests.tasks.results.made_store import night


@pytest.fixture(scope="session")
def settings(small: dict[str, Any]) -> SelectionSettings:
    return SelectionSettings(**small)


@pytest.fixture(scope="module")
def flow_run(
    server: Server,
    table: Path,
    settings: SelectionSettings,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[dict[str, Any], chaffinch.SelectionResult]:
    """Run the flow once; return what the server says of it and what it returned."""
    execution = ExecutionSettings(store=tmp_path_factory.mktemp("flow"), cluster="none")
    state = chaffinch.feature_selection(Path(table), settings, execution, return_state=True)
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    return run, state.result()


def test_a_strict_run_fails_at_warnings_in_one_line_and_trains_nothing(
    server, table, settings, tmp_path
):
    rows = pd.read_csv(table).assign(at=pd.Timestamp("2026-01-01"))
    rows.to_parquet(tmp_path / "dated.parquet")
    execution = ExecutionSettings(store=tmp_path / "store", cluster="none", strict=True)
    data = str(tmp_path / "dated.parquet")
    state = chaffinch.feature_selection(data, settings, execution, return_state=True)
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    assert (run["state_type"], run["run_count"]) == ("FAILED", 1)
    assert "strict refuses 1 warning: left out: 'at'" in run["state"]["message"]
    assert "\n" not in run["state"]["message"]
    assert [*tmp_path.rglob("*train_base_model*")] == []


def test_the_run_is_named_by_data_set_method_model_and_date_and_ends_with_its_verdict(
    flow_run, table
):
    run, result = flow_run
    assert run["state_type"] == "COMPLETED"
    assert run["name"] == f"harvest gbmo lightgbm {day_of(run)}"
    assert run["parameters"]["data"] == str(table)  # of a path, its text
    assert run["state"]["message"] == summarise_verdict(result.contract)
    words = {"better": "Better with", "as good with fewer columns": "As good with"}
    assert run["state"]["message"].startswith(f"{words[result.comparison['verdict']]} 2 of 6 feat")


def test_the_graph_is_the_line_that_the_steps_are(flow_run, server):
    run, _ = flow_run
    names = [title_of(step) for step in STEPS]
    line = [(names[0], []), *((name, [last]) for last, name in pairwise(names))]
    assert eventually(lambda: len(server.edges(run["id"])) == len(line))
    assert sorted(server.edges(run["id"])) == sorted(line)


def test_the_log_names_what_is_done_and_nothing_for_programmers(flow_run, server):
    run, _ = flow_run
    log = server.log_of(run["id"], "Finished in state Completed('")
    done = [f"{title_of(step)}: completed" for step in STEPS]
    assert [line for line in log if line.endswith(": completed")] == done
    assert not any("is to be" in line or "Completed()" in line for line in log)


def test_progress_ends_at_100(flow_run, server):
    run, _ = flow_run
    assert server.artifacts(run["id"])["harvest-progress"]["data"] == 100


def test_the_verdict_names_the_report_and_no_other_path(flow_run, server, table):
    run, result = flow_run
    verdict = server.artifacts(run["id"])["harvest-verdict"]
    report = result.folder / "report.html"
    assert report.exists()
    assert verdict["data"] == f"{result.verdict}\n\nReport: `{report}`"
    assert verdict["description"] == summarise_verdict(result.contract)
    artifacts = server.artifacts(run["id"]).values()
    assert not any(str(table.parent) in f"{a['data']} {a['description']}" for a in artifacts)


def test_the_verdict_is_followed_by_stability_and_warnings_and_the_price_list_is_a_table(
    server, table, settings, tmp_path
):
    header, *rows = table.read_text().splitlines()
    odd = tmp_path / "odd.csv"
    lines = [f"row_id *,{header}", *(f"{i},{row}" for i, row in enumerate(rows))]
    odd.write_text("\n".join(lines))
    asked = settings.model_copy(
        update={
            "method": SelectionSettings(target="y").method,
            "model": ModelSettings(name="linear", tuning="none"),
        }
    )
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    state = chaffinch.feature_selection(str(odd), asked, execution, return_state=True)
    result, artifacts = state.result(), server.artifacts(str(state.state_details.flow_run_id))
    (warning,) = result.warnings
    assert "'row_id *'; drop what" in warning
    features = json.loads(artifacts["odd-features"]["data"])
    shares = {row["feature"]: row["share of folds"] for row in features}
    assert shares == result.stability["share_of_folds"]
    verdict, stability, said, _report = artifacts["odd-verdict"]["data"].split("\n\n")
    assert verdict == result.verdict
    assert stability == stability_in_words(result.contract)
    shown = warning.replace("_", "\\_").replace("*", "\\*")
    assert said == f"**Warning:** {shown}"
    prices = json.loads(artifacts["odd-prices"]["data"])
    assert [int(row["Features"]) for row in prices] == result.curve["n_features"].tolist()
    chosen = [int(row["Features"]) for row in prices if row["Choice"] == "chosen"]
    assert chosen == [len(result.features)]


def test_losses_metrics_and_features_are_tables(flow_run, server):
    run, result = flow_run
    artifacts = server.artifacts(run["id"])
    losses = json.loads(artifacts["harvest-losses"]["data"])
    assert {row["part"].replace(" ", "_"): row["selected"] for row in losses} == {
        part: pytest.approx(both["selected"], rel=1e-5) for part, both in result.losses.items()
    }
    metrics = json.loads(artifacts["harvest-metrics"]["data"])
    assert [row["selected"] for row in metrics] == [
        pytest.approx(found["selected"], rel=1e-5) for found in result.metrics.values()
    ]
    features = json.loads(artifacts["harvest-features"]["data"])
    assert {row["feature"] for row in features} == set(result.candidates)
    # the target is 3 * first - 2 * second
    assert [row["feature"] for row in features if row["kept"]] == ["first", "second"]
    assert [row["kept"] for row in features] == [True, True, False, False, False, False]
    assert [row["removed at step"] for row in features] == [None, None, 4, 3, 2, 1]


def image_in(artifact):
    kind, coded = artifact["data"].removesuffix(")").split(",")
    assert re.fullmatch(r"!\[[a-z ]+\]\(data:image/svg\+xml;base64", kind)
    return base64.b64decode(coded).decode()


@pytest.mark.usefixtures("drawn")
def test_the_curve_and_what_the_sets_share_are_images_that_need_no_network(
    server, table, settings, tmp_path
):
    noise = chaffinch.select(
        table, "yield", method="anova_f", model="linear", n_features=2, keep=["noise_a"],
        store=tmp_path,
    )  # fmt: skip
    assert set(noise.features) == {"first", "noise_a"}
    chaffinch.promote(noise, store=tmp_path)
    asked = settings.model_copy(update={"alternatives": AlternativeSettings(number=1)})
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    state = chaffinch.feature_selection(str(table), asked, execution, return_state=True)
    (other,) = state.result().alternatives["sets"]
    artifacts = server.artifacts(str(state.state_details.flow_run_id))
    curve = artifacts["harvest-elimination-curve"]
    assert curve["type"] == "markdown"  # the UI prints the whole URL of an image artifact
    assert "<svg" in image_in(curve)
    assert "features left" in image_in(curve)
    said = re.findall(r"<text[^>]*>([^<]*)</text>", image_in(artifacts["harvest-set-overlap"]))
    rows = ("chosen, 2 features", "promoted, 2 features", "alternative 1, 2 features")
    assert set(said) >= {*rows, "first", "second", "noise_a", *other["features"]}


def test_the_last_nights_of_a_data_set_are_a_table_with_what_each_needed(
    server, settings, table, tmp_path
):
    store, other = Store.open(tmp_path / "store"), tmp_path / "other"
    for number in range(20):
        night(store, number, [number % 2, 5], source="harvest.csv")
        night(store, number, [1], source="clicks.csv")
    execution = ExecutionSettings(store=store.path, cluster="none")
    for path, name in ((store.path, "harvest"), (other, "Harvest")):
        state = chaffinch.feature_selection(
            str(table),
            settings,
            execution.model_copy(update={"store": path}),
            chaffinch.PromotionSettings(name=name),
            return_state=True,
        )
        artifacts = server.artifacts(str(state.state_details.flow_run_id))
        kinds = {"verdict", "losses", "metrics", "features", "elimination-curve", "history"}
        assert set(artifacts) == {f"harvest-{kind}" for kind in {*kinds, "progress"}}
        rows = json.loads(artifacts["harvest-history"]["data"])
        if path == store.path:
            assert len(rows) == 14
            assert [row["Run"] for row in rows[:2]] == [state.result().run, "harvest-19"]
            assert [row["Came"] for row in rows[1:3]] == ["feature 1", "feature 0"]
            assert rows[1]["Decision needed"] == NOTHING
        else:
            assert len(rows) == 1
        assert rows[0]["Verdict"] == state.result().comparison["verdict"]
        assert rows[0]["Columns kept"] == "2 of 6"
        assert rows[0]["Decision needed"].endswith(" (open)")  # there is no first contract yet


def test_the_result_is_that_of_select_to_the_byte(flow_run, table, settings, tmp_path):
    _, result = flow_run
    plain = chaffinch.select(
        table, "yield", method=settings.method, model=settings.model, store=tmp_path
    )
    assert plain.run == result.run
    contracts = [(r.folder / "selection.json").read_bytes() for r in (plain, result)]
    assert contracts[0] == contracts[1]


def test_a_server_that_forgets_the_data_of_the_last_state_loses_no_result(
    server, table, settings, tmp_path, monkeypatch
):
    propose = flow_engine.propose_state_sync

    def forgetful(*args: Any, **options: Any) -> Any:
        state = propose(*args, **options)
        return state.model_copy(update={"data": None}) if state.is_completed() else state

    monkeypatch.setattr(flow_engine, "propose_state_sync", forgetful)
    execution = ExecutionSettings(store=tmp_path, cluster="none")
    result = chaffinch.feature_selection(str(table), settings, execution)
    assert isinstance(result, chaffinch.SelectionResult)


def test_as_a_subflow(server, table, settings, tmp_path):
    from prefect import flow

    @flow
    def nightly() -> list[str]:
        execution = ExecutionSettings(store=tmp_path, cluster="none")
        return list(chaffinch.feature_selection(str(table), settings, execution).features)

    state = nightly(return_state=True)
    assert state.result() == ["first", "second"]
    parent = str(state.state_details.flow_run_id)
    inner = server.find("flow_runs", flow_runs={"parent_flow_run_id": {"any_": [parent]}})
    assert [run["state_type"] for run in inner] == ["COMPLETED"]


async def _in_an_event_loop(table: Path, settings: SelectionSettings, store: Path) -> Any:
    from prefect import flow

    @flow
    async def nightly() -> list[str]:
        execution = ExecutionSettings(store=store, cluster="none")
        return list(chaffinch.feature_selection(str(table), settings, execution).features)

    return await nightly()


def test_as_a_subflow_of_an_asynchronous_flow(server, table, settings, tmp_path):
    features = asyncio.run(_in_an_event_loop(table, settings, tmp_path))
    assert features == ["first", "second"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "yeild"}, "target 'yeild' is no column of the table; did you mean 'yield'?"),
        ({"target": "yield", "model": "lightgmb"}, "lightgmb"),
    ],
)
def test_bad_input_fails_the_run_with_one_line(server, table, tmp_path, settings, message):
    store = Store.open(tmp_path / "store")  # that a store is made is said too
    execution = ExecutionSettings(store=store.path, cluster="none")
    state = chaffinch.feature_selection(
        str(table), SelectionSettings(**settings), execution, return_state=True
    )
    told = server.get(f"/flow_runs/{state.state_details.flow_run_id}")["state"]
    assert told["type"] == "FAILED"
    assert "InputError: " in told["message"]
    assert message in told["message"]
    assert "\n" not in told["message"]
    log = server.log_of(str(state.state_details.flow_run_id), "Finished in state Failed")
    assert not any("Traceback" in line for line in log)
    reasons = [line for line in log if not line.startswith(("Beginning", "Finished"))]
    assert len(reasons) == 1
    assert message in reasons[0]
    assert store.runs() == []
    with pytest.raises(chaffinch.InputError):
        state.result()
    written = {path.name for path in (execution.store / "runs").rglob("*") if path.is_file()}
    assert written <= {".lock"}


CELL = 987654.3125


def test_a_table_in_memory_is_passed_by_its_file_and_never_printed(
    server, table, settings, tmp_path, caplog, capfd
):
    rows = pd.read_csv(table)
    rows.loc[0, "noise_a"] = CELL
    execution = ExecutionSettings(store=tmp_path / "store", cluster="none")
    with caplog.at_level("DEBUG"):
        state = chaffinch.feature_selection(rows, settings, execution, return_state=True)
    run = server.get(f"/flow_runs/{state.state_details.flow_run_id}")
    (written,) = (execution.store / "tables").iterdir()
    assert run["parameters"]["data"] == str(written)
    assert str(CELL) not in json.dumps([run, server.artifacts(run["id"])])
    log = server.log_of(run["id"], "Finished in state Completed('")
    assert str(CELL) not in caplog.text + "".join([*log, *capfd.readouterr()])
    rows.to_parquet(tmp_path / "rows.parquet")
    same = chaffinch.select(
        tmp_path / "rows.parquet", "yield", method=settings.method, model=settings.model,
        store=tmp_path / "other",
    )  # fmt: skip
    contracts = [(r.folder / "selection.json").read_bytes() for r in (state.result(), same)]
    assert contracts[0] == contracts[1]


def test_a_table_in_memory_is_promoted_under_the_name_that_is_given(
    server, table, settings, tmp_path
):
    rows, store = pd.read_csv(table), tmp_path / "store"
    execution = ExecutionSettings(store=store, cluster="none")

    def promoted_as(name: str | None) -> Any:
        promotion = PromotionSettings(name=name)
        call = chaffinch.feature_selection
        return call(rows, settings, execution, promotion, return_state=True)

    assert "has no name that a data set could have" in promoted_as(None).message
    assert promoted_as("harvest").name == "NeedsDecision"  # the first contract is for a person


def test_no_table_is_written_for_a_call_that_is_refused(server, settings, tmp_path):
    rows = pd.DataFrame({"a": [CELL, 1.0], "y": [0, 1]})
    execution, n_runs = ExecutionSettings(store=tmp_path / "store"), len(server.find("flow_runs"))
    with pytest.raises(InputError, match="target must be text but is"):
        chaffinch.feature_selection(rows, {"target": ["y"]}, execution)
    with pytest.raises(InputError, match=r"a source must be a path .* but is dict"):
        chaffinch.feature_selection(rows.to_dict("list"), settings, execution)
    assert [*tmp_path.rglob("*.arrow")] == []
    assert len(server.find("flow_runs")) == n_runs


@pytest.mark.parametrize("kind", [pd.DataFrame, dict, list], ids=lambda kind: kind.__name__)
def test_rows_in_another_place_are_refused_and_never_printed(kind, server, settings, caplog, capfd):
    rows = pd.DataFrame({"a": [CELL, 1.0], "y": [0, 1]})
    table = {pd.DataFrame: rows, dict: rows.to_dict("list"), list: rows.to_dict("records")}[kind]
    n_runs = len(server.find("flow_runs"))
    with caplog.at_level("DEBUG"):
        for call in (
            lambda: chaffinch.feature_selection([table], settings),
            lambda: chaffinch.feature_selection("table.csv", table),
            lambda: chaffinch.reselection(table, "table.csv"),
            lambda: chaffinch.comparison([[table]], chaffinch.ComparisonSettings(target="y")),
        ):
            with pytest.raises(InputError) as refused:
                call()
            assert "\n" not in str(refused.value)
            assert str(CELL) not in str(refused.value)
    assert str(CELL) not in caplog.text + "".join(capfd.readouterr())
    assert len(server.find("flow_runs")) == n_runs
