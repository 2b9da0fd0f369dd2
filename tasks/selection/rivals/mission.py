"""MISSION: gradients in a count sketch, and only the largest weights predict.

Aghazadeh, Spring, LeJeune, Dasarathy, Shrivastava and Baraniuk, "MISSION: ultra large-scale feature
selection using count-sketches", ICML 2018, algorithm 1: each row's gradient is added to the sketch,
the features of the row are read back from it, and a heap keeps the k with the largest weights,
with which alone the next row is predicted.

Here rows are shuffled for every pass, an intercept is learnt as well, and the length of a step is
in units of the mean squared length of a row. Weights already in the heap are read anew before
others may take their place. A sketch as wide as the table has a cell for each feature: no hashes
are needed, and it is gradient descent with hard thresholding.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from chaffinch.tasks.selection.rivals import mission_kernels as kernels
from chaffinch.tasks.selection.rivals.columns import one_table, standardised
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

_DEPTH, _PASSES, _RATE = 3, 10, 0.1
_NARROWEST, _SHARE = 1_000, 4  # a sketch is a quarter as wide as the table, but not narrower


def mission(
    X: Any,
    y: Floats,
    *,
    n_features: int,
    loss: Literal["squared_error", "log_loss"],
    width: int,
    depth: int = _DEPTH,
    passes: int = _PASSES,
    rate: float = _RATE,
    seed: int = 0,
) -> tuple[NDArray[np.int64], Floats]:
    """Learn a linear model of few features from one row after the other.

    Parameters
    ----------
    X : ndarray of float64 (N, D) in C order, or csr_array
        Columns of about the same spread.
    y : ndarray of float64, shape (N,)
        Numbers for squared error, 0 and 1 for log loss.
    n_features : int in 1..D
        k, how many may predict.
    loss : "squared_error" or "log_loss"
        Of the model.
    width : int, at least 1
        Of the sketch; from D on it is exact.
    depth : int, odd
        Rows of the sketch, of whose cells the median is taken.
    passes : int, at least 1
        Through the rows.
    rate : float, above 0
        Of a step, over the mean squared length of a row.
    seed : int
        Draws the hashes and the order of the rows.

    Returns
    -------
    features : ndarray of int64, shape (at most k,)
        Those in the heap, ascending.
    weights : ndarray of float64, shape (D,)
        Of every feature, as the sketch has them.
    """
    random = np.random.default_rng(seed)
    n_rows, n_columns = X.shape
    is_exact = width >= n_columns
    salts = random.integers(0, 2**64, 0 if is_exact else depth, dtype=np.uint64)
    sketch = np.zeros((1, n_columns) if is_exact else (depth, width))
    heap, weights = np.zeros(n_features, np.int64), np.zeros(n_features)
    place, counts = np.full(n_columns, -1, np.int64), np.zeros(2)
    state = (sketch, salts, heap, weights, place, counts)
    is_sparse, is_logistic = issparse(X), loss == "log_loss"
    step = rate * n_rows / float(((X.data if is_sparse else X) ** 2).sum())
    for _ in range(passes):
        rows = random.permutation(n_rows)
        if is_sparse:
            of_rows = (X.indptr, X.indices, X.data, rows)
            kernels.learn_sparse(*of_rows, y, step, is_logistic, *state)
        else:
            kernels.learn_dense(X, rows, y, step, is_logistic, *state)
    kernels.read_all(sketch, salts, out := np.empty(n_columns))
    return np.sort(heap[: int(counts[0])]), out


def mission_scores(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by the weights that MISSION learns, half of the columns predicting.

    Parameters
    ----------
    rows : Rows
        Training rows.
    schema : Schema
    seed : int
        Draws the hashes and the order of the rows.

    Returns
    -------
    ndarray of float64, shape (d,)
        The absolute weight of a feature's best column, standardised; for more than two classes the
        sum over each against the rest.
    """
    scores = np.zeros(len(schema.features))
    table, feature = one_table(rows, schema)
    if not len(feature) or (rows.y == rows.y[0]).all():
        return scores
    table = _of_one_spread(table)
    total = np.zeros(len(feature))
    for target in _targets(rows, schema):
        _, weights = mission(
            table,
            target,
            n_features=(len(feature) + 1) // 2,
            loss="log_loss" if schema.n_classes else "squared_error",
            width=max(_NARROWEST, len(feature) // _SHARE),
            seed=seed,
        )
        total += np.abs(weights)
    np.maximum.at(scores, feature, total)
    return scores


def _of_one_spread(table: Any) -> Any:
    """Return a table whose columns have the standard deviation 1, centred unless it is sparse."""
    is_sparse: bool = issparse(table)
    if is_sparse:
        variance = (table**2).mean(axis=0) - table.mean(axis=0) ** 2
        table.data /= np.sqrt(variance)[table.indices]
        return table
    for place, column in enumerate(table.T):
        table[:, place] = standardised(column)
    return table


def _targets(rows: Rows, schema: Schema) -> list[Floats]:
    """Return the target in units of its spread, or 0 and 1 for each class but of two."""
    if not schema.n_classes:
        target = standardised(np.asarray(rows.y, dtype=np.float64))
        return [] if target is None else [target]
    there = np.unique(rows.y)
    return [
        (rows.y == label).astype(np.float64) for label in (there if len(there) > 2 else there[1:])
    ]
