"""What the report shows of the final model: importance, stand-ins, predictions, promotion."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import ModelSettings
from chaffinch.tasks.pipeline import explanation
from chaffinch.tasks.reporting.changes import summarise_promotion
from chaffinch.tasks.reporting.text import number
from tests.tasks.reporting.synthetic_report import Page
from tests.tasks.snapshots import check_snapshot

LINEAR = ModelSettings(name="linear", tuning="none")
THREE_FOLDS = LINEAR.model_copy(update={"folds": 3})


def table_of(n_rows: int = 600, seed: int = 0, shift: float = 0.0) -> pd.DataFrame:
    """`copy` is nearly `a`; the loss rises by 4 without `a` or `copy`, by 1 without `b`."""
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n_rows, 4)), columns=["a", "b", "noise", "other"])
    table["copy"] = table["a"] + 0.05 * random.normal(size=n_rows)
    table["shop"] = np.where(table["b"] > 0, "north", "south")
    table["y"] = 2 * table["a"] + table["b"] + 0.1 * random.normal(size=n_rows)
    table["other"] += shift
    return table


def select(table, **given) -> chaffinch.SelectionResult:
    return chaffinch.select(table, "y", **{"model": LINEAR, **given})


def explained(result: chaffinch.SelectionResult) -> dict:
    assert result.folder is not None
    return json.loads((result.folder / "explanation.json").read_bytes())


def rises(found: dict) -> dict[str, float]:
    return {one["feature"]: one["rise"] for one in found["importance"]["features"]}


@pytest.fixture(scope="module")
def promoted(tmp_path_factory) -> tuple[Path, chaffinch.SelectionResult]:
    """Return a folder with a table and a store, and the run there that is promoted."""
    folder = tmp_path_factory.mktemp("promoted")
    source, store = file_of(table_of(), folder), folder / "store"
    first = select(source, method="correlation", n_features=2, store=store)
    chaffinch.promote(first, store=store)
    return folder, first


@pytest.fixture
def since(promoted, tmp_path) -> tuple[Path, Path]:
    """Return the table that was promoted from, and a store of one's own."""
    shutil.copytree(promoted[0], tmp_path / "copy")
    return tmp_path / "copy" / "orders.parquet", tmp_path / "copy" / "store"


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> chaffinch.SelectionResult:
    store = tmp_path_factory.mktemp("store")
    return select(table_of(), method="correlation", n_features=3, store=store)


def test_importance_is_the_rise_of_the_test_loss_once_a_feature_has_its_baseline(stored) -> None:
    """The oracle is the masked loss of the model and rows that the result gives."""
    table = table_of()
    test = table[(stored.parts(table) == "test").to_numpy()]
    baseline = {one["name"]: one["baseline"] for one in stored.contract["features"]}
    found = explained(stored)

    def loss(rows: pd.DataFrame) -> float:
        return float(np.mean((stored.model.predict(rows) - test["y"]) ** 2))

    expected = {name: loss(test.assign(**{name: baseline[name]})) - loss(test) for name in baseline}
    assert rises(found) == pytest.approx(expected)
    assert found["importance"]["loss"] == pytest.approx(loss(test))
    assert list(rises(found)) == sorted(expected, key=expected.__getitem__, reverse=True)


def test_the_price_of_a_feature_is_a_share_of_what_the_model_explains(stored) -> None:
    measured, constant = explained(stored)["importance"], stored.contract["comparison"]
    explains = constant["constant_loss"] - measured["loss"]
    for one in measured["features"]:
        lost = one["rise"] / explains
        assert max(0, lost) < one["price"] < lost + 0.3


def test_without_a_test_part_models_without_the_row_give_the_importance(
    tmp_path, undrawn_here
) -> None:
    result = select(table_of(), method="auto", n_features=4, model=THREE_FOLDS, store=tmp_path)
    assert result.contract["judged_on"] == "out_of_fold"
    found = explained(result)
    assert found["importance"]["rows"] == 600
    known = rises(found)
    assert known["b"] == pytest.approx(1, abs=0.2)
    assert sum(known[name] for name in ("a", "copy") if name in known) == pytest.approx(4, abs=0.8)


def test_a_price_by_refits_is_that_of_models_fitted_without_the_column(stored, tmp_path) -> None:
    """The oracle is ridge regression on the rows that the final model is fitted on."""
    table, kept = table_of(), list(stored.features)
    settings = {"price_columns": True}
    result = select(
        table, method="correlation", n_features=3, settings=settings, store=tmp_path / "store"
    )
    part = stored.parts(table).to_numpy()
    fitted, test = np.isin(part, ["train", "mask_validation"]), part == "test"

    def loss(names: list[str]) -> float:
        model = make_pipeline(StandardScaler(), Ridge()).fit(
            table.loc[fitted, names], table.loc[fitted, "y"]
        )
        return float(np.mean((model.predict(table.loc[test, names]) - table.loc[test, "y"]) ** 2))

    assert list(result.features) == kept
    expected = {name: loss([n for n in kept if n != name]) - loss(kept) for name in kept}
    assert rises(explained(result)) == pytest.approx(expected, abs=1e-9)
    text = Page(result.report(tmp_path / "report.html").read_bytes()).text
    assert "once models are fitted without a feature" in text
    why = result.why().set_index("column")
    assert set(why.loc[kept, "price_by"]) == {"refits"}


