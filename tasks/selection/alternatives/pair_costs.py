"""Pair costs: the smallest of each feature, and a convex part, which gives tighter bounds.

Counting each pair at the cheapest of either of its features is a weak bound for similar features:
the cheapest partners of a feature are not cheap with each other. With a matrix
Q, and the rest R = costs - 2 Q, the sum of the pair costs of a set T of t features is

    T'QT - sum over T of Q_jj + sum over pairs of T of R_ij,

and if d'Qd >= 0 for every d that sums to 0, the first term lies above its tangents for all weights
that sum to t. This holds for any such Q, any gains, and any added pair costs. The best Q is that of
the dual of a semidefinite program (Billionnet, Elloumi and
Plateau 2009; with entries at least 0, Burer 2009): over Y, a matrix of n + 1 rows,

    most of  gains'y - 1/2 costs . Y[1:, 1:],  y = Y[0, 1:] = diagonal of Y[1:, 1:],  Y[0, 0] = 1,
    sum of y = k,  Y (k, -1, ..., -1)' = 0,  0 <= Y <= 1,  Y positive semidefinite.

It is solved by alternating directions between positive semidefinite matrices and those that satisfy
the other constraints (Oliveira, Wolkowicz and Xu 2018). Each step takes one eigendecomposition and
gives a Q; more steps give a better one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from chaffinch.tasks.selection.alternatives.arrays import Integers, is_late, largest_size
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, stable_order

_STEPS = 120  # at a time
_PENALTY, _LENGTH = 1.0, 1.6  # of what the two matrices differ by; of a step of the multipliers
_HALVINGS = 50  # of an interval, to make weights sum to k
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass
class _Directions:
    """Two matrices that are to become equal, and the multipliers of their difference."""

    entries: Floats
    multipliers: Floats


class Convexity:
    """Convex part of some pair costs, improved by successive searches.

    `work`: of searches since the part was last improved. `patience`: work of a search before it
    tries the part. `is_quicker`: whether the last search that tried the part finished with it.
    """

    def __init__(self) -> None:
        self.work = 0.0
        self.patience = 0.0
        self.is_quicker = False
        self._features = np.empty(0, dtype=np.int64)
        self._part = np.empty((0, 0))
        self._directions: _Directions | None = None

    def part(self, features: Integers) -> Floats | None:
        """Return Q of some features, in order; None if it is unknown."""
        places = np.searchsorted(self._features, features)
        if not len(self._features) or places.max() == len(self._features):
            return None
        if not np.array_equal(self._features[places], features):
            return None
        return self._part[np.ix_(places, places)]

    def improve(
        self, features: Integers, gains: Floats, costs: Floats, k: int, deadline: float | None
    ) -> None:
        """Improve the part for sets of size k; costs (n, n) are inf for a conflict."""
        is_allowed = np.isfinite(costs)
        target = np.zeros((len(gains) + 1, len(gains) + 1))
        target[1:, 1:] = np.where(is_allowed, costs, 0.0) / 2
        target[0, 1:] = target[1:, 0] = -gains / 2
        np.fill_diagonal(target, 0.0)
        scale = float(np.abs(target).max()) or 1.0
        if self._directions is None or not np.array_equal(features, self._features):
            self._directions = _first(len(gains), k)
        with threadpool_limits(limits=1):  # the result must not depend on the number of threads
            part = _steps(target / scale, is_allowed, k, self._directions, deadline)
            self._part = _made_convex(scale * part)
        self._features, self.work = features, 0.0


def _first(n: int, k: int) -> _Directions:
    """Return the mean of all sets, and zero multipliers."""
    entries = np.full((n + 1, n + 1), k * (k - 1) / (n * (n - 1)))
    entries[0, :] = entries[:, 0] = k / n
    np.fill_diagonal(entries, k / n)
    entries[0, 0] = 1.0
    return _Directions(entries, np.zeros_like(entries))


def _steps(
    target: Floats, is_allowed: Mask, k: int, at: _Directions, deadline: float | None
) -> Floats:
    """Take some steps; return the last Q."""
    n = len(target) - 1
    normal = np.concatenate([[k], -np.ones(n)]) / np.sqrt(k * k + n)
    for _ in range(_STEPS):
        wanted = _within(at.entries + at.multipliers / _PENALTY, normal)
        values, vectors = np.linalg.eigh(wanted)
        first = int(np.searchsorted(values, 0.0))
        semidefinite = (vectors[:, first:] * values[first:]) @ vectors[:, first:].T
        dual = _PENALTY * (semidefinite - wanted)
        dual -= at.multipliers - _within(at.multipliers, normal)
        entries = semidefinite - (target + at.multipliers) / _PENALTY
        weights = _summing_to(k, (2 * entries[0, 1:] + np.diag(entries)[1:]) / 3)
        entries = np.clip(entries, 0.0, 1.0)
        entries[1:, 1:] *= is_allowed
        np.fill_diagonal(entries, np.concatenate([[1.0], weights]))
        entries[0, 1:] = entries[1:, 0] = weights
        at.multipliers = at.multipliers + _LENGTH * _PENALTY * (entries - semidefinite)
        at.entries = entries
        if is_late(deadline):
            break
    part: Floats = dual[1:, 1:]
    return part


def _within(matrix: Floats, normal: Floats) -> Floats:
    """Return a symmetric matrix projected on the complement of a unit vector."""
    along = matrix @ normal
    across = np.outer(normal, along - (normal @ along) / 2 * normal)
    within: Floats = matrix - across - across.T
    return within


def _summing_to(k: int, weights: Floats) -> Floats:
    """Return the projection of weights on those in 0..1 that sum to k."""
    low, high = float(weights.min()) - 1, float(weights.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(weights - middle, 0.0, 1.0).sum() > k:
            low = middle
        else:
            high = middle
    return np.clip(weights - low, 0.0, 1.0)


def _made_convex(matrix: Floats) -> Floats:
    """Return a matrix with its diagonal raised until it is convex where weights sum to 0."""
    matrix = (matrix + matrix.T) / 2
    n = len(matrix)
    lowest = float(np.linalg.eigvalsh(_within(matrix, np.full(n, 1 / np.sqrt(n))))[0])
    rounding = 8 * n * _EPSILON * float(np.linalg.norm(matrix))
    return matrix + (max(0.0, -lowest) + rounding) * np.eye(n)


# The smallest pair costs of each feature, in order, compiled.
#
# A sample of a row gives an upper limit of the values sought; if it is too low, the whole row is
# used. They are distributed to as many buckets of equal width, and each bucket is sorted. So a row
# is read twice, with little other work.

_SAMPLE = 64
_DEVIATIONS = 3.0  # of a sample; if its limit is too low, a row is read again
_MANY = 2  # times the number sought: many are equal
_FEW = 32  # up to here it is quicker to insert than to merge


@compiled
def _ceiling(row: Any, most: int, sample: Any) -> float:
    """Return a limit that about `most` of a row, rather more than fewer, do not exceed; or inf."""
    step = max(1, len(row) // len(sample))
    size = min(len(sample), len(row) // step)
    expected = size * most / len(row)
    rank = int(expected + _DEVIATIONS * np.sqrt(expected) + _DEVIATIONS)
    if rank >= size:
        return np.inf
    filled = 0
    for i in range(size):
        x = row[i * step]
        if filled == rank:
            if x >= sample[rank - 1]:
                continue
            filled -= 1
        place = filled
        while place > 0 and sample[place - 1] > x:
            sample[place] = sample[place - 1]
            place -= 1
        sample[place] = x
        filled += 1
    return float(sample[rank - 1])


@compiled
def _up_to(row: Any, itself: int, ceiling: float, places: Any) -> int:
    """Write the places of values up to a limit, and return their number."""
    n = 0
    for j in range(itself):
        places[n] = j  # branchless: the outcome is unpredictable
        n += row[j] <= ceiling
    for j in range(itself + 1, len(row)):
        places[n] = j
        n += row[j] <= ceiling
    return n


@compiled
def _without_most_equals(row: Any, ceiling: float, most: int, places: Any, n: int) -> int:
    """Drop values equal to a limit but for the first `most`; return the number left."""
    kept, n_equal = 0, 0
    for i in range(n):
        is_equal = row[places[i]] == ceiling
        places[kept] = places[i]
        kept += not is_equal or n_equal < most
        n_equal += is_equal
    return kept


@compiled
def _share_out(numbers: Any, most: int, of: Any, ends: Any, order: Any) -> int:
    """Write the places of numbers bucket by bucket, and the relevant ends; return how many.

    Infinite values are in the last one.
    """
    n, lowest, highest = len(numbers), np.inf, -np.inf
    for number in numbers:
        if number < np.inf:
            lowest, highest = min(lowest, number), max(highest, number)
    width = highest - lowest
    scale = (n - 1) / width if 0.0 < width < np.inf else 0.0
    if scale == np.inf:
        scale = 0.0
    ends[: n + 1] = 0
    for i in range(n):
        of[i] = int((numbers[i] - lowest) * scale) if numbers[i] < np.inf else n
        ends[of[i]] += 1
    filled, last = 0, -1
    while filled < most:
        last += 1
        here = ends[last]
        ends[last] = filled
        filled += here
    for i in range(n):
        if of[i] <= last:
            order[ends[of[i]]] = i
            ends[of[i]] += 1
    return last + 1


@compiled
def _sort(numbers: Any, order: Any, ends: Any) -> None:
    """Sort places by their numbers in each bucket; stable."""
    first = 0
    for end in ends:
        if end - first > _FEW:
            order[first:end] = order[first:end][stable_order(numbers[order[first:end]])]
        first = end
    for i in range(1, first):  # entries stay in their bucket
        at, place = order[i], i
        while place > 0 and numbers[order[place - 1]] > numbers[at]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = at


@compiled
def nearest_of(costs: Floats, most: int) -> NDArray[np.int64]:
    """Return the `most` features of the smallest pair costs with each, shape (n, most).

    The smallest first; ties go to the first. Costs are inf for a conflict; the diagonal is ignored.
    The table is not copied.
    """
    n = len(costs)
    nearest, sample = np.empty((n, most), np.int64), np.empty(_SAMPLE)
    places, of, order = np.empty((3, n + 1), np.int64)
    ends, numbers = np.empty(n + 1, np.int64), np.empty(n)
    for i in range(n):
        row = costs[i]
        ceiling = _ceiling(row, most, sample)
        n_places = _up_to(row, i, ceiling, places)
        if n_places < most:
            ceiling = np.inf
            n_places = _up_to(row, i, ceiling, places)
        if n_places > _MANY * most:
            n_places = _without_most_equals(row, ceiling, most, places, n_places)
        for place in range(n_places):
            numbers[place] = row[places[place]]
        n_buckets = _share_out(numbers[:n_places], most, of, ends, order)
        _sort(numbers, order, ends[:n_buckets])
        for place in range(most):
            nearest[i, place] = places[order[place]]
    return nearest


@compiled
def half_sums(costs: Floats, nearest: NDArray[np.int64], k: int) -> Floats:
    """Return half the sum of the t smallest pair costs of each feature, t < k, shape (n, k)."""
    halves = np.zeros((len(costs), k))
    for i in range(len(costs)):
        added = 0.0
        for t in range(1, k):
            added += costs[i, nearest[i, t - 1]]
            halves[i, t] = added / 2
    return halves


_NEIGHBOURS = 64  # searched for the remaining features before all others


class Nearest(NamedTuple):
    """The smallest pair costs of each feature."""

    neighbours: Integers  # (n, l), features of the smallest pair costs, the smallest first
    halves: Floats  # (n, k), half the sum of the t smallest


class PairTable:
    """Pair costs of features (n, n): symmetric, zero diagonal, in C order; inf for a conflict."""

    def __init__(self, costs: Floats) -> None:
        self.costs = np.ascontiguousarray(costs)
        self._nearest: Nearest | None = None

    @cached_property
    def largest(self) -> float:
        """Largest finite absolute cost, 0 if there is none."""
        if self.has_conflicts:
            return largest_size(self.costs)
        return max(self._highest, -float(self.costs.min(initial=0.0)))

    @property
    def has_conflicts(self) -> bool:
        """Whether some are infinite."""
        return self._highest == math.inf

    @cached_property
    def _highest(self) -> float:
        return float(self.costs.max(initial=0.0))

    @cached_property
    def least(self) -> float:
        """Smallest pair cost, inf if there is none."""
        n = len(self.costs)
        if n < 2:
            return math.inf
        flat = self.costs.reshape(-1)[:-1]
        off_diagonal = flat.reshape(n - 1, n + 1)[:, 1:]  # n after each number of the diagonal
        return float(off_diagonal.min())

    def nearest(self, k: int) -> Nearest:
        """Return the smallest costs of each feature, as many as sets of k need."""
        if self._nearest is None or self._nearest.halves.shape[1] != k:
            self._nearest = None  # free the old one first
            n_neighbours = min(len(self.costs) - 1, k + _NEIGHBOURS) if k > 1 else 0
            neighbours = nearest_of(self.costs, n_neighbours)
            self._nearest = Nearest(neighbours, half_sums(self.costs, neighbours, k))
        return self._nearest

    def roughly(self, k: int) -> Nearest:
        """Return the same if known, or else smaller sums, and no neighbours."""
        # one pass through the table, regardless of the deadline
        if self._nearest is not None and self._nearest.halves.shape[1] == k:
            return self._nearest
        least = self.least if math.isfinite(self.least) else 0.0
        n = len(self.costs)
        halves = np.broadcast_to(np.arange(k) * (least / 2), (n, k)).copy()
        return Nearest(np.zeros((n, 0), dtype=np.int64), halves)


class PairTables:
    """The table of all features, and the last one of a subset."""

    def __init__(self) -> None:
        self._of: Floats | None = None
        self._whole: PairTable | None = None
        self._part: PairTable | None = None
        self._features = np.empty(0, dtype=np.int64)

    def whole(self, costs: Floats) -> PairTable:
        """Return the table of pair costs, shape (n, n), cached for the same array."""
        if self._whole is None or self._of is not costs:
            self._of, self._whole, self._part = costs, PairTable(costs), None
        return self._whole

    def among(self, costs: Floats, features: Integers) -> PairTable:
        """Return the table of some features, in order."""
        whole = self.whole(costs)
        if len(features) == len(costs):
            return whole
        if self._part is None or not np.array_equal(features, self._features):
            self._part = None  # free the old one first
            self._part = PairTable(whole.costs[np.ix_(features, features)])
            self._features = features
        return self._part
