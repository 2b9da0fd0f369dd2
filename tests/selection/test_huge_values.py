"""One huge value among ordinary ones: every loss is still that of the model's own predictions."""

from __future__ import annotations

import logging

import lightgbm
import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesRegressor, RandomForestRegressor
from sklearn.tree import DecisionTreeRegressor

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss as masked_loss_of_rows
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.workers.distributed_masked_loss import spread_masked_loss
from tests.selection.masked_loss.own_losses import by_predictions, check
from tests.selection.one_worker import OneWorker

pytestmark = pytest.mark.usefixtures("one_thread")

D = 5
LEARNT, LEFT = slice(0, 200), slice(200, 700)
SCHEMA = Schema(tuple("abcde"), (0,) * D)


def table(huge: float) -> tuple[np.ndarray, np.ndarray]:
    """Make rows of which a few have a mark in feature 0, and a huge target with it."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, D))
    X[:, 0] = rng.random(700) < 0.02
    X[[0, 699], 0] = 1
    y = 2 * X[:, 1] + X[:, 2] + 0.3 * rng.normal(size=700)
    return X, np.where(X[:, 0] == 1, huge, y)


MODELS = {
    "tree": lambda: DecisionTreeRegressor(max_depth=6, random_state=0),
    "forest": lambda: RandomForestRegressor(20, max_depth=8, bootstrap=False, random_state=0),
    "lightgbm": lambda: lightgbm.LGBMRegressor(
        objective="regression_l1",
        n_estimators=20,
        learning_rate=1.0,
        min_child_samples=1,
        boost_from_average=False,
        n_jobs=1,
        verbosity=-1,
    ),
}
LOSSES = ["squared_error", "absolute_error", "neg_median_absolute_error"]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("huge", [1e9, 1e12, 1e18])
@pytest.mark.parametrize("kind", MODELS)
def test_ordinary_rows_keep_their_digits_beside_a_huge_one(kind, huge, loss, caplog) -> None:
    X, y = table(huge)
    model = MODELS[kind]().fit(X[LEARNT], y[LEARNT])
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X[LEFT], y[LEFT], loss=loss)
    if kind == "tree":  # the others are far off in the marked rows themselves
        assert "next to its greatest values a row may be off by" in caplog.text
    check(engine, by_predictions(model.predict, X[LEFT], y[LEFT], loss), (3, 0, 1))


@pytest.mark.parametrize("loss", LOSSES)
def test_a_huge_value_hides_until_its_feature_is_masked(loss: str) -> None:
    X, y = table(1e15)
    model = MODELS["tree"]().fit(X[LEARNT], y[LEARNT])
    truth = np.where(X[:, 0] == 1, 0, y)  # what is foretold for the marked rows is all wrong
    engine = masked_loss(model, X[LEFT], truth[LEFT], loss=loss)
    assert loss == "neg_median_absolute_error" or type(engine).__name__ == "TreeEngine"
    check(engine, by_predictions(model.predict, X[LEFT], truth[LEFT], loss), (3, 0, 1))


@pytest.mark.parametrize("is_foretold", [True, False])
def test_a_selection_has_the_same_numbers_on_whatever_workers(is_foretold, monkeypatch) -> None:
    monkeypatch.setattr(
        "chaffinch.tasks.workers.distributed_masked_loss._reason_to_stay", lambda *_: ""
    )
    X, y = table(1e15)
    model = fit("DecisionTreeRegressor", Rows(X, y), SCHEMA, {"max_depth": 6}, seed=0)
    truth = y if is_foretold else np.where(X[:, 0] == 1, 0, y)
    given = model, Rows(X, truth), resolve_loss("squared_error", SCHEMA), np.zeros(D)
    alone, spread = masked_loss_of_rows(*given), spread_masked_loss(*given, OneWorker())
    assert type(alone).__name__ == ("BlackBox" if is_foretold else "TreeEngine")
    assert type(spread).__name__ == ("BlackBox" if is_foretold else "PartedLoss")
    for feature in (3, 0):
        assert spread.without_each().tolist() == alone.without_each().tolist()
        alone.remove(feature)
        spread.remove(feature)
        assert spread.loss == alone.loss
    of = by_predictions(model.predict, X, truth, "squared_error")
    check(masked_loss_of_rows(*given), of, (3, 0, 1))


def test_ordinary_models_keep_their_engine() -> None:
    X, y = table(1)
    by_heart = ExtraTreesRegressor(20, random_state=0).fit(X, y)
    heavy = lightgbm.LGBMRegressor(n_estimators=50, n_jobs=1, verbosity=-1).fit(X, np.exp(4 * y))
    rare = lightgbm.LGBMRegressor(n_estimators=50, n_jobs=1, verbosity=-1).fit(X, y * (y > 4))
    for model, truth in ((by_heart, y), (heavy, np.exp(4 * y)), (rare, y * (y > 4))):
        for loss in ("squared_error", "absolute_error"):
            engine = masked_loss(model, X, truth, loss=loss)
            assert type(engine).__name__ == "TreeEngine"
            check(engine, by_predictions(model.predict, X, truth, loss))
