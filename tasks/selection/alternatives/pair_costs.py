"""What of the pair costs is convex, so that sets are bounded by more than pairs at their cheapest.

To count each pair of a set at the cheapest that either of its features has is a weak bound where
features are alike: the cheapest partners of a feature are not cheap with each other. With a matrix
Q, and the rest R = costs - 2 Q, the sum of the pair costs of a set T of t features is

    T'QT - sum over T of Q_jj + sum over pairs of T of R_ij,

and if d'Qd >= 0 for every d that sums to 0, the first term lies above its tangents among all
weights that sum to t. That is so for any such Q, whatever the gains are, and whatever is added to
the pair costs. The best Q is that of the dual of a semidefinite program (Billionnet, Elloumi and
Plateau 2009; with entries at least 0, Burer 2009): over Y, a matrix of n + 1 rows,

    most of  gains'y - 1/2 costs . Y[1:, 1:],  y = Y[0, 1:] = diagonal of Y[1:, 1:],  Y[0, 0] = 1,
    sum of y = k,  Y (k, -1, ..., -1)' = 0,  0 <= Y <= 1,  Y positive semidefinite.

It is solved by alternating directions between matrices that are semidefinite and those that have
the rest (Oliveira, Wolkowicz and Xu 2018). Each step is the eigenvalues of one matrix, and each
has a Q; more steps make it a better one.
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
    """Two matrices that are to be one, and the multipliers of their difference."""

    entries: Floats
    multipliers: Floats


class Convexity:
    """What searches have found out of some pair costs, better and better the longer they take.

    Attributes
    ----------
    work : float
        How much has been done in searches since the part was last made better.
    patience : float
        How much a search may do before the part is tried.
    is_quicker : bool
        Whether the last search that tried it came to its end with it.
    """

    def __init__(self) -> None:
        self.work = 0.0
        self.patience = 0.0
        self.is_quicker = False
        self._features = np.empty(0, dtype=np.int64)
        self._part = np.empty((0, 0))
        self._directions: _Directions | None = None

    def part(self, features: Integers) -> Floats | None:
        """Return Q of some features, in order; None if it is not known."""
        places = np.searchsorted(self._features, features)
        if not len(self._features) or places.max() == len(self._features):
            return None
        if not np.array_equal(self._features[places], features):
            return None
        return self._part[np.ix_(places, places)]

    def improve(
        self, features: Integers, gains: Floats, costs: Floats, k: int, deadline: float | None
    ) -> None:
        """Find a better part for sets of k that are worth their gains less their pair costs.

        Parameters
        ----------
        features : ndarray of int64, shape (n,)
            In order; what the rest is about.
        gains : ndarray, shape (n,)
        costs : ndarray, shape (n, n)
            Symmetric; inf where two features must not be together.
        k : int in 2..n - 1
        deadline : float or None
        """
        is_allowed = np.isfinite(costs)
        target = np.zeros((len(gains) + 1, len(gains) + 1))
        target[1:, 1:] = np.where(is_allowed, costs, 0.0) / 2
        target[0, 1:] = target[1:, 0] = -gains / 2
        np.fill_diagonal(target, 0.0)
        scale = float(np.abs(target).max()) or 1.0
        if self._directions is None or not np.array_equal(features, self._features):
            self._directions = _first(len(gains), k)
        with threadpool_limits(limits=1):  # one result, however many threads there are
            part = _steps(target / scale, is_allowed, k, self._directions, deadline)
            self._part = _made_convex(scale * part)
        self._features, self.work = features, 0.0


def _first(n: int, k: int) -> _Directions:
    """Return the mean of all sets, and no multipliers."""
    entries = np.full((n + 1, n + 1), k * (k - 1) / (n * (n - 1)))
    entries[0, :] = entries[:, 0] = k / n
    np.fill_diagonal(entries, k / n)
    entries[0, 0] = 1.0
    return _Directions(entries, np.zeros_like(entries))


def _steps(
    target: Floats, is_allowed: Mask, k: int, at: _Directions, deadline: float | None
) -> Floats:
    """Take some steps; return the Q of the last."""
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
    """Return a symmetric matrix where what is along a unit vector is taken out."""
    along = matrix @ normal
    across = np.outer(normal, along - (normal @ along) / 2 * normal)
    within: Floats = matrix - across - across.T
    return within


def _summing_to(k: int, weights: Floats) -> Floats:
    """Return the weights in 0..1 that sum to k and are nearest to some."""
    low, high = float(weights.min()) - 1, float(weights.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(weights - middle, 0.0, 1.0).sum() > k:
            low = middle
        else:
            high = middle
    return np.clip(weights - low, 0.0, 1.0)


def _made_convex(matrix: Floats) -> Floats:
    """Return a matrix with so much on its diagonal that it is convex where weights sum to 0."""
    matrix = (matrix + matrix.T) / 2
    n = len(matrix)
    lowest = float(np.linalg.eigvalsh(_within(matrix, np.full(n, 1 / np.sqrt(n))))[0])
    rounding = 8 * n * _EPSILON * float(np.linalg.norm(matrix))
    return matrix + (max(0.0, -lowest) + rounding) * np.eye(n)


# The smallest pair costs of each feature, in order, compiled.
#
# A sample of a row says how large the ones that are sought are at most; should it say too little,
# all of the row are taken. They are shared out to buckets of equal width, as many as they are, and
# each bucket is sorted. So a row is read twice, and what is beyond those is little.

_SAMPLE = 64
_DEVIATIONS = 3.0  # of a sample; where it says too little, a row is read again
_MANY = 2  # times what is sought: many are equal
_FEW = 32  # up to here it is quicker to insert than to merge


@compiled
def _ceiling(row: Any, most: int, sample: Any) -> float:
    """Return a number that probably as many of a row do not exceed, and few more; or inf."""
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
    """Write what does not exceed a ceiling, and return how many there are."""
    n = 0
    for j in range(itself):
        places[n] = j  # without a branch: which these are is not to be foreseen
        n += row[j] <= ceiling
    for j in range(itself + 1, len(row)):
        places[n] = j
        n += row[j] <= ceiling
    return n


@compiled
def _without_most_equals(row: Any, ceiling: float, most: int, places: Any, n: int) -> int:
    """Leave out what reaches a ceiling but for the first `most`; return how many are left."""
    kept, n_equal = 0, 0
    for i in range(n):
        is_equal = row[places[i]] == ceiling
        places[kept] = places[i]
        kept += not is_equal or n_equal < most
        n_equal += is_equal
    return kept


@compiled
def _share_out(numbers: Any, most: int, of: Any, ends: Any, order: Any) -> int:
    """Write the places of numbers bucket by bucket, and where each ends, as far as they matter.

    Returns how many buckets these are. What is infinite has the last one.
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
    """Sort places by their numbers in each bucket, those of equal ones as they are."""
    first = 0
    for end in ends:
        if end - first > _FEW:
            order[first:end] = order[first:end][stable_order(numbers[order[first:end]])]
        first = end
    for i in range(1, first):  # nothing leaves its bucket
        at, place = order[i], i
        while place > 0 and numbers[order[place - 1]] > numbers[at]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = at


