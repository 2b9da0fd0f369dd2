"""Searches for multiplicities: values as integers, barred features, problem and state."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import Integers, is_late
from chaffinch.tasks.selection.alternatives.greedy import best_first
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# Values as integers, so that searches compare sums exactly.
#
# A unit is a power of two, so that scaling is exact and only rounding to the next integer loses
# digits. The error is measured: for values such as 9, 8.5, 7 it is zero, and results are then exact
# to the last bit.

_BITS = 61  # of a sum, so that it is less than a quarter of what 64 bits hold
_MOST_BITS_OF_VALUE = 52
_LOOKS_OF_A_CALL, _MOST_LOOKS = 2_000, 50_000_000  # at a sum: some tenths of a second


@dataclass(frozen=True)
class WholeValues:
    """The best features' values in whole units, best first."""

    order: Integers  # (p,), which feature each is
    units: Integers  # (p,), descending
    exponent: int  # a unit is 2 ** exponent
    error: float  # at most this many units, up to a half, lie between a value and its integer

    def at_most(self, units: int, n_values: int) -> float:
        """Return a number that sums of so many values do not exceed if their units do not."""
        whole = units + math.ceil(self.error * n_values)
        number = float(whole)
        if int(number) < whole:
            number = math.nextafter(number, math.inf)
        return math.ldexp(number, self.exponent)

    def units_at_most(self, number: float, n_values: int) -> int:
        """Return what the units of sums of so many values do not exceed if the sums do not."""
        return math.floor(math.ldexp(number, -self.exponent)) + math.ceil(self.error * n_values)

    def blur(self, n_values: int) -> int:
        """Return by how many units sums of so many values may differ and yet be equal."""
        return math.floor(2 * self.error * n_values)

    def rounding(self, n_values: int) -> float:
        """Return by how much sums of so many values may differ and have equal units."""
        return math.ldexp(2 * self.error * n_values, self.exponent)


def sums_of_sets(units: Integers, k: int, most: int) -> Integers | None:
    """Return all that sets of k of some whole numbers come to, ascending.

    None if there are more than `most` of these sums, or of those of fewer numbers, or if it takes
    more than some tenths of a second to find them.
    """
    sums, n_looks = [np.zeros(1, dtype=np.int64)] + [np.zeros(0, dtype=np.int64)] * k, 0
    for unit in units:
        for size in range(k, 0, -1):
            n_looks += _LOOKS_OF_A_CALL + len(sums[size])
            if n_looks > _MOST_LOOKS:
                return None
            sums[size] = np.union1d(sums[size], sums[size - 1] + unit)
            if len(sums[size]) > most:
                return None
    return sums[k]


def whole_values(values: Floats, n_best: int, largest_sum: int) -> WholeValues:
    """Round the `n_best` best values, finite, to whole units.

    `largest_sum`: how many values, one of them counted so often, a sum may have.
    """
    order = best_first(values)[:n_best]
    taken = np.asarray(values, dtype=np.float64)[order]
    bits = min(_MOST_BITS_OF_VALUE, _BITS - largest_sum.bit_length())
    exponent = int(np.frexp(np.abs(taken).max())[1]) - bits
    scaled = np.ldexp(taken, -exponent)
    units = np.rint(scaled)
    return WholeValues(
        order, units.astype(np.int64), exponent, float(np.abs(scaled - units).max(initial=0.0))
    )


# Features that a set may not take, given those that it has, compiled: conflicts, and linear rows.
#
# For searches that assign each feature to its sets before the next one: `feature_by_feature.py` and
# `worst_set_targets.py`. A row of weights w and a cap b requires that the weights of a set's
# features sum to at most b; given sets, groups and a budget are such rows. Weights may be negative,
# e.g. for a minimum number of features of a group, so that a feature is barred from a set only if
# no feature that it can still take compensates for it.


