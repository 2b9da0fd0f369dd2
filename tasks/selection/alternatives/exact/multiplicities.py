"""Multiplicities: in how many sets each feature is, and what they are worth at most.

Without pair costs, m sets are worth the sum of value_j c_j, where c_j is in how many sets feature j
is. A table gives the largest sum that some of the features can contribute, by the places left in
all sets, and by the pairs of sets that can still share a feature (`designs.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.exact.best_sets import is_late
from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import Integers
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

_BITS = 61  # of a sum, so that it is less than a quarter of what 64 bits hold
_MOST_BITS_OF_VALUE = 52


@dataclass(frozen=True)
class WholeValues:
    """Values in whole units, the best first.

    A unit is a power of two, so that scaling is exact and only rounding to the next integer loses
    digits. The error is measured: for values such as 9, 8.5, 7 it is zero, and results are then
    exact to the last bit.
    """

    units: Integers  # (p,), descending
    exponent: int  # a unit is 2 ** exponent
    error: float  # at most this many units, up to a half, lie between a value and its integer
    lowest: int  # units taken off each value

    def at_most(self, units: int, n_values: int) -> float:
        """Return a number that sums of so many values do not exceed if their units do not."""
        whole = units + n_values * self.lowest + math.ceil(self.error * n_values)
        number = float(whole)
        if int(number) < whole:
            number = math.nextafter(number, math.inf)
        return math.ldexp(number, self.exponent)

    def blur(self, n_values: int) -> int:
        """Return by how many units sums of so many values may differ and yet be equal."""
        return math.floor(2 * self.error * n_values)

    def rounding(self, n_values: int) -> float:
        """Return by how much sums of so many values may differ and have equal units."""
        return math.ldexp(2 * self.error * n_values, self.exponent)


def whole_values(values: Floats, largest_sum: int, *, is_from_0: bool) -> WholeValues:
    """Round descending values, finite, to whole units.

    `largest_sum`: how many values, one of them counted so often, a sum may have. `is_from_0`:
    the lowest is taken off all of them.
    """
    bits = min(_MOST_BITS_OF_VALUE, _BITS - largest_sum.bit_length())
    exponent = int(np.frexp(np.abs(values).max())[1]) - bits
    scaled = np.ldexp(values, -exponent)
    units = np.rint(scaled).astype(np.int64)
    error = float(np.abs(scaled - units).max(initial=0.0))
    lowest = int(units[-1]) if is_from_0 else 0
    return WholeValues(units - lowest, exponent, error, lowest)


class Bars(NamedTuple):
    """What does not go together, over p features, in their order.

    For searches that assign each feature to its sets before the next one. A row of weights w and a
    cap b requires that the weights of a set's features sum to at most b; previous sets, groups and
    a budget are such rows. Weights may be negative, e.g. for a minimum number of features of a
    group: a feature is barred from a set only if no feature that it can still take compensates for
    it.
    """

    conflicts: Mask  # (p, p): which two no set may have; (0, 0) without any
    weights: Floats  # (r, p)
    caps: Floats  # (r,)
    # (r, p + 1, k + 1), what t of the features from an index on weigh at least; inf if fewer
    least: Floats

    @classmethod
    def none(cls) -> Bars:
        """Return that any features go together."""
        empty = np.zeros((0, 0))
        return cls(np.zeros((0, 0), dtype=np.bool_), empty, np.zeros(0), np.zeros((0, 0, 0)))

    @classmethod
    def of(cls, conflicts: Mask, weights: Floats, caps: Floats, k: int) -> Bars:
        """Return what does not go together in sets of k features."""
        weights = np.ascontiguousarray(weights)  # always, so that kernels are compiled once
        least = np.full((len(weights), weights.shape[1] + 1, k + 1), np.inf)
        _weigh(weights, least)
        return cls(conflicts if conflicts.any() else conflicts[:0, :0], weights, caps, least)

    @property
    def is_none(self) -> bool:
        """Whether any features go together."""
        return not len(self.conflicts) and not len(self.weights)


@compiled
def _weigh(weights: Floats, least: Floats) -> None:
    """Fill in what t features from an index on weigh at least, the last ones first."""
    k = least.shape[2] - 1
    for row in range(len(weights)):
        lightest = np.full(k + 1, np.inf)
        for j in range(weights.shape[1], -1, -1):
            if j < weights.shape[1]:
                place = k
                while place > 0 and lightest[place - 1] > weights[row, j]:
                    lightest[place] = lightest[place - 1]
                    place -= 1
                lightest[place] = weights[row, j]
            least[row, j, 0] = 0.0
            for t in range(k):
                least[row, j, t + 1] = least[row, j, t] + lightest[t]


@compiled
def is_barred(bars: Any, members: Any, n_members: int, j: int, n_open: int) -> bool:
    """Return whether a set, with room for `n_open`, may not have feature j, after all before it.

    The features of the set come first in `members` (k,).
    """
    if bars.conflicts.shape[0]:
        for i in range(n_members):
            if bars.conflicts[j, members[i]]:
                return True
    for row in range(len(bars.caps)):
        weight = bars.weights[row, j] + bars.least[row, j + 1, n_open - 1]
        for i in range(n_members):
            weight += bars.weights[row, members[i]]
        if weight > bars.caps[row]:
            return True
    return False


NONE = -(2**62)  # less than any promise
_MOST_CELLS = 12_000_000  # 8 bytes each
_ROWS_BETWEEN_LOOKS = 4  # at the clock


def is_too_large(n_features: int, n_places: int, n_pairs: int) -> bool:
    """Return whether there is no table for so many."""
    return (n_features + 1) * (n_places + 1) * (n_pairs + 1) > _MOST_CELLS


def table_of_uses(
    units: Integers, n_sets: int, n_places: int, n_pairs: int, deadline: float | None
) -> Integers | None:
    """Return the promises of the best uses, (p + 1, n_places + 1, n_pairs + 1).

    An entry is a promise: worth times `scale`, less the pairs of sets that share a feature. As
    there are fewer pairs than `scale`, more worth always promises more, and of uses that are worth
    the same those promise most that share least; such uses are easier to make sets of.

    NONE where places cannot be filled. None if it would be too large, or it is too late. Sums of
    `n_places` of `units`, times `n_pairs` + 1, are less than 2**61. `n_sets`, `n_places`,
    `n_pairs`: in how many sets a feature can be, how many places these have, and how many pairs of
    them can share a feature, one counted for each.
    """
    n_features = len(units)
    if is_too_large(n_features, n_places, n_pairs):
        return None
    table = np.full((n_features + 1, n_places + 1, n_pairs + 1), NONE)
    table[-1, 0] = 0
    for last in range(n_features, 0, -_ROWS_BETWEEN_LOOKS):
        if is_late(deadline):
            return None
        _fill(table, units, max(0, last - _ROWS_BETWEEN_LOOKS), last, n_sets)
    return table


@compiled
def _fill(table: Integers, units: Integers, first: int, last: int, n_sets: int) -> None:
    """Fill the rows of features first..last - 1, the last first, from the row after them."""
    n_places, n_pairs = table.shape[1], table.shape[2]
    for j in range(last - 1, first - 1, -1):
        for left in range(n_places):
            for pairs in range(n_pairs):
                best = NONE
                for count in range(min(n_sets, left) + 1):
                    shares = count * (count - 1) // 2
                    if shares > pairs:
                        break
                    after = table[j + 1, left - count, pairs - shares]
                    if after > NONE:
                        best = max(best, after + units[j] * count * n_pairs - shares)
                table[j, left, pairs] = best
