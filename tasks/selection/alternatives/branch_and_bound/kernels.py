"""The compiled inner loops of the branch and bound; see `solve.py`.

A level is a partial set. Its candidates are ordered by their promise, best first; each is added in
turn and those before it are left out, so that every set is visited once. The promise of a candidate
is its marginal value, minus half of the smallest pair costs that it must still meet, minus the
charges of the multipliers for its weights in the rows.

A search pauses after a given amount of work and continues when called again: all of its state is in
`State`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.arrays import (
    DONE,
    FULL,
    PAUSED,
    Integers,
    Problem,
    State,
    insert,
    total,
    write,
)
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, stable_order

# Charges of rows to the candidates of a level, which lower its bound, compiled.
#
# The charges are nonnegative multipliers of each candidate's weights in the rows (Lagrangian
# relaxation), improved by subgradient steps of Polyak's length.

_HALVINGS = 15  # number of times a step is halved if it gives no lower bound
_GUESS = 0.1  # assumed gap between the bound and the best set if none is known


@compiled
def copy(state: Any, level: int, place: int, into: int) -> None:
    state.candidates[level, into] = state.candidates[level, place]
    state.marginals[level, into] = state.marginals[level, place]
    state.promises[level, into] = state.promises[level, place]
    state.losses[level, into] = state.losses[level, place]


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
def charge(problem: Problem, state: State, level: int, n_steps: int) -> bool:
    """Charge the candidates of a level to lower its bound, and drop the hopeless ones.

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
            copy(state, level, i, kept)
            kept += 1
    state.n_candidates[level] = kept
    return bool(kept < n)


_STEPS = 3  # on each level
_MOVES = 64  # per candidate, after which all are sorted
_PER_STEP = 150  # looks at a candidate that take as long as the overhead of a step


@compiled
def is_before(word: Any, best: Any) -> bool:
    """Sort a set; return whether it precedes a sorted one lexicographically, or there is none."""
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
    """Write the lexicographically first of the remaining sets with the next candidate."""
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
    """Sort candidates by promise, from any order."""
    n = state.n_candidates[level]
    by_index = stable_order(state.candidates[level, :n])
    order = by_index[stable_order(-state.promises[level, :n][by_index])]
    write(state.candidates[level, :n], state.candidates[level, :n][order])
    write(state.promises[level, :n], state.promises[level, :n][order])
    write(state.marginals[level, :n], state.marginals[level, :n][order])
    write(state.losses[level, :n], state.losses[level, :n][order])


@compiled
def _order(state: Any, level: int) -> None:
    """Sort candidates by promise; ties go to the lowest index.

    They are mostly in nearly that order; where they are not, insertion would take too long.
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
    """Leave out the next candidate, and those that it dominates."""
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
                    filled = insert(nearest, filled, partners, -cost / 2)
        state.promises[level, i] = state.marginals[level, i] + total(nearest)
        state.losses[level, i] = -total(nearest[: partners - 1])


@compiled
def fits(problem: Any, state: Any, level: int, feature: int, n_open: int) -> bool:
    """Return whether rows allow a candidate, given the lightest possible followers."""
    for r in range(len(problem.caps)):
        load = state.loads[level, r] + problem.weights[feature, r]
        if load + problem.least[r, n_open - 1] > problem.caps[r]:
            return False
    return True


@compiled
def settle(problem: Any, state: Any, level: int, n_open: int) -> int:
    """Drop hopeless candidates of a new level and sort the rest; return the work."""
    work, is_new, n_steps = 0, True, _STEPS if n_open > 1 and len(problem.caps) else 0
    while state.n_candidates[level] >= n_open:
        work += state.n_candidates[level] * (n_steps + 1)
        is_shrinking = charge(problem, state, level, n_steps) or is_new
        if len(problem.costs) == 0 or n_open == 1 or not is_shrinking:
            break
        work += state.n_candidates[level] ** 2
        _update_promises(problem, state, level, n_open)
        is_new = False
    _order(state, level)
    state.place[level] = 0
    return int(work)


@compiled
def _least_promise(
    candidates: Any, marginals: Any, losses: Any, costs: Any, wanted: float, n_open: int
) -> float:
    """Return the promise that followers need for a good enough set; inf if none has it."""
    highest, filled = np.empty(n_open), 0
    for i in range(len(candidates)):
        promise = marginals[i] - costs[candidates[i]] - losses[i]
        filled = insert(highest, filled, n_open, promise)
    if filled < n_open or total(highest) < wanted:
        return np.inf
    return float(wanted - total(highest[: n_open - 1]))


@compiled
def _descend(problem: Any, state: Any, level: int, k: int, least: float) -> int:
    """Add the next candidate of a level and fill the level below; return the work."""
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
    """Return an upper bound on sets with the next candidate of a level or a later one."""
    return base + total(promises[:n_open]) if n_open <= len(promises) else -np.inf


@compiled
def scan(problem: Any, state: Any, level: int, found: Any, word: Any) -> None:
    """Visit every set that lacks one feature: keep the best one, or write all good enough ones."""
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
    """Search the rest of a level and those below it; return how it ended, and the work."""
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
                places[level] = place + 1  # no dominance with pair costs
                continue
        work += _descend(problem, state, level, k, least)
        state.level[1] = level + 1
    return DONE, work


@compiled
def search(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Continue the search, for the best set or, with room in `found`, for all good enough ones.

    Returns `DONE`, `PAUSED` after about `most_work` looks at a candidate or a pair, or `FULL` if
    `found`, of shape (most, k), may not have room for the next sets, which are unsorted.
    """
    first = state.level[0]
    if state.place[first] < 0:
        settle(problem, state, first, len(state.chosen) - first)
    return walk(problem, state, first, most_work, found)[0]


