"""Models that change the table they are given: each is given one of its own."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, RobustScaler, StandardScaler

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models import fit_estimator
from tests.selection.masked_loss.own_losses import check

pytestmark = pytest.mark.usefixtures("one_thread")

D = 4
X = 3 * np.random.default_rng(0).normal(size=(200, D)) + 5
Y = 2 * X[:, 0] + X[:, 1] - X[:, 2] / 2
HOLES = np.where(np.random.default_rng(1).random(X.shape) < 0.1, np.nan, X)
BASELINE = np.array([1.0, 5, 6, 2])
KINDS = {"array": np.array, "frame": lambda T: pd.DataFrame(T.copy(), columns=list("abcd"))}


def shift(T) -> np.ndarray:
    T -= np.arange(D)
    return np.asarray(T) @ np.array([2.0, 1, -0.5, 0])


def sort(T) -> np.ndarray:
    """Leave the same numbers at other places."""
    first = np.array(T)[:, 0]
    T[:] = np.sort(np.array(T), axis=0)
    return first


MODELS = {
    "neighbours": make_pipeline(StandardScaler(copy=False), KNeighborsRegressor()),
    "linear": make_pipeline(StandardScaler(copy=False), Ridge()),
    "minimum and maximum": make_pipeline(MinMaxScaler(copy=False), Ridge()),
    "histogram": make_pipeline(RobustScaler(copy=False), HistGradientBoostingRegressor(max_iter=5)),
    "imputed": make_pipeline(SimpleImputer(copy=False), Ridge()),
    "columns": make_pipeline(
        ColumnTransformer([("some", StandardScaler(copy=False), slice(0, 3))]), Ridge()
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("loss", ["squared_error", "absolute_error", "r2"])
@pytest.mark.parametrize("name", ["shift", "sort", *MODELS])
def test_losses_are_those_of_fresh_tables(name: str, loss: str, kind: str) -> None:
    table, fresh = HOLES if name == "imputed" else X, KINDS[kind]
    if name in MODELS:
        model = MODELS[name].fit(fresh(table), Y)
        predict = model.predict
    else:
        model = predict = {"shift": shift, "sort": sort}[name]

    def of(mask: np.ndarray) -> float:
        error = predict(fresh(np.where(mask, table, BASELINE))) - Y
        if loss == "absolute_error":
            return float(np.mean(abs(error)))
        squared = float(np.mean(error**2))
        return squared if loss == "squared_error" else squared / np.var(Y) - 1

    given = fresh(table)
    engine = masked_loss(model, given, Y, loss=loss, baseline=BASELINE)
    check(engine, of, (3, 1))
    assert np.array_equal(np.array(given), table, equal_nan=True)


class Greedy(RegressorMixin, BaseEstimator):
    """Changes all that it is given."""

    def fit(self, X, y, sample_weight):
        self.inner_ = LinearRegression().fit(X - 5, y, sample_weight)
        X -= 5
        y -= 1
        sample_weight *= 2
        return self

    def predict(self, X):
        X -= 5
        return self.inner_.predict(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # it is given the rows as they are
        return tags


# which chooses columns, and so is not trained on some of them
@pytest.mark.parametrize("name", ["greedy", *sorted({*MODELS} - {"columns"})])
def test_training_and_predicting_leave_the_rows_alone(name: str) -> None:
    estimator = Greedy() if name == "greedy" else MODELS[name]
    weight = np.full(len(X), 0.5) if name == "greedy" else None
    rows = Rows(X.copy(), Y.copy(), weight)
    model = fit_estimator(estimator, rows, Schema(tuple("abcd"), (0,) * D), seed=0)
    once = model.predict(rows.X)
    assert model.predict(rows.X).tolist() == once.tolist()
    assert rows.X.tolist() == X.tolist()
    assert rows.y.tolist() == Y.tolist()
    assert weight is None or set(weight) == {0.5}
