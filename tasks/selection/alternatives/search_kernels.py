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

from chaffinch.tasks.selection.alternatives.array_kernels import insert, total, write
from chaffinch.tasks.selection.alternatives.search_state import DONE, FULL, PAUSED, Problem, State
from chaffinch.tasks.selection.masked_loss.compiling import compiled

_STEPS = 3  # on each level
_HALVINGS = 15  # how often a step may become half as long for want of a lower bound
_GUESS = 0.1  # how far below a bound the best set is taken to be where none is known


@compiled
def _is_before(word: Any, best: Any) -> bool:
    """Sort a set; return whether it comes before a sorted one as a word, or there is none."""
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
def _write_first(state: Any, level: int, word: Any) -> None:
    """Write the set that comes first of all that can still come of the next candidate."""
    place, n_open, filled = state.place[level], len(word) - level - 1, 0
    lowest = np.empty(n_open)
    for i in range(place + 1, state.n_candidates[level]):
        filled = insert(lowest, filled, n_open, -float(state.candidates[level, i]))
    write(word[:level], state.chosen)
    word[level] = state.candidates[level, place]
    for i in range(n_open):
        word[level + 1 + i] = int(-lowest[i])


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
    """Leave the next candidate out, and with it those that it dominates."""
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
def _charged(problem: Any, state: Any, level: int, rows: Any, charged: Any, places: Any) -> float:
    """Charge by rows[0]; return the bound, whose features are at `places` and overfill rows[1]."""
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
    """Charge more for rows that are overfilled, less for others; return whether any changed."""
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
def charge(problem: Problem, state: State, level: int, n_steps: int) -> bool:
    """Charge the candidates of a level so that its bound comes down, and drop the hopeless ones.

    Takes subgradient steps of Polyak's length; returns whether any candidate was dropped.
    """
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
            lowest, since, last = bound, 0, charged[places[-1]]
            write(best, charged)
            write(state.multipliers[level], rows[0])
            kept_back = 0.0
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
def _promise_anew(problem: Any, state: Any, level: int, n_open: int) -> None:
    """Take the smallest pair costs among the candidates that are left."""
    n, partners = state.n_candidates[level], n_open - 1
    nearest = np.empty(partners)
    for i in range(n):
        feature, filled = state.candidates[level, i], 0
        for j in range(n):
            if j != i:
                cost = problem.costs[feature, state.candidates[level, j]]
                filled = insert(nearest, filled, partners, -cost / 2)
        state.promises[level, i] = state.marginals[level, i] + total(nearest)


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
    work, is_new, n_steps = 0, True, _STEPS if n_open > 1 and len(problem.caps) else 0
    while state.n_candidates[level] >= n_open:
        work += state.n_candidates[level] * (n_steps + 1)
        is_shrinking = charge(problem, state, level, n_steps) or is_new
        if len(problem.costs) == 0 or n_open == 1 or not is_shrinking:
            break
        work += state.n_candidates[level] ** 2
        _promise_anew(problem, state, level, n_open)
        is_new = False
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
    n = 0
    for i in range(place + 1, state.n_candidates[level]):
        feature, marginal = state.candidates[level, i], state.marginals[level, i]
        if len(problem.costs):
            marginal -= problem.costs[added, feature]
        if marginal == -np.inf or not _fits(problem, state, below, feature, n_open):
            continue
        state.candidates[below, n] = feature
        state.marginals[below, n] = marginal
        state.promises[below, n] = marginal - problem.nearest[feature, n_open - 1]
        n += 1
    state.n_candidates[below] = n
    return _settle(problem, state, below, n_open)


@compiled
def _bound(state: Any, level: int, k: int) -> float:
    """Return what no set can exceed that has the next candidate of a level, or one after it."""
    first, last = state.place[level], state.place[level] + k - level
    if last > state.n_candidates[level]:
        return -np.inf
    promised = total(state.promises[level, first:last])
    return float(state.value[level] + state.constant[level] + promised)


@compiled
def _scan(problem: Any, state: Any, level: int, found: Any, word: Any) -> None:
    """Look at every set that lacks one feature: keep the best one, or write all that will do."""
    for i in range(state.n_candidates[level]):
        best, worth = state.best_value[0], state.value[level] + state.marginals[level, i]
        if worth < best - problem.slack:
            continue
        write(word[:level], state.chosen)
        word[level] = state.candidates[level, i]
        if len(found):
            write(found[state.n_found[0]], word)
            state.n_found[0] += 1
        elif _is_before(word, state.best) or worth > best + problem.slack:
            write(state.best, word)
            state.best_value[0] = max(best, worth)


@compiled
def search(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Search on, for the best set or, where `found` has room, for all that are worth enough.

    Returns `DONE`, `PAUSED` after about `most_work` looks at a candidate or a pair, or `FULL` if
    `found`, of shape (most, k), may not hold the sets, unsorted, that come next.
    """
    k, first, work = len(state.chosen), state.level[0], 0
    word = np.empty(k, np.int64)
    if state.place[first] < 0:
        work += _settle(problem, state, first, k - first)
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED
        level = state.level[1]
        work += state.n_candidates[level]
        is_last, bound = level == k - 1, _bound(state, level, k)
        if is_last:
            if 0 < len(found) < state.n_found[0] + state.n_candidates[level]:
                return FULL
            _scan(problem, state, level, found, word)
        if is_last or bound == -np.inf or bound < state.best_value[0] - problem.slack:
            state.level[1] = level - 1
            if level > first:
                _pass(problem, state, level - 1)
            continue
        if state.best[0] >= 0 and bound <= state.best_value[0] + problem.slack:
            _write_first(state, level, word)
            if not _is_before(word, state.best):
                _pass(problem, state, level)
                continue
        work += _descend(problem, state, level, k)
        state.level[1] = level + 1
    return DONE
