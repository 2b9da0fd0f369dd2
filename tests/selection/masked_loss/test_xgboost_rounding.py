"""XGBoost adds in float32: where that shows in a loss, the model itself is asked."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import xgboost
from sklearn.linear_model import Ridge

from chaffinch import masked_loss
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import masked_loss as masked_loss_of_rows
from chaffinch.tasks.selection.masked_loss.distributed_rows import parts_of
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.workers.distributed_masked_loss import spread_masked_loss
from tests.selection.masked_loss.own_losses import by_predictions, check
from tests.selection.one_worker import OneWorker

pytestmark = pytest.mark.usefixtures("one_thread")

D = 6
X = np.random.default_rng(1).normal(size=(1500, D))
Y = 2 * X[:, 0] + X[:, 1] * X[:, 2] + X[:, 5] + 0.3 * np.random.default_rng(2).normal(size=1500)
SCHEMA = Schema(tuple("abcdef"), (0,) * D)
LEARNT, LEFT = slice(0, 1000), slice(1000, 1500)


@pytest.mark.parametrize("name", ["squared_error", "absolute_error"])
@pytest.mark.parametrize(
    ("offset", "spread", "rows", "engine_name"),
    [
        (0, 1, LEFT, "TreeEngine"),
        (10, 1, LEFT, "TreeEngine"),
        (200_000, 80_000, LEFT, "TreeEngine"),
        (2_000, 1, LEFT, "BlackBox"),
        (100_000, 1, LEFT, "BlackBox"),
        (100_000, 1, LEARNT, "BlackBox"),  # next to no loss beside large ones of masked columns
        (1.7e9, 86_400, LEFT, "BlackBox"),
    ],
)
def test_a_target_far_from_zero(offset, spread, rows, engine_name, name, caplog) -> None:
    y = offset + spread * Y
    model = xgboost.XGBRegressor(n_estimators=60, n_jobs=1).fit(X[LEARNT], y[LEARNT])
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X[rows], y[rows], loss=name)
    assert type(engine).__name__ == engine_name
    assert ("it adds in float32" in caplog.text) == (engine_name == "BlackBox")
    within = 2e-6 if engine_name == "TreeEngine" else 1e-12
    check(engine, by_predictions(model.predict, X[rows], y[rows], name), (3,), within)


def test_a_small_loss_is_checked_by_itself_beside_a_large_one(caplog, monkeypatch) -> None:
    model = Ridge().fit(X, Y)
    own = model.predict
    # what no look at the first rows tells
    monkeypatch.setattr(Ridge, "predict", lambda _, T: own(T) + 1e-3 * (np.arange(len(T)) > 1000))
    with caplog.at_level(logging.INFO, "chaffinch"):
        engine = masked_loss(model, X, Y, loss="squared_error", baseline=np.full(D, 1e6))
    assert "the engine does not give its own predictions" in caplog.text
    assert engine.loss == pytest.approx(np.mean((model.predict(X) - Y) ** 2), rel=1e-12)


@pytest.mark.parametrize("offset", [0, 30_000])
def test_workers_decide_as_one_process_does(offset: float, monkeypatch) -> None:
    monkeypatch.setattr(
        "chaffinch.tasks.workers.distributed_masked_loss._reason_to_stay", lambda *_: ""
    )
    rows = Rows(np.tile(X, (4, 1)), np.tile(offset + Y, 4))
    loss, zero = resolve_loss("squared_error", SCHEMA), np.zeros(D)
    model = fit("xgboost", rows.take(LEARNT), SCHEMA, {"n_estimators": 30}, seed=0)
    alone = masked_loss_of_rows(model, rows, loss, zero)
    spread = spread_masked_loss(model, rows, loss, zero, OneWorker())
    assert type(alone).__name__ == ("BlackBox" if offset else "TreeEngine")
    assert type(spread).__name__ == ("BlackBox" if offset else "PartedLoss")
    assert spread.without_each().tolist() == alone.without_each().tolist()


def test_a_part_of_the_rows_does_not_decide_for_itself(monkeypatch) -> None:
    monkeypatch.setattr(
        "chaffinch.tasks.workers.distributed_masked_loss._reason_to_stay", lambda *_: ""
    )
    model = fit("xgboost", Rows(X, Y), SCHEMA, {"n_estimators": 30}, seed=0)
    # next to no loss in the second part
    rows = Rows(X, np.where(np.arange(len(X)) < 768, Y, model.predict(X)))
    loss, zero = resolve_loss("squared_error", SCHEMA), np.zeros(D)
    alone = masked_loss_of_rows(model, rows, loss, zero)
    spread = spread_masked_loss(model, rows, loss, zero, OneWorker())
    assert type(spread).__name__ == "PartedLoss"
    assert spread.without_each().tolist() == alone.without_each().tolist()
    second = parts_of(model, rows, loss, zero, alone.rows_in_block, 2)[1]
    assert type(masked_loss_of_rows(*second._made_of)).__name__ == "BlackBox"