class Bars(NamedTuple):
    """What does not go together, over p features in the order in which they are given."""

    conflicts: Mask  # (p, p): which two no set may have; (0, 0) without any
    weights: Floats  # (r, p)
    caps: Floats  # (r,)
    # (r, p + 1, k + 1), what t of the features from one on weigh at least; inf if fewer
    least: Floats

    @classmethod
    def none(cls) -> Bars:
        """Return that any features go together."""
        empty = np.zeros((0, 0))
        return cls(np.zeros((0, 0), dtype=np.bool_), empty, np.zeros(0), np.zeros((0, 0, 0)))

    @classmethod
    def of(cls, conflicts: Mask, weights: Floats, caps: Floats, k: int) -> Bars:
        """Return what does not go together in sets of k features."""
        weights = np.ascontiguousarray(weights)  # one layout, so that kernels are compiled once
        least = np.full((len(weights), weights.shape[1] + 1, k + 1), np.inf)
        _weigh(weights, least)
        return cls(conflicts if conflicts.any() else conflicts[:0, :0], weights, caps, least)

    @property
    def is_none(self) -> bool:
        """Whether any features go together."""
        return not len(self.conflicts) and not len(self.weights)

    def allow(self, sets: Integers) -> Mask:
        """Return which sets, shape (N, k), are barred from none of their features."""
        if self.is_none:
            return np.ones(len(sets), dtype=bool)
        is_allowed = (self.weights[:, sets].sum(axis=2) <= self.caps[:, np.newaxis]).all(axis=0)
        if len(self.conflicts):
            pairs = self.conflicts[sets[:, :, np.newaxis], sets[:, np.newaxis, :]]
            is_allowed &= ~pairs.any(axis=(1, 2))
        return np.asarray(is_allowed)


@compiled
def _weigh(weights: Floats, least: Floats) -> None:
    """Fill in what t features from one on weigh at least, the last ones first."""
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
    """Return whether a set, with room for `n_open`, may not have feature j, all before it given.

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


# What the features from one on can still add, by places left and pairs of sets left: a table.
#
# An entry is a promise: worth times `scale`, less the pairs of sets that share a feature. As there
# are fewer pairs than `scale`, more worth always promises more, and of uses that are worth the same
# those promise most that share least; such uses are easier to make sets of.

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


class Problem(NamedTuple):
    """Designs of m sets of k of p features, any two with at most K in common."""

    units: Integers  # (p,), the features' worth, descending
    sums: Integers  # (p + 1,), of the first ones
    # (p + 1, m k + 1, m (m - 1) / 2 K + 1), the most that the features from one on promise, by
    # places left and by pairs of sets that can still share a feature
    table: Integers
    scale: int  # more than the pairs that there are
    blur: int  # a design worth no more than this above the best is not searched for
    size: int  # k
    overlap: int  # K
    most_uses: int  # in how many sets a feature may be
    bars: Bars
    is_free: bool  # without bars, so that no feature is in more sets than a better one


FREE = Bars.none(), True  # what ends a `Problem` in which any features go together


class State(NamedTuple):
    """State of a search; one row for each feature, the present one the last that counts."""

    has: NDArray[np.bool_]  # (p, m), the partial design
    # (p + 1, m), whether a set has had the same features as the one before it
    alike: NDArray[np.bool_]
    counts: Integers  # (p, m + 1), in how many sets the feature may be, the most promising first
    promises: Integers
    n_counts: Integers
    next_count: Integers
    places: Integers  # (p, m), in which sets it is
    is_placed: NDArray[np.bool_]
    is_barred: NDArray[np.bool_]  # (p, m), which sets may not have it
    most: Integers  # (p + 1,), how often it may be used
    worth: Integers  # (p + 1,), of those before
    left: Integers  # (p + 1,), places left for this and those after
    members: Integers  # (m, k), the features of each set, in order
    filled: Integers  # (m,), how many these are
    shared: Integers
    feature: Integers  # the present one, -1 when the search is done; and 1 if it is new
    best: NDArray[np.bool_]
    best_worth: Integers  # NONE without a design; and the promise that is to be beaten


def fresh_state(n_features: int, n_sets: int, n_places: int) -> State:
    """Return the state of a search that has not begun."""
    p, m = n_features, n_sets
    alike = np.zeros((p + 1, m), dtype=np.bool_)
    alike[0, 1:] = True
    most, left = np.zeros(p + 1, dtype=np.int64), np.zeros(p + 1, dtype=np.int64)
    most[0], left[0] = m, n_places
    return State(
        has=np.zeros((p, m), dtype=np.bool_),
        alike=alike,
        counts=np.zeros((p, m + 1), dtype=np.int64),
        promises=np.zeros((p, m + 1), dtype=np.int64),
        n_counts=np.zeros(p, dtype=np.int64),
        next_count=np.zeros(p, dtype=np.int64),
        places=np.zeros((p, m), dtype=np.int64),
        is_placed=np.zeros(p, dtype=np.bool_),
        is_barred=np.zeros((p, m), dtype=np.bool_),
        most=most,
        worth=np.zeros(p + 1, dtype=np.int64),
        left=left,
        members=np.zeros((m, n_places // m), dtype=np.int64),
        filled=np.zeros(m, dtype=np.int64),
        shared=np.zeros((m, m), dtype=np.int64),
        feature=np.array([0, 1]),
        best=np.zeros((p, m), dtype=np.bool_),
        best_worth=np.array([NONE, NONE]),
    )
