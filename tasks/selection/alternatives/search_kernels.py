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

from chaffinch.tasks.selection.alternatives.search_state import DONE, FULL, PAUSED, Problem, State
from chaffinch.tasks.selection.masked_loss.compiling import compiled


@compiled
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


@compiled
def _is_before(one: Any, other: Any) -> bool:
    """Return whether a sorted set comes before another as a word."""
    i = 0
    while i < len(one) - 1 and one[i] == other[i]:
        i += 1
    return bool(one[i] < other[i])


@compiled
def _put(into: Any, size: int, feature: int) -> None:
    """Insert a feature into a sorted set of some size."""
    place = size
    while place > 0 and into[place - 1] > feature:
        into[place] = into[place - 1]
        place -= 1
    into[place] = feature


@compiled
def _write(state: Any, level: int, added: int, word: Any) -> None:
    """Write the partial set of a level, and one feature more, sorted."""
    for i in range(level):
        _put(word, i, state.chosen[i])
    _put(word, level, added)


@compiled
def _first_word(state: Any, level: int, word: Any) -> None:
    """Write the first set, as a word, that can still come of the next candidate."""
    place, n_open = state.place[level], len(word) - level - 1
    _write(state, level, state.candidates[level, place], word)
    lowest, filled = np.empty(n_open), 0
    for i in range(place + 1, state.n_candidates[level]):
        filled = _insert(lowest, filled, n_open, -float(state.candidates[level, i]))
    for i in range(n_open):
        _put(word, level + 1 + i, int(-lowest[i]))


@compiled
def _copy(state: Any, level: int, place: int, into: int) -> None:
    """Copy a candidate of a level to another place."""
    state.candidates[level, into] = state.candidates[level, place]
    state.marginals[level, into] = state.marginals[level, place]
    state.promises[level, into] = state.promises[level, place]


@compiled
def _order(state: Any, level: int) -> None:
    """Order candidates by what they promise; of equals the lowest index comes first."""
    features, promises = state.candidates[level], state.promises[level]
    spare = len(features) - 1
    for i in range(1, state.n_candidates[level]):
        _copy(state, level, i, spare)
        place, promise = i, promises[spare]
        while place > 0 and promises[place - 1] <= promise:
            if promises[place - 1] == promise and features[place - 1] < features[spare]:
                break
            _copy(state, level, place - 1, place)
            place -= 1
        _copy(state, level, spare, place)


@compiled
def _pass(problem: Any, state: Any, level: int) -> None:
    """Leave the next candidate out, and with it those that it dominates.

    One with a lower gain, and weights in the same rows at least, could be swapped for it.
    """
    place, n_words = state.place[level], problem.dominance.shape[1]
    state.place[level] = place + 1
    if n_words == 0:
        return
    passed, kept = state.candidates[level, place], place + 1
    for i in range(place + 1, state.n_candidates[level]):
        other = state.candidates[level, i]
        gain, other_gain = problem.gains[passed], problem.gains[other]
        dominated = gain > other_gain or (gain == other_gain and passed < other)
        for word in range(n_words):
            if problem.dominance[passed, word] & ~problem.dominance[other, word]:
                dominated = False
        if not dominated:
            _copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept


@compiled
def _charge(problem: Any, state: Any, level: int, n_open: int) -> None:
    """Charge for rows that can still overflow, and for no others."""
    constant = 0.0
    for r in range(len(problem.caps)):
        room = problem.caps[r] - state.loads[level, r]
        if problem.most[r, n_open] <= room:
            state.multipliers[level, r] = 0.0
        constant += state.multipliers[level, r] * room
    state.constant[level] = constant


@compiled
def _drop_hopeless(problem: Any, state: Any, level: int, n_open: int) -> bool:
    """Drop candidates that no set worth enough can have; return whether any was dropped."""
    n = state.n_candidates[level]
    tops, filled = np.empty(n_open), 0
    for i in range(n):
        filled = _insert(tops, filled, n_open, state.promises[level, i])
    if filled < n_open:
        state.n_candidates[level] = 0
        return False
    threshold = state.best_value[0] - problem.slack - state.value[level] - state.constant[level]
    kept, without_last = 0, tops[:-1].sum()
    for i in range(n):
        promise = min(state.promises[level, i], tops[n_open - 1])
        if promise > -np.inf and without_last + promise >= threshold:
            _copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept
    return bool(kept < n)


@compiled
def _charges_of(problem: Any, state: Any, level: int, feature: int) -> float:
    total = 0.0
    for r in range(len(problem.caps)):
        total += state.multipliers[level, r] * problem.weights[feature, r]
    return total


