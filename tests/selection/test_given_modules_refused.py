"""Torch modules, weights, scorers and pickles that `masked_loss` refuses, each in a line."""

from __future__ import annotations

import copy
import pickle
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from torch import nn

from chaffinch import InputError, masked_loss

X = np.random.default_rng(0).normal(size=(40, 4))
Y = 2 * X[:, 0] + X[:, 1]
CLASSES = (Y > 0).astype(np.int64)
TREES = lightgbm.LGBMRegressor(n_estimators=3, n_jobs=1, verbosity=-1).fit(X, Y)
LINE = LinearRegression().fit(X, Y)


def refused(message: str, model, table=X, y=Y, loss="squared_error", **how) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as refusal:
        masked_loss(model, table, y, loss=loss, **how)
    assert "\n" not in str(refusal.value)


class Returns(nn.Module):
    """A module that returns what a function makes of its rows."""

    def __init__(self, make) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.make = make

    def forward(self, rows):
        return self.make(self.linear, rows)


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (
            nn.Sequential(nn.Linear(5, 1)),
            "the torch module must take rows of 4 features, in float64 as its weights are here, "
            "but does not: mat1 and mat2 shapes cannot be multiplied (40x4 and 5x1)",
        ),
        (
            Returns(lambda linear, rows: linear(rows.float())),
            "must take rows of 4 features, in float64 as its weights are here, but does not",
        ),
        (
            Returns(lambda linear, rows: (linear(rows), rows)),
            "must return one tensor but returns a tuple; wrap it in one that returns",
        ),
        (
            Returns(lambda linear, rows: {"value": linear(rows)}),
            "must return one tensor but returns a dict",
        ),
        (
            Returns(lambda linear, rows: linear(rows)[:3]),
            "must return one row of outputs for each of 40 rows but returns a tensor of shape "
            "(3, 1); flatten it",
        ),
        (
            Returns(lambda linear, rows: rows.reshape(len(rows), 2, 2)),
            "but returns a tensor of shape (40, 2, 2); flatten it",
        ),
        (
            nn.Sequential(nn.Linear(4, 2)),
            "the model predicts 2 values a row, which stand for classes 0 to 1, but y holds "
            "numbers between; give a model of one output for 'squared_error'",
        ),
    ],
    ids=["width", "float32", "tuple", "dict", "fewer rows", "tables", "two outputs"],
)
def test_modules_that_do_not_give_one_prediction_a_row(module, message: str) -> None:
    refused(message, module)


def test_a_module_without_layers_predicts_its_only_feature() -> None:
    engine = masked_loss(nn.Sequential(), X[:, :1], Y, loss="squared_error")
    assert engine.loss == pytest.approx(np.mean((X[:, 0] - Y) ** 2), rel=1e-12)


@pytest.mark.parametrize("dtype", [object, "double[pyarrow]"])
def test_columns_that_lightgbm_does_not_take_are_named(dtype) -> None:
    column = ["a"] * 40 if dtype is object else X[:, 2]
    table = pd.DataFrame(X, columns=list("abcd")).assign(c=pd.Series(column, dtype=dtype))
    refused("Fields with bad pandas dtypes: c: ", TREES, table)


@pytest.mark.parametrize("model", [TREES, LINE], ids=["trees", "linear"])
def test_weights_whose_sum_is_no_number(model) -> None:
    huge = np.full(40, 1e307)
    refused(
        "sample_weight must have a finite sum but goes up to 1e+307; divide it by its largest",
        model,
        sample_weight=huge,
    )
    even = masked_loss(model, X, Y, loss="squared_error", sample_weight=huge / huge.max())
    assert even.loss == pytest.approx(masked_loss(model, X, Y, loss="squared_error").loss)


def test_scorers_of_clusters_score_no_numbers() -> None:
    refused(
        "loss 'adjusted_rand_score' cannot score regression; use 'squared_error' or another scorer",
        TREES,
        loss="adjusted_rand_score",
    )
    line = LogisticRegression().fit(X, CLASSES)
    assert masked_loss(line, X, CLASSES, loss="v_measure_score").loss < 0


@pytest.mark.parametrize(
    "model",
    [TREES, LINE, nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 1)), lambda T: T[:, 0]],
    ids=["trees", "linear", "network", "black box"],
)
def test_an_engine_is_copied_but_never_pickled(model) -> None:
    engine = masked_loss(model, X, Y, loss="squared_error")
    with pytest.raises(TypeError, match="cannot be pickled; make it again from the model"):
        pickle.dumps(engine)
    twin = copy.deepcopy(engine)
    engine.remove(0)
    assert twin.mask.all()
    twin.remove(0)
    assert twin.without_each().tolist() == engine.without_each().tolist()
