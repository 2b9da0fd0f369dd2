"""A good set to start the branch and bound from, compiled: one by one, and then by swaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats


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
def exchange(problem: Problem, chosen: Integers, n_fixed: int, loads: Floats) -> bool:
    """Make the swap that gains most; return whether there was one.

    Parameters
    ----------
    problem
    chosen : ndarray of int64, shape (k,)
        The set, what is in from the start first; changed in place.
    n_fixed : int
        How many are in from the start.
    loads : ndarray, shape (r,)
        Of the set in the rows; changed in place.
    """
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
    while exchange(problem, chosen, len(fixed), loads):
        continue
    return True
