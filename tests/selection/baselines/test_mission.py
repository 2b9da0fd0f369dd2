"""MISSION against its algorithm as a plain loop, and against hard thresholding."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from chaffinch.tasks.selection.baselines.mission import mission, mission_scores
from chaffinch.tasks.selection.core import Rows, Schema

N, D, K = 50, 24, 5
FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
LOSSES = pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
MASK = 2**64 - 1


def synthetic(loss, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(N, D)) * (random.random((N, D)) < 0.4)
    y = X[:, :3] @ [3, -2, 1] + 0.3 * random.normal(size=N)
    return X, (y > 0) * 1.0 if loss == "log_loss" else y


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


def predicted(total, loss):
    return 1 / (1 + np.exp(-total)) if loss == "log_loss" else total


class PlainSketch:
    """A count sketch of dictionaries, by splitmix64 in Python's own whole numbers."""

    def __init__(self, salts, width):
        self.salts, self.width = [int(salt) for salt in salts], width
        self.cells = [{} for _ in self.salts]

    def where(self, feature):
        for salt, cells in zip(self.salts, self.cells, strict=True):
            z = (feature + salt) & MASK
            z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
            z ^= z >> 31
            yield cells, (z >> 1) % self.width, 1 if z & 1 else -1

    def add(self, feature, change):
        for cells, cell, sign in self.where(feature):
            cells[cell] = cells.get(cell, 0.0) + sign * change

    def read(self, feature):
        return float(
            np.median([s * cells.get(cell, 0.0) for cells, cell, s in self.where(feature)])
        )


def plain(X, y, loss, *, width, depth=3, passes=3, rate=0.1, seed=0):
    """Return the top features and all weights, by algorithm 1 with a dictionary for a heap."""
    random = np.random.default_rng(seed)
    sketch = PlainSketch(random.integers(0, 2**64, depth, dtype=np.uint64), width)
    top, intercept, step = {}, 0.0, rate * N / (X**2).sum()
    for _ in range(passes):
        for n in random.permutation(N):
            there = np.flatnonzero(X[n])
            total = intercept + sum(X[n, j] * top.get(j, 0.0) for j in there)
            change = step * (y[n] - predicted(total, loss))
            intercept += change
            for j in there:
                sketch.add(int(j), change * X[n, j])
            for j in there:
                if j in top:
                    top[j] = sketch.read(int(j))
            for j in there:
                if j not in top and (weight := sketch.read(int(j))) != 0:
                    if len(top) == K:
                        least = min(top, key=lambda one: (abs(top[one]), one))
                        if (abs(weight), j) < (abs(top[least]), least):
                            continue
                        del top[least]
                    top[j] = weight
    return sorted(top), [sketch.read(j) for j in range(D)]


@FORMS
@LOSSES
def test_it_is_the_papers_loop(form, loss) -> None:
    X, y = synthetic(loss)
    top, weights = plain(X, y, loss, width=7)
    got, values = mission(as_form(X, form), y, n_features=K, loss=loss, width=7, passes=3)
    assert got.tolist() == top
    np.testing.assert_allclose(values, weights, rtol=1e-9, atol=1e-12)


@FORMS
@LOSSES
def test_a_sketch_as_wide_as_the_table_is_gradient_descent_with_hard_thresholding(
    form, loss
) -> None:
    """Every row has every feature, so that the largest weights are known after each."""
    X, y = synthetic(loss)
    X += 0.1
    random = np.random.default_rng(4)
    random.integers(0, 2**64, 0, dtype=np.uint64)
    weights, intercept, step = np.zeros(D), 0.0, 0.1 * N / (X**2).sum()
    for _ in range(3):
        for n in random.permutation(N):
            top = np.argsort(-np.abs(weights))[:K]
            change = step * (y[n] - predicted(intercept + X[n, top] @ weights[top], loss))
            intercept += change
            weights += change * X[n]
    got, values = mission(as_form(X, form), y, n_features=K, loss=loss, width=D, passes=3, seed=4)
    assert set(got) == set(np.argsort(-np.abs(weights))[:K])
    np.testing.assert_allclose(values, weights, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [0, 2, 3])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_what_makes_the_target_has_the_highest_scores(n_classes, is_sparse) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 40))
    if is_sparse:
        X *= random.random(X.shape) < 0.15
    y = X[:, [4, 20, 33]] @ [1.0, -1.5, 2.0] + 0.2 * random.normal(size=600)
    if n_classes:
        y = np.searchsorted(np.quantile(y, np.arange(1, n_classes) / n_classes), y)
    X[:, 7] = 3
    schema = Schema(tuple(f"x{j}" for j in range(40)), (0,) * 40, n_classes)
    scores = mission_scores(Rows(X, y), schema, 0)
    assert set(np.argsort(scores)[-3:]) == {4, 20, 33}
    assert scores[7] == 0
    assert (scores == mission_scores(Rows(X, y), schema, 0)).all()
    assert (scores != mission_scores(Rows(X, y), schema, 1)).any()


def test_a_target_that_does_not_vary_tells_nothing() -> None:
    schema = Schema(("a", "b"), (0, 0))
    rows = Rows(np.random.default_rng(0).normal(size=(20, 2)), np.ones(20))
    assert mission_scores(rows, schema, 0).tolist() == [0, 0]


def test_it_settles_on_few_rows_with_much_noise() -> None:
    schema, random = Schema(tuple("abcdefghij"), (0,) * 10), np.random.default_rng(1)
    for seed in range(10):
        X = random.normal(size=(450, 10))
        y = X[:, :3] @ [3.0, 2.0, 1.0] + 2 * random.normal(size=450)
        assert set(np.argsort(mission_scores(Rows(X, y), schema, seed))[-3:]) == {0, 1, 2}
