"""Losses of whole blocks of rows, compiled: of the present mask, and without each feature.

Every loss is a weighted mean of a number per row, made of the row's raw scores as the model's
own prediction and `Loss` would make it. The numbers of a block of 128 rows are added by halves,
64 + 64, 32 + 32 and so on, and blocks in their order: an order that no processor and no number of
threads changes. The present mask's own loss takes the same way with a change of 0, so that a
feature whose masking changes nothing ties exactly.

exp and log are written out, so that the compiler works on as many rows at a time as the processor
has lanes, where a library call would take them singly; that is four times faster, and the
same on every machine. Both are right to 2 units in the last place.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

SQUARED, ABSOLUTE, LOGISTIC, LOGISTIC_SINGLE, SOFTMAX, PROBABILITY = range(6)
_FLOOR = float(np.finfo(np.float64).eps)  # of probabilities, as in `Loss`

# ln 2 in two parts, the first short enough that a whole number times it is exact
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# added to a number, leaves its nearest whole number in the last bits
_ROUNDER = 1.5 * 2.0**52
_ROUNDER_BITS = 0x4338000000000000
_ROOT_OF_HALF_BITS = 0x3FE6A09E667F3BCD
_ONE_BITS = 1023 << 52
_EXP = tuple(1 / math.factorial(i) for i in range(13, -1, -1))
_ATANH = tuple(2 / i for i in range(21, 2, -2))


@compiled
def _horner(x: float, c: Any) -> float:
    total = 0.0
    for i in range(len(c)):
        total = total * x + c[i]
    return total


@compiled
def exponentials(x: Any, bits: Any) -> None:
    """Replace x (n,) by its exponentials; `bits`, int64 of shape (2, n), is room to work in.

    x = k ln 2 + r with a whole number k and r of at most ln 2 / 2, so that exp x = 2^k exp r, and
    Taylor's series of exp r to the power 13 leaves an error below 1e-17. x is held in -708..709.
    """
    number = bits[0].view(np.float64)
    for i in range(len(x)):
        x[i] = min(max(x[i], -708.0), 709.0)
        number[i] = x[i] * (1 / math.log(2)) + _ROUNDER
    for i in range(len(x)):
        k = number[i] - _ROUNDER
        r = (x[i] - k * _LN2_HIGH) - k * _LN2_LOW
        x[i] = _horner(r, _EXP)
    for i in range(len(x)):
        bits[0, i] = (bits[0, i] << 52) + _ONE_BITS
    for i in range(len(x)):
        x[i] *= number[i]


@compiled
def negative_logs(x: Any, bits: Any) -> None:
    """Replace x (n,), normal and above 0, by minus its logarithms; `bits` as above.

    x = 2^k m with sqrt(1/2) <= m < sqrt 2, and log m = 2 atanh s for s = (m - 1) / (m + 1). As
    s is below 0.172 in size, the series of atanh to the power 21 leaves an error below 1e-18.
    """
    mantissa, exponent = bits[0].view(np.float64), bits[1].view(np.float64)
    for i in range(len(x)):
        mantissa[i] = x[i]
    for i in range(len(x)):
        exponent_of_x = (bits[0, i] - _ROOT_OF_HALF_BITS) >> 52
        bits[0, i] -= exponent_of_x << 52
        bits[1, i] = exponent_of_x + _ROUNDER_BITS
    for i in range(len(x)):
        k = exponent[i] - _ROUNDER
        s = (mantissa[i] - 1) / (mantissa[i] + 1)
        square = s * s
        x[i] = -(k * _LN2_HIGH + (k * _LN2_LOW + (2 * s + s * square * _horner(square, _ATANH))))


@compiled
def _raw_scores(unit: float, divisor: float, score: Any, change: Any, raw: Any) -> None:
    for o in range(len(score)):
        for row in range(score.shape[1]):
            raw[o, row] = (score[o, row] + change[o, row]) * unit
        if divisor != 1:  # a division is what most of this would take
            for row in range(score.shape[1]):
                raw[o, row] /= divisor


@compiled
def _truths(kind: int, raw: Any, y: Any, bits: Any, truth: Any) -> None:
    """Write the probability of each row's class; `raw` (n_outputs, n) is used up."""
    if kind == SOFTMAX:
        for row in range(len(y)):
            truth[row] = raw[0, row]
        for o in range(1, len(raw)):
            for row in range(len(y)):
                truth[row] = max(truth[row], raw[o, row])
        for o in range(len(raw)):
            for row in range(len(y)):
                raw[o, row] -= truth[row]
            exponentials(raw[o], bits)
        for row in range(len(y)):
            total = 0.0
            for o in range(len(raw)):
                total += raw[o, row]
            truth[row] = raw[int(y[row]), row] / total
    elif len(raw) > 1:
        for row in range(len(y)):
            truth[row] = raw[int(y[row]), row]
    else:
        second = raw[0]
        if kind in (LOGISTIC, LOGISTIC_SINGLE):
            for row in range(len(y)):
                second[row] = -second[row]
            exponentials(second, bits)
        if kind == LOGISTIC:
            for row in range(len(y)):
                second[row] = 1 / (1 + second[row])
        elif kind == LOGISTIC_SINGLE:  # near 1 its distance from 1 is what rounding leaves of it
            for row in range(len(y)):
                second[row] = np.float32(1 / np.float64(np.float32(1 + second[row])))
        for row in range(len(y)):
            truth[row] = abs(second[row] - (1 - y[row]))


@compiled
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
    """Write the blocks' sums of weighted losses without each of m features, (n_blocks, m + 1).

    A raw score is ``score * unit / divisor``; `score` and `change` are those of `State`. `y` and
    `weight` have shape (n_blocks, 128); a weight of 0 fills the last block up. The last column is
    for the present mask.
    """
    n_rows = score.shape[2]
    unchanged = np.zeros(score.shape[1:], np.int64)
    raw, loss = np.empty(score.shape[1:]), np.empty(n_rows)
    bits = np.empty((2, n_rows), np.int64)
    for block in range(start, stop):
        for i in range(len(features) + 1):
            by = change[block, features[i]] if i < len(features) else unchanged
            _raw_scores(unit, divisor, score[block], by, raw)
            if kind == SQUARED:
                for row in range(n_rows):
                    loss[row] = (raw[0, row] - y[block, row]) ** 2
            elif kind == ABSOLUTE:
                for row in range(n_rows):
                    loss[row] = abs(raw[0, row] - y[block, row])
            else:
                _truths(kind, raw, y[block], bits, loss)
                for row in range(n_rows):
                    loss[row] = min(max(loss[row], _FLOOR), 1 - _FLOOR)
                negative_logs(loss, bits)
            for row in range(n_rows):
                loss[row] *= weight[block, row]
            half = n_rows // 2
            while half:
                for row in range(half):
                    loss[row] += loss[row + half]
                half //= 2
            sums[block, i] = loss[0]
