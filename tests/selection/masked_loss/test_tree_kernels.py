"""The tree engine on forests small enough to work out by hand, and the parts it is made of."""

from __future__ import annotations

import math
import os
import sys

import numpy as np
import pytest

from chaffinch.tasks.selection.core import Rows
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine
from chaffinch.tasks.selection.masked_loss.trees.loss_kernels import exponentials, negative_logs
from chaffinch.tasks.selection.models.forest import NUMERIC, Forest, Nodes, assemble
from tests.flows.cli.programs import python

SQUARED = Loss("squared_error", "regression")


def forest(stumps: list[tuple[int, float, float, float]], n_columns: int) -> Forest:
    """Make a forest of stumps: column, threshold, value of the left and of the right leaf."""
    n = len(stumps)
    column, threshold, left, right = (np.array(part) for part in zip(*stumps, strict=True))
    nothing = np.zeros(2 * n)
    leaf = np.full(2 * n, -1)
    return assemble(
        Nodes(
            column=np.concatenate((column, leaf)),
            threshold=np.concatenate((threshold, nothing)),
            missing_left=np.zeros(3 * n, dtype=bool),
            left=np.concatenate((n + np.arange(n), leaf)),
            right=np.concatenate((2 * n + np.arange(n), leaf)),
            value=np.concatenate((np.zeros(n), left, right))[:, np.newaxis],
            cover=np.ones(3 * n),
            root=np.arange(n),
            category_start=np.full(3 * n, NUMERIC),
        ),
        output=np.zeros(n, dtype=np.int64),
        base=np.array([10.0]),
        divisor=1.0,
        link="identity",
        category_left=np.zeros(0, dtype=bool),
        feature_of_column=np.arange(n_columns),
        prepare=lambda X: X,
    )


def test_two_stumps_by_hand() -> None:
    # 10 + (1 if a <= 0 else 3) + (5 if b <= 2 else 8); the baseline is a = 1, b = 0: 3 and 5
    X = np.array([[0.0, 2.0], [1.0, 3.0], [np.nan, np.nan]])
    rows = Rows(X, np.zeros(3), np.array([1.0, 1.0, 2.0]))
    engine = TreeEngine(forest([(0, 0, 1, 3), (1, 2, 5, 8)], 2), rows, SQUARED, np.array([1.0, 0]))
    assert engine.prediction.tolist() == [16, 21, 21]
    assert engine.loss == (16**2 + 3 * 21**2) / 4
    assert engine.without_each().tolist() == [(18**2 + 3 * 21**2) / 4, (16**2 + 3 * 18**2) / 4]
    engine.remove(1)
    assert engine.prediction.tolist() == [16, 18, 18]
    assert engine.without_each().tolist() == [18**2, np.inf]


def test_missing_values_of_the_whole_range_of_sizes_lose_nothing() -> None:
    rows = Rows(np.array([[-1.0], [1.0]]), np.zeros(2))
    for size in (1e-200, 1e-3, 1e12, 1e100):
        one = forest([(0, 0, size, 3 * size)], 1)
        engine = TreeEngine(one, rows, SQUARED, np.zeros(1))
        expected = [10 + size, 10 + 3 * size]
        np.testing.assert_allclose(engine.prediction, expected, rtol=1e-15)


def test_of_two_equal_columns_the_first_goes_first() -> None:
    X = np.repeat(np.random.default_rng(0).normal(size=(200, 1)), 2, axis=1)
    stumps = [(0, -0.3, 1.0, 2.0), (1, -0.3, 1.0, 2.0)]
    engine = TreeEngine(forest(stumps, 2), Rows(X, X[:, 0]), SQUARED, np.zeros(2))
    losses = engine.without_each()
    assert losses[0] == losses[1]
    assert eliminate(engine).removed == (0,)


def test_a_loss_that_is_no_number_is_refused() -> None:
    rows = Rows(np.zeros((2, 1)), np.array([1e200, 0.0]))
    engine = TreeEngine(forest([(0, 0, 1, 3)], 1), rows, SQUARED, np.zeros(1))
    with pytest.raises(ValueError, match="squared_error must be finite but is inf"):
        engine.without_each()


@pytest.mark.parametrize("scale", [1e-8, 1.0, 700.0])
def test_our_exponential_is_right_to_two_last_places(scale) -> None:
    x = np.random.default_rng(0).uniform(-scale, scale, 1000)
    y = x.copy()
    exponentials(y, np.empty((2, len(y)), np.int64))
    expected = np.array([math.exp(v) for v in x])
    assert (np.abs(y - expected) <= 2 * np.spacing(expected)).all()


@pytest.mark.parametrize("distance", [1e-15, 1e-6, 1.0])
def test_our_logarithm_is_right_to_two_last_places(distance) -> None:
    x = np.random.default_rng(0).uniform(0, distance, 1000)
    for values in (x + 1e-16, 1 - x / 2):
        y = values.copy()
        negative_logs(y, np.empty((2, len(y)), np.int64))
        expected = np.array([-math.log(v) for v in values])
        assert (np.abs(y - expected) <= 2 * np.spacing(expected)).all()


def test_nodes_are_numbered_from_the_root_down_whatever_the_library_did() -> None:
    # the root is the last node, and one leaf belongs to nobody
    nodes = Nodes(
        column=np.array([0, 0, 0, 1, 0, 0]),
        threshold=np.array([0.0, 0, 0, 0.5, 0, 1.5]),
        missing_left=np.zeros(6, dtype=bool),
        left=np.array([-1, -1, -1, 0, -1, 3]),
        right=np.array([-1, -1, -1, 1, -1, 2]),
        value=np.array([[1.0], [2], [3], [0], [99], [0]]),
        cover=np.array([4.0, 5, 6, 0, 99, 0]),
        root=np.array([5]),
        category_start=np.full(6, NUMERIC),
    )
    numbered = assemble(
        nodes,
        output=np.zeros(1, dtype=np.int64),
        base=np.zeros(1),
        divisor=1.0,
        link="identity",
        category_left=np.zeros(0, dtype=bool),
        feature_of_column=np.arange(2),
        prepare=lambda X: X,
    )
    assert numbered.threshold.tolist() == [1.5, 0.5]
    assert numbered.child.tolist() == [[~0, 1], [~2, ~1]]
    assert numbered.value.ravel().tolist() == [3, 1, 2]
    assert numbered.cover.tolist() == [6, 4, 5]


def test_where_nothing_can_be_written_kernels_are_compiled_in_memory() -> None:
    program = (
        "from chaffinch.tasks.selection.masked_loss.numba_tools import compiled\n"
        "exec('def one_more(x): return x + 1')\n"  # of no file, so that there is no place for it
        "print(compiled(one_more)(1))"
    )
    done = python(program, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=True)
    assert done.stdout == "2\n"
