"""The weights at which the convex part of pair costs is replaced by its tangent, compiled.

`convex_kernels.py` tells what they are for. A level's weights sum to the number of features that it
lacks; their slopes, 2 Q s, are kept with them and changed as they change. How many roundings these
can have gone through is counted, and they are taken anew before roundings add up to a margin.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import insert, total
from chaffinch.tasks.selection.masked_loss.compiling import compiled

MOST_ROUNDINGS = 2000  # of a slope, each of no more than k times the largest entry
_CLOSE = 1e-9  # relative, of the best weights


@compiled
def forget(problem: Any, state: Any, level: int, feature: int) -> None:
    """Take a feature that is no candidate any more out of a level's weights."""
    share = state.shares[level, feature]
    state.shares[level, feature] = 0.0
    if share == 0.0:
        return
    state.roundings[level] += 1
    for i in range(state.n_candidates[level]):
        other = state.candidates[level, i]
        state.slopes[level, other] -= share * problem.convex[feature, other]


@compiled
def _take_slopes(problem: Any, state: Any, level: int) -> None:
    """Take a level's slopes anew."""
    n = state.n_candidates[level]
    for i in range(n):
        feature, slope = state.candidates[level, i], 0.0
        for j in range(n):
            other = state.candidates[level, j]
            if state.shares[level, other] > 0.0:
                slope += state.shares[level, other] * problem.convex[other, feature]
        state.slopes[level, feature] = slope
    state.roundings[level] = n


@compiled
def weigh(problem: Any, state: Any, level: int) -> None:
    """Make weights sum to what a level lacks; all alike if there are none."""
    n, n_open, in_all = state.n_candidates[level], len(state.chosen) - level, 0.0
    for i in range(n):
        in_all += state.shares[level, state.candidates[level, i]]
    factor = n_open / in_all if in_all > 0.0 else np.inf
    roundings = 1 + factor * state.roundings[level]
    for i in range(n):
        feature = state.candidates[level, i]
        if factor < np.inf:
            state.shares[level, feature] *= factor
            state.slopes[level, feature] *= factor
        else:
            state.shares[level, feature] = n_open / n
    if roundings <= MOST_ROUNDINGS:
        state.roundings[level] = roundings
    else:
        _take_slopes(problem, state, level)


@compiled
def halve(problem: Any, state: Any, level: int) -> None:
    """Take half of the smallest rests of pair costs among the candidates that are left.

    The loop is that of `search_kernels._promise_anew`: as a kernel that both call, searches take
    up to 1.7 times as long.
    """
    n, partners = state.n_candidates[level], len(state.chosen) - level - 1
    nearest, is_left = np.empty(partners), np.zeros(len(problem.gains), np.bool_)
    for i in range(n):
        is_left[state.candidates[level, i]] = True
    for i in range(n):
        feature, filled = state.candidates[level, i], 0
        for other in problem.partners[feature]:
            if filled == partners:
                break
            if is_left[other]:
                nearest[filled] = -problem.rests[feature, other] / 2
                filled += 1
        if filled < partners:
            filled = 0
            for j in range(n):
                if j != i:
                    rest = problem.rests[feature, state.candidates[level, j]]
                    filled = insert(nearest, filled, partners, -rest / 2)
        state.losses[level, i] = -total(nearest)
    state.halved[level] = n


@compiled
def promise(problem: Any, state: Any, level: int, places: Any) -> float:
    """Write what candidates promise, and the places of the best; return what these come to."""
    n, filled, bound = state.n_candidates[level], 0, 0.0
    for i in range(n):
        feature = state.candidates[level, i]
        promised = state.marginals[level, i] - state.losses[level, i]
        promised += problem.convex[feature, feature] / 2 - state.slopes[level, feature]
        for r in range(len(problem.caps)):
            promised -= state.multipliers[level, r] * problem.weights[feature, r]
        state.promises[level, i] = promised
        if filled < len(places):
            filled += 1
        elif promised <= state.promises[level, places[-1]]:
            continue
        place = filled - 1
        while place > 0 and state.promises[level, places[place - 1]] < promised:
            places[place] = places[place - 1]
            place -= 1
        places[place] = i
    for place in places:
        bound += state.promises[level, place]
    return bound


@compiled
def constant(problem: Any, state: Any, level: int) -> float:
    """Return s'Qs, and what the multipliers give for the room that is left in the rows."""
    given = 0.0
    for i in range(state.n_candidates[level]):
        feature = state.candidates[level, i]
        given += state.shares[level, feature] * state.slopes[level, feature] / 2
    for r in range(len(problem.caps)):
        room = problem.caps[r] - state.loads[level, r]
        given += state.multipliers[level, r] * room
    return given


@compiled
def step(problem: Any, state: Any, level: int, places: Any, wanted: float, bound: float) -> bool:
    """Move weights towards the best candidates; return False if it cannot make bounds hopeless."""
    n = state.n_candidates[level]
    slopes, gap, curvature = np.zeros(n), 0.0, 0.0
    for place in places:
        gap += state.promises[level, place]
    for i in range(n):
        gap -= state.shares[level, state.candidates[level, i]] * state.promises[level, i]
    if bound - gap >= wanted or gap <= _CLOSE * abs(bound):
        return False
    for place in places:
        feature = state.candidates[level, place]
        for i in range(n):
            slopes[i] += problem.convex[feature, state.candidates[level, i]]
    for i in range(n):
        feature = state.candidates[level, i]
        share = state.shares[level, feature]
        curvature += share * (state.slopes[level, feature] - 2 * slopes[i])
    for place in places:
        curvature += slopes[place]
    length = 1.0 if curvature <= gap else gap / curvature
    for i in range(n):
        feature = state.candidates[level, i]
        slope = state.slopes[level, feature]
        state.slopes[level, feature] = slope + length * (slopes[i] - slope)
        state.shares[level, feature] *= 1 - length
    for place in places:
        state.shares[level, state.candidates[level, place]] += length
    state.roundings[level] += len(places) + 2
    return True


@compiled
def overfill(problem: Any, state: Any, level: int, over: Any) -> float:
    """Write by how much weights overfill rows, 0 where a row needs no charge; return its square."""
    norm = 0.0
    for r in range(len(problem.caps)):
        over[r] = state.loads[level, r] - problem.caps[r]
        for i in range(state.n_candidates[level]):
            feature = state.candidates[level, i]
            over[r] += state.shares[level, feature] * problem.weights[feature, r]
        if over[r] < 0.0 and state.multipliers[level, r] == 0.0:
            over[r] = 0.0
        norm += over[r] ** 2
    return norm
