"""Boosters as they are given: their own parameters and classes say how they predict."""

from __future__ import annotations

import logging
import re
import types

import lightgbm
import numpy as np
import pytest

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.models import LightGBMModel
from tests.selection.masked_loss.own_losses import by_predictions, check

pytestmark = pytest.mark.usefixtures("one_thread")

D = 5
X = np.random.default_rng(0).normal(size=(400, D))
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3]
CLASSES = (Y > 0).astype(np.int64)
BASELINE = np.array([0.5, -1, 1, 0, 2])
LIGHTGBM = {"n_estimators": 40, "num_leaves": 8, "n_jobs": 1, "verbosity": -1}


@pytest.mark.parametrize("margin", [0.5, 4.0])
def test_predictions_that_stop_early_are_asked_for_as_they_are(margin: float, caplog) -> None:
    model = lightgbm.LGBMClassifier(
        pred_early_stop=True, pred_early_stop_freq=2, pred_early_stop_margin=margin, **LIGHTGBM
    ).fit(X, CLASSES)

    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, CLASSES, loss="log_loss", baseline=BASELINE)
    assert "it predicts with pred_early_stop=True" in caplog.text
    check(engine, by_predictions(model.predict_proba, X, CLASSES, "log_loss", BASELINE), (1, 4))


def xgboost_like(table) -> np.ndarray:
    return table[:, 0] - table.mean(axis=0)[1]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "sklearn"])
def test_a_functions_name_does_not_say_how_it_predicts(name: str) -> None:
    # one that reads all rows together must be given all rows
    function = types.FunctionType(xgboost_like.__code__, globals(), name)
    rare = X.copy()
    rare[20:, :3] = BASELINE[:3]
    engine = masked_loss(function, rare, Y, loss="squared_error", baseline=BASELINE)
    check(engine, by_predictions(xgboost_like, rare, Y, "squared_error", BASELINE), (), 1e-12)


def without_gains(booster: lightgbm.Booster) -> lightgbm.Booster:
    """Write 0 for every gain; predictions stay what they are."""
    text = re.sub(r"^tree_sizes=.*\n", "", booster.model_to_string(), flags=re.MULTILINE)

    def zeros(found: re.Match[str]) -> str:
        return "split_gain=" + " ".join("0" for _ in found[1].split())

    return lightgbm.Booster(model_str=re.sub(r"^split_gain=(.*)$", zeros, text, flags=re.MULTILINE))


@pytest.mark.parametrize(
    "settings",
    [{"objective": "poisson"}, {"objective": "regression", "linear_tree": True}],
    ids=["poisson", "linear trees"],
)
def test_a_split_of_no_gain_is_a_split(settings) -> None:
    # the black box asks nothing about a feature that no tree reads
    fitted = lightgbm.LGBMRegressor(**LIGHTGBM, **settings).fit(X[:, :4], np.exp(Y / 4))
    booster = without_gains(fitted.booster_)
    assert not booster.feature_importance("split").any()

    engine = masked_loss(booster, X[:, :4], Y, loss="absolute_error", baseline=BASELINE[:4])
    of = by_predictions(booster.predict, X[:, :4], Y, "absolute_error", BASELINE[:4])
    check(engine, of, (0,), 1e-12)
    schema = Schema(tuple("abcd"), (0,) * 4, 0)
    assert LightGBMModel(schema, booster).used_features.all()
