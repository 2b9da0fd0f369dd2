"""Several feature sets in one pass over the features: fast heuristics.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3,
for univariate qualities: a set is worth the sum of its features' values.

===================================  =======================
paper                                here
===================================  =======================
Algorithm 2, Greedy Replacement      `greedy_replacement`
Algorithm 3, Greedy Balancing        `greedy_balancing`
Algorithm 4, Greedy Depth Search     `greedy_depth_search`
===================================  =======================

The paper's floor((1 - tau) k) is `largest_overlap` here, so that any dissimilarity can be used.
Ties of values go to the lowest index; ties of sums, to the set that was begun first.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heapreplace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.exact.best_sets import is_late
from chaffinch.tasks.selection.core import Floats

Sets = NDArray[np.int32]

_LOOKS_BETWEEN_LOOKS_AT_THE_CLOCK = 16_384  # at a place or a set: some milliseconds


def greedy_replacement(values: Floats, k: int, n_sets: int, largest_overlap: int) -> Sets:
    """Keep the best features in every set, and fill each up with the best unused ones.

    Returns sorted indices (m', k), a set per row, the first the best k; m' < m if there are too
    few features. K is the largest number of features that two sets share.
    """
    check(values, k, n_sets, largest_overlap)
    order, own = best_first(values), k - largest_overlap
    if own:
        n_sets = min(n_sets, 1 + (len(order) - k) // own)
    starts = largest_overlap + own * np.arange(n_sets)
    rest = order[starts[:, None] + np.arange(own)]
    top = np.broadcast_to(order[:largest_overlap], (n_sets, largest_overlap))
    return np.sort(np.hstack([top, rest]), axis=1).astype(np.int32)


def greedy_balancing(values: Floats, k: int, n_sets: int, largest_overlap: int) -> Sets:
    """Distribute the features of Greedy Replacement so that the sets have similar values.

    In order of value, each feature goes to the set of the lowest value that still has room. Returns
    no sets if there are too few features for m.
    """
    check(values, k, n_sets, largest_overlap)
    order, own = best_first(values), k - largest_overlap
    if largest_overlap + own * n_sets > len(order):
        return np.empty((0, k), dtype=np.int32)
    chosen = [order[:largest_overlap].tolist() for _ in range(n_sets)]
    with_room = [(0.0, place) for place in range(n_sets)]  # a heap, by worth
    for feature in order[largest_overlap : largest_overlap + own * n_sets].tolist():
        worth, least = with_room[0]
        chosen[least].append(feature)
        if len(chosen[least]) < k:
            heapreplace(with_room, (worth + float(values[feature]), least))
        else:
            heappop(with_room)
    return np.sort(np.array(chosen), axis=1).astype(np.int32)


def greedy_depth_search(
    values: Floats,
    k: int,
    n_sets: int,
    largest_overlap: int,
    *,
    deadline: float | None = None,
) -> Sets:
    """Take each set that differs enough from those before, the worst feature exchanged first.

    Finds sets where Greedy Replacement has run out of features, but may go through all sets of k
    features for that. `deadline` is on the clock of `time.monotonic`.
    """
    check(values, k, n_sets, largest_overlap)
    order = best_first(values)
    if largest_overlap == k:
        sets = [tuple(range(k))] * n_sets
    else:
        sets = list(islice(_visit_in_depth(len(order), k, largest_overlap, deadline), n_sets))
    places = np.array(sets, dtype=np.int64).reshape(len(sets), k)
    return np.sort(order[places], axis=1).astype(np.int32)


def best_first(values: Floats) -> NDArray[np.int64]:
    """Return the features by descending value; ties go to the lowest index."""
    return np.argsort(-np.asarray(values, dtype=np.float64), kind="stable")


def check(values: Floats, k: int, n_sets: int, largest_overlap: int) -> None:
    """Raise InputError if an argument of a search for univariate sets is outside its range."""
    if np.ndim(values) != 1 or not np.isfinite(values).all():
        raise InputError("values must be one finite number per feature")
    for name, value, least, most in (
        ("k", k, 1, len(values)),
        ("largest_overlap", largest_overlap, 0, k),
    ):
        if not least <= value <= most:
            raise InputError(f"{name} must be in {least}..{most} but is {value}")
    if n_sets < 1:
        raise InputError(f"n_sets must be at least 1 but is {n_sets}")


def _visit_in_depth(
    n: int, k: int, largest_overlap: int, deadline: float | None
) -> Iterator[tuple[int, ...]]:
    """Visit all sets of k places in lexicographic order, and yield those different enough."""
    # prefixes that already share too much with a set are skipped, which changes nothing
    chosen: list[int] = []  # as bits
    prefix: list[int] = []
    place, looked_at, bits = 0, 0, 0
    while True:
        if place > n - k + len(prefix):  # too few places are left
            if not prefix:
                return
            place = prefix.pop()
            bits ^= 1 << place
            place += 1
            continue
        looked_at += 1 + len(chosen)
        if looked_at >= _LOOKS_BETWEEN_LOOKS_AT_THE_CLOCK:
            looked_at = 0
            if is_late(deadline):
                return
        with_place = bits | 1 << place
        if all((with_place & other).bit_count() <= largest_overlap for other in chosen):
            if len(prefix) == k - 1:
                chosen.append(with_place)
                yield (*prefix, place)
            else:
                prefix.append(place)
                bits = with_place
        place += 1
