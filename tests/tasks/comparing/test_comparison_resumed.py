"""A comparison: stopped at any point it continues, and ends as if it had never been stopped."""

import html
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.dummy import DummyClassifier
from sklearn.metrics import f1_score, make_scorer

import chaffinch
from chaffinch.errors import InputError, StorageError
from chaffinch.flows.cli.output import show_comparison, show_runs
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import source_of
from chaffinch.tasks.comparing import report
from chaffinch.tasks.comparing.run import compare_methods, load_comparison
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.comparing.text import verdicts_of
from chaffinch.tasks.settings.columns import ColumnSettings
from chaffinch.tasks.settings.selection import ExecutionSettings, ModelSettings
from tests.tasks.snapshots import check_sentence

LINEAR = ModelSettings(name="linear", tuning="none")
TREES = ModelSettings(name="lightgbm", tuning="none", parameters={"n_estimators": 10})


def settings(**given: object) -> ComparisonSettings:
    quick = {"methods": ["gbmo", "anova_f"], "models": [LINEAR, TREES], "folds": 2, "seeds": 2}
    return ComparisonSettings(target="y", **{**quick, **given})


@pytest.fixture(scope="module", autouse=True)
def in_all_alone() -> Iterator[None]:
    """Leave what is said of each table, with its charts, off the reports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "_of_table", lambda *_: iter(()))
        yield


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(120, 6)).round(6), columns=list("abcdef"))
    table["y"] = table["a"] + table["b"] ** 2 + random.normal(size=120)
    path = tmp_path_factory.mktemp("table") / "synthetic.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def whole(source, tmp_path_factory) -> pd.DataFrame:
    """Return the results of a comparison that was never stopped."""
    return compared(source, tmp_path_factory.mktemp("whole"))


def compared(source: object, store: Path, tell=lambda *_: None, **given: object) -> pd.DataFrame:
    run = {key: given.pop(key) for key in ("cluster", "workers") if key in given}
    how = {key: given.pop(key) for key in ("time_budget", "say") if key in given}
    execution = ExecutionSettings(store=store, **{"cluster": "none", **run})
    sources = list(map(source_of, source if isinstance(source, list) else [source]))
    done = compare_methods(sources, settings(**given), execution, on_progress=tell, **how)
    return pq.read_table(done.folder / "results.parquet").to_pandas()


def without_seconds(results: pd.DataFrame) -> pd.DataFrame:
    return results.drop(columns=["selection_seconds", "training_seconds"])


def assert_same(one: pd.DataFrame, other: pd.DataFrame) -> None:
    pd.testing.assert_frame_equal(without_seconds(one), without_seconds(other))


class StopError(Exception):
    pass


def test_one_that_is_stopped_twice_ends_as_one_that_never_was(source, whole, tmp_path) -> None:
    def stop_at(cells: int):
        def tell(step: str, done: int, total: int) -> None:
            if step == "measure_cells" and done == cells:
                raise StopError

        return tell

    for cells in (2, 5):
        with pytest.raises(StopError):
            compared(source, tmp_path / "stopped", stop_at(cells))
    begun = []
    done = compared(source, tmp_path / "stopped", lambda *told: begun.append(told))
    assert next(told for told in begun if told[1] and told[0] == "measure_cells")[1:] == (5, 8)
    assert_same(done, whole)
    again = []
    assert_same(compared(source, tmp_path / "stopped", lambda *told: again.append(told)), whole)
    assert [told for told in again if told[0] == "measure_cells"] == [
        ("measure_cells", 0, 1),
        ("measure_cells", 8, 8),
        ("measure_cells", 1, 1),
    ]


def test_nor_does_it_matter_who_computes(source, whole, tmp_path, scheduler) -> None:
    assert_same(compared(source, tmp_path / "there", cluster=scheduler), whole)


PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.tasks.comparing.test_comparison_resumed import compared
compared(Path(sys.argv[1]), Path(sys.argv[2]), lambda *told: print(*told, flush=True),
         cluster="local", workers=2, seeds=3)
"""


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_nor_that_it_was_killed(source, tmp_path) -> None:
    whole = compared(source, tmp_path / "whole", seeds=3)
    root = str(Path(__file__).parents[3])
    command = [sys.executable, "-c", PROGRAM.format(root=root), source, tmp_path / "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        for line in program.stdout:
            if line.startswith("measure_cells") and int(line.split()[1]) >= 5:
                os.kill(program.pid, signal.SIGKILL)
    time.sleep(0.5)  # the workers notice that they are orphans
    begun = []
    done = compared(source, tmp_path / "killed", lambda *told: begun.append(told), seeds=3)
    assert next(told for told in begun if told[1] and told[0] == "measure_cells")[1] >= 5
    assert_same(done, whole)


def test_more_methods_models_and_seeds_measure_only_what_is_new(source, whole, tmp_path) -> None:
    compared(source, tmp_path / "store", methods=["anova_f"], models=[LINEAR], seeds=1)
    cells = tmp_path / "store" / "cells" / "stages"
    before = {path: path.stat().st_mtime_ns for path in cells.iterdir()}
    done = compared(source, tmp_path / "store")
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert_same(done, whole)


def test_when_the_time_is_up_what_is_done_is_there(source, tmp_path) -> None:
    said: list[str] = []
    some = compared(source, tmp_path / "store", time_budget=1e-9, say=said.append)
    assert said == ["The time is up with 1 of 8 cells measured; call it again to continue."]
    assert len(some[["model", "seed", "fold"]].drop_duplicates()) == 1
    whole = compared(source, tmp_path / "store")
    assert_same(whole.iloc[: len(some)], some)
    assert len(whole) == 8 * 4


def test_what_the_time_did_not_reach_is_told_by_the_result(source, tmp_path, capsys) -> None:
    """Of 2 tables, 2 models, 2 seeds and 2 folds, one cell: all, 2 methods, one of them sized."""
    other = tmp_path / "other.csv"
    pd.read_csv(source).head(80).to_csv(other, index=False)
    run = compare_methods(
        [source_of(source), source_of(other)],
        settings(methods=["anova_f", "particle_swarm"], sizes=[0.5, 3]),  # one size
        ExecutionSettings(store=tmp_path / "store", cluster="none"),
        time_budget=1e-9,
    )
    result = load_comparison(run)
    assert result.not_reached == (
        *(("synthetic", "lightgbm"), ("other", "linear"), ("other", "lightgbm")),
    )
    n_planned = 2 * 2 * 2 * 2 * 4
    assert (result.summary.n_planned, result.summary.n_missing) == (n_planned, n_planned - 4)
    page = html.unescape((run.folder / "report.html").read_text())
    for said in (
        f"{n_planned - 4} of {n_planned} losses were not computed.",
        "Tables not reached with any model: other.",
        "Models not reached on any table: lightgbm.",
    ):
        assert any(line.startswith(said) for line in result.lines)
        assert said in page
    show_comparison(result, as_json=True)
    shown = json.loads(capsys.readouterr().out)
    assert (shown["losses_planned"], shown["losses_missing"]) == (n_planned, n_planned - 4)
    assert [tuple(pair.values()) for pair in shown["not_reached"]] == list(result.not_reached)


def test_a_scorer_of_ones_own_is_the_loss_that_the_one_of_that_name_is(source, tmp_path) -> None:
    table = pd.read_csv(source)
    table["y"] = np.where(table["y"] > 1, "yes", "no")

    def compare(loss: object, **given: object) -> chaffinch.tasks.comparing.run.ComparisonResult:
        how = {"methods": ["anova_f"], "models": [LINEAR], "folds": 2, "seeds": 1, **given}
        return chaffinch.compare(table, "y", loss=loss, **how)

    scorer = make_scorer(f1_score, pos_label="yes")
    own = compare(scorer, store=tmp_path)
    assert own.results["loss"].tolist() == compare("f1").results["loss"].tolist()
    assert set(own.results["loss_name"]) == {repr(scorer)}
    assert compare(scorer, store=tmp_path).name == own.name
    assert compare(make_scorer(f1_score, pos_label="no"), store=tmp_path).name != own.name
    with pytest.raises(InputError, match="is the function f1_score; give make_scorer"):
        compare(f1_score)
    with pytest.raises(InputError, match="'r2' cannot score"):
        compare("r2")


def test_an_error_about_one_of_several_tables_names_it(source, tmp_path) -> None:
    other = tmp_path / "other.csv"
    pd.read_csv(source).drop(columns="b").to_csv(other, index=False)
    with pytest.raises(InputError, match=r"^in other, keep column 'b' is no column of the table"):
        compared([source, other], tmp_path / "store", columns=ColumnSettings(keep=("b",)))


def test_several_tables_at_once(source, tmp_path) -> None:
    other = pd.read_csv(source).sample(80, random_state=0).rename(columns={"a": "first"})
    dated = tmp_path / "synthetic.2024.csv.gz"
    other.to_csv(dated, index=False)
    both = compared([source, dated], tmp_path / "both", models=[LINEAR], seeds=1)
    assert both["table"].unique().tolist() == ["synthetic", "synthetic.2024"]
    alone = compared(dated, tmp_path / "alone", models=[LINEAR], seeds=1)
    assert_same(both[both["table"] == "synthetic.2024"].reset_index(drop=True), alone)


@pytest.mark.parametrize(
    "given",
    [
        {"models": ["forest"]},
        {"models": [DummyClassifier()]},
        {"folds": 20, "models": [ModelSettings(name="linear")]},
        {"time_budget": 0},
        {"time_budget": float("nan")},
        {"time_budget": "1"},
        {"time_budget": True},
        {"loss": "log_loss"},
        {"sizes": [0.2], "columns": ColumnSettings(keep=("a", "b"))},
        {"sizes": [7]},
    ],
)
def test_what_cannot_be_compared_is_refused_before_any_work(source, tmp_path, given):
    small = tmp_path / "small.csv"
    pd.read_csv(source).head(19).to_csv(small, index=False)
    with pytest.raises(InputError) as refusal:
        compared(small, tmp_path / "store", **given)
    check_sentence("refusals/comparison", str(given)[:90], refusal.value)
    assert not list((tmp_path / "store").glob("cells/stages/*"))


def test_a_loss_that_fails_in_a_cell_fails_there_alone(tmp_path) -> None:
    """Of logarithms, where a line that goes down ends below -1."""
    day = np.arange(300.0)
    y = np.where(day < 245, 100 - day / 2.5, 2.0)
    table = pd.DataFrame({"day": day, "a": day / 10, "b": np.sin(day), "y": y})
    of_logarithms = {"loss": "neg_mean_squared_log_error", "methods": ["anova_f"], "folds": 5}
    asked = {**of_logarithms, "columns": ColumnSettings(time="day"), "models": [LINEAR]}
    found = compared(table, tmp_path / "store", **asked)
    by_fold = found[found["method"] == "all"].set_index("fold")["error"]
    assert by_fold[by_fold.notna()].index.tolist() == [4]
    assert "cannot score these predictions" in by_fold[4]


def test_a_loss_that_is_no_number_fails_in_its_cell_alone(tmp_path) -> None:
    """The area under a curve, where the rows outside are of one class."""
    rows = np.arange(160)
    group = rows // 20
    y = np.where(group == 0, 1, rows % 2)
    table = pd.DataFrame({"a": np.sin(rows), "b": rows % 7, "g": group, "y": y})
    asked = {"methods": ["anova_f"], "models": [LINEAR], "loss": "roc_auc", "folds": 8}
    by_group = {**asked, "columns": ColumnSettings(group="g"), "seeds": 1}
    found = compared(table, tmp_path / "store", **by_group)
    of_all = found[found["method"] == "all"]
    assert of_all["error"].notna().sum() == 1
    assert of_all["error"].dropna().item().startswith("the loss on the rows outside is nan")
    assert of_all["loss"].notna().sum() == 7


def test_what_libraries_warn_of_is_told_once_at_the_end_and_not_on_the_way(tmp_path) -> None:
    """Precision where nothing is predicted, and networks whose training ends early."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 3)).round(6), columns=list("abc"))
    table["y"] = np.arange(60) % 10 == 0
    asked = {"methods": ["anova_f"], "loss": "precision", "folds": 2, "seeds": 1}
    early = ModelSettings(name="MLPClassifier", tuning="none", parameters={"max_iter": 2})
    run = compare_methods(
        [source_of(table)],
        settings(models=[LINEAR, early], **asked),
        ExecutionSettings(store=tmp_path / "store", cluster="none"),
    )
    result = load_comparison(run)
    undefined = (
        "a score was not defined, as where rows are of one class or none is predicted, and is what "
        "scikit-learn puts in its place, in 2 of 2 cells."
    )
    early_end = "the training of a model ended before it had converged, in 2 of 2 cells."
    assert set(result.remarks) == {
        *(f"DataFrame, linear: {undefined}", f"DataFrame, MLPClassifier: {undefined}"),
        f"DataFrame, MLPClassifier: {early_end}",
    }
    assert result.lines[-3:] == list(result.remarks)
    page = html.unescape((run.folder / "report.html").read_text())
    assert all(remark in page for remark in result.remarks)
    again = load_comparison(Store.find(tmp_path / "store").comparisons()[0])
    assert again.remarks == result.remarks


def test_where_everything_fails_it_says_so_and_is_not_finished(tmp_path, capsys) -> None:
    day = np.arange(200.0)
    table = pd.DataFrame({"day": day, "a": day, "b": np.sin(day), "y": -100 - day})
    asked = {"methods": ["anova_f"], "models": [LINEAR], "loss": "neg_mean_squared_log_error"}
    for _ in range(2):  # and again when the same is asked for
        with pytest.raises(InputError, match="nothing could be measured: in DataFrame, linear, lo"):
            compared(table, tmp_path / "store", **asked)
        assert_refused(tmp_path / "store", capsys)
    # a part that failed is concluded from, until all of it has
    asked["time_budget"] = 1e-9
    assert compared(table, tmp_path / "in_parts", **asked)["loss"].isna().all()
    assert "not finished" not in listed(tmp_path / "in_parts", capsys)
    del asked["time_budget"]
    with pytest.raises(InputError, match="nothing could be measured"):
        compared(table, tmp_path / "in_parts", **asked)
    assert_refused(tmp_path / "in_parts", capsys)


def listed(store: Path, capsys) -> str:
    show_runs(Store.find(store), as_json=False)
    return capsys.readouterr().out


def assert_refused(store: Path, capsys) -> None:
    """The one comparison of a store is listed as not finished, and says why."""
    (run,) = Store.find(store).comparisons()
    why = (
        f"comparison {run.name} is not finished, since nothing could be measured: DataFrame, "
        "linear: all features, anova_f failed in 4 cells each"
    )
    with pytest.raises(InputError, match=f"^{why}.* cannot score these predictions"):
        load_comparison(run)
    shown = listed(store, capsys)
    assert f"Unfinished comparisons (chaffinch show gives the reason): {run.name}\n" in shown
    assert "Comparisons, for chaffinch show" not in shown


def test_tables_are_told_apart_by_their_names(source, tmp_path) -> None:
    with pytest.raises(InputError, match="2 tables are called 'synthetic'; rename them"):
        compared([source, source], tmp_path / "store")
    copy = source.with_name("another.csv")
    copy.write_bytes(source.read_bytes())
    with pytest.raises(InputError, match="tables 'synthetic' and 'another' hold the same rows"):
        compared([source, copy], tmp_path / "store")
    one, other = pd.read_csv(source), pd.read_csv(source).iloc[::-2]
    found = compared([one, other], tmp_path / "store", models=[LINEAR], seeds=1)
    assert set(found["table"]) == {"DataFrame 1", "DataFrame 2"}
    with pytest.raises(InputError, match="there is no table to compare on"):
        compared([], tmp_path / "store")


@pytest.mark.parametrize("kind", ["shuffled labels", "noise"])
@pytest.mark.e2e
def test_where_nothing_is_to_be_found_no_method_is_better_or_as_good(tmp_path, kind) -> None:
    from sklearn.datasets import load_breast_cancer

    random = np.random.default_rng(0)
    table = load_breast_cancer(as_frame=True).frame.iloc[:300].rename(columns={"target": "y"})
    if kind == "noise":
        table = pd.DataFrame(random.normal(size=(300, 25)).round(6)).rename(columns=str)
        table["y"] = [0, 1] * 150
    table["y"] = random.permutation(table["y"])
    trees = ModelSettings(name="lightgbm", tuning="none")
    found = chaffinch.compare(
        table, "y", methods=["gbmo", "anova_f", "mrmr"], models=[trees, LINEAR], sizes=[2]
    )
    by_lines, by_trees = sorted(found.summary.tables, key=lambda table: table.model == "lightgbm")
    verdicts = [outcome.verdict for outcome in (*by_trees.rivals, *by_lines.rivals)]
    assert set(verdicts) <= {"worse", "cannot tell"}
    assert by_trees.is_nothing_to_select_from
    assert by_lines.is_nothing_to_select_from
    # some do better than with all features, which only shows how bad these are
    assert min(o.mean_loss for o in by_trees.rivals) < by_trees.reference.mean_loss


def test_what_is_odd_about_a_table_is_told_before_anything_is_measured_and_kept(
    source, tmp_path
) -> None:
    twice = tmp_path / "twice.csv"
    table = pd.read_csv(source)
    pd.concat([table, table.head(60)]).to_csv(twice, index=False)
    told: list[str] = []
    run = compare_methods(
        [source_of(source), source_of(twice)],
        settings(models=[LINEAR], seeds=1),
        ExecutionSettings(store=tmp_path / "store", cluster="none"),
        say=told.append,
        warn=told.extend,
    )
    (warning,) = told
    assert warning.startswith("twice: 60 of ")
    result = load_comparison(run)
    assert result.warnings == result.summary.warnings == (warning,)
    assert warning in html.unescape((run.folder / "report.html").read_text())
    assert load_comparison(Store.find(tmp_path / "store").comparisons()[0]).warnings == (warning,)


def test_the_result_of_compare_holds_what_is_odd_and_which_columns_take_no_part(source) -> None:
    table = pd.read_csv(source).assign(always=1.0, unknown=np.nan, leak=lambda t: 2 * t["y"])
    found = chaffinch.compare(table, "y", methods=["anova_f"], models=[LINEAR], folds=2, seeds=1)
    assert len(found.warnings) == 2
    assert sum("'leak'" in one for one in found.warnings) == 1
    said = ": left out: 'always' (constant), 'unknown' (every value is missing)"
    assert sum(one.endswith(said) for one in found.warnings) == 1
    (summary,) = found.summary.tables
    assert [(one.verdict, one.leaks) for one in summary.rivals] == [("cannot tell", ("leak",))]
    assert verdicts_of(summary).startswith("The selection rests on 'leak'")


def test_a_comparison_that_does_not_say_what_is_odd_is_to_be_concluded_again(
    source, tmp_path
) -> None:
    execution = ExecutionSettings(store=tmp_path / "store", cluster="none")
    run = compare_methods([source_of(source)], settings(models=[LINEAR], seeds=1), execution)
    with run.stage("conclude", "of an earlier version") as writer:
        writer.write("results.parquet", (run.folder / "results.parquet").read_bytes())
    with pytest.raises(StorageError, match="give its command again to complete it"):
        load_comparison(run)
    again = compare_methods([source_of(source)], settings(models=[LINEAR], seeds=1), execution)
    assert load_comparison(again).warnings == ()
