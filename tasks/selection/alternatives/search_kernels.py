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
from chaffinch.tasks.selection.alternatives.charging_kernels import charge, copy
from chaffinch.tasks.selection.alternatives.search_state import DONE, FULL, PAUSED, Problem, State
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.masked_loss.ordering import stable_order

_STEPS = 3  # on each level
_MOVES = 64  # of each candidate, after which all are sorted
_PER_STEP = 150  # looks at a candidate take as long as what comes with each step


@compiled
def is_before(word: Any, best: Any) -> bool:
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
def _sort(state: Any, level: int) -> None:
    """Order candidates likewise, however they lie."""
    n = state.n_candidates[level]
    by_index = stable_order(state.candidates[level, :n])
    order = by_index[stable_order(-state.promises[level, :n][by_index])]
    write(state.candidates[level, :n], state.candidates[level, :n][order])
    write(state.promises[level, :n], state.promises[level, :n][order])
    write(state.marginals[level, :n], state.marginals[level, :n][order])
    write(state.losses[level, :n], state.losses[level, :n][order])


@compiled
def _order(state: Any, level: int) -> None:
    """Order candidates by what they promise; of equals the lowest index comes first.

    They mostly lie in nearly that order; where they do not, inserting them would take too long.
    """
    features, promises = state.candidates[level], state.promises[level]
    marginals, losses = state.marginals[level], state.losses[level]
    n_moves, most_moves = 0, _MOVES * state.n_candidates[level]
    for i in range(1, state.n_candidates[level]):
        if n_moves > most_moves:
            _sort(state, level)
            return
        feature, promise, marginal, loss = features[i], promises[i], marginals[i], losses[i]
        place = i
        while place > 0 and promises[place - 1] <= promise:
            if promises[place - 1] == promise and features[place - 1] < feature:
                break
            features[place], promises[place] = features[place - 1], promises[place - 1]
            marginals[place], losses[place] = marginals[place - 1], losses[place - 1]
            place -= 1
        n_moves += i - place
        features[place], promises[place] = feature, promise
        marginals[place], losses[place] = marginal, loss


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
            copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept


@compiled
def _promise_anew(problem: Any, state: Any, level: int, n_open: int) -> None:
    """Take the smallest pair costs among the candidates that are left."""
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
                    filled = insert(nearest, filled, partners, -cost / 2)
        state.promises[level, i] = state.marginals[level, i] + total(nearest)
        state.losses[level, i] = -total(nearest[: partners - 1])


@compiled
def fits(problem: Any, state: Any, level: int, feature: int, n_open: int) -> bool:
    """Return whether rows allow a candidate and, at their best, what is to follow it."""
    for r in range(len(problem.caps)):
        load = state.loads[level, r] + problem.weights[feature, r]
        if load + problem.least[r, n_open - 1] > problem.caps[r]:
            return False
    return True


@compiled
def settle(problem: Any, state: Any, level: int, n_open: int) -> int:
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
def _least_promise(
    candidates: Any, marginals: Any, losses: Any, costs: Any, wanted: float, n_open: int
) -> float:
    """Return what followers must promise so that a set is worth what is wanted; inf if none can."""
    highest, filled = np.empty(n_open), 0
    for i in range(len(candidates)):
        promise = marginals[i] - costs[candidates[i]] - losses[i]
        filled = insert(highest, filled, n_open, promise)
    if filled < n_open or total(highest) < wanted:
        return np.inf
    return float(wanted - total(highest[: n_open - 1]))


@compiled
def _descend(problem: Any, state: Any, level: int, k: int, least: float) -> int:
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
            if marginal - state.losses[level, i] < least:
                continue
        if marginal == -np.inf or not fits(problem, state, below, feature, n_open):
            continue
        state.candidates[below, n] = feature
        state.marginals[below, n] = marginal
        state.promises[below, n] = marginal - state.losses[level, i]
        n += 1
    state.n_candidates[below] = n
    return settle(problem, state, below, n_open)


@compiled
def _bound(promises: Any, n_open: int, base: float) -> float:
    """Return what no set can exceed that has the next candidate of a level, or one after it."""
    return base + total(promises[:n_open]) if n_open <= len(promises) else -np.inf


@compiled
def scan(problem: Any, state: Any, level: int, found: Any, word: Any) -> None:
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
        elif is_before(word, state.best) or worth > best + problem.slack:
            write(state.best, word)
            state.best_value[0] = max(best, worth)


@compiled
def walk(problem: Any, state: Any, first: int, most_work: int, found: Any) -> tuple[int, int]:
    """Look at what is left of a level and those below it; return how it ended, and the work."""
    k, work = len(state.chosen), 0
    word, costs, values = np.empty(k, np.int64), problem.costs, state.value
    candidates, marginals, losses = state.candidates, state.marginals, state.losses
    places, counts = state.place, state.n_candidates
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED, work
        work += _PER_STEP
        level = state.level[1]
        place, end, is_last = places[level], counts[level], level == k - 1
        base = values[level] + state.constant[level]
        bound = _bound(state.promises[level, place:end], k - level, base)
        if is_last:
            if 0 < len(found) < state.n_found[0] + state.n_candidates[level]:
                return FULL, work
            scan(problem, state, level, found, word)
        if is_last or bound == -np.inf or bound < state.best_value[0] - problem.slack:
            state.level[1] = level - 1
            if level > first:
                _pass(problem, state, level - 1)
            continue
        if state.best[0] >= 0 and bound <= state.best_value[0] + problem.slack:
            _write_first(state, level, word)
            if not is_before(word, state.best):
                _pass(problem, state, level)
                continue
        least = -np.inf
        if len(costs):
            wanted = state.best_value[0] - problem.slack
            least = _least_promise(
                candidates[level, place + 1 : end],
                marginals[level, place + 1 : end],
                losses[level, place + 1 : end],
                costs[candidates[level, place]],
                wanted - values[level] - marginals[level, place],
                k - level - 1,
            )
            if least == np.inf:
                work += end - place
                places[level] = place + 1  # with pair costs none dominates another
                continue
        work += _descend(problem, state, level, k, least)
        state.level[1] = level + 1
    return DONE, work


@compiled
def search(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Search on, for the best set or, where `found` has room, for all that are worth enough.

    Returns `DONE`, `PAUSED` after about `most_work` looks at a candidate or a pair, or `FULL` if
    `found`, of shape (most, k), may not hold the sets, unsorted, that come next.
    """
    first = state.level[0]
    if state.place[first] < 0:
        settle(problem, state, first, len(state.chosen) - first)
    return walk(problem, state, first, most_work, found)[0]
