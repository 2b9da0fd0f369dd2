"""`chaffinch.masked_loss` of models that read categories, text and truth values."""

from __future__ import annotations

import logging

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.compose import make_column_transformer
from sklearn.linear_model import Ridge
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from chaffinch import InputError, masked_loss
from tests.selection.masked_loss.given_models import XGB, lgbm, table

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


def with_colours(n: int, seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    X, y = table(n, seed)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"])
    frame["count"] = X[:, 5].astype(np.int64)
    frame["is_big"] = X[:, 3] > 1
    colours = np.array(["red", "green", "blue"], dtype=object)[X[:, 5].astype(int)]
    frame["colour"] = colours
    frame.loc[frame.index[::9], "colour"] = None
    frame["kind"] = pd.Categorical(colours, categories=["blue", "red", "green"])
    return frame, y


@pytest.mark.parametrize("n", [5, 90])
def test_lightgbm_reads_categories_as_it_was_trained_to(n: int) -> None:
    frame, y = with_colours(300, 0)
    model = lightgbm.LGBMRegressor(**lgbm()).fit(frame.drop(columns="colour"), y)
    rows, y = with_colours(n, 1)
    rows = rows.drop(columns="colour")
    # other categories than in training, in another order, one of them new to the model
    rows["kind"] = pd.Categorical(
        rows["kind"].astype(object).where(np.arange(n) > 0, "violet"),
        categories=["violet", "red", "blue", "green"],
    )
    baseline = {"kind": "green", "b": -1.0, "is_big": True}
    engine = masked_loss(model, rows, y, loss="squared_error", baseline=baseline)
    assert type(engine).__name__ == "TreeEngine"
    assert engine.loss == pytest.approx(np.mean((model.predict(rows) - y) ** 2), rel=1e-12)
    losses = engine.without_each()
    for name, value in baseline.items():
        changed = rows.assign(**{name: value})
        changed["kind"] = pd.Categorical(changed["kind"], categories=rows["kind"].cat.categories)
        expected = np.mean((model.predict(changed) - y) ** 2)
        assert losses[list(rows).index(name)] == pytest.approx(expected, rel=1e-12)


def pipeline_of_columns(frame: pd.DataFrame, y: np.ndarray):
    encode = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["colour", "kind", "count", "is_big"]),
        remainder="passthrough",
    )
    return make_pipeline(encode, Ridge()).fit(frame, y)


def boosting_of_categories(frame: pd.DataFrame, y: np.ndarray):
    return xgboost.XGBRegressor(enable_categorical=True, **XGB).fit(frame, y)


@pytest.mark.parametrize("fit", [pipeline_of_columns, boosting_of_categories])
def test_what_only_the_model_can_read_it_is_given_as_it_was(fit, caplog) -> None:
    frame, y = with_colours(120, 0)
    if fit is boosting_of_categories:
        frame = frame.drop(columns="colour")
    model = fit(frame, y)
    baseline = {"kind": "red", "count": 0.5, "is_big": False, "a": 0.25}
    baseline |= {"colour": "green"} if "colour" in frame else {}
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, frame, y, loss="absolute_error", baseline=baseline)
    assert "only its own library knows how it reads columns of categories" in caplog.text
    losses = engine.without_each()
    for name, value in baseline.items():
        changed = frame.assign(**{name: value})
        changed["kind"] = pd.Categorical(changed["kind"], categories=frame["kind"].cat.categories)
        expected = np.mean(abs(model.predict(changed) - y))
        assert losses[list(frame).index(name)] == pytest.approx(expected, rel=1e-12)
    assert losses[list(frame).index("c")] == pytest.approx(
        np.mean(abs(model.predict(frame.assign(c=frame["c"].mean())) - y)), rel=1e-9
    )


def test_a_category_that_has_no_number_is_masked_by_the_most_frequent_one() -> None:
    frame, y = with_colours(120, 0)
    model = pipeline_of_columns(frame, y)
    losses = masked_loss(model, frame, y, loss="squared_error", baseline="zero").without_each()
    often = frame["colour"].mode()[0]
    expected = np.mean((model.predict(frame.assign(colour=often)) - y) ** 2)
    assert losses[list(frame).index("colour")] == pytest.approx(expected, rel=1e-12)


def test_a_category_that_there_is_not() -> None:
    frame, y = with_colours(60, 0)
    model = pipeline_of_columns(frame, y)
    with pytest.raises(InputError, match="baseline of 'kind' must be one of its categories"):
        masked_loss(model, frame, y, loss="r2", baseline={"kind": "violet"})
    frame["when"] = pd.Timestamp("2024-01-01")
    with pytest.raises(InputError, match="column 'when' of X must hold numbers, categories"):
        masked_loss(model, frame, y, loss="r2")


def test_a_category_of_true_and_false_is_a_category():
    random = np.random.default_rng(0)
    X = pd.DataFrame({"a": random.normal(size=200), "c": random.random(200) > 0.4})
    y = (X["a"] + X["c"] > 0.5).astype(int)
    X["c"] = X["c"].astype("category")
    model = lightgbm.LGBMClassifier(n_estimators=5, verbose=-1).fit(X, y)
    engine = masked_loss(model, X, y, loss="log_loss", baseline={"a": 0.0, "c": False})
    masked = X.assign(c=pd.Categorical([False] * 200, categories=[False, True]))
    assert engine.without_each()[1] == pytest.approx(log_loss(y, model.predict_proba(masked)))