@pytest.mark.parametrize("by_refits", [False, True])
def test_what_can_only_go_together_has_the_price_of_the_group(by_refits, tmp_path) -> None:
    """The oracle is the loss of a model that has, or is given, nothing of the group."""
    table = table_of()
    groups = [chaffinch.Group(["a", "copy"], all_or_none=True)]
    result = chaffinch.select(
        table,
        "y",
        model=LINEAR,
        method="correlation",
        n_features=3,
        constraints=chaffinch.Constraints(groups=groups),
        settings={"price_columns": by_refits},
        store=tmp_path,
    )
    assert {*result.features} >= {"a", "copy"}
    part = result.parts(table).to_numpy()
    fitted, test = table[np.isin(part, ["train", "mask_validation"])], table[part == "test"]
    if by_refits:
        left = [name for name in result.features if name not in ("a", "copy")]
        model = make_pipeline(StandardScaler(), Ridge())
        predicted = model.fit(fitted[left], fitted["y"]).predict(test[left])
    else:
        baseline = {one["name"]: one["baseline"] for one in result.contract["features"]}
        predicted = result.model.predict(test.assign(a=baseline["a"], copy=baseline["copy"]))
    before = np.mean((result.model.predict(test) - test["y"]) ** 2)
    known = explained(result)["importance"]["features"]
    of_group = [one for one in known if one["feature"] in ("a", "copy")]
    for one in of_group:
        assert one["rise"] == pytest.approx(np.mean((predicted - test["y"]) ** 2) - before)
        assert one["together"] == ["a", "copy"]
        assert one == {**of_group[0], "feature": one["feature"]}
    assert len(of_group) == 2
    assert all("together" not in one for one in known if one not in of_group)
    why = result.why().set_index("column")
    assert why.loc["a", "price_together"] == ["a", "copy"]
    assert why.loc["a", "price"] == why.loc["copy", "price"] > 0.5


def test_fitted_without_a_column_its_near_copy_stands_for_it(tmp_path, undrawn_here) -> None:
    options = {"method": "auto", "keep": ["a", "copy", "b"], "model": THREE_FOLDS}
    masked, refitted = (
        rises(explained(select(table_of(), settings=settings, store=tmp_path, **options)))
        for settings in ({}, {"price_columns": True})
    )
    assert masked["a"] + masked["copy"] > 1
    assert max(refitted["a"], refitted["copy"]) < 0.05
    assert refitted["b"] == pytest.approx(1, abs=0.2)


def test_dropped_features_come_with_the_kept_one_that_stands_for_them(
    tmp_path, undrawn_here
) -> None:
    found = explained(select(table_of(), method="mrmr", n_features=2, store=tmp_path))
    (one,) = (one for one in found["stand_ins"]["groups"] if one["feature"] in ("a", "copy"))
    (other,) = one["dropped"]
    assert {one["feature"], other["feature"]} == {"a", "copy"}
    assert other["association"] > 0.99


def test_the_association_of_every_feature_with_the_target_is_in_all_forms(stored, tmp_path) -> None:
    """The oracle is Spearman's correlation in the training rows."""
    table = table_of()
    train = table[(stored.parts(table) == "train").to_numpy()]
    correlations = train.corr("spearman", numeric_only=True)["y"].abs().drop("y")
    found = explained(stored)["with_target"]
    assert found["rows"] == len(train)
    of_numbers = {name: found["associations"][name] for name in correlations.index}
    assert of_numbers == pytest.approx(correlations.to_dict(), abs=6e-4)
    assert 0.3 < found["associations"]["shop"] < of_numbers["b"] + 0.1
    columns = json.loads(stored.report(tmp_path / "report.json").read_bytes())["columns"]
    assert {one["column"]: one["association"] for one in columns if one["state"] != "target"} == (
        found["associations"]
    )
    page = Page(stored.report(tmp_path / "report.html").read_bytes())
    shown = {
        row[0]: row[rows[0].index("Association")]
        for caption, rows in page.tables.items()
        if "Why" in rows[0]
        for row in rows[1:]
    }
    assert shown == {name: number(value) for name, value in found["associations"].items()}


