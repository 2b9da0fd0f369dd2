"""Torch modules, weights, scorers and pickles that `masked_loss` refuses, each in a line."""

from __future__ import annotations

import copy
import pickle
import re

import lightgbm
import numpy as np
import pandas as pd
import pytest
import torch
import xgboost
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
        (nn.Sequential(nn.Linear(5, 1)), "mat1 and mat2 shapes cannot be multiplied"),
        (Returns(lambda linear, rows: linear(rows.float())), "in float64 as its weights are"),
        (
            Returns(lambda linear, rows: (linear(rows), rows)),
            "must return one tensor but returns a tuple",
        ),
        (
            Returns(lambda linear, rows: {"value": linear(rows)}),
            "must return one tensor but returns a dict",
        ),
        (Returns(lambda linear, rows: linear(rows)[:3]), "must return one row of outputs for each"),
        (
            Returns(lambda linear, rows: rows.reshape(len(rows), 2, 2)),
            "but returns a tensor of shape (40, 2, 2); flatten it",
        ),
        (nn.Sequential(nn.Linear(4, 2)), "but y holds numbers between"),
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
@pytest.mark.parametrize("size", [1e307, 1e-318])
def test_weights_of_any_size_count_by_their_shares(model, size) -> None:
    plain = masked_loss(model, X, Y, loss="squared_error")
    even = masked_loss(model, X, Y, loss="squared_error", sample_weight=np.full(40, size))
    assert even.loss == pytest.approx(plain.loss)
    weight = np.arange(1.0, 41)
    expected = masked_loss(model, X, Y, loss="squared_error", sample_weight=weight)
    exact = masked_loss(model, X, Y, loss="squared_error", sample_weight=weight * 2.0**900)
    assert exact.without_each().tolist() == expected.without_each().tolist()


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


class Apart(nn.Module):
    """A module of someone's own that returns what a layer and a function make of its rows."""

    def __init__(self, n_outputs: int, last) -> None:
        super().__init__()
        self.linear, self.last = nn.Linear(4, n_outputs), last

    def forward(self, rows):
        return self.last(self.linear(rows))


@pytest.mark.parametrize(
    "module",
    [
        Apart(1, torch.sigmoid),
        Apart(1, lambda scores: torch.sigmoid(scores).flatten()),
        Apart(3, lambda scores: torch.softmax(scores, dim=1)),
        Apart(2, nn.Sequential(nn.Softmax(dim=1))),
        nn.Sequential(nn.Linear(4, 2), nn.Sigmoid()),
        Apart(2, torch.sigmoid),
    ],
)
def test_probabilities_are_not_taken_for_scores(module) -> None:
    refused(
        "the torch module's outputs look like probabilities but would be taken for scores",
        module,
        y=CLASSES,
        loss="log_loss",
    )


@pytest.mark.parametrize(
    "last",
    [
        [nn.Linear(4, 1), nn.Sigmoid(), nn.Flatten(0)],
        [nn.Linear(4, 1), nn.Sigmoid(), nn.Identity()],
        [nn.Linear(4, 2), nn.Softmax(dim=1), nn.Dropout()],
        [nn.Linear(4, 2), nn.Sequential(nn.LogSoftmax(dim=1), nn.Identity())],
    ],
)
def test_layers_that_change_nothing_are_not_the_last(last) -> None:
    module = nn.Sequential(*last).double().eval()
    with torch.no_grad():
        outputs = module(torch.tensor(X)).numpy().reshape(len(X), -1)
    if isinstance(last[-1], nn.Sequential):
        outputs = np.exp(outputs)
    second = outputs[:, -1]
    own = -np.mean(np.log(np.where(CLASSES == 1, second, 1 - second)))
    assert masked_loss(module, X, CLASSES, loss="log_loss").loss == pytest.approx(own, rel=1e-12)


def test_scores_of_a_module_of_ones_own_are_taken_as_before() -> None:
    module = Apart(1, lambda scores: 5 * scores)
    with torch.no_grad():
        scores = module.double()(torch.tensor(X)).numpy()[:, 0]
    own = np.mean(np.logaddexp(0, np.where(CLASSES == 1, -scores, scores)))
    assert masked_loss(module, X, CLASSES, loss="log_loss").loss == pytest.approx(own, rel=1e-12)


@pytest.mark.parametrize("loss", ["log_loss", "accuracy"])
def test_a_linear_model_may_be_sparsified(loss) -> None:
    line = LogisticRegression().fit(X, CLASSES)
    dense = masked_loss(line, X, CLASSES, loss=loss).without_each()
    assert masked_loss(line.sparsify(), X, CLASSES, loss=loss).without_each().tolist() == (
        dense.tolist()
    )


def test_one_output_after_a_sigmoid_is_a_value_where_numbers_are_compared() -> None:
    module, y = nn.Sequential(nn.Linear(4, 1), nn.Sigmoid()).double(), np.abs(Y) / 10
    with torch.no_grad():
        own = np.mean((module(torch.tensor(X)).numpy()[:, 0] - y) ** 2)
    assert masked_loss(module, X, y, loss="squared_error").loss == pytest.approx(own, rel=1e-12)


def test_a_boosted_regressor_of_probabilities_predicts_values() -> None:
    model = xgboost.XGBRegressor(n_estimators=3, n_jobs=1, objective="binary:logistic")
    model.fit(X, CLASSES)
    own = np.mean((model.predict(X) - CLASSES) ** 2)
    assert masked_loss(model, X, CLASSES, loss="squared_error").loss == pytest.approx(own, rel=1e-6)


def test_modules_that_are_not_ready_are_refused() -> None:
    refused("the torch module has lazy layers without weights", nn.Sequential(nn.LazyLinear(1)))
    module = nn.Linear(4, 1)
    module.kept = module.weight * 2  # no leaf of the graph, as the first weight_norm left behind
    refused("the torch module cannot be copied", module)


@pytest.mark.parametrize(
    "y", [pd.Series([True, None] * 20, dtype="boolean"), pd.Categorical([None] * 40)]
)
def test_every_row_has_a_class(y) -> None:
    line = LogisticRegression().fit(X, CLASSES)
    refused("y must have a value in every row but has none in row", line, y=y, loss="log_loss")
