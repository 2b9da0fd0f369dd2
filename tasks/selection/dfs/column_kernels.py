"""Means, spreads and the strongest direction of the columns, compiled: no copy of the table.

Sums are over rows in their order, one column beside the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled


@compiled
def dense_columns(X: Any, mean: Any, rest: Any, variance: Any, varies: Any) -> None:
    """Write the mean, the variance and whether there are two values, each shape (D,), of X (N, D).

    The mean is taken twice, the second time of what is left of the first: mean + rest is nearer.
    """
    n_rows, n_features = X.shape
    for n in range(n_rows):
        for d in range(n_features):
            mean[d] += X[n, d] / n_rows
    for n in range(n_rows):
        for d in range(n_features):
            off = X[n, d] - mean[d]
            rest[d] += off / n_rows
            variance[d] += off * off / n_rows
            varies[d] |= X[n, d] != X[0, d]
    for d in range(n_features):
        variance[d] -= rest[d] * rest[d]


@compiled
def sparse_columns(
    indices: Any, values: Any, n_rows: int,
    mean: Any, rest: Any, variance: Any, varies: Any, stored: Any,
) -> None:  # fmt: skip
    """Write the same of a sparse table, and how many values each column stores, shape (D,)."""
    n_features = len(mean)
    first = np.zeros(n_features)
    for j in range(len(indices)):
        d = indices[j]
        if not stored[d]:
            first[d] = values[j]
        stored[d] += 1
        varies[d] |= values[j] != first[d]
        mean[d] += values[j] / n_rows
    for j in range(len(indices)):
        d = indices[j]
        off = values[j] - mean[d]
        rest[d] += off / n_rows
        variance[d] += off * off / n_rows
    for d in range(n_features):
        absent = n_rows - stored[d]
        varies[d] |= absent > 0 and first[d] != 0
        variance[d] += absent * mean[d] * mean[d] / n_rows
        rest[d] -= absent * mean[d] / n_rows
        variance[d] -= rest[d] * rest[d]


@compiled
def scaled_values(indices: Any, values: Any, origin: Any, inverse: Any, out: Any) -> None:
    """Write stored values, less their column's origin (D,) and times its inverse spread (D,)."""
    for j in range(len(indices)):
        d = indices[j]
        out[j] = (values[j] - origin[d]) * inverse[d]


@compiled
def dense_combination(X: Any, mean: Any, inverse: Any, lengths: Any, out: Any) -> None:
    """Add U' lengths to `out` (D,), with U = (X - mean) inverse and lengths of shape (N,)."""
    n_rows, n_features = X.shape
    for n in range(n_rows):
        for d in range(n_features):
            out[d] += lengths[n] * (X[n, d] - mean[d])
    for d in range(n_features):
        out[d] *= inverse[d]


@compiled
def dense_lengths(X: Any, mean: Any, inverse: Any, direction: Any, lengths: Any) -> None:
    """Write U direction / N, shape (N,), in eight sums, so that the loop vectorises."""
    n_rows, n_features = X.shape
    along, sums = np.empty(n_features), np.empty(8)
    for d in range(n_features):
        along[d] = inverse[d] * direction[d]
    whole = n_features // 8 * 8
    for n in range(n_rows):
        sums[:] = 0.0
        for d in range(0, whole, 8):
            for lane in range(8):
                sums[lane] += (X[n, d + lane] - mean[d + lane]) * along[d + lane]
        for d in range(whole, n_features):
            sums[0] += (X[n, d] - mean[d]) * along[d]
        lengths[n] = sums.sum() / n_rows


@compiled
def sparse_combination(
    starts: Any, indices: Any, values: Any, shift: Any, lengths: Any, out: Any
) -> None:
    """Add U' lengths to `out` (D,), with U the values less a shift (D,) in every row."""
    total = 0.0
    for n in range(len(starts) - 1):
        total += lengths[n]
        for j in range(starts[n], starts[n + 1]):
            out[indices[j]] += lengths[n] * values[j]
    for d in range(len(shift)):
        out[d] -= total * shift[d]


@compiled
def sparse_lengths(
    starts: Any, indices: Any, values: Any, shift: Any, direction: Any, lengths: Any
) -> None:
    """Write U direction / N, shape (N,)."""
    everywhere, n_rows = 0.0, len(starts) - 1
    for d in range(len(shift)):
        everywhere += shift[d] * direction[d]
    for n in range(n_rows):
        length = -everywhere
        for j in range(starts[n], starts[n + 1]):
            length += values[j] * direction[indices[j]]
        lengths[n] = length / n_rows