@pytest.mark.parametrize(
    ("n_rows", "loss", "reason"),
    [
        (600, "r2", "r2 is a score of all rows together."),
        (60, None, "at least 20 rows, groups or blocks of time are needed"),
    ],
)
def test_where_there_is_no_interval_the_report_gives_the_reason(
    n_rows, loss, reason, tmp_path, few_resamples
) -> None:
    result = select(table_of(n_rows), method="correlation", n_features=2, loss=loss)
    text = Page(result.report(tmp_path / "report.html").read_bytes()).text
    assert f"There are no intervals: {reason}" in text


def test_a_class_that_some_of_the_rows_lack_leaves_the_importance_out(
    tmp_path, monkeypatch, few_resamples
) -> None:
    monkeypatch.setattr(explanation, "_MOST_ROWS", 5)
    table = table_of(400)
    table["y"] = np.where(np.arange(400) % 20, "often", "rare")
    table["a"] += 3 * (table["y"] == "rare")
    result = select(table, method="correlation", n_features=2, loss="roc_auc")
    text = Page(result.report(tmp_path / "report.html").read_bytes()).text
    assert "It was not measured: the roc_auc of 5 rows drawn at random is undefined." in text


def test_no_more_rows_and_features_are_measured_than_the_limits(
    tmp_path, monkeypatch, undrawn_here
) -> None:
    for name, most in (("_MOST_ROWS", 50), ("MOST_PRICES", 3)):
        monkeypatch.setattr(explanation, name, most)
    found = explained(select(table_of(), method="correlation", n_features=5, store=tmp_path))
    measured = found["importance"]["features"]
    assert (found["importance"]["rows"], found["importance"]["n_kept"]) == (50, 5)
    assert len(measured) == 3
    assert found["stand_ins"]["rows"] == 50


def test_of_many_rows_as_few_folds_are_refitted_as_have_enough(
    tmp_path, monkeypatch, undrawn_here
) -> None:
    monkeypatch.setattr(explanation, "_MOST_ROWS", 100)  # a fold has 200
    fitted = []
    of_fold = explanation._predictions_of_fold

    def counted(shared, item):
        fitted.append(item)
        return of_fold(shared, item)

    monkeypatch.setattr(explanation, "_predictions_of_fold", counted)
    options = {"method": "auto", "n_features": 2, "model": THREE_FOLDS, "store": tmp_path}
    found = explained(select(table_of(), **options))
    assert found["importance"]["rows"] == 100
    assert len(fitted) == 1
    ((outside, held_out),) = fitted
    assert not set(outside) & set(held_out)


def test_a_run_of_a_release_without_explanations_can_still_be_read(stored) -> None:
    from chaffinch.storage.runs.store import Run
    from chaffinch.tasks.pipeline.report import content_of
    from chaffinch.tasks.pipeline.selection_run import StageResults
    from chaffinch.tasks.reporting import render_report

    results = StageResults(stored.run, Run(stored.folder).records())
    results.records["evaluate"].files.pop("explanation.json")
    page = Page(render_report(content_of(results)))
    assert page.headings[:3] == ["Verdict", "How sure the verdict is", "Features"]
    assert "Importance of the kept features" not in page.headings


def test_a_result_has_the_importances_and_shows_them_in_a_notebook(stored) -> None:
    again = chaffinch.load_run(stored.run, store=stored.folder.parent.parent)
    for result in (stored, again):
        table = result.importance
        assert dict(zip(table["feature"], table["rise"], strict=True)) == rises(explained(stored))
        assert (table["low"] <= table["rise"]).all()
        assert (table["rise"] <= table["high"]).all()
        assert "<th>price</th>" in result._repr_html_()


