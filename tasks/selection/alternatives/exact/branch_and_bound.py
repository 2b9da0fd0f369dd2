"""Depth-first branch and bound for feature sets, compiled; `best_sets.py` calls it.

A level is a partial set. Its candidates are ordered by their promise, best first; each is added in
turn and those before it are left out, so that every set is visited once. The promise of a candidate
is its marginal value, minus half of the smallest pair costs that it must still meet, minus the
charges of the multipliers for its weights in the rows. For a partial set that lacks t features, its
value plus the t largest promises is an upper bound: half of each future pair cost is counted with
either of its two features, and sets that obey the rows pay no charges in total (Lagrangian
relaxation). The multipliers are improved by a few subgradient steps of Polyak's length on every
level.

A search pauses after some work and continues when called again: all of its state is in
`State`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, stable_order

Integers = NDArray[np.int64]

# Results of a call.
DONE, PAUSED, FULL = 0, 1, 2

_FIRST_STEPS, _WORK_OF_FIRST_STEPS = 150, 30_000_000  # on the first level
_STEPS = 3  # on the others
_HALVINGS = 15  # number of times a step is halved if it gives no lower bound
_GUESS = 0.1  # assumed gap between the bound and the best set if none is known
_PER_STEP = 150  # looks at a candidate that take as long as the overhead of a step


class Problem(NamedTuple):
    """Sets of k of n candidates, subject to r linear rows."""

    gains: Floats  # (n,)
    costs: Floats  # (n, n) or (0, 0), of pairs; inf for a conflict
    weights: Floats  # (n, r), of each candidate in the rows
    caps: Floats  # (r,)
    least: Floats  # (r, k + 1), the smallest sum that t candidates can have in a row
    most: Floats  # (r, k + 1), the largest
    halves: Floats  # (n, k) or (0, 0), half the sum of each candidate's t smallest pair costs
    # (n, l) or (0, 0), candidates of the smallest pair costs, the smallest first
    neighbours: Integers
    dominates: Mask  # (n, n) or (0, 0), see `best_sets.py`
    sizes: Floats  # (r,), largest factor of each row's multiplier
    most_charged: float  # largest sum of multipliers times these sizes
    slack: float  # upper bound on accumulated rounding errors


class State(NamedTuple):
    """State of a search; most arrays have one row per level 0..k."""

    chosen: Integers  # (k,), the partial set; chosen[level] was added at that level
    candidates: Integers  # (k + 1, n), features that may be added
    marginals: Floats  # their marginal values
    promises: Floats
    losses: Floats  # half the sum of the smallest pair costs with the level's other candidates
    n_candidates: Integers
    place: Integers  # the next candidate; -1 on the first level before the start
    value: Floats  # of the partial set
    constant: Floats  # contribution of the multipliers for the room left in the rows
    loads: Floats  # (k + 1, r)
    multipliers: Floats  # (k + 1, r)
    level: Integers  # the first and the current level; below the first when the search is done
    best: Integers  # (k,), sorted; -1 if there is none
    best_value: Floats  # (1,), value that a set must reach
    n_found: Integers  # (1,), number of sets written out


# Operations on whole rows are loops: assigning arrays takes seconds to compile.


@compiled
def _copy(state: Any, level: int, place: int, into: int) -> None:
    state.candidates[level, into] = state.candidates[level, place]
    state.marginals[level, into] = state.marginals[level, place]
    state.promises[level, into] = state.promises[level, place]
    state.losses[level, into] = state.losses[level, place]


@compiled
def _insert(largest: Any, filled: int, most: int, x: float) -> int:
    """Keep the `most` largest numbers, in descending order; return how many there are."""
    if filled == most:
        if most == 0 or x <= largest[most - 1]:
            return filled
        filled -= 1
    place = filled
    while place > 0 and largest[place - 1] < x:
        largest[place] = largest[place - 1]
        place -= 1
    largest[place] = x
    return filled + 1


@compiled
def _charged(problem: Any, state: Any, level: int, rows: Any, charged: Any, places: Any) -> float:
    """Charge by rows[0]; return the bound, with its features in `places` and excess in rows[1]."""
    bound, filled = 0.0, 0
    for r in range(rows.shape[1]):
        room = problem.caps[r] - state.loads[level, r]
        bound += rows[0, r] * room
        rows[1, r] = -room
    for i in range(len(charged)):
        charged[i] = state.promises[level, i]
        for r in range(rows.shape[1]):
            charged[i] -= rows[0, r] * problem.weights[state.candidates[level, i], r]
        if filled < len(places):
            filled += 1
        elif charged[i] <= charged[places[-1]]:
            continue
        place = filled - 1
        while place > 0 and charged[places[place - 1]] < charged[i]:
            places[place] = places[place - 1]
            place -= 1
        places[place] = i
    for place in places:
        bound += charged[place]
        for r in range(rows.shape[1]):
            rows[1, r] += problem.weights[state.candidates[level, place], r]
    return bound


@compiled
def _step(problem: Any, rows: Any, length: float) -> bool:
    """Raise charges of exceeded rows and lower the others; return whether any changed."""
    norm, size = 0.0, 0.0
    for r in range(rows.shape[1]):
        if rows[0, r] > 0 or rows[1, r] > 0:
            norm += rows[1, r] ** 2
    if norm == 0:
        return False
    for r in range(rows.shape[1]):
        rows[0, r] = max(0.0, rows[0, r] + length / norm * rows[1, r])
        size += rows[0, r] * problem.sizes[r]
    if size > problem.most_charged:
        for r in range(rows.shape[1]):
            rows[0, r] *= problem.most_charged / size
    return True


@compiled
def _charge(problem: Any, state: Any, level: int, n_steps: int) -> bool:
    """Charge a level's candidates and drop the hopeless ones; return whether any was dropped."""
    n, n_open = state.n_candidates[level], len(state.chosen) - level
    charged, places = np.empty(n), np.zeros(n_open, np.int64)
    rows, lowest, share, since = np.zeros((2, len(problem.caps))), np.inf, 1.0, 0
    for r in range(len(problem.caps)):
        if problem.most[r, n_open] > problem.caps[r] - state.loads[level, r]:
            rows[0, r] = state.multipliers[level, r]
    target, best, last = state.best_value[0] - state.value[level], np.zeros(n), 0.0
    for _ in range(n_steps + 1):
        bound, since = _charged(problem, state, level, rows, charged, places), since + 1
        if bound < lowest:
            lowest, since, last, kept_back = bound, 0, charged[places[-1]], 0.0
            for i in range(n):
                best[i] = charged[i]
            for r in range(rows.shape[1]):
                state.multipliers[level, r] = rows[0, r]
            for place in places:
                kept_back += charged[place]
            state.constant[level] = bound - kept_back
        elif since > n_steps // _HALVINGS:
            share, since = share / 2, 0
        goal = target if target > -np.inf else lowest - _GUESS * abs(lowest)
        if lowest < goal - problem.slack or not _step(problem, rows, share * (bound - goal)):
            break
    kept = 0
    for i in range(n):
        state.promises[level, i] = best[i]
        promise = lowest - last + min(best[i], last)
        if best[i] > -np.inf and promise >= target - problem.slack:
            _copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept
    return bool(kept < n)


