"""Branch and bound where pair costs have a convex part, compiled: `convex_part.py` tells of it.

Of a partial set P that lacks t features, let s be any weights of its candidates that sum to t. With
Q the convex part and R = costs - 2 Q, a set of P and t candidates T is worth

    worth(P) + sum over T of (marginal_j + Q_jj) - T'QT - sum over pairs of T of R_ij,

and T'QT is at least 2 s'QT - s'Qs, its tangent at s, as Q is convex where weights sum to the same.
So it is worth no more than worth(P) + s'Qs and the t largest of

    marginal_j + Q_jj - 2 (Qs)_j - 1/2 (sum of the t - 1 smallest R_ij that are left).

The weights are improved by steps towards the t candidates of the largest (Frank and Wolfe 1956),
until what is left is hopeless or can be seen not to be. Then one candidate, that of the largest
weight, is added, all sets with it are looked at, and the rest is bounded again without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import insert, write
from chaffinch.tasks.selection.alternatives.search_kernels import fits, is_before, settle, walk
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED, Problem, State
from chaffinch.tasks.selection.alternatives.weight_kernels import (
    constant,
    forget,
    halve,
    overfill,
    promise,
    step,
    weigh,
)
from chaffinch.tasks.selection.masked_loss.compiling import compiled

_FEW = 4  # features that a partial set lacks are looked for without the convex part
_STEPS = 8  # towards better weights, each time a level is bounded
_STEPS_AT_FIRST, _ROUNDS_OF_CHARGES = 60, 40
_IN_VAIN = 3  # rounds without a lower bound, before charges change by half as much
_FEWER = 0.7  # of the candidates are left: half sums are taken anew


@compiled
def _drop(problem: Any, state: Any, level: int, bound: float, last: float, wanted: float) -> bool:
    """Drop candidates with which no set is worth what is wanted; return whether there were any."""
    n, kept = state.n_candidates[level], 0
    is_hopeless = np.zeros(n, np.bool_)
    for i in range(n):
        promised = state.promises[level, i]
        is_hopeless[i] = promised < last and bound - last + promised < wanted
        if is_hopeless[i]:
            forget(problem, state, level, state.candidates[level, i])
    for i in range(n):
        if not is_hopeless[i]:
            state.candidates[level, kept] = state.candidates[level, i]
            state.marginals[level, kept] = state.marginals[level, i]
            state.losses[level, kept] = state.losses[level, i]
            kept += 1
    state.n_candidates[level] = kept
    return bool(kept < n)


@compiled
def set_out(problem: Problem, state: State) -> None:
    """Find weights of the first level's candidates, its charges for rows, and a bound by them.

    The charges are those of the levels below it too.
    """
    level, share, since = state.level[0], 1.0, 0
    places = np.empty(len(state.chosen) - level, np.int64)
    over, best, lowest = np.zeros(len(problem.caps)), state.multipliers[level].copy(), np.inf
    target = state.best_value[0] - state.value[level]
    halve(problem, state, level)
    weigh(problem, state, level)
    for _ in range(_ROUNDS_OF_CHARGES):
        nearest, is_moving, steps = np.inf, True, 0
        while is_moving and steps < _STEPS_AT_FIRST:
            bound = constant(problem, state, level) + promise(problem, state, level, places)
            nearest, steps = min(nearest, bound), steps + 1
            is_moving = step(problem, state, level, places, np.inf, bound)
        if nearest < lowest:
            lowest, since = nearest, 0
            write(best, state.multipliers[level])
        else:
            since += 1
            if since > _IN_VAIN:
                share, since = share / 2, 0
        norm = overfill(problem, state, level, over)
        if norm == 0.0 or nearest < target or target == -np.inf:
            break
        size = 0.0
        for r in range(len(over)):
            charged = state.multipliers[level, r] + share * (nearest - target) / norm * over[r]
            state.multipliers[level, r] = max(0.0, charged)
            size += state.multipliers[level, r] * problem.sizes[r]
        if size > problem.most_charged:
            for r in range(len(over)):
                state.multipliers[level, r] *= problem.most_charged / size
    write(state.multipliers[level], best)
    ceiling = state.value[level] + lowest + problem.margin
    state.ceilings[level] = min(state.ceilings[level], ceiling)


@compiled
def _bounded(problem: Any, state: Any, level: int) -> int:
    """Bound what is left of a level, drop what is hopeless, and return the work."""
    n_open, steps = len(state.chosen) - level, 0
    places, work = np.empty(n_open, np.int64), 0
    wanted = state.best_value[0] - problem.slack - problem.margin - state.value[level]
    while state.n_candidates[level] >= n_open:
        n = state.n_candidates[level]
        if n < _FEWER * state.halved[level]:
            halve(problem, state, level)
            work += n * n
        weigh(problem, state, level)
        bound = constant(problem, state, level) + promise(problem, state, level, places)
        work += 10 * n + 200
        if bound < wanted:
            break
        if _drop(problem, state, level, bound, state.promises[level, places[-1]], wanted):
            continue
        state.ceilings[level] = min(
            state.ceilings[level], state.value[level] + bound + problem.margin
        )
        work += 2 * n * n_open + 200
        steps += 1
        if steps > _STEPS or not step(problem, state, level, places, wanted, bound):
            return int(work)
    state.n_candidates[level] = 0
    return int(work)


@compiled
def _is_beaten(problem: Any, state: Any, level: int, word: Any) -> bool:
    """Return whether no set of a level is worth more than the best, or comes before its equal."""
    n_open, filled = len(word) - level, 0
    if state.best[0] < 0 or state.ceilings[level] > state.best_value[0] + problem.slack:
        return False
    lowest = np.empty(n_open)
    for i in range(state.n_candidates[level]):
        filled = insert(lowest, filled, n_open, -float(state.candidates[level, i]))
    write(word[:level], state.chosen)
    for i in range(n_open):
        word[level + i] = int(-lowest[i])
    return not is_before(word, state.best)


@compiled
def _heaviest(state: Any, level: int) -> int:
    """Return the place of the candidate with the largest weight, of equals the lowest index."""
    best = 0
    for i in range(state.n_candidates[level]):
        feature, first = state.candidates[level, i], state.candidates[level, best]
        share, most = state.shares[level, feature], state.shares[level, first]
        if share > most or (share == most and feature < first):
            best = i
    return best


@compiled
def _descend(problem: Any, state: Any, level: int) -> int:
    """Add a candidate, which leaves its level, and fill the level below it; return the work."""
    place, below, n = _heaviest(state, level), level + 1, state.n_candidates[level] - 1
    added, marginal = state.candidates[level, place], state.marginals[level, place]
    state.n_candidates[level] = n
    state.candidates[level, place] = state.candidates[level, n]
    state.marginals[level, place] = state.marginals[level, n]
    state.losses[level, place] = state.losses[level, n]
    forget(problem, state, level, added)
    state.chosen[level] = added
    state.value[below] = state.value[level] + marginal
    state.roundings[below] = state.roundings[level]
    for r in range(len(problem.caps)):
        state.loads[below, r] = state.loads[level, r] + problem.weights[added, r]
        state.multipliers[below, r] = state.multipliers[level, r]
    state.ceilings[below] = state.ceilings[level]
    state.n_candidates[below] = n
    for i in range(n):
        feature = state.candidates[level, i]
        state.candidates[below, i] = feature
        state.shares[below, feature] = state.shares[level, feature]
        state.slopes[below, feature] = state.slopes[level, feature]
    after, kept = np.empty(n), 0
    for i in range(n):
        feature = state.candidates[level, i]
        after[i] = state.marginals[level, i] - problem.costs[added, feature]
        if not fits(problem, state, below, feature, len(state.chosen) - below):
            after[i] = -np.inf
        if after[i] == -np.inf:
            forget(problem, state, below, feature)
    for i in range(n):
        if after[i] > -np.inf:
            state.candidates[below, kept] = state.candidates[level, i]
            state.marginals[below, kept] = after[i]
            kept += 1
    state.n_candidates[below] = kept
    state.halved[below] = np.inf
    return int(n)


@compiled
def _begin(problem: Any, state: Any, level: int) -> int:
    """Make a level ready to be looked at without the convex part; return the work."""
    n_open = len(state.chosen) - level
    for i in range(state.n_candidates[level]):
        nearest = problem.nearest[state.candidates[level, i], n_open - 1]
        state.promises[level, i] = state.marginals[level, i] - nearest
    return int(settle(problem, state, level, n_open))


@compiled
def search_convex(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Search on as `search_kernels.search` does, by what the convex part tells."""
    k, first, work = len(state.chosen), state.level[0], 0
    word = np.empty(k, np.int64)
    last = max(first, k - _FEW)
    while state.level[1] >= first:
        if work > most_work:
            return PAUSED
        level = state.level[1]
        if level >= last:
            ended, more = walk(problem, state, last, most_work - work, found)
            work += more
            if ended != DONE:
                return ended
            continue
        work += _bounded(problem, state, level)
        if state.n_candidates[level] < k - level or _is_beaten(problem, state, level, word):
            state.level[1] = level - 1
            continue
        work += 4 * _descend(problem, state, level) + 500
        state.level[1] = level + 1
        if level + 1 == last:
            work += _begin(problem, state, last)
    return DONE