def file_of(table: pd.DataFrame, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    table.to_parquet(folder / "orders.parquet")
    return folder / "orders.parquet"


def test_after_a_promotion_the_report_answers_what_changed(promoted, since, tmp_path) -> None:
    first, (_, store) = promoted[1], since
    newer = file_of(table_of(seed=1, shift=2.0), tmp_path / "newer")
    second = select(newer, method="correlation", n_features=5, store=store)
    page = Page((second.folder / "report.html").read_bytes())
    entered = [name for name in second.features if name not in first.features]
    assert len(entered) == 3
    losses = [f"{one.losses['test']['selected']:.4g}" for one in (second, first)]
    assert (
        f"Since the last promotion . 5 features in place of 2. Entered: {', '.join(entered)}. "
        f"Squared error is {losses[0]} and was {losses[1]}, on other rows, not comparable. "
        "The distribution changed of other."
    ) in page.text
    assert page.headings[2] == "Since the last promotion"
    then, now = (rises(explained(one)) for one in (first, second))
    assert {*now} == {*second.features}
    shown = page.tables["Importance then and now (5)"][1:]
    most = {name: max(now[name], then.get(name, 0)) for name in now}
    assert [row[0] for row in shown] == sorted(most, key=lambda name: -most[name])
    for name, change, before, after in shown:
        assert [before, after] == [number(rise.get(name)) for rise in (then, now)]
        is_new = name not in first.features
        assert change == ("entered" if is_new else number(now[name] - then[name], "+"))
    longest = max(most.values())
    bars = [
        ("path", {"class": of, "d": f"M0 {top}h{math.ceil(72 * rise[row[0]] / longest)}"})
        for row in shown
        for of, top, rise in (("then", 4, then), ("now", 13, now))
        if rise.get(row[0], 0) > 0
    ]
    assert [one for one in page.elements if one[1].get("class") in ("then", "now")] == bars
    drift = page.tables["Drift of 6 columns: kept then or now, or the target"][1:]
    assert [row[0] for row in drift if row[1] == "moved"] == [drift[0][0]] == ["other"]
    assert {row[0] for row in drift} == {*second.features, second.contract.target.name}
    night = chaffinch.run_history("orders", store=store).set_index("run").loc[second.run]
    assert (night["moved"], night["state"]) == (("other",), "finished")
    assert night["features"] == tuple(second.features)


def test_without_the_promoted_run_the_report_names_what_changed_alone(since, tmp_path) -> None:
    _, store = since
    (run,) = (store / "runs").iterdir()
    shutil.rmtree(run)
    newer = file_of(table_of(seed=1), tmp_path / "newer")
    second = select(newer, method="correlation", n_features=5, store=store)
    page = Page((second.folder / "report.html").read_bytes())
    assert {tuple(row[1:]) for row in page.tables["Features that changed (3)"][1:]} == {
        ("entered",)
    }
    assert not [one for one in page.of("svg") if one.get("class") == "beside"]


def test_a_promoted_number_that_became_a_category_is_told_of(promoted, since, tmp_path) -> None:
    first, (_, store) = promoted[1], since
    name = first.features[0]
    table = table_of(seed=1)
    words = np.where(table[name] > 0, "high", "low")
    newer = file_of(table.assign(**{name: words}), tmp_path / "newer")
    second = select(newer, keep=first.features, method="correlation", n_features=2, store=store)
    page = Page((second.folder / "report.html").read_bytes())
    assert "The same 2 features as in use, by name." in page.text
    assert f"Gone: {name!r} (was a number, is a category now)." in page.text


def test_classes_of_a_target_drift_by_chance_as_categories_do(tmp_path) -> None:
    """By Hoeffding's inequality over all sets of five classes, of which the level is shared."""
    store, random = tmp_path / "store", np.random.default_rng(0)

    def table() -> pd.DataFrame:
        X = pd.DataFrame(random.normal(size=(300, 2)), columns=["a", "b"])
        return X.assign(y=np.digitize(X["a"] + X["b"], [-1.5, -0.5, 0.5, 1.5]).astype(str))

    options = {"method": "correlation", "n_features": 2, "store": store}
    first = chaffinch.select(file_of(table(), tmp_path), "y", model="linear", **options)
    chaffinch.promote(first, store=store)
    newer = file_of(table(), tmp_path / "newer")
    second = chaffinch.select(newer, "y", model="linear", **options)
    page = Page((second.folder / "report.html").read_bytes())
    rows = page.tables["Drift of 3 columns: kept then or now, or the target"][1:]
    by_chance = {row[0]: float(row[3]) for row in rows}
    level = 0.05 / (2 * 3)
    for name, n_events in (("a", 2), ("y", 2**5)):
        expected = np.sqrt(np.log(n_events / level) / 2 * (2 / 300))
        assert by_chance[name] == pytest.approx(expected, abs=0.001)


def test_another_set_of_equal_rows_has_no_drift(since) -> None:
    path, store = since
    again = select(path, method="correlation", n_features=2, seed=1, store=store)
    text = Page((again.folder / "report.html").read_bytes()).text
    assert "Drift was not measured: both runs have the same table." in text
    assert "on the same table" in text
    assert "not comparable" not in text


def test_what_cannot_be_compared_is_named_with_the_reason() -> None:
    cases = ({"run": None}, {"run": None, "damage": "orders.json is damaged"}, {"target": "price"})
    said = [summarise_promotion({"name": name} | case) for name in ("orders", "") for case in cases]
    check_snapshot("promotions", said)


def test_a_damaged_promotion_does_not_end_the_run(since) -> None:
    path, store = since
    (contract,) = (store / "promotions" / "contracts").glob("*.json")
    contract.write_text("{}")
    again = select(path, method="correlation", n_features=3, store=store)
    text = Page((again.folder / "report.html").read_bytes()).text
    assert f"What is promoted as orders cannot be read: {contract} has changed since" in text