@compiled
def _update_promises(problem: Any, state: Any, level: int, n_open: int) -> None:
    """Recompute the smallest pair costs among the remaining candidates."""
    n, partners = state.n_candidates[level], n_open - 1
    nearest, is_left = np.empty(partners), np.zeros(len(problem.gains), np.bool_)
    for i in range(n):
        is_left[state.candidates[level, i]] = True
    for i in range(n):
        feature, filled = state.candidates[level, i], 0
        for partner in problem.neighbours[feature]:
            if filled == partners:
                break
            if is_left[partner]:
                nearest[filled] = -problem.costs[feature, partner] / 2
                filled += 1
        if filled < partners:
            filled = 0
            for j in range(n):
                if j != i:
                    cost = problem.costs[feature, state.candidates[level, j]]
                    filled = _insert(nearest, filled, partners, -cost / 2)
        of_all_but_last = 0.0
        for j in range(partners - 1):
            of_all_but_last += nearest[j]
        state.promises[level, i] = state.marginals[level, i] + of_all_but_last + nearest[-1]
        state.losses[level, i] = -of_all_but_last


@compiled
def _settle(problem: Any, state: Any, level: int, n_open: int) -> int:
    """Drop hopeless candidates of a new level and sort the rest; return the work."""
    work, is_new, n_steps = 0, True, _STEPS
    if n_open == 1 or len(problem.caps) == 0:
        n_steps = 0
    elif level == state.level[0]:
        n_looks = max(1, state.n_candidates[level] * len(problem.caps))
        n_steps = min(_FIRST_STEPS, 1 + _WORK_OF_FIRST_STEPS // n_looks)
    while state.n_candidates[level] >= n_open:
        n = state.n_candidates[level]
        work += n * (n_steps + 1)
        is_shrinking = _charge(problem, state, level, n_steps) or is_new
        if len(problem.costs) == 0 or n_open == 1 or not is_shrinking:
            break
        work += n * n
        _update_promises(problem, state, level, n_open)
        is_new, n_steps = False, min(n_steps, _STEPS)
    n = state.n_candidates[level]
    order = stable_order(-state.promises[level, :n])
    candidates, marginals = state.candidates[level, :n][order], state.marginals[level, :n][order]
    promises, losses = state.promises[level, :n][order], state.losses[level, :n][order]
    for i in range(n):
        state.candidates[level, i], state.marginals[level, i] = candidates[i], marginals[i]
        state.promises[level, i], state.losses[level, i] = promises[i], losses[i]
    state.place[level] = 0
    return int(work)


@compiled
def _least_promise(problem: Any, state: Any, level: int, n_open: int) -> float:
    """Return the promise that followers of the next candidate need; inf if none has it."""
    place, highest, filled, first = state.place[level], np.empty(n_open), 0, 0.0
    added = state.candidates[level, place]
    for i in range(place + 1, state.n_candidates[level]):
        promise = state.marginals[level, i] - state.losses[level, i]
        promise -= problem.costs[added, state.candidates[level, i]]
        filled = _insert(highest, filled, n_open, promise)
    wanted = state.best_value[0] - problem.slack
    wanted -= state.value[level] + state.marginals[level, place]
    for i in range(n_open - 1):
        first += highest[i]
    if filled < n_open or first + highest[-1] < wanted:
        return np.inf
    return float(wanted - first)


@compiled
def _descend(problem: Any, state: Any, level: int, least: float) -> int:
    """Add the next candidate of a level and fill the level below; return the work."""
    place, below = state.place[level], level + 1
    added, n_open, n = state.candidates[level, place], len(state.chosen) - level - 1, 0
    state.chosen[level] = added
    state.value[below] = state.value[level] + state.marginals[level, place]
    for r in range(len(problem.caps)):
        state.loads[below, r] = state.loads[level, r] + problem.weights[added, r]
        state.multipliers[below, r] = state.multipliers[level, r]
    for i in range(place + 1, state.n_candidates[level]):
        feature, marginal = state.candidates[level, i], state.marginals[level, i]
        if len(problem.costs):
            marginal -= problem.costs[added, feature]
            if marginal - state.losses[level, i] < least:
                continue
        fits = marginal > -np.inf
        for r in range(len(problem.caps)):
            load = state.loads[below, r] + problem.weights[feature, r]
            if load + problem.least[r, n_open - 1] > problem.caps[r]:
                fits = False
                break
        if fits:
            state.candidates[below, n] = feature
            state.marginals[below, n] = marginal
            state.promises[below, n] = marginal - state.losses[level, i]
            state.losses[below, n] = 0.0
            n += 1
    state.n_candidates[below] = n
    return _settle(problem, state, below, n_open)


@compiled
def _is_before(word: Any, best: Any) -> bool:
    """Sort a set; return whether it precedes a sorted set lexicographically, or there is none."""
    for i in range(1, len(word)):
        place, feature = i, word[i]
        while place > 0 and word[place - 1] > feature:
            word[place] = word[place - 1]
            place -= 1
        word[place] = feature
    i = 0
    while i < len(word) - 1 and word[i] == best[i]:
        i += 1
    return bool(best[0] < 0 or word[i] < best[i])


@compiled
def _may_be_before(state: Any, level: int, word: Any) -> bool:
    """Return whether a set with the next candidate may precede the best lexicographically."""
    place, n_open, filled = state.place[level], len(word) - level - 1, 0
    lowest = np.empty(n_open)
    for i in range(place + 1, state.n_candidates[level]):
        filled = _insert(lowest, filled, n_open, -float(state.candidates[level, i]))
    for i in range(level):
        word[i] = state.chosen[i]
    word[level] = state.candidates[level, place]
    for i in range(n_open):
        word[level + 1 + i] = int(-lowest[i])
    return _is_before(word, state.best)


@compiled
def _pass(problem: Any, state: Any, level: int) -> None:
    """Leave out the next candidate, and those that it dominates."""
    place = state.place[level]
    passed, kept = state.candidates[level, place], place + 1
    state.place[level] = kept
    if len(problem.dominates) == 0:
        return
    for i in range(kept, state.n_candidates[level]):
        if not problem.dominates[passed, state.candidates[level, i]]:
            _copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept


@compiled
def _scan(problem: Any, state: Any, level: int, sets: Any, word: Any) -> None:
    """Visit every set that lacks a last feature: keep the best, or write all good enough sets."""
    for i in range(state.n_candidates[level]):
        best, worth = state.best_value[0], state.value[level] + state.marginals[level, i]
        if worth < best - problem.slack:
            continue
        for j in range(level):
            word[j] = state.chosen[j]
        word[level] = state.candidates[level, i]
        if len(sets):
            for j in range(level + 1):
                sets[state.n_found[0], j] = word[j]
            state.n_found[0] += 1
        elif _is_before(word, state.best) or worth > best + problem.slack:
            for j in range(level + 1):
                state.best[j] = word[j]
            state.best_value[0] = max(best, worth)


@compiled
def search(problem: Problem, state: State, most_work: int, sets: Integers) -> int:
    """Continue the search, for the best set or, with room in `sets`, for all that are good enough.

    Returns `DONE`, `PAUSED` after about `most_work` looks at a candidate or a pair, or `FULL` if
    `sets`, of shape (most, k), may not have room for the next sets, which are unsorted.
    """
    first, k, work = state.level[0], len(state.chosen), 0
    word = np.empty(k, np.int64)
    if state.place[first] < 0:
        work += _settle(problem, state, first, k - first)
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED
        work += _PER_STEP
        level = state.level[1]
        place, end, n_open = state.place[level], state.n_candidates[level], k - level
        bound = state.value[level] + state.constant[level] if n_open <= end - place else -np.inf
        for i in range(place, place + n_open if bound > -np.inf else place):
            bound += state.promises[level, i]
        if n_open == 1:
            if 0 < len(sets) < state.n_found[0] + end:
                return FULL
            _scan(problem, state, level, sets, word)
        if n_open == 1 or bound == -np.inf or bound < state.best_value[0] - problem.slack:
            state.level[1] = level - 1
            if level > first:
                _pass(problem, state, level - 1)
            continue
        is_equal = state.best[0] >= 0 and bound <= state.best_value[0] + problem.slack
        if is_equal and not _may_be_before(state, level, word):
            _pass(problem, state, level)
            continue
        least = -np.inf
        if len(problem.costs):
            least = _least_promise(problem, state, level, n_open - 1)
            if least == np.inf:
                work += end - place
                state.place[level] = place + 1  # no dominance with pair costs
                continue
        work += _descend(problem, state, level, least)
        state.level[1] = level + 1
    return DONE


@compiled
def open_bound(state: State) -> float:
    """Return an upper bound on the sets that a paused search has not visited."""
    highest = -np.inf
    for level in range(state.level[0], state.level[1] + 1):
        place, n_open = max(0, state.place[level]), len(state.chosen) - level
        if state.n_candidates[level] - place >= n_open:
            bound = state.value[level] + state.constant[level]
            for i in range(place, place + n_open):
                bound += state.promises[level, i]
            highest = max(highest, bound)
    return highest


@compiled
def dominating(gains: Floats, packed: NDArray[np.uint8]) -> Mask:
    """Return whether i dominates j, in row i and column j: see `best_sets.py`.

    `packed` (n, b): in which sets each feature is, eight to a byte.
    """
    n = len(gains)
    dominates = np.zeros((n, n), np.bool_)
    for i in range(n):
        for j in range(n):
            if gains[i] < gains[j] or (gains[i] == gains[j] and i >= j):
                continue
            is_with = True
            for b in range(packed.shape[1]):
                if packed[i, b] & ~packed[j, b]:  # a set that i is in and j is not
                    is_with = False
                    break
            dominates[i, j] = is_with
    return dominates
