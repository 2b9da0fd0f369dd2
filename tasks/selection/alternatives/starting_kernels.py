"""Where the branch and bound starts, compiled: what rows are worth, and a good set by exchange.

The multipliers charge features for their weights in the rows, so that the best sets under charges
overflow no row by much: Lagrangian relaxation, by subgradient steps of Polyak's length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem
from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined
from chaffinch.tasks.selection.vocabulary import Floats


@inlined
def _largest(values: Any, n_largest: int) -> Any:
    """Return where the largest values are."""
    return np.argsort(-values, kind="mergesort")[:n_largest]


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
    n_rows = len(room)
    now, best = np.zeros(n_rows), np.zeros(n_rows)
    lowest, length, since = np.inf, 1.0, 0
    for _ in range(n_steps):
        charged = promises.copy()
        for i, feature in enumerate(candidates):
            for r in range(n_rows):
                charged[i] -= now[r] * problem.weights[feature, r]
        bound, excess = 0.0, -room
        for i in _largest(charged, n_open):
            bound += charged[i]
            excess += problem.weights[candidates[i]]
        for r in range(n_rows):
            bound += now[r] * room[r]
        since += 1
        if bound < lowest:
            lowest, since = bound, 0
            best[:] = now
        elif since == 10:
            length, since = length / 2, 0
            now[:] = best
            continue
        norm = 0.0
        for r in range(n_rows):
            if now[r] == 0 and excess[r] < 0:
                excess[r] = 0.0
            norm += excess[r] ** 2
        if norm == 0 or lowest <= target:
            break
        step = length * max(bound - target, 0.0) / norm
        for r in range(n_rows):
            now[r] = max(0.0, now[r] + step * excess[r])
    return best


@inlined
def _fits(problem: Any, loads: Any, out: int, feature: int, n_after: int) -> bool:
    """Return whether rows allow a feature, in place of another (-1 for none)."""
    for r in range(len(loads)):
        load = loads[r] + problem.weights[feature, r]
        if out >= 0:
            load -= problem.weights[out, r]
        if load + problem.least[r, n_after] > problem.caps[r]:
            return False
    return True


@inlined
def _worth(problem: Any, chosen: Any, feature: int, out: int) -> float:
    """Return what a feature adds to a set without one of its own (-1 for none)."""
    worth = problem.gains[feature]
    if len(problem.costs):
        for other in chosen:
            if other != out:
                worth -= problem.costs[feature, other]
    return float(worth)


@inlined
def _exchange(problem: Any, chosen: Any, n_fixed: int, loads: Any) -> bool:
    """Make the swap that gains most; return whether there was one."""
    most, best_place, best_feature = problem.slack, -1, -1
    is_in = np.zeros(len(problem.gains), np.bool_)
    is_in[chosen] = True
    for place in range(n_fixed, len(chosen)):
        out = chosen[place]
        worth = _worth(problem, chosen, out, out)
        for feature in range(len(is_in)):
            if is_in[feature] or problem.gains[feature] == -np.inf:
                continue
            gain = _worth(problem, chosen, feature, out) - worth
            if gain > most and _fits(problem, loads, out, feature, 0):
                most, best_place, best_feature = gain, place, feature
    if best_place < 0:
        return False
    loads += problem.weights[best_feature] - problem.weights[chosen[best_place]]
    chosen[best_place] = best_feature
    return True


@compiled
def good_set(problem: Problem, fixed: Integers, k: int, multipliers: Floats) -> Integers:
    """Return a set that obeys the rows: what adds most, charged, one by one, and then by swaps.

    Parameters
    ----------
    problem
    fixed : ndarray of int64, shape (f,)
        In from the start.
    k : int
        Size of the set.
    multipliers : ndarray, shape (r,)
        What weights in the rows are charged.

    Returns
    -------
    ndarray of int64, shape (k,), or (0,) if none was found
        Sorted.
    """
    chosen, loads = fixed[:0].copy(), np.zeros(len(problem.caps))
    is_open = np.ones(len(problem.gains), np.bool_)
    while len(chosen) < k:
        best, highest = -1, -np.inf
        if len(chosen) < len(fixed):
            best = fixed[len(chosen)]
        else:
            for feature in np.flatnonzero(is_open):
                worth = _worth(problem, chosen, feature, -1)
                for r in range(len(loads)):
                    worth -= multipliers[r] * problem.weights[feature, r]
                n_after = k - len(chosen) - 1
                if worth > highest and _fits(problem, loads, -1, feature, n_after):
                    best, highest = feature, worth
        if best < 0:
            return chosen[:0]
        is_open[best] = False
        chosen = np.append(chosen, best)
        loads += problem.weights[best]
    for r in range(len(loads)):
        if loads[r] > problem.caps[r]:
            return chosen[:0]
    while _exchange(problem, chosen, len(fixed), loads):
        continue
    return np.sort(chosen)
