"""Better designs among known sets: two sets of a design are swapped for two others, compiled.

Two sets at a time are replaced by the best two that go with the rest, until no such swap gains.
Then a set is drawn and forced in, what cannot stay with it and one more leave, the gaps are filled
with the best that fit, and it goes on; the best design so far is kept and started from.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.designs import ROUNDING, Designs, Sets
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined
from chaffinch.tasks.selection.vocabulary import Floats

_ROUNDS_WITHOUT_GAIN = 20  # at least
_WORK_BETWEEN_LOOKS = 5_000_000  # at the clock: some milliseconds
_MOST_WORK_OF_A_PAIR = 1_000_000


@inlined
def _shared(sets: Any, is_in: Any, one: int) -> int:
    """Return how many features of a set are marked."""
    shared = 0
    for feature in sets[one]:
        shared += is_in[feature]
    return shared


@inlined
def _mark(sets: Any, is_in: Any, one: int, mark: int) -> None:
    for feature in sets[one]:
        is_in[feature] = mark


@inlined
def _count(sets: Any, uses: Any, one: int, change: int) -> None:
    for feature in sets[one]:
        uses[feature] += change


@inlined
def _has_room(sets: Any, uses: Any, one: int, most: int) -> bool:
    busiest = 0
    for feature in sets[one]:
        busiest = max(busiest, uses[feature])
    return busiest < most


@inlined
def _tell_clashes(sets: Any, is_in: Any, one: int, overlap: int, clashes: Any, place: int) -> None:
    """Write which sets do not go with one that is now at a place, and how many they clash with."""
    _mark(sets, is_in, one, 1)
    for other in range(len(sets)):
        now = np.int16(_shared(sets, is_in, other) > overlap)
        clashes[-1, other] += now - clashes[place, other]
        clashes[place, other] = now
    _mark(sets, is_in, one, 0)


@inlined
def _beside(worths: Any, clashes: Any, a: int, b: int, least: float, out: Any) -> int:
    """Write which sets go with all of a design but two, best first; return how many there are.

    Stops where a set, with the best of them, is not worth more than `least`.
    """
    n, m = 0, len(clashes) - 1
    for one in range(len(worths)):
        if n and worths[out[0]] + worths[one] <= least:
            break
        if clashes[m, one] == clashes[a, one] + clashes[b, one]:
            out[n] = one
            n += 1
    return n


@inlined
def _best_two(
    sets: Any,
    worths: Any,
    beside: Any,
    n: int,
    overlap: int,
    least: float,
    uses: Any,
    most: int,
    is_in: Any,
    pair: Any,
) -> int:
    """Write the best two of the sets beside a rest that are worth more than `least`, or -1.

    Stops early where that is much work. Returns how many sets were looked at.
    """
    pair[0], work = -1, 0
    for i in range(n):
        one = beside[i]
        if 2 * worths[one] <= least or work > _MOST_WORK_OF_A_PAIR:
            break
        if not _has_room(sets, uses, one, most):
            continue
        _mark(sets, is_in, one, 1)
        _count(sets, uses, one, 1)
        for j in range(i + 1, n):
            other = beside[j]
            if worths[one] + worths[other] <= least:
                break
            work += 1
            if _shared(sets, is_in, other) <= overlap and _has_room(sets, uses, other, most):
                least = worths[one] + worths[other]
                pair[0], pair[1] = one, other
                break
        _count(sets, uses, one, -1)
        _mark(sets, is_in, one, 0)
    return work


@compiled
def improve(
    sets: Sets,
    worths: Floats,
    design: Integers,
    overlap: int,
    most: int,
    gain: float,
    pairs_left: Integers,
    most_work: int,
) -> None:
    """Swap two sets of a design at a time until no swap gains, or it is much work.

    Parameters
    ----------
    sets : ndarray of int32, shape (N, k)
        With features 0..max, best first.
    worths : ndarray, shape (N,)
        Finite, decreasing.
    design : ndarray of int64, shape (m,)
        Places of sets that go together; written to.
    overlap, most : int
        How many features two sets may share; how many sets a feature may be in.
    gain : float
        A swap must gain more.
    pairs_left : ndarray of int64, shape (2,)
        Which pair of the design is next, and how many are to be looked at before no swap gains;
        written to. None is left when it is done.
    most_work : int
        Stop after about so many looks at a set.
    """
    m, n_features = len(design), np.max(sets) + 1
    clashes = np.zeros((m + 1, len(sets)), np.int16)  # the last row: their sum
    is_in, uses = np.zeros(n_features, np.int64), np.zeros(n_features, np.int64)
    beside, pair = np.empty(len(sets), np.int64), np.empty(2, np.int64)
    for place in range(m):
        _tell_clashes(sets, is_in, design[place], overlap, clashes, place)
        _count(sets, uses, design[place], 1)
    work = 0
    while pairs_left[1] > 0 and work < most_work:
        a, b = pairs_left[0] // m, pairs_left[0] % m
        pairs_left[0] = (pairs_left[0] + 1) % (m * m)
        if a >= b:
            continue
        pairs_left[1] -= 1
        least = worths[design[a]] + worths[design[b]] + gain
        n = _beside(worths, clashes, a, b, least, beside)
        _count(sets, uses, design[a], -1)
        _count(sets, uses, design[b], -1)
        work += len(sets) + _best_two(
            sets, worths, beside, n, overlap, least, uses, most, is_in, pair
        )
        if pair[0] >= 0:
            pairs_left[1] = m * (m - 1) // 2
            design[a], design[b] = pair
            _tell_clashes(sets, is_in, design[a], overlap, clashes, a)
            _tell_clashes(sets, is_in, design[b], overlap, clashes, b)
        _count(sets, uses, design[a], 1)
        _count(sets, uses, design[b], 1)


@compiled
def filled(sets: Sets, start: Integers, n_sets: int, overlap: int, most: int) -> Integers:
    """Return a design that starts with some sets and takes each further one that fits.

    Shorter than m if they do not suffice.
    """
    n_features = np.max(sets) + 1
    is_in, uses = np.zeros(n_features, np.int64), np.zeros(n_features, np.int64)
    design = np.empty(n_sets, np.int64)
    n = 0
    for place in range(len(start) + len(sets)):
        if n == n_sets:
            break
        one = start[place] if place < len(start) else place - len(start)
        fits = _has_room(sets, uses, one, most)
        if fits and n:
            _mark(sets, is_in, one, 1)
            for i in range(n):
                if _shared(sets, is_in, design[i]) > overlap:
                    fits = False
                    break
            _mark(sets, is_in, one, 0)
        if fits:
            design[n] = one
            _count(sets, uses, one, 1)
            n += 1
    return design[:n]


def improved(
    designs: Designs,
    sets: Sets,
    merits: Floats,
    first: Sets | None,
    deadline: float | None,
) -> Sets | None:
    """Return a design among known sets with a large sum of merits; None if none was found.

    Parameters
    ----------
    designs : Designs
    sets : ndarray of int32, shape (N, k)
    merits : ndarray, shape (N,)
        What a set counts for.
    first : ndarray of int32, shape (m, k), optional
        A design to start from; its sets are taken if they are known.
    deadline : float, optional
        On the clock of `time.monotonic`.
    """
    if len(sets) < designs.n_sets:
        return None
    order = np.lexsort((*sets.T[::-1], -merits))
    sets, merits = np.ascontiguousarray(sets[order]), merits[order]
    m, overlap, most = designs.n_sets, designs.overlap, designs.most_uses(1)
    gain = ROUNDING * m * float(np.abs(merits).max(initial=0.0))
    random = np.random.default_rng(0)
    best, most_merit, since = None, -np.inf, 0
    start = np.array([], dtype=np.int64)
    if first is not None:
        place_of = {features.tobytes(): place for place, features in enumerate(sets)}
        known = [place_of.get(features.tobytes(), -1) for features in first]
        start = np.array([place for place in known if place >= 0], dtype=np.int64)
    most_rounds = max(_ROUNDS_WITHOUT_GAIN, m * m // 2)
    while since < most_rounds and not is_late(deadline):
        design = filled(sets, start, m, overlap, most)
        since += 1
        if len(design) == m:
            pairs_left = np.array([1, math.comb(m, 2)])
            while pairs_left[1] > 0 and not is_late(deadline):
                improve(sets, merits, design, overlap, most, gain, pairs_left, _WORK_BETWEEN_LOOKS)
            merit = float(merits[design].sum())
            if merit > most_merit + gain:
                best, most_merit, since = design, merit, 0
        start = _shaken(random, best, len(sets))
    return None if best is None else sets[best]


def _shaken(random: np.random.Generator, best: Integers | None, n_known: int) -> Integers:
    """Return a start: a good set that is forced in, and the best design without one of its sets."""
    forced = int(n_known * random.random() ** 2)  # rather a good one
    if best is None:
        return np.array([forced])
    kept = np.delete(best, random.integers(len(best)))
    return np.concatenate(([forced], random.permutation(kept)))
