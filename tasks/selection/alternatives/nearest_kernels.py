"""The smallest pair costs of each feature, in order, compiled.

A sample of a row says how large the ones that are sought are at most; should it say too little, all
of the row are taken. They are shared out to buckets of equal width, as many as they are, and each
bucket is sorted. So a row is read twice, and what is beyond those is little.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.masked_loss.ordering import stable_order
from chaffinch.tasks.selection.vocabulary import Floats

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
