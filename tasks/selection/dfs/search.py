"""`chaffinch.differentiable_selection`: features for a linear model, from any large table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.tasks.selection.dfs.coefficients import check_order
from chaffinch.tasks.selection.dfs.descent import Descent, Step
from chaffinch.tasks.selection.dfs.table import read_table
from chaffinch.tasks.selection.dfs.target import read_target
from chaffinch.tasks.selection.vocabulary import Floats, Task

_FEWEST_ROWS = 1_000


@dataclass(frozen=True, eq=False)
class DifferentiableSelection:
    """Where a descent ended, and its way.

    Attributes
    ----------
    features : ndarray of int, shape (m,)
        Positions of the chosen features, ascending: the requested number with the highest scores,
        of equal ones those further right; or, for a given penalty, all with s above 1/2.
    scores : ndarray of float64, shape (D,)
        v; higher is better, above 0 is s above 1/2.
    kept : ndarray of float64, shape (D,)
        s = sigma(2 v).
    losses : ndarray of float64, shape (steps,)
        Of each step's batch: the estimated share of the target's variance that is left, and the
        penalty.
    sums : ndarray of float64, shape (steps,)
        sum s, before each step.
    penalties : ndarray of float64, shape (steps,)
        lambda, of the term lambda / D sum s.
    """

    features: NDArray[np.int64]
    scores: Floats = field(repr=False)
    kept: Floats = field(repr=False)
    losses: Floats = field(repr=False)
    sums: Floats = field(repr=False)
    penalties: Floats = field(repr=False)


def differentiable_selection(
    X: Any,
    y: ArrayLike,
    *,
    n_features: int | None = None,
    penalty: float | None = None,
    order: int = 4,
    steps: int = 60,
    batch_rows: int | None = None,
    task: Task | None = None,
    seed: int = 0,
) -> DifferentiableSelection:
    """Choose features for a linear model, by descent of an estimate that needs no model.

    Parameters
    ----------
    X : array (N, D) or scipy sparse matrix
        Finite numbers of any scale. Sparse tables stay sparse: a million features are no matter.
        In float32 it takes half the memory.
    y : array, shape (N,)
        Numbers or classes.
    n_features : int in 1..D, optional
        How many to choose; the penalty is steered towards as many.
    penalty : float, at least 0, optional
        lambda of the term lambda / D sum s, in units of the target's variance; in place of a
        number.
    order : int in 1..8
        See `chaffinch.residual_variance`; 4 or less where rows are few.
    steps : int, at least 1
        How many.
    batch_rows : int, optional
        Rows of each step, at least; 1,000, or all where there are fewer: small batches vary too
        much. By default so many that all rows are used in as few steps.
    task : "classification" or "regression", optional
        By default classification for text, true and false, and for whole numbers with at most 20
        different values.
    seed : int
        Draws the order of the rows, anew for every round through the table. One seed, one result,
        for any number of threads.

    Returns
    -------
    DifferentiableSelection

    Raises
    ------
    ValueError
        If a setting is out of its range, or X and y do not fit each other or cannot be used.

    Notes
    -----
    Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020. Here
    columns are standardised, not just centred.

    Examples
    --------
    >>> import chaffinch, numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 50))
    >>> y = 2 * X[:, 7] - X[:, 30]
    >>> chaffinch.differentiable_selection(X, y, n_features=2).features.tolist()
    [7, 30]
    """
    if (n_features is None) == (penalty is None):
        raise ValueError(
            f"one of n_features and penalty must be given but they are {n_features} and {penalty}"
        )
    asked = {"penalty": penalty, "n_features": n_features}
    descent = _descent_of(X, y, order, steps, batch_rows, task, seed, (asked,))
    return _follow(descent, steps, asked)


def differentiable_path(
    X: Any,
    y: ArrayLike,
    *,
    penalties: Sequence[float],
    order: int = 4,
    steps: int = 60,
    batch_rows: int | None = None,
    task: Task | None = None,
    seed: int = 0,
) -> tuple[DifferentiableSelection, ...]:
    """Choose features for ever larger penalties, each descent beginning where the last one ended.

    Parameters
    ----------
    X, y, order, batch_rows, task, seed
        See `differentiable_selection`.
    penalties : sequence of float, at least 0
        Ascending: what has left does not come back, so that a path cannot go the other way.
    steps : int, at least 1
        For each penalty.

    Raises
    ------
    ValueError
        If penalties do not ascend, a setting is out of its range, or X and y cannot be used.
    """
    if not len(penalties):
        raise ValueError("penalties must hold at least one but are none")
    asked: list[dict[str, Any]] = [
        {"penalty": penalty, "n_features": None} for penalty in penalties
    ]
    descent = _descent_of(X, y, order, steps, batch_rows, task, seed, asked)
    for lower, higher in pairwise(penalties):
        if higher <= lower:
            raise ValueError(
                f"penalties must ascend but {higher} comes after {lower}: what has left does not "
                "come back; sort them"
            )
    found = []
    for one in asked:
        descent.forget()
        found.append(_follow(descent, steps, one))
    return tuple(found)


def ever_fewer(descent: Descent, steps: int) -> Iterator[Floats]:
    """Yield v, shape (D,), each time that the number of features has been halved, down to one.

    Parameters
    ----------
    descent : Descent
        At its start.
    steps : int
        For each number.
    """
    n_left = len(descent.v)
    while n_left > 1:
        n_left = (n_left + 1) // 2
        descent.forget()
        for _ in range(steps):
            descent.step(n_features=n_left)
        yield descent.v.astype(np.float64)


def batch_size(n_rows: int, batch_rows: int | None = None) -> int:
    """Return how many rows a batch has at least.

    Raises
    ------
    ValueError
        If fewer than 1,000 are asked for, and not all there are.
    """
    fewest = min(n_rows, _FEWEST_ROWS)
    if batch_rows is None:
        return fewest
    if not isinstance(batch_rows, Integral) or not fewest <= int(batch_rows) <= n_rows:
        raise ValueError(
            f"batch_rows must be in {fewest}..{n_rows} but is {batch_rows}: of fewer rows the "
            "estimate varies too much, and more there are not"
        )
    return int(batch_rows)


def _descent_of(
    X: Any,
    y: ArrayLike,
    order: int,
    steps: int,
    batch_rows: int | None,
    task: Task | None,
    seed: int,
    asked: Sequence[dict[str, Any]],
) -> Descent:
    """Read everything and refuse what cannot be, before any work."""
    if isinstance(steps, bool) or not isinstance(steps, Integral) or steps < 1:
        raise ValueError(f"steps must be a whole number, at least 1, but is {steps!r}")
    n_rows, n_columns = np.shape(X) if np.ndim(X) == 2 or hasattr(X, "tocsr") else (0, 0)
    for one in asked:
        _check_asked(n_columns, **one)
    if n_rows:
        check_order(order, batch_size(n_rows, batch_rows))
    table = read_table(X)
    outputs = read_target(y, n_rows, task)
    return Descent(table, outputs, order, batch_size(n_rows, batch_rows), seed)


def _check_asked(n_columns: int, *, penalty: Any, n_features: Any) -> None:
    if penalty is not None and not (isinstance(penalty, Real) and 0 <= float(penalty) < np.inf):
        raise ValueError(f"penalty must be a finite number, at least 0, but is {penalty!r}")
    if n_features is None or not n_columns:
        return
    if not isinstance(n_features, Integral) or not 1 <= int(n_features) <= n_columns:
        raise ValueError(f"n_features must be in 1..{n_columns} but is {n_features!r}")


def _follow(descent: Descent, steps: int, asked: dict[str, Any]) -> DifferentiableSelection:
    n_features, penalty = asked["n_features"], asked["penalty"]
    way: list[Step] = [
        descent.step(penalty=penalty, n_features=n_features or 1) for _ in range(steps)
    ]
    v = descent.v.astype(np.float64)
    chosen = np.flatnonzero(v > 0)
    if n_features is not None:
        chosen = np.sort(np.argsort(v, kind="stable")[len(v) - n_features :])
    return DifferentiableSelection(
        chosen,
        v,
        descent.kept.astype(np.float64),
        np.array([one.loss for one in way]),
        np.array([one.kept for one in way]),
        np.array([one.penalty for one in way]),
    )
