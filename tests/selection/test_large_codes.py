"""Category codes may be large: what is kept of them grows with those that trees tell apart."""

from __future__ import annotations

import lightgbm
import numpy as np
import pytest
import xgboost

from chaffinch import masked_loss
from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine

N, DISTINCT, LARGEST = 2000, 200, 1_000_000
RNG = np.random.default_rng(0)
CODES = np.sort(RNG.choice(LARGEST, DISTINCT, replace=False))
PLACE = RNG.integers(0, DISTINCT, N)
X = np.column_stack([CODES[PLACE], RNG.normal(size=N)]).astype(np.float64)
Y = RNG.normal(size=DISTINCT)[PLACE] + X[:, 1]


def of_lightgbm(top: int):
    model = lightgbm.LGBMRegressor(
        n_estimators=10, n_jobs=1, verbosity=-1, min_data_per_group=2, cat_smooth=1
    )
    return model.fit(X % [top, 9], Y, categorical_feature=[0])


def of_xgboost(top: int):
    model = xgboost.XGBRegressor(
        n_estimators=5,
        n_jobs=1,
        enable_categorical=True,
        feature_types=["c", "q"],
        max_cat_to_onehot=1,
    )
    return model.fit(X % [top, 9], Y)


@pytest.mark.parametrize(
    ("make", "top", "within"), [(of_lightgbm, LARGEST, 1e-9), (of_xgboost, 5000, 1e-5)]
)
def test_large_codes_are_told_apart_as_the_library_does(make, top: int, within: float) -> None:
    model = make(top)
    asked = X % [top, 9]
    asked[:4, 0] = 1, top - 1, np.nan, 12.75
    seen, unmasked = int(asked[7, 0]), np.mean((model.predict(asked) - Y) ** 2)
    for code in (seen, seen + 0.5, 3, top - 1):
        engine = masked_loss(model, asked, Y, loss="squared_error", baseline=[code, 0.0])
        assert isinstance(engine, TreeEngine)
        masked = np.column_stack([np.full(N, code), asked[:, 1]])
        of = np.mean((model.predict(masked) - Y) ** 2)
        found = [engine.loss, engine.without_each()[0]]
        assert found == pytest.approx([unmasked, of], rel=within)


def test_flags_are_kept_for_codes_that_trees_name() -> None:
    model = of_lightgbm(LARGEST)
    engine = masked_loss(model, X, Y, loss="squared_error")
    n_tests = int((engine.forest.category_start >= 0).sum())
    assert n_tests > 20
    assert len(engine.forest.category_left) <= n_tests * (DISTINCT + 2)
