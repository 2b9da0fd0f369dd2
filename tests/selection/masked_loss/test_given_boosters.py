"""Boosters as they are given: their own parameters and classes say how they predict."""

from __future__ import annotations

import logging
import re
import types

import lightgbm
import numpy as np
import pytest
import xgboost

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.models import LightGBMModel

pytestmark = pytest.mark.usefixtures("one_thread")

D = 5
X = np.random.default_rng(0).normal(size=(400, D))
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + X[:, 3]
CLASSES = (Y > 0).astype(np.int64)
BASELINE = np.array([0.5, -1, 1, 0, 2])
LIGHTGBM = {"n_estimators": 40, "num_leaves": 8, "n_jobs": 1, "verbosity": -1}


def check(engine, of) -> None:
    """Compare with the losses of plain predictions."""
    kept = np.ones(D, dtype=bool)
    for removed in (1, 4):
        assert engine.loss == pytest.approx(of(np.where(kept, X, BASELINE)), rel=1e-9)
        each = [of(np.where(kept & (np.arange(D) != j), X, BASELINE)) for j in range(D)]
        assert engine.without_each() == pytest.approx(np.where(kept, each, np.inf), rel=1e-9)
        engine.remove(removed)
        kept[removed] = False


@pytest.mark.parametrize("margin", [0.5, 4.0])
def test_predictions_that_stop_early_are_asked_for_as_they_are(margin: float, caplog) -> None:
    model = lightgbm.LGBMClassifier(
        pred_early_stop=True, pred_early_stop_freq=2, pred_early_stop_margin=margin, **LIGHTGBM
    ).fit(X, CLASSES)

    def of(table: np.ndarray) -> float:
        truth = model.predict_proba(table)[np.arange(len(X)), CLASSES]
        return float(-np.log(truth).mean())

    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, CLASSES, loss="log_loss", baseline=BASELINE)
    assert "it predicts with pred_early_stop=True" in caplog.text
    check(engine, of)


class ShiftedLightGBM(lightgbm.LGBMRegressor):
    def predict(self, X):
        return super().predict(X) + X[:, 4]


class ShiftedXGBoost(xgboost.XGBRegressor):
    def predict(self, X):
        return super().predict(X) + X[:, 4]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (ShiftedLightGBM(**LIGHTGBM), "ShiftedLightGBM is no class of lightgbm's own"),
        (ShiftedXGBoost(n_estimators=5, n_jobs=1), "ShiftedXGBoost is no class of xgboost's own"),
    ],
    ids=["lightgbm", "xgboost"],
)
def test_a_derived_class_is_asked_itself(model, message: str, caplog) -> None:
    model.fit(X[:, :D], np.where(X[:, 4] > 9, 0, Y))  # does not learn what it adds itself

    def of(table: np.ndarray) -> float:
        return float(np.mean((model.predict(table) - Y) ** 2))

    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, Y, loss="squared_error", baseline=BASELINE)
    assert message in caplog.text
    check(engine, of)


def xgboost_like(table) -> np.ndarray:
    return table[:, 0] - table.mean(axis=0)[1]


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "sklearn"])
def test_a_functions_name_does_not_say_how_it_predicts(name: str) -> None:
    # one that reads all rows together must be given all rows
    function = types.FunctionType(xgboost_like.__code__, globals(), name)
    rare = X.copy()
    rare[20:, :3] = BASELINE[:3]
    engine = masked_loss(function, rare, Y, loss="squared_error", baseline=BASELINE)
    for feature, loss in enumerate(engine.without_each()):
        table = rare.copy()
        table[:, feature] = BASELINE[feature]
        assert loss == pytest.approx(np.mean((xgboost_like(table) - Y) ** 2), rel=1e-12)


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

    def of(table: np.ndarray) -> float:
        return float(np.abs(booster.predict(table) - Y).mean())

    engine = masked_loss(booster, X[:, :4], Y, loss="absolute_error", baseline=BASELINE[:4])
    without = [np.where(np.arange(4) == j, BASELINE[:4], X[:, :4]) for j in range(4)]
    assert engine.without_each() == pytest.approx([of(table) for table in without], rel=1e-12)
    engine.remove(0)
    assert engine.loss == pytest.approx(of(without[0]), rel=1e-12)
    schema = Schema(tuple("abcd"), (0,) * 4, 0)
    assert LightGBMModel(schema, booster).used_features.all()
