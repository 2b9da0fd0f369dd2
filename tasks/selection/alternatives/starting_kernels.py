"""Where the branch and bound starts, compiled: what rows are worth, and a good set by exchange.

The multipliers charge features for their weights in the rows, so that the best sets under charges
overflow no row by much: Lagrangian relaxation, by subgradient steps of Polyak's length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats

_PATIENCE = 10  # steps without a lower bound, after which they become half as long


@compiled
def _largest(values: Any, places: Any) -> None:
    """Write where the largest values are, as many as there are places; of equals the first."""
    filled = 0
    for i in range(len(values)):
        if filled == len(places):
            if values[i] <= values[places[filled - 1]]:
                continue
            filled -= 1
        place = filled
        while place > 0 and values[places[place - 1]] < values[i]:
            places[place] = places[place - 1]
            place -= 1
        places[place] = i
        filled += 1


@compiled
def _step(problem: Any, excess: Any, now: Any, length: float) -> None:
    """Charge more for rows that are too full, and less for those with room, but no less than 0."""
    norm = 0.0
    for r in range(len(now)):
        if now[r] > 0 or excess[r] > 0:
            norm += excess[r] ** 2
    for r in range(len(now)):
        if norm > 0:
            now[r] = max(0.0, now[r] + length / norm * excess[r])


@compiled
def multipliers_of(
    problem: Problem,
    candidates: Integers,
    promises: Floats,
    room: Floats,
    n_open: int,
    target: float,
    n_steps: int,
) -> Floats:
    """Return multipliers of the rows, shape (r,), at least 0, that bring the bound down.

    Parameters
    ----------
    problem
    candidates, promises : ndarray, shape (c,)
        What may be added, and what each adds at most, without charges.
    room : ndarray, shape (r,)
        Of each row.
    n_open : int
        How many are to be added.
    target : float
        What some set adds, or a guess at it.
    n_steps : int
        How many steps to take.
    """
    n_rows, lowest, share, since = len(room), np.inf, 1.0, 0
    now, best, excess = np.zeros(n_rows), np.zeros(n_rows), np.empty(n_rows)
    charged, places = np.empty(len(candidates)), np.empty(n_open, np.int64)
    for _ in range(n_steps):
        for i in range(len(candidates)):
            charged[i] = promises[i]
            for r in range(n_rows):
                charged[i] -= now[r] * problem.weights[candidates[i], r]
        _largest(charged, places)
        bound = 0.0
        for place in places:
            bound += charged[place]
        for r in range(n_rows):
            bound += now[r] * room[r]
            excess[r] = -room[r]
            for place in places:
                excess[r] += problem.weights[candidates[place], r]
        since += 1
        if bound < lowest:
            lowest, since = bound, 0
            for r in range(n_rows):
                best[r] = now[r]
        elif since == _PATIENCE:
            share, since = share / 2, 0
        if lowest <= target:
            break
        _step(problem, excess, now, share * (bound - target))
    return best


@compiled
def _fits(problem: Any, loads: Any, out: int, feature: int, n_after: int) -> bool:
    """Return whether rows allow a feature, in place of another (-1 for none)."""
    for r in range(len(loads)):
        load = loads[r] + problem.weights[feature, r]
        if out >= 0:
            load -= problem.weights[out, r]
        if load + problem.least[r, n_after] > problem.caps[r]:
            return False
    return True


@compiled
def _worth(problem: Any, chosen: Any, size: int, feature: int, out: int) -> float:
    """Return what a feature adds to a set without one of its own (-1 for none)."""
    worth = problem.gains[feature]
    if len(problem.costs):
        for i in range(size):
            if chosen[i] != out:
                worth -= problem.costs[feature, chosen[i]]
    return float(worth)


@compiled
def _most_to_add(problem: Any, multipliers: Any, chosen: Any, size: int, loads: Any) -> int:
    """Return the feature that adds most to a set, charged; -1 if none can be added."""
    best, highest = -1, -np.inf
    for feature in range(len(problem.gains)):
        worth = _worth(problem, chosen, size, feature, -1)
        for r in range(len(loads)):
            worth -= multipliers[r] * problem.weights[feature, r]
        for i in range(size):
            if chosen[i] == feature:
                worth = -np.inf
        if worth > highest and _fits(problem, loads, -1, feature, len(chosen) - size - 1):
            best, highest = feature, worth
    return best


@compiled
def _exchange(problem: Any, chosen: Any, n_fixed: int, loads: Any) -> bool:
    """Make the swap that gains most; return whether there was one."""
    k, most, best_place, best_feature = len(chosen), problem.slack, -1, -1
    for feature in range(len(problem.gains)):
        is_in = False
        for i in range(k):
            is_in |= chosen[i] == feature
        for place in range(n_fixed, 0 if is_in else k):
            out = chosen[place]
            gain = _worth(problem, chosen, k, feature, out) - _worth(problem, chosen, k, out, out)
            if gain > most and _fits(problem, loads, out, feature, 0):
                most, best_place, best_feature = gain, place, feature
    if best_place < 0:
        return False
    out = chosen[best_place]
    for r in range(len(loads)):
        loads[r] += problem.weights[best_feature, r] - problem.weights[out, r]
    chosen[best_place] = best_feature
    return True


@compiled
def good_set(problem: Problem, fixed: Integers, multipliers: Floats, chosen: Integers) -> bool:
    """Write a set that obeys the rows: what adds most, charged, one by one, and then by swaps.

    Parameters
    ----------
    problem
    fixed : ndarray of int64, shape (f,)
        In from the start.
    multipliers : ndarray, shape (r,)
        What weights in the rows are charged.
    chosen : ndarray of int64, shape (k,)
        Where to write the set, in any order.

    Returns
    -------
    bool
        Whether there is one: rows may stand in the way of a set that is made one by one.
    """
    loads = np.zeros(len(problem.caps))
    for size in range(len(chosen)):
        if size < len(fixed):
            added = fixed[size]
        else:
            added = _most_to_add(problem, multipliers, chosen, size, loads)
        if added < 0:
            return False
        chosen[size] = added
        for r in range(len(loads)):
            loads[r] += problem.weights[added, r]
    for r in range(len(loads)):
        if loads[r] > problem.caps[r]:
            return False
    while _exchange(problem, chosen, len(fixed), loads):
        continue
    return True
