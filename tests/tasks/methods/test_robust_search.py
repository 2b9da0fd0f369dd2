"""Robust elimination in a run: which rows it sees, who computes, what it refuses."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import chaffinch
from chaffinch import InputError, ModelSettings
from chaffinch.methods import RobustElimination
from chaffinch.tasks.data.splitting.splits import Roles, fold_indices
from chaffinch.tasks.settings.selection import SelectionSettings
from tests.synthetic import good_table

pytestmark = pytest.mark.usefixtures("undrawn")

QUICK = ModelSettings(name="linear", tuning="none")


def select(table, **options):
    options = {"method": "robust_elimination", "model": QUICK, "n_features": 3, **options}
    return chaffinch.select(table, "churned", **options)


def test_whoever_computes_the_contract_is_the_same(scheduler) -> None:
    table = good_table(300)
    model = ModelSettings(name="lightgbm", tuning="none", folds=3)
    alone = select(table, model=model)
    assert select(table, model=model, cluster=scheduler).contract == alone.contract


def test_it_says_how_often_it_trains(caplog) -> None:
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        select(good_table(), model=QUICK.model_copy(update={"folds": 4}))
    said = [r.getMessage() for r in caplog.records if r.name.endswith("methods.robust_elimination")]
    assert said == ["robust_elimination trains model linear 4 times"]


def test_a_model_without_importances_can_be_used() -> None:
    model = ModelSettings(name="KNeighborsClassifier", tuning="none", folds=2)
    assert set(select(good_table(200), model=model).features) & {"age", "colour", "income"}


def test_in_time_order_folds_are_judged_on_later_rows() -> None:
    random = np.random.default_rng(2)
    table = pd.DataFrame(random.normal(size=(200, 4)), columns=list("abcd"))
    table["churned"], table["day"] = 2 * table["b"] - table["c"], np.arange(200)
    found = select(table, time="day", n_features=2)
    assert sorted(found.features) == ["b", "c"]


def test_a_model_that_uses_nothing_is_refused() -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 3)), columns=list("abc"))
    table["churned"] = random.normal(size=60)
    model = ModelSettings(
        name="lightgbm", tuning="none", folds=2, parameters={"min_child_samples": 1000}
    )
    with pytest.raises(InputError, match="model lightgbm makes no use of any of the 3 features"):
        select(table, model=model, n_features=1)


def test_the_report_says_that_features_were_masked(tmp_path) -> None:
    result = select(good_table(), store=tmp_path)
    report = (result.folder / "report.html").read_text()
    assert "Nothing was masked" not in report
    assert "a masked feature has it in every row" in report
    assert "the folds of the search; then fitting" in report


def linear_table(n=240):
    """Three features that predict the target among nine that do not."""
    random = np.random.default_rng(3)
    table = pd.DataFrame(random.normal(size=(n, 12)), columns=[f"x{j}" for j in range(12)])
    told = table[["x2", "x5", "x7"]].to_numpy() @ [3, 2, 1]
    return table.assign(churned=told + random.normal(size=n))


@pytest.fixture(scope="module")
def sized(tmp_path_factory):
    """A run that was not told how many features to keep, and its store."""
    store = tmp_path_factory.mktemp("sized")
    method = RobustElimination(within_one_standard_error=True)
    model = QUICK.model_copy(update={"folds": 4})
    return store, select(linear_table(), method=method, n_features=None, model=model, store=store)


def test_without_a_size_refits_on_the_folds_find_it(sized) -> None:
    store, found = sized
    assert found.features == ["x2", "x5", "x7"]
    assert found.settings["method"]["n_features"] is None

    parts = pd.read_parquet(found.folder / "splits.parquet")["part"]
    (table,) = (store / "datasets").rglob("table.parquet")
    rows = pd.read_parquet(table)[parts.isin(["train", "mask_validation"]).to_numpy()]
    folds = fold_indices(Roles(rows["churned"].to_numpy()), SelectionSettings(**found.settings))
    recorded = json.loads((found.folder / "stages" / "optimise_mask.json").read_bytes())
    assert [one["n_features"] for one in recorded["result"]["sizes"]][:5] == [12, 8, 6, 4, 3]
    for one in recorded["result"]["sizes"]:
        names = sorted(found.scores, key=found.scores.get)[-one["n_features"] :]
        losses = [line_loss(rows.iloc[fitted], rows.iloc[rest], names) for fitted, rest in folds]
        assert one["loss"] == pytest.approx(np.mean(losses), rel=1e-9)
        assert one["standard_error"] == pytest.approx(np.std(losses, ddof=1) / 2, rel=1e-6)


def line_loss(fitted, held_out, names):
    """Return the mean squared error of a line through some columns."""
    line = make_pipeline(StandardScaler(), Ridge()).fit(fitted[names], fitted["churned"])
    return np.mean((line.predict(held_out[names]) - held_out["churned"]) ** 2)


def test_such_a_run_is_read_back_and_shows_the_sizes(sized) -> None:
    store, found = sized
    assert chaffinch.load_run(found.run, store=store).contract == found.contract
    page = (found.folder / "report.html").read_text()
    assert "Cross-validated sizes" in page
    assert "It was found by <code>robust_elimination</code> itself" in page


def test_a_standard_error_is_for_a_size_that_is_found() -> None:
    with pytest.raises(InputError, match="within_one_standard_error is for a number of features"):
        RobustElimination(n_features=(3,), within_one_standard_error=True)