MOST_WORK = 20_000_000  # looks at a swap: some tens of milliseconds


@compiled
def _fits(problem: Any, loads: Any, out: int, feature: int, n_after: int) -> bool:
    """Return whether rows allow a feature in place of another (-1 for none)."""
    for r in range(len(loads)):
        load = loads[r] + problem.weights[feature, r]
        if out >= 0:
            load -= problem.weights[out, r]
        if load + problem.least[r, n_after] > problem.caps[r]:
            return False
    return True


@compiled
def _orders(problem: Any, multipliers: Any) -> tuple[Any, Any]:
    """Return the features' charges (n,), and the features by charged gain, highest first."""
    charges = np.zeros(len(problem.gains))
    for feature in range(len(charges)):
        for r in range(len(multipliers)):
            charges[feature] += multipliers[r] * problem.weights[feature, r]
    return charges, stable_order(charges - problem.gains)


@compiled
def _put_in(problem: Any, loads: Any, adds: Any, feature: int) -> None:
    """Add a feature's weights and pair costs."""
    for r in range(len(loads)):
        loads[r] += problem.weights[feature, r]
    if len(problem.costs):
        for other in range(len(adds)):
            adds[other] -= problem.costs[feature, other]


@compiled
def _fill(
    problem: Any, multipliers: Any, n_fixed: int, chosen: Any, loads: Any, work_left: Any
) -> bool:
    """Add the feature with the largest charged marginal repeatedly; return whether it succeeds.

    When the work is used up, features that did not fit once are not tried again.
    """
    n, k, has_pairs = len(problem.gains), len(chosen), len(problem.costs) > 0
    adds, is_in = problem.gains.copy(), np.zeros(n, np.bool_)
    charges, order = _orders(problem, multipliers)
    for place in range(n_fixed):
        is_in[chosen[place]] = True
        _put_in(problem, loads, adds, chosen[place])
    first = 0  # position of the first that may still be added
    for size in range(n_fixed, k):
        best, highest, at = -1, -np.inf, first
        while at < n:
            feature = order[at]
            worth = adds[feature] - charges[feature]
            work_left[0] -= 1
            if not is_in[feature] and worth > highest:
                work_left[0] -= len(loads)
                if _fits(problem, loads, -1, feature, k - size - 1):
                    best, highest = feature, worth
                    if not has_pairs:
                        break
            if at == first and (is_in[feature] or (not has_pairs and work_left[0] < 0)):
                first += 1
            at += 1
        if best < 0:
            return False
        chosen[size], is_in[best] = best, True
        _put_in(problem, loads, adds, best)
    return True


@compiled
def _adding(problem: Any, chosen: Any) -> tuple[Any, Any]:
    """Return the marginal values of features, (n,), and their number of conflicts with the set."""
    n = len(problem.gains)
    adds, conflicts = problem.gains.copy(), np.zeros(n, np.int64)
    if len(problem.costs):
        for out in chosen:
            for feature in range(n):
                cost = problem.costs[out, feature]
                if cost == np.inf:
                    conflicts[feature] += 1
                else:
                    adds[feature] -= cost
    return adds, conflicts


@compiled
def exchange(
    problem: Problem, chosen: Integers, n_fixed: int, loads: Floats, work_left: Integers
) -> bool:
    """Make the swap with the largest gain, in place; return whether there was one.

    The set starts with `n_fixed` fixed features. If `work_left`, looks at swaps and rows, runs out,
    the best swap so far is made.
    """
    k, most, best_place, best_feature = len(chosen), problem.slack, -1, -1
    adds, conflicts = _adding(problem, chosen)
    has_pairs = len(problem.costs) > 0
    work_left[0] -= len(adds) * (1 + k * has_pairs)
    is_in, losses = np.zeros(len(adds), np.bool_), np.empty(k - n_fixed)
    for place in range(k):
        is_in[chosen[place]] = True
        if place >= n_fixed:
            losses[place - n_fixed] = adds[chosen[place]]
    # smallest loss first: without pair costs no later one gains as much
    places = n_fixed + stable_order(losses)
    for feature in range(len(adds)):
        if is_in[feature] or conflicts[feature] > 1:
            continue
        for place in places:
            if work_left[0] < 0:
                break
            work_left[0] -= 1
            out = chosen[place]
            gain = adds[feature] - adds[out]
            if has_pairs and problem.costs[feature, out] != np.inf:
                if conflicts[feature] > 0:
                    continue
                gain += problem.costs[feature, out]
            if gain > most:
                work_left[0] -= len(loads)
                if _fits(problem, loads, out, feature, 0):
                    most, best_place, best_feature = gain, place, feature
            elif not has_pairs:
                break
    if best_place < 0:
        return False
    out = chosen[best_place]
    for r in range(len(loads)):
        loads[r] += problem.weights[best_feature, r] - problem.weights[out, r]
    chosen[best_place] = best_feature
    return True


@compiled
def good_set(
    problem: Problem, fixed: Integers, multipliers: Floats, chosen: Integers, work_left: Integers
) -> bool:
    """Write a set that obeys the rows: greedily by charged marginal value, then by swaps.

    Returns whether one was found: a greedy choice may violate the rows. A set is written even if no
    work is left, see `exchange`.
    """
    loads = np.zeros(len(problem.caps))
    write(chosen[: len(fixed)], fixed)
    if not _fill(problem, multipliers, len(fixed), chosen, loads, work_left):
        return False
    for r in range(len(loads)):
        if loads[r] > problem.caps[r]:
            return False
    while work_left[0] > 0 and exchange(problem, chosen, len(fixed), loads, work_left):
        continue
    return True
