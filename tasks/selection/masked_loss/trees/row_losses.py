"""Losses of whole blocks of rows, compiled: of the present mask, and without each feature.

Every loss is a mean of one number per row, computed as the library's prediction and `Loss` would.
The numbers of a block of 128 rows are added by halves, 64 + 64, 32 + 32 and so on, in an order
that no processor and no number of threads changes. The present mask's own loss takes the same way
with a change of 0, so that a feature whose masking changes nothing ties exactly.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

SQUARED, ABSOLUTE, LOGISTIC, SOFTMAX, PROBABILITY = range(5)
_compiled = njit(cache=True, nogil=True)
_inlined = njit(cache=True, nogil=True, inline="always")
_FLOOR = float(np.finfo(np.float64).eps)


@_inlined
def _log_loss(truth: float) -> float:
    return -math.log(min(max(truth, _FLOOR), 1 - _FLOOR))


@_compiled
def _row_loss(
    kind: int,
    unit: float,
    divisor: float,
    score: Any,
    change: Any,
    y: Any,
    row: int,
) -> float:
    """Return the log loss of one row; see `loss_sums`."""
    if kind == SOFTMAX:
        n_outputs = len(score)
        highest = (score[0, row] + change[0, row]) * unit / divisor
        for o in range(1, n_outputs):
            highest = max(highest, (score[o, row] + change[o, row]) * unit / divisor)
        total = 0.0
        truth = 0.0
        for o in range(n_outputs):
            grown = math.exp((score[o, row] + change[o, row]) * unit / divisor - highest)
            total += grown
            if o == y[row]:
                truth = grown
        return _log_loss(truth / total)
    if len(score) > 1:
        o = int(y[row])
        return _log_loss((score[o, row] + change[o, row]) * unit / divisor)
    second = (score[0, row] + change[0, row]) * unit / divisor
    if kind == LOGISTIC:
        second = 1 / (1 + math.exp(-second))
    return _log_loss(second if y[row] > 0 else 1 - second)


@_compiled
def loss_sums(
    kind: int,
    unit: float,
    divisor: float,
    score: Any,
    change: Any,
    features: Any,
    y: Any,
    weight: Any,
    sums: Any,
    start: int,
    stop: int,
) -> None:
    """Sum the weighted row losses of the blocks start..stop-1 without each feature.

    Parameters
    ----------
    kind : int
        SQUARED or ABSOLUTE error, or the log loss of LOGISTIC, SOFTMAX or PROBABILITY scores.
    unit, divisor : float
        A raw score is ``score * unit / divisor``.
    score, change : ndarray of int64, shapes (n_blocks, c, 128) and (n_blocks, n_used, c, 128)
        As in `kernels.State`.
    features : ndarray of int64, shape (m,)
        Which of the used features.
    y, weight : ndarray of float64, shape (n_blocks, 128)
        Truth and weights; a weight of 0 fills the last block up.
    sums : ndarray of float64, shape (n_blocks, m + 1)
        Written to; the last column is for the present mask.
    """
    n_rows = score.shape[2]
    unchanged = np.zeros(score.shape[1:], np.int64)
    loss, present = np.empty(n_rows), np.empty(n_rows)
    for block in range(start, stop):
        for i in range(len(features), -1, -1):
            is_present = i == len(features)
            by = unchanged if is_present else change[block, features[i]]
            if kind == SQUARED:
                for row in range(n_rows):
                    error = (score[block, 0, row] + by[0, row]) * unit / divisor - y[block, row]
                    loss[row] = error * error * weight[block, row]
            elif kind == ABSOLUTE:
                for row in range(n_rows):
                    error = (score[block, 0, row] + by[0, row]) * unit / divisor - y[block, row]
                    loss[row] = abs(error) * weight[block, row]
            else:
                for row in range(n_rows):
                    is_same = not is_present
                    for o in range(len(by)):
                        is_same &= by[o, row] == 0
                    if is_same:
                        loss[row] = present[row]
                    else:
                        loss[row] = weight[block, row] * _row_loss(
                            kind, unit, divisor, score[block], by, y[block], row
                        )
                if is_present:
                    present[:] = loss
            half = n_rows // 2
            while half:
                for row in range(half):
                    loss[row] += loss[row + half]
                half //= 2
            sums[block, i] = loss[0]
