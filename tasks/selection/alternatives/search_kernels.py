"""The inner loops of the branch and bound, compiled: `branch_and_bound.py` tells what they do.

A level is a partial set. Its candidates are ordered by what they promise, best first; each is
added in turn, those before it being left out, so that every set is met once. What a candidate
promises is what it adds, less half of the smallest pair costs that it must still meet, less what
the multipliers charge for its weights in the rows.

A search stops after so much work and goes on when called again: all it knows is in its state.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem, State
from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined

DONE, PAUSED, FULL = 0, 1, 2


@inlined
def _insert(sums: Any, filled: int, most: int, x: float) -> int:
    """Keep the `most` largest numbers, in descending order; return how many there are."""
    if filled == most:
        if most == 0 or x <= sums[most - 1]:
            return filled
        filled -= 1
    place = filled
    while place > 0 and sums[place - 1] < x:
        sums[place] = sums[place - 1]
        place -= 1
    sums[place] = x
    return filled + 1


@inlined
def _value(problem: Any, features: Any) -> float:
    """Return what a sorted set is worth: a sum that rounds once, whatever the order."""
    total, lost = 0.0, 0.0
    k = len(features)
    for i in range(k):
        for j in range(-1, i if len(problem.costs) else 0):
            x = problem.gains[features[i]] if j < 0 else -problem.costs[features[i], features[j]]
            added = total + x
            if abs(total) >= abs(x):
                lost += (total - added) + x
            else:
                lost += (x - added) + total
            total = added
    return total + lost


@inlined
def _is_before(one: Any, other: Any) -> bool:
    """Compare sorted sets as words."""
    for i in range(len(one)):
        if one[i] != other[i]:
            return bool(one[i] < other[i])
    return False


@inlined
def _put(into: Any, size: int, feature: int) -> None:
    """Insert a feature into a sorted set of some size."""
    place = size
    while place > 0 and into[place - 1] > feature:
        into[place] = into[place - 1]
        place -= 1
    into[place] = feature


@inlined
def _first_completion(state: Any, level: int, k: int, into: Any) -> None:
    """Write the first set, as a word, that can still come of the next candidate."""
    place = state.place[level]
    for i in range(level):
        _put(into, i, state.chosen[i])
    _put(into, level, state.candidates[level, place])
    size = level + 1
    open_places = k - size
    if open_places == 0:
        return
    firsts = np.empty(open_places)
    filled = 0
    for i in range(place + 1, state.count[level]):
        filled = _insert(firsts, filled, open_places, -float(state.candidates[level, i]))
    for i in range(filled):
        _put(into, size, np.int64(-firsts[i]))
        size += 1


@inlined
def _pass(problem: Any, state: Any, level: int) -> None:
    """Leave the next candidate out, and with it those that it dominates.

    One with a lower gain, and weights in the same rows at least, could be swapped for it.
    """
    place = state.place[level]
    state.place[level] = place + 1
    n_words = problem.dominance.shape[1]
    if n_words == 0:
        return
    passed = state.candidates[level, place]
    kept = place + 1
    for i in range(place + 1, state.count[level]):
        other = state.candidates[level, i]
        gain, other_gain = problem.gains[passed], problem.gains[other]
        dominated = gain > other_gain or (gain == other_gain and passed < other)
        for word in range(n_words):
            if problem.dominance[passed, word] & ~problem.dominance[other, word]:
                dominated = False
        if not dominated:
            state.candidates[level, kept] = other
            state.marginals[level, kept] = state.marginals[level, i]
            state.promises[level, kept] = state.promises[level, i]
            kept += 1
    state.count[level] = kept


@inlined
def _charge(problem: Any, state: Any, level: int, open_places: int) -> None:
    """Charge for rows that can still overflow, and for no others."""
    constant = 0.0
    for r in range(len(problem.caps)):
        room = problem.caps[r] - state.loads[level, r]
        if problem.most[r, open_places] <= room:
            state.multipliers[level, r] = 0.0
        constant += state.multipliers[level, r] * room
    state.constant[level] = constant


@inlined
def _drop_hopeless(problem: Any, state: Any, level: int, open_places: int) -> bool:
    """Drop candidates that no set worth enough can have; return whether any was dropped."""
    n = state.count[level]
    tops = np.empty(open_places)
    filled = 0
    for i in range(n):
        filled = _insert(tops, filled, open_places, state.promises[level, i])
    if filled < open_places:
        state.count[level] = 0
        return False
    threshold = state.best_value[0] - problem.slack - state.value[level] - state.constant[level]
    without_last = 0.0
    for i in range(open_places - 1):
        without_last += tops[i]
    kept = 0
    for i in range(n):
        promise = state.promises[level, i]
        if without_last + min(promise, tops[open_places - 1]) >= threshold:
            state.candidates[level, kept] = state.candidates[level, i]
            state.marginals[level, kept] = state.marginals[level, i]
            state.promises[level, kept] = promise
            kept += 1
    state.count[level] = kept
    return bool(kept < n)


@inlined
def _charges_of(problem: Any, state: Any, level: int, feature: int) -> float:
    total = 0.0
    for r in range(len(problem.caps)):
        total += state.multipliers[level, r] * problem.weights[feature, r]
    return total


@inlined
def _promise_anew(problem: Any, state: Any, level: int, open_places: int) -> None:
    """Take the smallest pair costs among the candidates that are left."""
    n, partners = state.count[level], open_places - 1
    nearest = np.empty(partners)
    for i in range(n):
        feature = state.candidates[level, i]
        filled = 0
        for j in range(n):
            if j != i:
                cost = problem.costs[feature, state.candidates[level, j]]
                filled = _insert(nearest, filled, partners, -cost)
        half = np.inf
        if filled == partners:
            half = -nearest.sum() / 2
        charges = _charges_of(problem, state, level, feature)
        state.promises[level, i] = state.marginals[level, i] - half - charges


@inlined
def _fits(problem: Any, state: Any, level: int, feature: int, open_places: int) -> bool:
    """Return whether rows allow a candidate and, at their best, what is to follow it."""
    for r in range(len(problem.caps)):
        load = state.loads[level, r] + problem.weights[feature, r]
        if load + problem.least[r, open_places - 1] > problem.caps[r]:
            return False
    return True


@inlined
def _settle(problem: Any, state: Any, level: int, open_places: int) -> int:
    """Drop what is hopeless on a new level and order the rest; return the work."""
    work = state.count[level]
    is_shrinking = _drop_hopeless(problem, state, level, open_places)
    if len(problem.costs) and open_places > 1:
        is_shrinking = True
        while is_shrinking and state.count[level] >= open_places:
            work += state.count[level] ** 2
            _promise_anew(problem, state, level, open_places)
            is_shrinking = _drop_hopeless(problem, state, level, open_places)
    n = state.count[level]
    order = np.argsort(-state.promises[level, :n], kind="mergesort")
    state.candidates[level, :n] = state.candidates[level, :n][order]
    state.marginals[level, :n] = state.marginals[level, :n][order]
    state.promises[level, :n] = state.promises[level, :n][order]
    state.place[level] = 0
    return int(work)


@inlined
def _descend(problem: Any, state: Any, level: int, k: int) -> int:
    """Add the next candidate of a level and fill the level below it; return the work."""
    place, below = state.place[level], level + 1
    added, open_places = state.candidates[level, place], k - below
    state.chosen[level] = added
    state.value[below] = state.value[level] + state.marginals[level, place]
    for r in range(len(problem.caps)):
        state.loads[below, r] = state.loads[level, r] + problem.weights[added, r]
        state.multipliers[below, r] = state.multipliers[level, r]
    _charge(problem, state, below, open_places)
    n = 0
    for i in range(place + 1, state.count[level]):
        feature = state.candidates[level, i]
        marginal = state.marginals[level, i]
        if len(problem.costs):
            marginal -= problem.costs[added, feature]
        if marginal == -np.inf or not _fits(problem, state, below, feature, open_places):
            continue
        promise = marginal - problem.nearest[feature, open_places - 1] / 2
        state.candidates[below, n] = feature
        state.marginals[below, n] = marginal
        state.promises[below, n] = promise - _charges_of(problem, state, below, feature)
        n += 1
    state.count[below] = n
    return _settle(problem, state, below, open_places)


@inlined
def _bound(state: Any, level: int, k: int) -> float:
    """Return what no set can exceed that has the next candidate of a level, or one after it."""
    first = state.place[level]
    total = state.value[level] + state.constant[level]
    if state.count[level] - first < k - level:
        return -np.inf
    for i in range(first, first + k - level):
        total += state.promises[level, i]
    return total


@inlined
def _keep_best(problem: Any, state: Any, features: Any) -> None:
    """Take a set that is worth more than the best so far, or as much and before it as a word."""
    value = _value(problem, features)
    best = state.best_value[0]
    if state.best[0] < 0:
        is_better = value >= best
    else:
        is_better = value > best + problem.slack or (
            value >= best - problem.slack and _is_before(features, state.best)
        )
    if is_better:
        state.best[:] = features
        state.best_value[0] = max(best, value)


@inlined
def _go_up(problem: Any, state: Any) -> None:
    level = state.level[1] - 1
    state.level[1] = level
    if level >= state.level[0]:
        _pass(problem, state, level)


@compiled
def start(problem: Problem, state: State) -> None:
    """Order the candidates of the first level by their promises."""
    level, k = state.level[0], len(state.chosen)
    _charge(problem, state, level, k - level)
    for i in range(state.count[level]):
        state.promises[level, i] -= _charges_of(problem, state, level, state.candidates[level, i])
    _settle(problem, state, level, k - level)


@inlined
def _scan(problem: Any, state: Any, level: int, found: Any, word: Any) -> int:
    """Look at every set that lacks one feature; return the work."""
    for i in range(state.count[level]):
        worth = state.value[level] + state.marginals[level, i]
        if worth < state.best_value[0] - problem.slack:
            continue
        for j in range(level):
            _put(word, j, state.chosen[j])
        _put(word, level, state.candidates[level, i])
        if len(found) == 0:
            _keep_best(problem, state, word)
        elif _value(problem, word) >= state.best_value[0]:
            found[state.n_found[0]] = word
            state.n_found[0] += 1
    return int(state.count[level])


@compiled
def search(problem: Problem, state: State, most_work: int, found: Integers) -> int:
    """Search on, for the best set or for all that are worth enough.

    Parameters
    ----------
    problem, state
        `state` is written to.
    most_work : int
        Pause after about so many looks at a candidate or a pair.
    found : ndarray of int64, shape (most, k)
        Where all sets are written to that are worth `best_value`; (0, k) to look for the best.

    Returns
    -------
    int
        `DONE`, `PAUSED`, or `FULL` if `found` may not hold what comes next.
    """
    k, first, work = len(state.chosen), state.level[0], 0
    word = np.empty(k, np.int64)
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED
        level = state.level[1]
        if level == k - 1:
            if 0 < len(found) < state.n_found[0] + state.count[level]:
                return FULL
            work += _scan(problem, state, level, found, word)
            _go_up(problem, state)
            continue
        bound = _bound(state, level, k)
        if bound < state.best_value[0] - problem.slack or bound == -np.inf:
            _go_up(problem, state)
            continue
        if state.best[0] >= 0 and bound <= state.best_value[0] + problem.slack:
            work += state.count[level]
            _first_completion(state, level, k, word)
            if not _is_before(word, state.best):
                _pass(problem, state, level)
                continue
        work += _descend(problem, state, level, k)
        state.level[1] = level + 1
    return DONE


@compiled
def open_bound(state: State) -> float:
    """Return what no set can exceed that the search has not met yet; -inf when it is done."""
    k, highest = len(state.chosen), -np.inf
    for level in range(state.level[0], state.level[1] + 1):
        highest = max(highest, _bound(state, level, k))
    return highest
