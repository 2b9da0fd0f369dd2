"""What differs between two contracts: features, the loss that comes of it, how features moved."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import chaffinch
from chaffinch import InputError
from chaffinch.tasks.promotion.difference import lines_of_difference
from chaffinch.tasks.statistics.drift import FeatureDrift
from tests.synthetic import good_table
from tests.tasks.synthetic_runs import causes, rows_of, run_of

pytestmark = pytest.mark.usefixtures("undrawn")
BY_NAME = chaffinch.ModelSettings(name="LinearRegression", tuning="none")


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def before(store):
    result = run_of(causes("x1", "x2"), store)
    assert result.features == ["x1", "x2"]
    return result


@pytest.fixture(scope="module")
def after(store):
    newer = causes("x2", "x3", seed=1)
    result = run_of(newer.assign(x2=newer["x2"] + 5), store)
    assert result.features == ["x2", "x3"]
    return result


@pytest.fixture(scope="module")
def of_a_line(store):
    """A run by a model that scikit-learn refits alike."""
    return run_of(causes("x2", "x3", seed=1), store, model=BY_NAME)


def test_features_are_gained_and_lost(before, after, store):
    found = chaffinch.difference(before, after)
    assert (found.before, found.after) == (before.run, after.run)
    assert (found.gained, found.lost) == (("x3",), ("x1",))
    assert found.share_changed == 2 / 3
    assert (found.n_before, found.n_after) == (2, 2)
    assert (found.gone, found.leaks, found.is_same) == ({}, (), False)
    back = chaffinch.difference(after, before)
    assert (back.gained, back.lost) == (("x1",), ("x3",))


def test_the_losses_are_those_of_both_sets_refitted_on_the_newer_rows(before, of_a_line, store):
    after = of_a_line
    fitted, test = rows_of(after, "train", "mask_validation"), rows_of(after, "test")

    def errors(names):
        line = LinearRegression().fit(fitted[names], fitted["y"])
        return (line.predict(test[names]) - test["y"]) ** 2

    loss = chaffinch.difference(before, after).loss
    expected = errors(after.features) - errors(before.features)
    assert loss.before == pytest.approx(errors(before.features).mean())
    assert loss.after == after.losses["test"]["selected"]
    assert loss.difference == pytest.approx(expected.mean())
    assert (loss.name, loss.units, loss.confidence) == ("squared_error", len(test), 0.95)
    low, high = loss.interval
    assert low < loss.difference < high < 0
    standard_error = expected.std() / np.sqrt(len(test))
    assert high - low == pytest.approx(4 * standard_error, rel=0.3)


def test_without_a_test_part_every_row_judges_the_first_set_and_the_choice_of_its_fold(
    before, store
):
    newer = causes("x2", "x3", n=200, seed=1)
    after = chaffinch.select(newer, "y", model=BY_NAME, store=store)
    assert {"x2", "x3"} <= set(after.features)
    rows = rows_of(after)
    held_out = pd.read_parquet(after.folder / "out_of_fold.parquet").set_index("row").sort_index()
    former = np.empty(len(rows))
    for fold in held_out["fold"].unique():
        is_in = (held_out["fold"] == fold).to_numpy()
        line = LinearRegression().fit(rows[~is_in][before.features], rows[~is_in]["y"])
        former[is_in] = line.predict(rows[is_in][before.features])

    loss = chaffinch.difference(before, after).loss
    assert loss.before == pytest.approx(np.square(former - rows["y"]).mean())
    assert loss.after == pytest.approx(after.losses["out_of_fold"]["selected"])
    assert (loss.units, loss.verdict) == (len(rows), "better")


def test_a_feature_and_a_target_in_another_unit_are_rescaled(before, store):
    table = causes("x1", "x2", seed=1)
    other = table.assign(x1=1000 * table["x1"], y=100 * table["y"])
    found = chaffinch.difference(before, run_of(other, store))
    assert list(found.rescaled) == ["x1", "y"]
    assert any("Rescaled: x1 (reaches to " in line for line in lines_of_difference(found))


def test_a_feature_that_lost_most_of_its_values_is_emptied(before, store):
    def left(share):
        newer = causes("x1", "x2", seed=1)
        is_left = np.random.default_rng(2).random(len(newer)) < share
        found = chaffinch.difference(
            before, run_of(newer.assign(x1=newer["x1"].where(is_left)), store, keep=["x1"])
        )
        emptied = "  Emptied: x1 (95% missing, was 0%)" in lines_of_difference(found)
        assert emptied == bool(found.emptied)
        return list(found.emptied)

    assert left(0.05) == ["x1"]
    assert left(0.2) == []


def test_a_set_that_explains_less_than_half_of_what_it_did_is_named(before, store):
    newer = causes("x1", "x2", seed=1)
    found = chaffinch.difference(before, run_of(newer, store))
    (least, _), (_, most) = found.explained
    assert 0.5 < least < most < 1
    assert found.explains_less == ""
    random = np.random.default_rng(3)
    # each column is distributed as before; one of two that is left explains about half
    one_left = newer.assign(x1=random.permutation(newer["x1"]))
    found = chaffinch.difference(before, run_of(one_left, store, keep=["x1"]))
    assert (found.is_same, found.explains_less) == (True, "")
    none_left = newer.assign(y=random.permutation(newer["y"]))
    found = chaffinch.difference(before, run_of(none_left, store, keep=["x1", "x2"]))
    assert found.is_same
    assert found.explains_less.startswith("the model explains at most ")
    assert any("Explains less: the model" in line for line in lines_of_difference(found))


def test_many_values_in_new_categories_are_unseen(store):
    def table(names, seed):
        random = np.random.default_rng(seed)
        made = pd.DataFrame({"kind": random.choice(names, 300), "x": random.normal(size=300)})
        return made.assign(y=made["x"] + (made["kind"] == "a") + random.normal(size=300) / 9)

    def unseen(*names):
        newer = run_of(table(names, 1), store, keep=["kind"])
        return chaffinch.difference(before, newer).unseen

    before = run_of(table(["a", "b"], 0), store, keep=["kind"])
    assert unseen("a", "b", "c") == {"kind": "36% of its values"}
    assert unseen("a", "b", *"a" * 5, *"b" * 5, "c") == {}


def test_other_classes_of_the_target_are_a_change_of_it(store):
    def of_classes(*names, seed=0):
        table = causes("x1", "x2", seed=seed)
        cut = np.linspace(0, 1, len(names) + 1)[1:-1]
        classes = np.array(names)[np.digitize(table["y"].rank(pct=True), cut)]
        return run_of(table.assign(y=classes), store)

    yes_no = of_classes("no", "yes")
    for names, change in (
        (("no", "yes"), ""),
        (("0", "1"), "has other classes (new: '0' and '1', missing: 'no' and 'yes')"),
        (("no", "unknown", "yes"), "has other classes (new: 'unknown')"),
    ):
        found = chaffinch.difference(yes_no, of_classes(*names, seed=1))
        assert found.target_change == change
        assert (f"  The target {change}" in lines_of_difference(found)) == bool(change)


def test_the_same_features_make_no_difference(before, store):
    again = run_of(causes("x1", "x2", seed=2), store)
    found = chaffinch.difference(before, again)
    assert found.is_same
    assert (found.loss, found.why_no_loss) == (None, "both keep the same features")
    assert found.share_changed == 0
    assert [drift.feature for drift in found.drift] == ["x1", "x2", "y"]


def test_runs_go_by_result_name_folder_or_contract(before, after, store, tmp_path):
    whole = chaffinch.difference(before, after)
    for one, other in ((before.run, after.run), (before.folder, str(after.folder))):
        assert chaffinch.difference(one, other, store=store) == whole
    alone = tmp_path / "alone.json"
    shutil.copy(before.folder / "selection.json", alone)
    found = chaffinch.difference(alone, after)
    assert found.as_json() == {**whole.as_json(), "before": ""}


def test_without_a_run_there_is_no_loss_and_without_a_table_no_drift(before, after, tmp_path):
    alone = tmp_path / "alone.json"
    shutil.copy(after.folder / "selection.json", alone)
    found = chaffinch.difference(before, alone)
    assert found.loss is None
    assert found.why_no_loss.startswith("the second contract came by itself, without the run")
    assert (found.gained, len(found.drift)) == (("x3",), 4)  # the table is in the first one's store

    moved = tmp_path / "store" / "runs" / after.run
    shutil.copytree(after.folder, moved)
    shutil.copy(after.folder.parents[1] / "store.json", tmp_path / "store")
    found = chaffinch.difference(alone, moved, store=tmp_path / "nowhere")
    assert found.is_same
    other = tmp_path / "other.json"
    shutil.copy(before.folder / "selection.json", other)
    found = chaffinch.difference(other, moved, store=tmp_path / "nowhere")
    assert (found.loss, found.drift) == (None, ())
    for why in (found.why_no_loss, found.why_no_drift):
        assert "is not in" in why
        assert why.endswith("select again with this store")


def test_files_of_the_run_that_were_changed_are_not_fitted_on(before, after, store, tmp_path):
    copy = tmp_path / "store" / "runs" / after.run
    shutil.copytree(store, tmp_path / "store")
    assert chaffinch.difference(before, copy).loss is not None
    splits = pd.read_parquet(copy / "splits.parquet")
    splits.iloc[::-1].reset_index(drop=True).to_parquet(copy / "splits.parquet")
    found = chaffinch.difference(before, copy)
    assert found.loss is None
    assert "have changed since they were written" in found.why_no_loss


def test_what_the_newer_rows_lack_is_gone_and_the_rest_is_refitted(before, store):
    newer = causes("x2", "x3", seed=1).drop(columns=["x1"])
    found = chaffinch.difference(before, run_of(newer, store))
    assert found.gone == {"x1": "no such column"}
    alone = run_of(newer, store, n_features=1, keep=["x2"])
    assert found.loss.before == alone.losses["test"]["selected"]


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ({"x1": 3.0, "x2": ["a", "b", "c"] * 200}, {},
         ("constant", "was a number, is a category now")),
        ({"x1": [True, False, True] * 200, "x2": 3.0}, {"drop": ["x2"]},
         ("was a number, is a boolean now", "left out as asked")),
        ({"x1": np.arange(1, 601)}, {"weight": "x1"}, ("the weight column now",)),
    ],
)  # fmt: skip
def test_why_it_is_gone(before, store, columns, options, why):
    after = run_of(causes("x3", "x4", seed=1).assign(**columns), store, **options)
    found = chaffinch.difference(before, after)
    assert found.gone == dict(zip(("x1", "x2"), why, strict=False))
    assert not found.is_same


def test_of_an_early_contract_a_number_may_have_been_true_and_false(before, store, tmp_path):
    content = before.contract.to_dict()
    for feature in content["features"]:
        del feature["values"]
    early = tmp_path / "early.json"
    early.write_text(json.dumps(content))
    newer = causes("x2", "x3", seed=1).assign(x1=[True, False, True] * 200)
    assert chaffinch.difference(early, run_of(newer, store), store=store).gone == {}


def test_a_category_in_another_coding_is_gone(store):
    options = {"target": "churned", "keep": ["colour"], "n_features": 1}
    table = good_table(300)
    before = run_of(table, store, **options)
    for codes in ((0, 1, 2), ("R", "G", "B")):
        colours = dict(zip(sorted(set(table["colour"])), codes, strict=True))
        recoded = table.assign(colour=table["colour"].map(colours))
        after = run_of(recoded, store, columns={"categorical": ["colour"]}, **options)
        found = chaffinch.difference(before, after)
        assert found.gone == {"colour": "has none of its former categories now"}
    assert chaffinch.difference(before, before).gone == {}


def test_where_nothing_of_the_first_set_is_left_the_loss_cannot_be_said(before, store):
    after = run_of(causes("x3", "x4").drop(columns=["x1", "x2"]), store)
    found = chaffinch.difference(before, after)
    assert found.loss is None
    assert found.why_no_loss == "no feature of the first set is left in the newer rows"
    assert found.share_changed == 1


def test_a_feature_that_was_gained_and_alone_tells_the_target_is_named(before, store):
    newer = causes("x1", "x2", seed=1)
    leaky = newer.assign(late=newer["y"] * 2 + 1)
    found = chaffinch.difference(before, run_of(leaky, store, n_features=1))
    assert found.gained == found.leaks == ("late",)
    known = run_of(leaky, store, n_features=1, keep=["late"])
    assert chaffinch.difference(before, known).leaks == ()


def mostly_the_target(table):
    """Return the target of a table, with 3 % of its values exchanged."""
    random = np.random.default_rng(3)
    is_exchanged = random.random(len(table)) < 0.03
    return np.where(is_exchanged, random.permutation(table["y"]), table["y"])


def half_of_the_noise(table):
    """Return a number that explains about half of what x1 and x2 leave of the target."""
    rest = table["y"] - 2 * table["x1"] - 2 * table["x2"]
    return rest + np.random.default_rng(3).normal(size=len(table))


def of_two_classes(table):
    return table.assign(y=np.where(table["y"] > 0, 1, 0))


@pytest.mark.parametrize(
    ("of_target", "options"),
    [
        (lambda table: table, {}),
        (lambda table: table, {"loss": "r2"}),
        (of_two_classes, {}),
        (of_two_classes, {"loss": "roc_auc"}),
    ],
)
@pytest.mark.usefixtures("few_resamples")
def test_a_new_column_that_takes_away_most_of_the_error_is_named(store, of_target, options):
    before = run_of(of_target(causes("x1", "x2")), store, **options)
    newer = of_target(causes("x1", "x2", seed=1))
    leaky = newer.assign(late=mostly_the_target(newer))
    found = chaffinch.difference(before, run_of(leaky, store, n_features=3, **options))
    assert found.leaks == ()
    assert list(found.loss.halved_by) == ["late"]
    assert 0.6 < found.loss.halved_by["late"] < 0.95
    assert any("Perhaps a leak: a new column takes" in line for line in lines_of_difference(found))


def test_an_improvement_of_moderate_size_or_by_a_former_candidate_is_no_near_leak(before, store):
    newer = causes("x1", "x2", seed=1)
    better = newer.assign(extra=half_of_the_noise(newer))
    found = chaffinch.difference(before, run_of(better, store, n_features=3))
    assert (found.gained, found.loss.verdict, found.loss.halved_by) == (("extra",), "better", {})
    candidate = chaffinch.difference(before, run_of(causes("x2", "x3", seed=1), store))
    assert candidate.loss.after < candidate.loss.before / 2
    assert candidate.loss.halved_by == {}


def test_an_estimator_of_ones_own_cannot_be_refitted(before, store):
    own = run_of(causes("x2", "x3", seed=1), store, model=LinearRegression(fit_intercept=False))
    found = chaffinch.difference(before, own)
    assert found.loss is None
    assert found.why_no_loss.startswith("the model LinearRegression may have been an estimator of")


def test_classes_categories_groups_and_other_models(store):
    table = good_table(300).assign(shop=np.arange(300) % 60)
    model = chaffinch.ModelSettings(name="lightgbm", tuning="none")
    options = {"target": "churned", "group": "shop", "model": model}
    before = run_of(table, store, keep=["age"], n_features=1, **options)
    after = run_of(table, store, keep=["colour"], n_features=2, **options)
    found = chaffinch.difference(before, after)
    assert found.loss.name == "log_loss"
    assert found.loss.units < 60  # groups, not rows
    assert found.loss.after == after.losses["test"]["selected"]
    assert found.loss.before == before.losses["test"]["selected"]
    assert {one.measure for one in found.drift} == {"Kolmogorov-Smirnov", "total variation"}


def test_two_targets_have_no_difference(before, store):
    table = causes("x1", "x2").rename(columns={"y": "z"})
    other = run_of(table, store, target="z")
    with pytest.raises(InputError, match=f"{before.run} predicts 'y' but {other.run} 'z'; name tw"):
        chaffinch.difference(before, other)


def test_in_words(before, after, store):
    first, loss, drift = lines_of_difference(chaffinch.difference(before, after))
    assert first == "Gained: x3. Lost: x1. Changed: 2 of the 3 features of either, 66.7 %."
    assert "with the new 2 features against" in loss
    assert "with the former 2; difference -" in loss
    assert drift.startswith(
        "Largest drift between the tables (0: same distribution, 1: no overlap): x2 0.9"
    )
    fewer = run_of(causes("x1", "x2", "x3", n=100, seed=4).drop(columns=["x2"]), store)
    first, gone, loss, _ = lines_of_difference(chaffinch.difference(before, fewer))
    assert gone == "  Gone: x2 (no such column)"
    assert "with what is left of the former 2" in loss
    assert "to compare by, and there are 15" in loss
    assert lines_of_difference(chaffinch.difference(before, before)) == [
        "Both keep the same 2 features.",
        "No feature of either moved between the tables.",
    ]


@pytest.mark.parametrize(
    ("drift", "said"),
    [
        ((1.0, 0.0, 0.0, 500, 500), "x 1"),
        ((0.9998, 0.0, 0.0, 5000, 5000), "x over 0.999"),  # some are where they were
        ((0.0002, 0.0, 0.0, 5000, 5000), "x under 0.001"),
        ((0.5, 0.0, 0.0, 500, 500), "x 0.5"),
        ((0.25, 0.1, 0.3, 90, 70), "x 0.25 (missing 10 %, now 30 %)"),
        ((0.0, 0.0, 0.0001, 9999, 9998), "x 0 (missing 0 %, now 0.01 %)"),
        ((1.0, 0.0, 0.0, 3, 500), "x 1 (of 3 values, now 500)"),
        ((None, 0.0, 1.0, 400, 0), "x \N{EN DASH} (missing 0 %, now 100 %; of 400 values, now 0)"),
    ],
)
def test_how_far_a_feature_moved_is_said_as_it_is(before, after, drift, said):
    one = FeatureDrift("x", "Kolmogorov-Smirnov", *drift)
    found = replace(chaffinch.difference(before, after), drift=(one,))
    assert lines_of_difference(found)[-1].endswith(f"no overlap): {said}.")
