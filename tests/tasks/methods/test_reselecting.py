"""A former run and newer rows: what leaves, what returns, and what the test rows say of it."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.tasks.reporting.changes import lines_of_changes
from chaffinch.tasks.selection.core import Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.statistics.bootstrap import PairedLosses, resampling_units
from tests.synthetic import good_table
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.snapshots import check_sentence
from tests.tasks.synthetic_runs import LINEAR, causes, rows_of, run_of


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def former(store):
    result = run_of(causes("x1", "x2"), store=store)
    assert result.features == ["x1", "x2"]
    return result


@pytest.fixture(scope="module")
def moved(former, store):
    return chaffinch.reselect(former, causes("x2", "x3", seed=1), store=store)


# What changes


def test_where_the_target_moves_what_it_lost_leaves_and_what_it_gained_returns(moved) -> None:
    assert moved.features == ["x2", "x3"]
    changes = moved.changes
    assert changes["verdict"] == "change"
    assert [(c["feature"], c["change"]) for c in changes["changes"]] == [
        ("x1", "left"),
        ("x3", "returned"),
    ]
    left, returned = changes["changes"]
    assert returned["difference"] < -2
    assert returned["interval"][1] < 0
    assert returned["mask_validation"]["highest"] < 0
    assert left["interval"][0] < 0 < left["interval"][1]


def test_where_nothing_moves_the_former_set_stays(former) -> None:
    same = chaffinch.reselect(former, causes("x1", "x2", seed=2))
    assert same.features == former.features
    assert same.changes["verdict"] == "keep the former set"
    assert same.changes["changes"] == []
    new, kept = (same.changes["sets"][name] for name in ("new", "former"))
    assert new == kept
    assert same.changes["comparisons"][0]["difference"] == 0


def test_a_change_to_a_leak_is_not_decided_and_the_leak_is_named_first(former) -> None:
    newer = causes("x2", "x3", seed=1)
    leaky = newer.assign(late=newer["y"] * 2 + 1)
    found = chaffinch.reselect(former, leaky)
    assert "late" in found.features
    assert found.changes["verdict"] == "cannot tell"
    assert found.changes["sentence"].startswith("The selection rests on 'late'")


def test_of_one_row_to_judge_by_nothing_is_shown_and_nothing_changes(former) -> None:
    changes = chaffinch.reselect(former, causes("x2", "x3", seed=1)[:8]).changes
    assert changes["verdict"] == "keep the former set"
    assert changes["changes"] == []


def test_a_new_column_is_a_candidate_as_well(former) -> None:
    data = causes("x1", "x2", seed=3)
    extra = np.random.default_rng(9).normal(size=len(data))
    newer = chaffinch.reselect(former, data.assign(extra=extra, y=data["y"] + 2 * extra))
    (change,) = newer.changes["changes"]
    assert (change["feature"], change["change"]) == ("extra", "new")
    assert newer.features == ["x1", "x2", "extra"]


@pytest.mark.parametrize("was", ["constant", "dropped", "the target"])
def test_a_column_that_the_former_table_had_is_not_new_whatever_it_was(was) -> None:
    extra = np.random.default_rng(9).normal(size=600)
    before, target = causes("x1", "x2", extra=1.0 if was == "constant" else extra), "y"
    if was == "the target":
        before, target = before.assign(extra=before["y"], y=extra), "extra"
    drop = ["extra"] if was == "dropped" else []
    former = chaffinch.select(before, target, model=LINEAR, method="flbmo", n_features=2, drop=drop)
    assert "extra" not in former.candidates
    data = causes("x1", "x2", seed=3)
    newer = data.assign(extra=extra, y=data["y"] + 2 * extra)
    after = chaffinch.reselect(former, newer, "y", drop=[])
    assert [one["change"] for one in after.changes["changes"]] == ["returned"]
    assert any(line.startswith("  Returned: extra") for line in lines_of_changes(after.changes))


def test_the_one_feature_of_a_set_cannot_be_done_without(tmp_path) -> None:
    before = run_of(causes("x1"), n_features=1)
    after = chaffinch.reselect(before, causes("x3", seed=1))
    assert (before.features, after.features) == (["x1"], ["x3"])
    left, returned = after.changes["changes"]
    assert left["interval"][0] <= left["difference"] <= left["interval"][1]
    assert (returned["difference"], returned["interval"]) == (None, None)
    page = Page(after.report(tmp_path / "report.html").read_bytes())
    assert page.tables["What changed"][2][-2:] == ["\N{EN DASH}"] * 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"x1": 1.5}, "constant"),
        ({"x1": np.nan}, "every value is missing"),
        (None, "no such column"),
    ],
)
def test_a_former_feature_that_tells_nothing_now_is_gone_so_that_its_set_cannot_be_kept(
    former, change, reason
) -> None:
    rows = causes("x2", seed=4)
    rows = rows.drop(columns="x1") if change is None else rows.assign(**change)
    newer = chaffinch.reselect(former, rows)
    assert any("'x1'" in warning for warning in newer.warnings)
    assert newer.features[0] == "x2"
    assert newer.changes["gone"] == [{"feature": "x1", "reason": reason}]
    assert newer.changes["verdict"] == "cannot tell"
    assert f"The newer rows lack 'x1' ({reason})" in newer.changes["sentence"]


def test_the_figures_are_those_of_models_refitted_on_the_newer_rows(
    former, store, undrawn_here
) -> None:
    newer = causes("x2", "x3", seed=1)
    moved = chaffinch.reselect(former, newer, model=LinearRegression(), store=store)
    fitted, test = rows_of(moved, "train", "mask_validation"), rows_of(moved, "test")

    def loss(*names):
        line = LinearRegression().fit(fitted[list(names)], fitted["y"])
        return np.mean((line.predict(test[list(names)]) - test["y"]) ** 2)

    changes = moved.changes
    losses = {"former": loss("x1", "x2"), "new": loss("x2", "x3"), "all": loss(*moved.candidates)}
    for name, expected in losses.items():
        assert changes["sets"][name]["test_loss"] == pytest.approx(expected)
    for one in changes["comparisons"]:
        expected = losses[one["set"]] - losses[one["against"]]
        assert one["difference"] == pytest.approx(expected)
        assert one["interval"][0] <= one["difference"] <= one["interval"][1]
    undone = {"x1": loss("x1", "x2", "x3"), "x3": loss("x2")}
    for change in changes["changes"]:
        expected = losses["new"] - undone[change["feature"]]
        assert change["difference"] == pytest.approx(expected)
    assert changes["sets"]["new"]["test_loss"] == moved.losses["test"]["selected"]


def test_so_it_goes_for_another_model_and_in_time_order() -> None:
    quick = ModelSettings(name="lightgbm", tuning="none", parameters={"n_estimators": 20})
    old, new = (
        causes(*names, n=400, seed=seed, day=np.arange(400)).sample(frac=1, random_state=1)
        for seed, names in enumerate((("x1", "x2"), ("x2", "x3")))
    )
    before = run_of(old, model=quick, time="day")
    after = chaffinch.reselect(before, new)
    assert after.settings["columns"]["time"] == "day"
    assert {"x2", "x3"} <= set(after.features)
    assert after.changes["units"] == len(set(np.arange(60) // 7))  # blocks of time, not rows


def test_rows_of_one_group_are_no_proof_of_their_own() -> None:
    """Sixty rows stand ten times each: what they show is what sixty rows show."""
    shop = np.arange(60)
    before = run_of(causes("x1", "x2", n=60, shop=shop), group="shop")
    assert before.features == ["x1", "x2"]
    newer = causes("x1", "x2", n=60, seed=6, shop=shop)
    newer = newer.assign(y=newer["y"] + 0.6 * newer["x3"])
    tenfold = pd.concat([newer.assign(x8=newer["x8"] + 1e-9 * k) for k in range(10)])
    assert chaffinch.reselect(before, tenfold).features == ["x1", "x2"]
    many = causes("x1", "x2", n=600, seed=6, shop=np.arange(600))
    many = many.assign(y=many["y"] + 0.6 * many["x3"])
    assert chaffinch.reselect(before, many).features == ["x1", "x2", "x3"]


def test_classes_categories_and_weights() -> None:
    data, newer = good_table(300).assign(w=1.0), good_table(300, seed=1).assign(w=2.0)
    before = chaffinch.select(
        data, "churned", model=LINEAR, keep=["colour"], weight="w", n_features=2
    )
    assert "colour" in before.features
    after = chaffinch.reselect(before, newer)
    assert {"age", "colour", "income"} <= set(after.features)
    assert after.contract["loss"] == "log_loss"


def test_whole_numbers_stay_classes_however_many_there_are_by_now() -> None:
    random = np.random.default_rng(0)
    X = pd.DataFrame(random.normal(size=(300, 4)), columns=list("abcd"))
    before = run_of(X.assign(y=(X["a"] > 0).astype(int)))
    assert before.contract["target"]["task"] == "classification"
    after = chaffinch.reselect(before, X.assign(y=np.arange(300) % 25))
    assert after.contract["target"]["task"] == "classification"
    assert after.contract["loss"] == "log_loss"


# What comes before any work


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"x1": ["a", "b", "c"] * 200}, {}),
        ({"y": [True, False] * 300}, {}),
        ({"x1": 1, "x2": 2}, {}),
        ({}, {"drop": ["x1", "x2"]}),
        ({"x2": 1.5}, {"drop": ["x1"]}),
        ({}, {"drop": ["x1"], "target": "x2"}),
    ],
)
def test_newer_rows_that_do_not_fit_are_refused_and_leave_no_run(
    former, store, columns, options
) -> None:
    before = {*(store / "runs").iterdir()}
    with pytest.raises(InputError) as error:
        chaffinch.reselect(former, causes("x3").assign(**columns), store=store, **options)
    check_sentence("refusals/newer rows", f"{[*columns]}, {options}", error.value)
    assert {*(store / "runs").iterdir()} == before


def test_true_and_false_may_come_as_0_and_1_from_a_database() -> None:
    before, newer = (causes("x1", "x2", seed=s).assign(y=lambda t: t["y"] > 0) for s in (0, 1))
    shares = run_of(before, settings={"task": "regression"})
    for target in (newer["y"], newer["y"].astype(int)):
        assert chaffinch.reselect(shares, newer.assign(y=target)).features


@pytest.mark.parametrize(
    ("options", "reason"),
    [({"drop": ["x1"]}, "left out as asked"), ({"target": "x1"}, "is the target now")],
)
def test_a_former_feature_may_be_dropped_or_be_the_target_now(former, options, reason) -> None:
    after = chaffinch.reselect(former, causes("x2", "x3", seed=1), **options)
    assert after.changes["gone"] == [{"feature": "x1", "reason": reason}]


def test_a_model_of_ones_own_is_asked_for_again(tmp_path) -> None:
    before = run_of(causes("x1", "x2"), model=LinearRegression())
    newer = causes("x2", "x3", seed=1)
    with pytest.raises(InputError, match="model LinearRegression may have been an estimator of yo"):
        chaffinch.reselect(before, newer)
    for again in (LinearRegression(), "LinearRegression"):
        assert chaffinch.reselect(before, newer, model=again).features == ["x2", "x3"]


def test_what_contradicts_the_former_run_names_it_and_what_can_be_done() -> None:
    data = causes("x1", "x2", day=np.arange(600), w=1.0)
    before = run_of(data, keep=["x1"], time="day", weight="w")
    for options, said in (
        ({"drop": ["x1"]}, "column 'x1' cannot be dropped, for .* names it as one to "),
        ({"drop": ["w"]}, "column 'w' cannot be dropped, for .* names it as its w"),
        ({"drop": ["y"]}, "column 'y' cannot be dropped, for .* names it as its t"),
        ({"target": "x1"}, "column 'x1' cannot be the target, for .* names it as one "),
        ({"target": "day"}, "column 'day' cannot be the target, for .* names it as it"),
    ):
        with pytest.raises(InputError, match=f"^{said}") as error:
            chaffinch.reselect(before, data, **options)
        assert str(error.value).endswith("; choose another, or select again without a former run")
    with pytest.raises(InputError, match=r"'x1' is no use as a feature .*; change the rows"):
        chaffinch.reselect(before, data.assign(x1=1.0))
    with pytest.raises(InputError, match=r"3 rows but .*; change the rows, or select"):
        chaffinch.reselect(before, data[:3])


def test_features_of_the_former_targets_past_are_made_of_it_still() -> None:
    data = causes("x1", day=np.arange(600))
    data = data.assign(y=data["y"].cumsum())
    before = run_of(data, time="day", history={"lags": [1]}, keep=["y_lag_1"])
    after = chaffinch.reselect(before, data, target="x2")
    assert "y_lag_1" in after.features
    assert after.settings["history"]["columns"] == ["y"]


def test_other_classes_and_the_same_rows_are_warned_of() -> None:
    data, newer = causes("x1", "x2"), causes("x1", "x2", seed=1)
    labels = [frame["y"].gt(0).map({True: "yes", False: "no"}) for frame in (data, newer)]
    before = run_of(data.assign(y=labels[0]))
    (said,) = chaffinch.reselect(
        before, data.assign(y=labels[0]).sample(frac=1, random_state=0)
    ).warnings
    assert said.startswith("the newer rows are the very rows of the former run")
    other = labels[1].where(newer.index % 5 != 0, "maybe").replace({"no": "not"})
    (said,) = chaffinch.reselect(before, newer.assign(y=other)).warnings
    assert said == (
        "the target's classes are not those of the former run (new: 'maybe' and 'not', missing: "
        "'no'); make sure that the labels mean the same"
    )
    assert chaffinch.reselect(before, newer.assign(y=labels[1])).warnings == ()


def test_a_category_that_delimited_text_reads_as_missing_is_warned_of(tmp_path) -> None:
    table = good_table().assign(colour=lambda made: made["colour"].replace("red", "NA"))
    before = run_of(table, target="churned", n_features=6)
    newer = good_table(seed=1).assign(colour=lambda made: made["colour"].replace("red", "NA"))
    newer.to_csv(tmp_path / "newer.csv", index=False)
    (said,) = chaffinch.reselect(before, tmp_path / "newer.csv").warnings
    assert said.startswith(f"column 'colour' is missing in {newer['colour'].eq('NA').sum()} of 240")
    assert chaffinch.reselect(before, newer).warnings == ()


# Where the former run comes from, and what is left


def test_what_is_no_former_run_is_refused(store, tmp_path) -> None:
    (tmp_path / "x.json").write_text("{}")
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    for given, message in (
        (
            {"features": ["a"] * 99},
            "a former run must be .* but is of type dict; give a run's name",
        ),
        (tmp_path / "x.csv", r"^x.csv is no feature contract \(not JSON\); give a run's name"),
        ("nothing", "there is no run 'nothing'"),
        (tmp_path / "x.json", "x.json is no feature contract"),
        (tmp_path, "is no run; give a run's name, its folder or its selection.json"),
    ):
        with pytest.raises(InputError, match=message) as error:
            chaffinch.reselect(given, causes("x1"), store=store)
        assert "\n" not in str(error.value)


def test_it_is_a_run_as_any_other(moved, store, undrawn_here) -> None:
    again = chaffinch.load_run(moved.run, store=store)
    assert again.changes == moved.changes
    written = json.loads((moved.folder / "changes.json").read_bytes())
    assert written == moved.changes
    assert written["format_version"] == 1
    newer = chaffinch.reselect(again, causes("x2", "x3", seed=5), store=store)  # and so on
    assert newer.features == ["x2", "x3"]
    assert list(moved.path.columns) == ["step", "features", "loss", "features_left"]
    assert [list(names) for names in moved.path["features"]] == [
        ["x1", "x2"], ["x1", "x2", "x3"], ["x2", "x3"]
    ]  # fmt: skip
    plain = chaffinch.load_run(moved.changes["former_run"], store=store)
    assert plain.changes is None


def test_the_report_says_what_changed_and_why(moved, tmp_path) -> None:
    page = Page(moved.report(tmp_path / "report.html").read_bytes())
    assert "Since the former run" in page.headings
    assert moved.changes["sentence"] in page.text
    rows = page.tables["What changed"]
    assert [row[:2] for row in rows[1:]] == [["x1", "left"], ["x3", "returned"]]
    sets = page.tables["The sets, each refitted on the newer rows"]
    assert [row[:2] for row in sets[1:]] == [["former", "2"], ["new", "2"], ["all features", "8"]]
    tried = page.tables["What was tried"]
    assert len(tried) - 1 == moved.changes["n_tried"]
    assert "found by reselect" in page.text
    assert "features left and returned one at a time, below" in page.text
    assert "whole masks were judged" not in page.text
    assert "the search makes no use of it" not in page.text


def test_whoever_computes_and_however_the_rows_lie_it_is_the_same(
    former, moved, tmp_path, scheduler
) -> None:
    turned = causes("x2", "x3", seed=1).sample(frac=1, random_state=0)
    there = chaffinch.reselect(former, turned, cluster=scheduler, store=tmp_path)
    assert there.contract == moved.contract
    assert there.changes == moved.changes


# How sure a difference is


@pytest.mark.parametrize("weighted", [False, True])
def test_the_error_of_a_mean_is_that_of_its_rows(weighted) -> None:
    random = np.random.default_rng(0)
    y, before, after = random.normal(size=(3, 50))
    weight = random.uniform(0.5, 2, 50) if weighted else None
    rows = Rows(np.zeros((50, 1)), y, weight)
    units = resampling_units(50)
    error = PairedLosses(Loss("squared_error", "regression"), rows, units, 0).error(before, after)
    differences = (after - y) ** 2 - (before - y) ** 2
    if weight is None:
        assert error == pytest.approx(differences.std(ddof=1) / np.sqrt(50))
    else:
        mean = np.average(differences, weights=weight)
        spread = np.sum((weight * (differences - mean)) ** 2) * 50 / 49
        assert error == pytest.approx(np.sqrt(spread) / weight.sum())


def test_rows_that_belong_together_make_it_larger() -> None:
    random = np.random.default_rng(0)
    y, before = random.normal(size=(2, 100))
    after = before + np.repeat(random.normal(size=10), 10)
    rows, loss = Rows(np.zeros((100, 1)), y), Loss("squared_error", "regression")
    groups = np.repeat(np.arange(10), 10)
    alone, together = (
        PairedLosses(loss, rows, units, 0).error(before, after)
        for units in (resampling_units(100), resampling_units(100, groups=groups))
    )
    assert together > 1.5 * alone
    assert np.isnan(PairedLosses(loss, rows, np.zeros(100, np.int64), 0).error(before, after))


def test_where_the_test_part_is_one_group_no_interval_is_told(tmp_path) -> None:
    former = run_of(causes("x1", "x2").assign(g=np.arange(600) % 40), group="g")
    newer = causes("x2", "x3", seed=1).assign(g=np.arange(600) % 9)
    after = chaffinch.reselect(former, newer)
    assert after.changes["units"] == 1
    assert "returned" in [one["change"] for one in after.changes["changes"]]
    told = [*after.changes["changes"], *after.changes["comparisons"], after.comparison]
    assert {one["interval"] for one in told} == {None}
    assert "; difference -" in after.changes["sentence"]
    assert after.changes["sentence"].endswith(", of one unit there is no interval.")
    assert not any("[" in line for line in lines_of_changes(after.changes))
    report = after.report(tmp_path / "report.html").read_text()
    assert "nothing says how far that may be off" in report
    assert "by a paired bootstrap" not in report
    page = Page(report.encode())
    assert {row[-1] for row in page.tables["What changed"][1:]} == {"\N{EN DASH}"}
