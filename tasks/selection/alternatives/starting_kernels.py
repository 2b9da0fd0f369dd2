"""A good set to start the branch and bound from, compiled: one by one, and then by swaps."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.masked_loss.ordering import stable_order
from chaffinch.tasks.selection.vocabulary import Floats

MOST_WORK = 20_000_000  # looks at a feature in place of another: some tens of milliseconds


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
def _orders(problem: Any, multipliers: Any) -> tuple[Any, Any]:
    """Return what features are charged (n,), and them by their gain, charged, the highest first."""
    charges = np.zeros(len(problem.gains))
    for feature in range(len(charges)):
        for r in range(len(multipliers)):
            charges[feature] += multipliers[r] * problem.weights[feature, r]
    return charges, stable_order(charges - problem.gains)


@compiled
def _put_in(problem: Any, loads: Any, adds: Any, feature: int) -> None:
    """Take a feature's weights and pair costs into account."""
    for r in range(len(loads)):
        loads[r] += problem.weights[feature, r]
    if len(problem.costs):
        for other in range(len(adds)):
            adds[other] -= problem.costs[feature, other]


@compiled
def _fill(
    problem: Any, multipliers: Any, n_fixed: int, chosen: Any, loads: Any, work_left: Any
) -> bool:
    """Add the feature that adds most, charged, again and again; return whether there always is one.

    When work is out, features that did not fit once are not looked at again.
    """
    n, k, has_pairs = len(problem.gains), len(chosen), len(problem.costs) > 0
    adds, is_in = problem.gains.copy(), np.zeros(n, np.bool_)
    charges, order = _orders(problem, multipliers)
    for place in range(n_fixed):
        is_in[chosen[place]] = True
        _put_in(problem, loads, adds, chosen[place])
    first = 0  # in the order, that may still be added
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
    """Return what features add to a set, (n,), and with how many of it each is in conflict."""
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
    work_left : ndarray of int64, shape (1,)
        How many looks at a feature in place of another, and at a row, there may still be; changed
        in place. Of a search that is cut short the best swap by then is made.
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
    # what loses least first: without pair costs nothing after it gains as much
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
    work_left : ndarray of int64, shape (1,)
        See `exchange`; a set is written however little there is.

    Returns
    -------
    bool
        Whether there is one: rows may stand in the way of a set that is made one by one.
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
