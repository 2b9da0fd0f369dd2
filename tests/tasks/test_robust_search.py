"""Robust elimination in a run: which rows it sees, who computes, what it refuses."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

import chaffinch
from chaffinch import InputError, ModelSettings
from tests.made_up import good_table

QUICK = ModelSettings(name="linear", tuning="none")


def select(table, **options):
    options = {"method": "robust_elimination", "model": QUICK, "n_features": 3, **options}
    return chaffinch.select(table, "churned", **options)


def test_whoever_computes_the_contract_is_the_same() -> None:
    table = good_table(300)
    model = ModelSettings(name="lightgbm", tuning="none", folds=3)
    alone = select(table, model=model)
    assert select(table, model=model, cluster="local", workers=2).contract == alone.contract


def test_it_says_how_often_it_trains(caplog) -> None:
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        select(good_table(), model=QUICK.model_copy(update={"folds": 4}))
    said = [r.getMessage() for r in caplog.records if r.name.endswith("robust_search")]
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
