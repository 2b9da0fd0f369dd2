"""What does not fit a given model, or each other, is refused by `chaffinch.masked_loss`."""

from __future__ import annotations

import functools

import lightgbm
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xgboost
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

from chaffinch import InputError, masked_loss
from chaffinch.tasks.selection.models.runtime import single_thread
from tests.selection.masked_loss.given_models import (
    D,
    Linear,
    boosted,
    fitted,
    gradients,
    own_function,
    table,
)

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def _one_thread():
    with single_thread():
        yield


FOREST = functools.cache(lambda: fitted(RandomForestClassifier(3, random_state=0), 3))


def with_a_hole(X: np.ndarray) -> np.ndarray:
    X = X.copy()
    X[3, 2] = np.nan
    return X


RIDGE = functools.cache(lambda: fitted(Ridge(), 0))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X, y: masked_loss(Ridge(), X, y, loss="r2"), "This Ridge instance is not fitted"),
        (
            lambda X, y: masked_loss(lightgbm.LGBMRegressor(), X, y, loss="r2"),
            "No booster found. Need to call fit beforehand",
        ),
        (
            lambda X, y: masked_loss(xgboost.XGBRegressor(), X, y, loss="r2"),
            "need to call fit or load_model beforehand",
        ),
        (
            lambda X, y: masked_loss(Ridge, X, y, loss="r2"),
            "model must be a trained LightGBM, XGBoost or scikit-learn model",
        ),
        (
            lambda X, y: masked_loss(fitted(LinearSVC(), 2), X, y, loss="roc_auc"),
            "LinearSVC gives no class probabilities, which 'roc_auc' needs",
        ),
        (
            lambda X, y: masked_loss(
                gradients(3, objective="multi:softmax"), X, y, loss="log_loss"
            ),
            "the Booster predicts class numbers with multi:softmax",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X[:, :4], y, loss="r2"),
            "X must have the 6 features that the model was trained on but has 4",
        ),
        (
            lambda X, y: masked_loss(boosted(0), X[:, :4], y, loss="r2"),
            "X must have the 6 features that the model was trained on but has 4",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X[0], y, loss="r2"),
            r"X must have rows and features, \(K, M\), but has shape \(6,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), [["a"] * 6], y, loss="r2"),
            "; give an array of numbers, or a pandas frame$",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y[:9], loss="r2"),
            r"y must have shape \(40,\), as X has rows, but has \(9,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", sample_weight=np.ones(3)),
            r"sample_weight must have shape \(40,\), as X has rows, but has \(3,\)",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", sample_weight=np.zeros(40)),
            "finite and above 0 but is 0 in row 1; give a finite number above 0 for each row, or",
        ),
        (
            lambda X, y: masked_loss(FOREST(), X, ["low", "great"] * 20, loss="log_loss"),
            "y must hold the model's classes, high, low, middle, but holds great",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, np.full(40, np.nan), loss="r2"),
            "y must have a value in every row but has none in row 1",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, ["a"] * 40, loss="r2"),
            "y must hold numbers but holds text, such as 'a'",
        ),
        (lambda X, y: masked_loss(RIDGE(), with_a_hole(X), y, loss="r2"), "Input X contains NaN"),
        (
            lambda X, y: masked_loss(Linear(D, 1), with_a_hole(X), y, loss="squared_error"),
            "the model must predict finite numbers but does not for row 3 of X, where 'x2' is",
        ),
        (
            lambda X, y: masked_loss(lambda X: X[:3], X, y, loss="r2"),
            "the model must predict 40 rows, as many as X has",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="log_loss"),
            "loss 'log_loss' is for classification but the target asks for regression",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="squared_eror"),
            "loss must be one of .* did you mean squared_error",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline="mode"),
            "baseline must be zero, mean, median or values but is 'mode'",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline=[0, 1]),
            "baseline must have one value for each of the 6 features",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline={"x": 1}),
            "baseline names 'x', which is no feature of X; nearest: x",
        ),
        (
            lambda X, y: masked_loss(RIDGE(), X, y, loss="r2", baseline={"x1": np.nan}),
            "baseline of 'x1' must be a finite number but is nan",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(call, message: str) -> None:
    X, y = table(40, 5)
    with pytest.raises(InputError, match=message) as refused:
        call(X, y)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("kind", [lambda frame: frame, pl.from_pandas, pa.Table.from_pandas])
@pytest.mark.parametrize("model", [Ridge(), lightgbm.LGBMRegressor(n_estimators=3, verbose=-1)])
def test_columns_in_another_order_than_in_training_are_refused(model, kind) -> None:
    X, y = table(40, 5)
    frame = pd.DataFrame(X, columns=list("abcdef"))
    fitted_model = model.fit(frame, y)
    assert masked_loss(fitted_model, kind(frame), y, loss="r2").loss > -np.inf
    for changed in (frame[list("fedcba")], frame.rename(columns={"a": "z"})):
        with pytest.raises(InputError, match=r"^X must have the columns that"):
            masked_loss(fitted_model, kind(changed), y, loss="r2")


def test_what_an_engine_refuses() -> None:
    X, y = table(40, 5)
    for model in (RIDGE(), own_function(0)[0], boosted(0)):
        engine = masked_loss(model, X, y, loss="squared_error")
        with pytest.raises(ValueError, match=r"masks must have shape \(m, 6\) but are \(6,\)"):
            engine(np.ones(6, dtype=bool))
        engine.remove(2)
        with pytest.raises(ValueError, match="feature 2 is masked already"):
            engine.remove(2)
