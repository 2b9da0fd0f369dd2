"""A fit uses the cores that are worth it, and its bits do not depend on how many."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.models import fit, runtime

N = 2_600  # more than two blocks of LightGBM's 1,024 rows
RANDOM = np.random.default_rng(0)


def numbers() -> tuple[Floats, list[int]]:
    X = RANDOM.normal(size=(N, 8))
    X[RANDOM.random(X.shape) < 0.05] = np.nan
    return X, [0] * 8


def skewed() -> tuple[Floats, list[int]]:
    return np.exp(6 * RANDOM.normal(size=(N, 6))), [0] * 6


def categories() -> tuple[Floats, list[int]]:
    X, sizes = numbers()
    X[:, 0], X[:, 1] = RANDOM.integers(0, 5, N), RANDOM.integers(0, 300, N)
    return X, [5, 300, *sizes[2:]]


def sparse() -> tuple[Floats, list[int]]:
    # LightGBM bundles such columns, and sums those that it cannot bundle in another way
    X = np.round(RANDOM.normal(size=(N, 40)), 1) * (RANDOM.random((N, 40)) < 0.08)
    X[np.arange(N), RANDOM.integers(0, 20, N)] = 1
    return X, [0] * 40


TABLES = {made.__name__: made() for made in (numbers, skewed, categories, sparse)}
TARGETS: dict[str, Callable[[Floats], Any]] = {
    "numbers": lambda z: z + RANDOM.normal(size=N),
    "far from 0": lambda z: 1e7 + z,
    # sums of these numbers depend on their order
    "skewed": lambda z: RANDOM.choice([-1, 1], N) * np.exp(8 * RANDOM.normal(size=N)),
    "two classes": lambda z: (z + RANDOM.normal(size=N) > 0).astype(int),
    "a rare class": lambda z: (z + RANDOM.normal(size=N) > 2).astype(int),
    "four classes": lambda z: RANDOM.integers(0, 4, N),
}
OTHERS = [target for target in TARGETS if target != "skewed"]
LIGHTGBM: dict[str, dict[str, Any]] = {
    "plain": {},
    "bagged": {"subsample": 0.7, "subsample_freq": 1, "colsample_bytree": 0.6},
    "goss": {"boosting_type": "goss"},
    "dart": {"boosting_type": "dart"},
    "rf": {"boosting_type": "rf", "subsample": 0.6, "subsample_freq": 1},
    "extra": {"extra_trees": True, "path_smooth": 1.0},
    "linear": {"linear_tree": True},
}


def rows_of(table: str, target: str) -> tuple[Rows, Schema]:
    X, sizes = TABLES[table]
    signal = np.nansum(X[:, 2:6], axis=1)
    y = TARGETS[target]((signal - signal.mean()) / signal.std())
    n_classes = 1 + int(y.max()) if "class" in target else 0
    names = tuple(f"x{i}" for i in range(len(sizes)))
    return Rows(X, y, RANDOM.uniform(0.5, 2, N)), Schema(names, tuple(sizes), n_classes)


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Let small fits use threads too, as many as are asked for."""
    monkeypatch.setattr(runtime, "_VALUES_PER_THREAD", 1)
    return lambda number: monkeypatch.setenv("OMP_NUM_THREADS", str(number))


def check_alike(
    threads: Callable[[int], None], name: str, rows: Rows, schema: Schema, parameters: Any
) -> None:
    found = []
    for number in (1, 3):
        threads(number)
        model = fit(name, rows, schema, parameters, seed=0)
        found.append((model.to_files(), model.predict(rows.X).tobytes()))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("table", "target"),
    [
        *((table, "skewed") for table in TABLES),
        *(("skewed", target) for target in OTHERS),
        *(pytest.param("sparse", target, marks=pytest.mark.e2e) for target in OTHERS),
    ],
)
def test_lightgbm_is_the_same_model_on_any_number_of_threads(
    threads: Callable[[int], None], table: str, target: str
) -> None:
    rows, schema = rows_of(table, target)
    for parameters in LIGHTGBM.values():
        check_alike(threads, "lightgbm", rows, schema, {**parameters, "n_estimators": 3})


@pytest.mark.parametrize("target", ["skewed", "four classes"])
@pytest.mark.parametrize("kind", ["RandomForest", "ExtraTrees", "HistGradientBoosting", "linear"])
def test_estimators_of_scikit_learn_are_the_same_on_any_number_of_threads(
    threads: Callable[[int], None], kind: str, target: str
) -> None:
    rows, schema = rows_of("categories", target)
    name = kind if kind == "linear" else kind + ("Classifier" * ("class" in target) or "Regressor")
    few = {"max_iter": 3} if kind[0] == "H" else {"max_depth": 5, "n_estimators": 6}
    check_alike(threads, name, rows, schema, {} if kind == "linear" else few)


def test_a_large_fit_uses_every_core_and_a_small_one_uses_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    asked = [runtime.threads_for(n) for n in (1, 1_999_999, 2_000_000, 10**9)]
    assert asked == [1, 1, 2, 8]
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert 1 <= runtime.threads_for(10**9) <= (os.cpu_count() or 1)


@pytest.mark.parametrize(("parameters", "expected"), [({}, 3), ({"linear_tree": True}, 1)])
def test_linear_leaves_are_fitted_by_one_thread(
    threads: Callable[[int], None], parameters: dict[str, bool], expected: int
) -> None:
    threads(3)
    model = fit(
        "lightgbm", *rows_of("numbers", "numbers"), {**parameters, "n_estimators": 1}, seed=0
    )
    assert model.booster.params["num_threads"] == expected
