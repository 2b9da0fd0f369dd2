"""Designs among known sets: by cliques of compatible sets, an integer program, and swaps.

A design is worth its bound less its *loss* (`prices.py`), which is the sum of

    what each charged set lacks to the best one, its own loss,
    what the uses of each priced subset lack to the refund that it could get at most,
    what each two sets lack to the most that they may share, at the prices of sharing.

The search adds sets one at a time. What is shared with the sets so far is known when a set is
added; what uses lack is convex in the number of uses, so that a further use costs as much as the
next one at least. The open places can therefore not lose less than the sum of the smallest losses
among the candidates, no two of which may be of one class (see below), and a partial design
is dropped if that is above what may be lost.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from chaffinch.tasks.selection.alternatives.arrays import DONE, PAUSED, Integers, is_late, write
from chaffinch.tasks.selection.alternatives.quality import worths
from chaffinch.tasks.selection.alternatives.result import ROUNDING, Designs, Sets
from chaffinch.tasks.selection.alternatives.simultaneous.prices import Bound, Graph, Known
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, inlined, stable_order

# What several sets that go together lose at least, by classes of sets that do not, compiled.
#
# Sets that have overlap + 1 features in common are a *class*: no two of them go together. So the
# sets of a design are of as many classes, and lose no less in all than the best of so many classes.


@inlined
def _in_common(common: Any, n_common: int, features: Any, k: int, into: Any) -> int:
    """Write which features are in both, of two that are sorted; return how many."""
    n, a, b = 0, 0, 0
    while a < n_common and b < k:
        if common[a] == features[b]:
            into[n] = common[a]
            n += 1
            a += 1
            b += 1
        elif common[a] < features[b]:
            a += 1
        else:
            b += 1
    return n


@compiled
def least_of_classes(
    graph: Any, candidates: Any, further: Any, above: float, n_wanted: int, classes: Any
) -> tuple[float, int]:
    """Return the least loss of so many candidates, no two of one class, and how many were visited.

    The candidate that loses least comes first; those worth no more than `above` are left out. The
    loss is inf if there are not so many classes. `classes` is room to work in.
    """
    k, size, room = graph.k, graph.overlap + 1, classes[n_wanted]
    loss, n_classes, i = 0.0, 0, 0
    while n_classes < n_wanted:
        if i == len(candidates):
            return np.inf, i
        s = candidates[i]
        i += 1
        if not graph.worths[s] > above:
            continue
        is_in_one = False
        for c in range(n_classes):
            n = _in_common(classes[c, 1:], classes[c, 0], graph.items[s], k, room)
            if n >= size:
                classes[c, 0] = n
                for a in range(n):
                    classes[c, 1 + a] = room[a]
                is_in_one = True
                break
        if not is_in_one:
            classes[n_classes, 0] = k
            for a in range(k):
                classes[n_classes, 1 + a] = graph.items[s, a]
            loss += further[i - 1]
            n_classes += 1
    return loss, i


class Walk(NamedTuple):
    """State of the search; most arrays have one row for each level 0..m - 1."""

    candidates: NDArray[np.int32]  # (m, N), that may be added
    further: Floats  # (m, N), loss by adding each
    n_candidates: Integers
    place: Integers
    chosen: Integers
    fixed: Floats  # (m,), loss of the partial design by its sets and what they share
    lost: Floats  # (m,), the same with what uses lack
    uses: Integers  # (i,), of each item, in the partial design
    level: Integers  # (1,), -1 when the search is done
    best: Integers  # (m,), -1 if there is none
    may_lose: Floats  # (1,), a better design loses less
    above: Floats  # (1,), each of its sets is worth more
    classes: Integers  # (m + 1, k + 1), room for `least_of_classes`

    @classmethod
    def of(cls, graph: Graph, n_sets: int, may_lose: float, above: float) -> Walk:
        """Return the start of a search for designs of m sets."""
        shape, n_items = (n_sets, len(graph.losses)), len(graph.lacks)
        walk = cls(
            candidates=np.empty(shape, dtype=np.int32),
            further=np.empty(shape),
            n_candidates=np.zeros(n_sets, dtype=np.int64),
            place=np.zeros(n_sets, dtype=np.int64),
            chosen=np.zeros(n_sets, dtype=np.int64),
            fixed=np.zeros(n_sets),
            lost=np.zeros(n_sets),
            uses=np.zeros(n_items, dtype=np.int64),
            level=np.zeros(1, dtype=np.int64),
            best=np.full(n_sets, -1),
            may_lose=np.array([may_lose]),
            above=np.array([above]),
            classes=np.zeros((n_sets + 1, graph.k + 1), dtype=np.int64),
        )
        _start(graph, walk)
        return walk


@inlined
def _charges(graph: Any, walk: Any, n_open: int, charges: Any) -> float:
    """Write what one more use of each item costs; return what all of them lack in any case."""
    total = 0.0
    for item in range(len(charges)):
        uses = walk.uses[item]
        now, after = graph.lacks[item, uses], graph.lacks[item, uses + 1]
        if n_open == 1 or after >= now:
            total += now
            charges[item] = after - now
        else:
            lowest = after
            for more in range(2, n_open + 1):
                lowest = min(lowest, graph.lacks[item, uses + more])
            total += lowest
            charges[item] = 0.0
        charges[item] -= graph.sharing[item] * uses
    return total


@inlined
def _loss_of(graph: Any, charges: Any, s: int) -> float:
    total = graph.losses[s]
    for item in graph.items[s]:
        if item < 0:
            break
        total += charges[item]
    return float(total)


@inlined
def _least(graph: Any, walk: Any, level: int, place: int, n_wanted: int) -> tuple[float, int]:
    """Return what so many candidates from a place on lose at least, and the work."""
    n = walk.n_candidates[level]
    candidates, further = walk.candidates[level, place:n], walk.further[level, place:n]
    return least_of_classes(graph, candidates, further, walk.above[0], n_wanted, walk.classes)


@inlined
def _settle(graph: Any, walk: Any, level: int, n_open: int) -> int:
    """Order the candidates of a level, drop those that would lose too much; return the work."""
    n = walk.n_candidates[level]
    walk.place[level] = 0
    if n < n_open:
        walk.n_candidates[level] = 0
        return 0
    order = stable_order(walk.further[level, :n])
    write(walk.candidates[level, :n], walk.candidates[level, :n][order])
    write(walk.further[level, :n], walk.further[level, :n][order])
    others, work = _least(graph, walk, level, 0, n_open - 1)
    most = walk.may_lose[0] - walk.lost[level] - others
    while n > 0 and not walk.further[level, n - 1] < most:
        n -= 1
    walk.n_candidates[level] = n
    return work


@compiled
def _start(graph: Graph, walk: Walk) -> None:
    n_open = len(walk.best)
    charges = np.empty(len(graph.lacks))
    walk.lost[0] = _charges(graph, walk, n_open, charges)
    n = 0
    for s in range(len(graph.losses)):
        if graph.worths[s] > walk.above[0]:
            walk.candidates[0, n] = s
            walk.further[0, n] = _loss_of(graph, charges, s)
            n += 1
    walk.n_candidates[0] = n
    _settle(graph, walk, 0, n_open)


@inlined
def _use(graph: Any, walk: Any, s: int, change: int) -> None:
    for item in graph.items[s]:
        if item < 0:
            break
        walk.uses[item] += change


@inlined
def _descend(graph: Any, walk: Any, level: int, charges: Any, is_in: Any) -> int:
    """Add the candidate before the present place; fill the level below; return the work."""
    below, place = level + 1, walk.place[level]
    n_open, s = len(walk.best) - below, walk.chosen[level]
    fixed = walk.fixed[level] + graph.losses[s] + level * graph.of_two_sets
    for item in graph.items[s]:
        if item < 0:
            break
        fixed -= graph.sharing[item] * walk.uses[item]
    _use(graph, walk, s, 1)
    walk.fixed[below] = fixed
    lacking = _charges(graph, walk, n_open, charges)
    walk.lost[below] = fixed + lacking + n_open * below * graph.of_two_sets
    for feature in graph.items[s, : graph.k]:
        is_in[feature] = 1
    n = 0
    for i in range(place, walk.n_candidates[level]):
        other = walk.candidates[level, i]
        shared = 0
        for feature in graph.items[other, : graph.k]:
            shared += is_in[feature]
        if shared <= graph.overlap and graph.worths[other] > walk.above[0]:
            walk.candidates[below, n] = other
            walk.further[below, n] = _loss_of(graph, charges, other)
            n += 1
    for feature in graph.items[s, : graph.k]:
        is_in[feature] = 0
    work = walk.n_candidates[level] - place + len(charges)
    walk.n_candidates[below] = n
    return int(work + _settle(graph, walk, below, n_open))


@inlined
def _go_up(graph: Any, walk: Any) -> None:
    walk.level[0] -= 1
    if walk.level[0] >= 0:
        _use(graph, walk, walk.chosen[walk.level[0]], -1)


@inlined
def _keep(graph: Any, walk: Any, lost: float, is_smallest_counted: bool, in_all: float) -> None:
    """Take the complete design; what is looked for from now on is better."""
    write(walk.best, walk.chosen)
    walk.may_lose[0] = lost
    if is_smallest_counted:
        smallest = np.inf
        for s in walk.chosen:
            smallest = min(smallest, graph.worths[s])
        walk.above[0] = smallest
        walk.may_lose[0] = in_all - len(walk.best) * smallest


@compiled
def search_cliques(
    graph: Graph, walk: Walk, most_work: int, is_smallest_counted: bool, in_all: float
) -> int:
    """Search for the design that loses least, or whose smallest worth is largest.

    Returns `DONE`, or `PAUSED` after about `most_work` looks at a candidate. `in_all`: where the
    smallest worth counts, the bound on the sum: a design of m sets, each worth more than Z, loses
    less than the bound less m Z.
    """
    n_sets, work = len(walk.best), 0
    charges = np.empty(len(graph.lacks))
    is_in = np.zeros(len(graph.lacks), np.int64)
    while walk.level[0] >= 0:
        if work > most_work:
            return PAUSED
        level = walk.level[0]
        n_open, place = n_sets - level, walk.place[level]
        lost = walk.lost[level]
        if place + n_open > walk.n_candidates[level]:
            _go_up(graph, walk)
            continue
        others, seen = _least(graph, walk, level, place, n_open)
        lost += others
        work += seen
        if not lost < walk.may_lose[0]:
            _go_up(graph, walk)
            continue
        s = walk.candidates[level, place]
        walk.place[level] += 1
        if not graph.worths[s] > walk.above[0]:
            continue
        walk.chosen[level] = s
        if n_open == 1:
            _keep(graph, walk, lost, is_smallest_counted, in_all)
            continue
        work += _descend(graph, walk, level, charges, is_in)
        walk.level[0] = level + 1
    return DONE


# Whole designs at once: m known sets, each worth enough, as an integer program (set packing).
#
#     x_S in {0, 1},  sum of x_S = m,
#     sum of x_S over the sets that have R <= 1, for each R of K + 1 features that two sets share,
#     sum of x_S over the sets that have a feature <= what the feature may be used.
#
# Where the smallest worth of a design counts, that is all: whether a set is worth enough is seen
# before. All numbers are whole, so that no design is impossible for the solver's tolerances. The
# sum of the worths is only what the solver is led by, and needs no such care.
#
# HiGHS often proves within tenths of a second, by cuts, that some thousands of sets have no such
# design, where a search through cliques takes minutes; but not always. It is used for small
# programs only, with a limit of nodes and half of the remaining time, so that little is lost if it
# does not finish. Presolve, and heuristics that presolve smaller programs, can merge cliques for
# minutes and ignore limits: they are off.

_MOST_ENTRIES = 200_000  # enough for what cliques left open among the instances of the benchmark
_OPTIONS = {
    "presolve": False,
    "node_limit": 100,
    "mip_heuristic_effort": 0.0,
    "mip_heuristic_run_rens": False,
    "mip_heuristic_run_rins": False,
    "mip_heuristic_run_root_reduced_cost": False,
}
_LEAST_SECONDS = 1e-3
_INFEASIBLE = 2


def is_small(known: Known) -> bool:
    """Return whether a program over known sets is small enough to be asked about."""
    return len(known.sets) * math.comb(known.designs.k, known.designs.overlap + 1) <= _MOST_ENTRIES


def none_is_left(
    known: Known,
    bound: Bound,
    floor: float,
    take: Callable[[Sets], bool],
    deadline: float | None,
) -> bool:
    """Find better and better designs; return whether it is proven that no better one is left.

    `known` are all sets that are worth enough for a better design; `floor` is m times what each set
    of one is worth more than. `take` returns whether a design is better; if not, the search is
    given up.
    """
    designs = known.designs
    while not is_late(deadline):
        sets, is_none = packed(
            known, floor / designs.n_sets, bound.value / designs.n_sets, deadline
        )
        if sets is None or not take(sets):
            return is_none
        floor = designs.n_sets * float(worths(designs.form, sets).min()) + bound.slack
    return False


def packed(
    known: Known, above: float, cap: float, deadline: float | None
) -> tuple[Sets | None, bool]:
    """Return a design of known sets, each worth more than `above`, or whether there is none.

    No design has a smallest worth above `cap`, so that more is not preferred. Returns sets (m, k)
    or None, and whether it is proven that there is none.
    """
    designs = known.designs
    is_worth = known.worths > above
    sets = known.sets[is_worth]
    if len(sets) < designs.n_sets:
        return None, True
    merits = np.minimum(known.worths[is_worth], cap)
    merits -= merits.min()
    together, at_most = _rows(designs, sets)
    rules = [LinearConstraint(np.ones((1, len(sets))), designs.n_sets, designs.n_sets)]
    if len(at_most):
        rules.append(LinearConstraint(together, -np.inf, at_most))
    options = dict(_OPTIONS)
    if deadline is not None:
        options["time_limit"] = max(_LEAST_SECONDS, (deadline - time.monotonic()) / 2)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # scipy passes them on
        found = milp(
            -merits / (merits.max() or 1.0),
            integrality=np.ones(len(sets), dtype=np.int64),
            bounds=Bounds(0, 1),
            constraints=rules,
            options=options,  # type: ignore[arg-type]
        )
    if found.x is None:
        return None, bool(found.status == _INFEASIBLE)
    return sets[found.x > 0.5], False


def _rows(designs: Designs, sets: Sets) -> tuple[sparse.csr_array, np.ndarray]:
    """Return which sets have what more than so many of them cannot have together, and how many."""
    sizes = [(designs.overlap + 1, 1)]
    if designs.overlap and designs.most_uses(1) < designs.n_sets:
        sizes.append((1, designs.most_uses(1)))
    rows: list[list[int]] = []
    at_most: list[int] = []
    for size, most in sizes:
        with_all: dict[tuple[int, ...], list[int]] = {}
        for place, features in enumerate(sets.tolist()):
            for subset in combinations(features, size):
                with_all.setdefault(subset, []).append(place)
        crowded = [places for places in with_all.values() if len(places) > most]
        rows += crowded
        at_most += [most] * len(crowded)
    starts = np.cumsum([0, *map(len, rows)])
    places = np.array([place for row in rows for place in row], dtype=np.int32)
    entries = (np.ones(len(places)), places, starts)
    return sparse.csr_array(entries, shape=(len(rows), len(sets))), np.array(at_most)


# Better designs among known sets: two sets of a design are swapped for two others, compiled.
#
# Two sets at a time are replaced by the best two that fit the rest, until no such swap gains. Then
# a random set is forced in, sets that conflict with it and one more are removed, the gaps are
# filled with the best that fit, and the swaps are repeated. The best design so far is the start.

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
def _mark_clashes(sets: Any, is_in: Any, one: int, overlap: int, clashes: Any, place: int) -> None:
    """Write the sets that conflict with the set now at a place, and update their counts."""
    _mark(sets, is_in, one, 1)
    for other in range(len(sets)):
        now = np.int16(_shared(sets, is_in, other) > overlap)
        clashes[-1, other] += now - clashes[place, other]
        clashes[place, other] = now
    _mark(sets, is_in, one, 0)


@inlined
def _fitting(worths: Any, clashes: Any, a: int, b: int, least: float, out: Any) -> int:
    """Write the sets that fit all of a design but two, best first; return their number.

    Stops where a set, with the best of them, is not above `least`.
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
    fitting: Any,
    n: int,
    overlap: int,
    least: float,
    uses: Any,
    most: int,
    is_in: Any,
    pair: Any,
) -> int:
    """Write the best two fitting sets with a total above `least`, or -1.

    Stops early if that is much work. Returns the number of sets visited.
    """
    pair[0], work = -1, 0
    for i in range(n):
        one = fitting[i]
        if 2 * worths[one] <= least or work > _MOST_WORK_OF_A_PAIR:
            break
        if not _has_room(sets, uses, one, most):
            continue
        _mark(sets, is_in, one, 1)
        _count(sets, uses, one, 1)
        for j in range(i + 1, n):
            other = fitting[j]
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
    """Swap two sets of a design at a time until no swap gains more than `gain`, or it is much work.

    `sets` (N, k) and `worths` (N,) are best first; `design` (m,) and `pairs_left` are overwritten:
    which pair is next, and how many are to be visited before no swap gains.
    """
    m, n_features = len(design), np.max(sets) + 1
    clashes = np.zeros((m + 1, len(sets)), np.int16)  # the last row: their sum
    is_in, uses = np.zeros(n_features, np.int64), np.zeros(n_features, np.int64)
    fitting, pair = np.empty(len(sets), np.int64), np.empty(2, np.int64)
    for place in range(m):
        _mark_clashes(sets, is_in, design[place], overlap, clashes, place)
        _count(sets, uses, design[place], 1)
    work = 0
    while pairs_left[1] > 0 and work < most_work:
        a, b = pairs_left[0] // m, pairs_left[0] % m
        pairs_left[0] = (pairs_left[0] + 1) % (m * m)
        if a >= b:
            continue
        pairs_left[1] -= 1
        least = worths[design[a]] + worths[design[b]] + gain
        n = _fitting(worths, clashes, a, b, least, fitting)
        _count(sets, uses, design[a], -1)
        _count(sets, uses, design[b], -1)
        work += len(sets) + _best_two(
            sets, worths, fitting, n, overlap, least, uses, most, is_in, pair
        )
        if pair[0] >= 0:
            pairs_left[1] = m * (m - 1) // 2
            design[a], design[b] = pair
            _mark_clashes(sets, is_in, design[a], overlap, clashes, a)
            _mark_clashes(sets, is_in, design[b], overlap, clashes, b)
        _count(sets, uses, design[a], 1)
        _count(sets, uses, design[b], 1)


@compiled
def filled(sets: Sets, start: Integers, n_sets: int, overlap: int, most: int) -> Integers:
    """Return a design that starts with some sets and takes each further one that fits."""
    # shorter than m if they do not suffice
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

    `first` (m, k) is a design to start from; its sets are used if they are known.
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
