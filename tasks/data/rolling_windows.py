"""Rolling means and standard deviations of earlier rows; the cost is independent of the window.

A series is cut into blocks of the window's length. A window is the end of a block, summed
backwards, and the start of the next, summed forwards (van Herk 1992; Gil and Werman 1993, for
maxima). Nothing is subtracted from a sum, so that rows outside the window leave neither rounding
errors nor missing values in it.

Sums are of differences from the block's first row, in double-double arithmetic (Dekker 1971) of 32
digits. The deviation loses as many digits as the window's length has.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, inlined

_Pair = tuple[float, float]

_SPLIT = 134217729.0  # 2^27 + 1: splits a double into two of 26 bits


def moments_before(values: Floats, place: Index, window: int) -> tuple[Floats, Floats]:
    """Return mean and deviation of the `window` preceding rows of the same series."""
    mean, deviation = np.full((2, len(values)), np.nan)
    _moments(values, place, window, mean, deviation)
    return mean, deviation


@inlined
def _sum(a: float, b: float) -> _Pair:
    """Return a + b as a pair, exactly."""
    total = a + b
    of_b = total - a
    return total, (a - (total - of_b)) + (b - of_b)


@inlined
def _product(a: float, b: float) -> _Pair:
    """Return a b as a pair, exactly."""
    product = a * b
    of_a, of_b = _SPLIT * a, _SPLIT * b
    a_high, b_high = of_a - (of_a - a), of_b - (of_b - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


@inlined
def _add(high: float, low: float, other_high: float, other_low: float) -> _Pair:
    total, rest = _sum(high, other_high)
    return _sum(total, rest + (low + other_low))


@inlined
def _divide(high: float, low: float, by: float) -> _Pair:
    quotient = high / by
    product, rest = _product(quotient, by)
    return quotient, ((high - product) - rest + low) / by


@inlined
def _square(high: float, low: float) -> _Pair:
    square, rest = _product(high, high)
    return square, rest + 2.0 * high * low


@compiled
def _moments(values: Floats, place: Index, window: int, mean: Floats, deviation: Floats) -> None:
    # sums of differences and of squares over the last 0, 1, ... rows before a block
    before = np.empty((window, 4))
    before[0] = 0.0
    begin = 0
    while begin < len(values):
        end = begin + 1
        while end < len(values) and place[end] != 0:
            end += 1
        for first in range(begin, end, window):
            anchor = values[first]
            reach = min(window - 1, first - begin)
            for back in range(1, reach + 1):
                high, low = _sum(values[first - back], -anchor)
                a, b = _add(before[back - 1, 0], before[back - 1, 1], high, low)
                square, rest = _square(high, low)
                c, d = _add(before[back - 1, 2], before[back - 1, 3], square, rest)
                before[back, 0], before[back, 1] = a, b
                before[back, 2], before[back, 3] = c, d
            sum_high, sum_low, square_high, square_low = 0.0, 0.0, 0.0, 0.0
            for row in range(first, min(first + window, end - 1)):
                high, low = _sum(values[row], -anchor)
                sum_high, sum_low = _add(sum_high, sum_low, high, low)
                square, rest = _square(high, low)
                square_high, square_low = _add(square_high, square_low, square, rest)
                back = window - 1 - (row - first)
                if back > reach:
                    continue
                high, low = _add(sum_high, sum_low, before[back, 0], before[back, 1])
                square, rest = _add(square_high, square_low, before[back, 2], before[back, 3])
                a, b = _product(anchor, float(window))
                a, b = _add(a, b, high, low)
                a, b = _divide(a, b, float(window))
                mean[row + 1] = a + b
                c, d = _square(high, low)
                c, d = _divide(c, d, float(window))
                c, d = _add(square, rest, -c, -d)
                deviation[row + 1] = np.sqrt(max(c + d, 0.0) / (window - 1))
        begin = end
