"""Losses that tie but for rounding: the order of elimination is that of the model's predictions."""

from __future__ import annotations

import numpy as np
import pytest
from lightgbm import LGBMRegressor
from sklearn.ensemble import RandomForestRegressor

from chaffinch import masked_loss

D = 12


def whole_numbers(seed: int, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.random.default_rng(seed).integers(-1, 2, (n_rows, D)).astype(float)
    return X, X[:, 0] - X[:, 1] + X[:, 2] * X[:, 3]


def plain_order(model, X, y) -> list[int]:
    """Mask the feature whose masking leaves the lowest mean absolute error, again and again."""
    table, order = X.copy(), []
    while len(order) < D:
        losses = np.full(D, np.inf)
        for j in set(range(D)) - set(order):
            without = table.copy()
            without[:, j] = 0
            losses[j] = np.mean(np.abs(model.predict(without) - y))
        order.append(int(losses.argmin()))
        table[:, order[-1]] = 0
    return order


def order_of(engine) -> list[int]:
    order = []
    while engine.mask.any():
        order.append(int(engine.without_each().argmin()))
        engine.remove(order[-1])
    return order


@pytest.mark.parametrize("kind", [RandomForestRegressor, LGBMRegressor])
def test_votes_on_whole_numbers_leave_in_the_order_of_a_plain_loop(kind) -> None:
    trained = whole_numbers(1000, 300)
    options = {"n_jobs": 1, "random_state": 0}
    options |= {"verbosity": -1, "min_child_samples": 5} if kind is LGBMRegressor else {}
    model = (
        kind(10, **options) if kind is RandomForestRegressor else kind(n_estimators=10, **options)
    )
    model.fit(*trained)
    for seed in range(12):
        X, y = whole_numbers(seed, 20)
        engine = masked_loss(model, X, y, loss="absolute_error")
        assert order_of(engine) == plain_order(model, X, y), seed


@pytest.mark.parametrize("kind", [RandomForestRegressor, LGBMRegressor])
def test_features_that_change_no_row_are_not_asked_about(kind) -> None:
    X, y = whole_numbers(1000, 300)
    options = {"verbosity": -1, "min_child_samples": 5} if kind is LGBMRegressor else {}
    model = kind(n_estimators=10, n_jobs=1, random_state=0, **options).fit(X, y)
    X, y = whole_numbers(1, 150)
    X[:, 4:] = 0  # as the baseline
    engine = masked_loss(model, X, y, loss="absolute_error")
    assert engine.relevant[4:].any()
    exactly, asked = engine.exactly, []

    def counted(masks):
        asked.extend(masks)
        return exactly(masks)

    engine.exactly = counted
    assert order_of(engine) == plain_order(model, X, y)
    assert len(asked) <= 1 + 4  # the present mask alone: at first, and when one of the four left