@compiled
def _promise_anew(problem: Any, state: Any, level: int, n_open: int) -> None:
    """Take the smallest pair costs among the candidates that are left."""
    n, partners = state.n_candidates[level], n_open - 1
    nearest = np.empty(partners)
    for i in range(n):
        feature, filled = state.candidates[level, i], 0
        for j in range(n):
            if j != i:
                cost = problem.costs[feature, state.candidates[level, j]]
                filled = _insert(nearest, filled, partners, -cost / 2)
        charges = _charges_of(problem, state, level, feature)
        state.promises[level, i] = state.marginals[level, i] - charges + nearest.sum()


@compiled
def _fits(problem: Any, state: Any, level: int, feature: int, n_open: int) -> bool:
    """Return whether rows allow a candidate and, at their best, what is to follow it."""
    for r in range(len(problem.caps)):
        load = state.loads[level, r] + problem.weights[feature, r]
        if load + problem.least[r, n_open - 1] > problem.caps[r]:
            return False
    return True


@compiled
def _settle(problem: Any, state: Any, level: int, n_open: int) -> int:
    """Drop what is hopeless on a new level and order the rest; return the work."""
    work, is_shrinking = state.n_candidates[level], len(problem.costs) > 0 and n_open > 1
    _drop_hopeless(problem, state, level, n_open)
    while is_shrinking and state.n_candidates[level] >= n_open:
        work += state.n_candidates[level] ** 2
        _promise_anew(problem, state, level, n_open)
        is_shrinking = _drop_hopeless(problem, state, level, n_open)
    _order(state, level)
    state.place[level] = 0
    return int(work)


@compiled
def _descend(problem: Any, state: Any, level: int, k: int) -> int:
    """Add the next candidate of a level and fill the level below it; return the work."""
    place, below = state.place[level], level + 1
    added, n_open = state.candidates[level, place], k - below
    state.chosen[level] = added
    state.value[below] = state.value[level] + state.marginals[level, place]
    for r in range(len(problem.caps)):
        state.loads[below, r] = state.loads[level, r] + problem.weights[added, r]
        state.multipliers[below, r] = state.multipliers[level, r]
    _charge(problem, state, below, n_open)
    n = 0
    for i in range(place + 1, state.n_candidates[level]):
        feature, marginal = state.candidates[level, i], state.marginals[level, i]
        if len(problem.costs):
            marginal -= problem.costs[added, feature]
        if marginal == -np.inf or not _fits(problem, state, below, feature, n_open):
            continue
        promise = marginal - problem.nearest[feature, n_open - 1]
        state.candidates[below, n] = feature
        state.marginals[below, n] = marginal
        state.promises[below, n] = promise - _charges_of(problem, state, below, feature)
        n += 1
    state.n_candidates[below] = n
    return _settle(problem, state, below, n_open)


@compiled
def _bound(state: Any, level: int, k: int) -> float:
    """Return what no set can exceed that has the next candidate of a level, or one after it."""
    first, total = state.place[level], state.value[level] + state.constant[level]
    if state.n_candidates[level] - first < k - level:
        return -np.inf
    return float(total + state.promises[level, first : first + k - level].sum())


@compiled
def _keep_best(problem: Any, state: Any, word: Any, value: float) -> None:
    """Take a set that is worth more than the best so far, or as much and before it as a word."""
    best = state.best_value[0]
    is_first = state.best[0] < 0 or _is_before(word, state.best)
    if value > best + problem.slack or (value >= best - problem.slack and is_first):
        state.best_value[0] = max(best, value)
        state.best[:] = word


@compiled
def _scan(problem: Any, state: Any, level: int, found: Any, word: Any) -> int:
    """Look at every set that lacks one feature; return the work."""
    for i in range(state.n_candidates[level]):
        worth = state.value[level] + state.marginals[level, i]
        if worth < state.best_value[0] - problem.slack:
            continue
        _write(state, level, state.candidates[level, i], word)
        if len(found) == 0:
            _keep_best(problem, state, word, worth)
            continue
        found[state.n_found[0]] = word
        state.n_found[0] += 1
    return int(state.n_candidates[level])


@compiled
def search(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Search on, for the best set or for all that are worth enough.

    Parameters
    ----------
    problem, state
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
    if state.place[first] < 0:
        work += _settle(problem, state, first, k - first)
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED
        level = state.level[1]
        is_last, bound = level == k - 1, _bound(state, level, k)
        if is_last:
            if 0 < len(found) < state.n_found[0] + state.n_candidates[level]:
                return FULL
            work += _scan(problem, state, level, found, word)
        if is_last or bound == -np.inf or bound < state.best_value[0] - problem.slack:
            state.level[1] = level - 1
            if level > first:
                _pass(problem, state, level - 1)
            continue
        if state.best[0] >= 0 and bound <= state.best_value[0] + problem.slack:
            work += state.n_candidates[level]
            _first_word(state, level, word)
            if not _is_before(word, state.best):
                _pass(problem, state, level)
                continue
        work += _descend(problem, state, level, k)
        state.level[1] = level + 1
    return DONE
