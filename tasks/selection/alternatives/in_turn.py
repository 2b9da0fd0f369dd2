"""Sets of univariate worth at once, worth no less than sets that are found one after the other.

What is best for one set may leave little for the next, so that sets one after the other are no
proof; but they are a design, and are there where annealing finds none, or none as good. It does
not begin with them: they share all they may, so that it would hardly leave them. None is searched
for longer than for half of the work, and half of the time, that is left for all of them; what is
best by then is kept. Where they leave too little for the last ones, Greedy Depth Search is asked.

Where two sets need not differ by more than one feature, any different sets will do: the m best,
which are enumerated in the order of what they are worth. These are best by sum and by smallest.
"""

from __future__ import annotations

import math
from dataclasses import replace
from heapq import heappop, heappush

import numpy as np

from chaffinch.tasks.selection.alternatives import balanced, multiplicities
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.deadlines import (
    is_far_too_late,
    is_late,
    share_of_time,
)
from chaffinch.tasks.selection.alternatives.greedy import Sets, best_first, greedy_depth_search
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.search_kernels import search
from chaffinch.tasks.selection.alternatives.search_problem import improve_by_swaps, prepared
from chaffinch.tasks.selection.alternatives.search_state import PAUSED
from chaffinch.tasks.selection.alternatives.searching import Limits
from chaffinch.tasks.selection.alternatives.sets import Aggregate, Solved
from chaffinch.tasks.selection.vocabulary import Floats

_SHARE = 0.25  # of the time
_WORK, _WORK_BETWEEN_LOOKS = 1_000_000_000, 1_000_000  # where there is no limit to the time
_STEPS, _WORK_OF_STEPS = 150, 30_000_000  # that look at all features and rows before a search
_MOST_IN_DEPTH = 1_000_000  # sets that there are
_MOST_NUMBERS = 2_000_000  # in the sets that are enumerated


def best_by_values(
    values: Floats,
    k: int,
    n_sets: int,
    overlap: int,
    aggregate: Aggregate,
    deadline: float | None,
) -> Solved:
    """Return the sets that are best in all, worth no less than those found one after the other.

    Parameters
    ----------
    values : ndarray, shape (n,)
        What each feature is worth; any sign.
    k : int in 1..n
        The size of the sets.
    n_sets : int, at least 1
        m, how many sets.
    overlap : int in 0..k - 1
        How many features two of them may share.
    aggregate : "sum" or "min"
        What is to be greatest: the sum of what they are worth, or the smallest.
    deadline : float or None
        On the clock of `time.monotonic`.
    """
    if overlap == k - 1:
        solved = _best_different(values, k, n_sets, aggregate, deadline)
        if solved is not None:
            return solved
    in_turn = sets_in_turn(values, k, n_sets, overlap, deadline)
    if in_turn is None:
        in_turn = _sets_in_depth(values, k, n_sets, overlap, deadline)
    find = multiplicities.best_sum if aggregate == "sum" else balanced.best_min
    solved = find(values, k, n_sets, overlap, deadline=deadline)
    if in_turn is None or solved.complete:
        return solved
    worths = [math.fsum(values[one]) for one in in_turn]
    value = math.fsum(values[in_turn].ravel()) if aggregate == "sum" else min(worths)
    if value <= solved.value:
        return solved
    return replace(solved, sets=in_turn, value=value, bound=max(value, solved.bound))


def sets_in_turn(
    values: Floats, k: int, n_sets: int, overlap: int, deadline: float | None
) -> Sets | None:
    """Return m sets, shape (m, k), each the best beside those before it as far as it was looked.

    None where these leave no further set, or it takes too long. See `best_by_values`.

    `bounding.one_after_another` does the same by any form, and knows constraints. Each of its
    searches has work of its own, which serves a few sets; hundreds, beside so many rows, would take
    it thirty times as long as they take here, where one amount of work is for all.
    """
    kept = np.sort(best_first(values)[: n_sets * k])
    form, n = Form(np.asarray(values, dtype=np.float64)[kept]), len(kept)
    has = np.zeros((n_sets, n), dtype=bool)
    caps = np.full(n_sets, overlap)
    until = share_of_time(deadline, _SHARE)
    work_left = _WORK if until is None else math.inf
    for one in range(n_sets):
        work_left -= min(_STEPS * n * one, _WORK_OF_STEPS)
        if work_left < 0 or (one and is_far_too_late(until)):
            return None
        limits = Limits(has[:one], caps[:one])
        found = prepared(form, k, limits, Constraints(), -math.inf, only_best=True)
        if found is None:
            return None
        none, work, ended = np.empty((0, k), dtype=np.int64), 0, PAUSED
        latest, most = share_of_time(until, 0.5), 0.0 if found.is_rough else work_left / 2
        while ended == PAUSED and work < most and not (work and is_late(latest)):
            ended = search(found.problem, found.state, _WORK_BETWEEN_LOOKS, none)
            work += _WORK_BETWEEN_LOOKS
        if ended == PAUSED:
            improve_by_swaps(found)
        if found.state.best[0] < 0:
            return None
        has[one, list(found.best())] = True
        work_left -= max(0, work - _WORK_BETWEEN_LOOKS)
    return kept[np.nonzero(has)[1]].reshape(n_sets, k).astype(np.int32)


def _sets_in_depth(
    values: Floats, k: int, n_sets: int, overlap: int, deadline: float | None
) -> Sets | None:
    """Return the first m sets as words, best features first, that differ enough from those before.

    There are often more of these than of the best ones, as those of a code of constant weight.
    None where there are too few, or too many sets to go through.
    """
    kept = np.sort(best_first(values)[: n_sets * k])
    if math.comb(len(kept), k) > _MOST_IN_DEPTH:
        return None
    until = share_of_time(deadline, _SHARE)
    found = greedy_depth_search(values[kept], k, n_sets, overlap, deadline=until)
    return kept[found].astype(np.int32) if len(found) == n_sets else None


def _best_different(
    values: Floats, k: int, n_sets: int, aggregate: Aggregate, deadline: float | None
) -> Solved | None:
    """Return the best sets of which no two are equal; None if they are too many, or it is late.

    By places in the order of value, each set but the best comes of one that is worth no less and
    has, in place of one of its features, the one before it.
    """
    if n_sets * k > _MOST_NUMBERS:
        return None
    n, order = len(values), best_first(values)

    def entry(places: tuple[int, ...]) -> tuple[float, list[int], tuple[int, ...]]:
        features = sorted(order[list(places)].tolist())
        return -math.fsum(values[features]), features, places

    first = tuple(range(k))
    queue, seen = [entry(first)], {first}
    found: list[tuple[float, list[int]]] = []
    while queue and len(found) < n_sets:
        if is_late(deadline):
            return None
        negative, features, places = heappop(queue)
        found.append((-negative, features))
        for i, place in enumerate(places):
            if place + 1 < (places[i + 1] if i + 1 < k else n):
                further = (*places[:i], place + 1, *places[i + 1 :])
                if further not in seen:
                    seen.add(further)
                    heappush(queue, entry(further))
    if len(found) < n_sets:
        return multiplicities.NO_SETS
    worths = [worth for worth, _ in found]
    sets = np.array([features for _, features in found], dtype=np.int32)
    value = math.fsum(values[sets].ravel()) if aggregate == "sum" else min(worths)
    return Solved(sets, value, value, complete=True)