@compiled
def nearest_of(costs: Floats, most: int) -> NDArray[np.int64]:
    """Return the `most` others of the smallest pair costs with each, the smallest first.

    Of equal ones the first comes first. No copy of the table is made.

    Parameters
    ----------
    costs : ndarray, shape (n, n)
        inf where two must not be together; what is on the diagonal does not matter.
    most : int in 0..n - 1

    Returns
    -------
    ndarray of int64, shape (n, most)
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
    """Return half the sum of the t smallest pair costs of each for t < k, shape (n, k).

    Parameters
    ----------
    costs : ndarray, shape (n, n)
    nearest : ndarray of int64, shape (n, l), l >= k - 1
        As of `nearest_of`.
    k : int, at least 1
    """
    halves = np.zeros((len(costs), k))
    for i in range(len(costs)):
        added = 0.0
        for t in range(1, k):
            added += costs[i, nearest[i, t - 1]]
            halves[i, t] = added / 2
    return halves


_NEIGHBOURS = 64  # that are looked through for those that are left, and then all that are


class Nearest(NamedTuple):
    """The smallest pair costs of each feature.

    Attributes
    ----------
    neighbours : ndarray of int64, shape (n, l)
        The others of the smallest pair costs with each, the smallest first.
    halves : ndarray, shape (n, k)
        Half the sum of the t smallest.
    """

    neighbours: Integers
    halves: Floats


class PairTable:
    """Pair costs of some features.

    Attributes
    ----------
    costs : ndarray, shape (n, n)
        Symmetric with a zero diagonal, row by row in memory; inf for a conflict.
    """

    def __init__(self, costs: Floats) -> None:
        self.costs = np.ascontiguousarray(costs)
        self._nearest: Nearest | None = None

    @cached_property
    def largest(self) -> float:
        """The largest finite one in absolute value, 0 of none."""
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
        """The smallest of two features, inf of none."""
        n = len(self.costs)
        if n < 2:
            return math.inf
        flat = self.costs.reshape(-1)[:-1]
        off_diagonal = flat.reshape(n - 1, n + 1)[:, 1:]  # n after each number of the diagonal
        return float(off_diagonal.min())

    def nearest(self, k: int) -> Nearest:
        """Return the smallest ones of each feature, as many as sets of k ask for."""
        if self._nearest is None or self._nearest.halves.shape[1] != k:
            self._nearest = None  # before there are two
            n_neighbours = min(len(self.costs) - 1, k + _NEIGHBOURS) if k > 1 else 0
            neighbours = nearest_of(self.costs, n_neighbours)
            self._nearest = Nearest(neighbours, half_sums(self.costs, neighbours, k))
        return self._nearest

    def roughly(self, k: int) -> Nearest:
        """Return the same if it is known, or sums that are no larger, and no neighbours.

        For these the table is looked at once: that much time there is, however late it may be.
        """
        if self._nearest is not None and self._nearest.halves.shape[1] == k:
            return self._nearest
        least = self.least if math.isfinite(self.least) else 0.0
        n = len(self.costs)
        halves = np.broadcast_to(np.arange(k) * (least / 2), (n, k)).copy()
        return Nearest(np.zeros((n, 0), dtype=np.int64), halves)


class PairTables:
    """The table of all features, and that of those which were asked for last."""

    def __init__(self) -> None:
        self._of: Floats | None = None
        self._whole: PairTable | None = None
        self._part: PairTable | None = None
        self._features = np.empty(0, dtype=np.int64)

    def whole(self, costs: Floats) -> PairTable:
        """Return the table of pair costs, shape (n, n), which is kept while these are the same."""
        if self._whole is None or self._of is not costs:
            self._of, self._whole, self._part = costs, PairTable(costs), None
        return self._whole

    def among(self, costs: Floats, features: Integers) -> PairTable:
        """Return the table of some features, in order."""
        whole = self.whole(costs)
        if len(features) == len(costs):
            return whole
        if self._part is None or not np.array_equal(features, self._features):
            self._part = None  # before there are two
            self._part = PairTable(whole.costs[np.ix_(features, features)])
            self._features = features
        return self._part
