"""Compiled branch and bound for pair costs with a convex part; see `pair_costs.py`.

Of a partial set P that lacks t features, let s be any weights of its candidates that sum to t. With
Q the convex part and R = costs - 2 Q, a set of P and t candidates T is worth

    worth(P) + sum over T of (marginal_j + Q_jj) - T'QT - sum over pairs of T of R_ij,

and T'QT is at least 2 s'QT - s'Qs, its tangent at s, as Q is convex where weights sum to the same.
So it is worth no more than worth(P) + s'Qs and the t largest of

    marginal_j + Q_jj - 2 (Qs)_j - 1/2 (sum of the t - 1 smallest R_ij that are left).

The weights are improved by steps towards the t best candidates (Frank and Wolfe 1956), until the
remaining sets are hopeless or cannot be shown to be so. Then the candidate of the largest weight is
added, all sets with it are searched, and the rest is bounded again without it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.arrays import (
    DONE,
    PAUSED,
    Integers,
    Problem,
    State,
    insert,
    total,
    write,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.kernels import (
    fits,
    is_before,
    settle,
    walk,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Search,
    first_level,
    open_bound,
)
from chaffinch.tasks.selection.alternatives.pair_costs import nearest_of
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# The weights at which the convex part of the pair costs is replaced by its tangent, compiled.
#
# A level's weights sum to the number of features that it lacks. Their slopes, 2 Q s, are stored and
# updated with them. Their roundings are counted, and slopes are recomputed before the rounding
# error reaches a margin.

MOST_ROUNDINGS = 2000  # of a slope, each of no more than k times the largest entry
_CLOSE = 1e-9  # relative, of the best weights


@compiled
def forget(problem: Any, state: Any, level: int, feature: int) -> None:
    """Remove a feature that is no longer a candidate from a level's weights."""
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
    """Recompute a level's slopes."""
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
    """Scale weights to the number of features that a level lacks; equal ones if there are none."""
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
    """Compute half of the smallest rests of pair costs among the remaining candidates.

    The loop repeats that of `kernels._update_promises`: with a shared kernel searches take up to
    1.7 times as long.
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
    """Write the candidates' promises and the places of the best; return the sum of the latter."""
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
    """Return s'Qs plus the contribution of the multipliers for the room left in the rows."""
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
    """Move weights towards the best candidates; return False if bounds cannot become hopeless."""
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
    """Write by how much weights exceed rows, 0 for rows without a charge; return its square."""
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


_FEW = 4  # missing features, up to which the convex part is not used
_STEPS = 8  # towards better weights, each time a level is bounded
_STEPS_AT_FIRST, _ROUNDS_OF_CHARGES = 60, 40
_IN_VAIN = 3  # rounds without a lower bound, before the step is halved
_FEWER = 0.7  # share of candidates left at which half sums are recomputed


@compiled
def _drop(problem: Any, state: Any, level: int, bound: float, last: float, wanted: float) -> bool:
    """Drop candidates that no good enough set has; return whether there were any."""
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
    """Find weights of the first level's candidates, its charges for rows, and its bound."""
    # lower levels use the same charges
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
    """Bound the rest of a level, drop hopeless candidates, and return the work."""
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
    """Return whether no set of a level is better than the best, or equal and before it."""
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
    """Return the place of the candidate with the largest weight; ties go to the lowest index."""
    best = 0
    for i in range(state.n_candidates[level]):
        feature, first = state.candidates[level, i], state.candidates[level, best]
        share, most = state.shares[level, feature], state.shares[level, first]
        if share > most or (share == most and feature < first):
            best = i
    return best


@compiled
def _descend(problem: Any, state: Any, level: int) -> int:
    """Move a candidate from its level to the set, and fill the next level; return the work."""
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
    """Prepare a level for the search without the convex part; return the work."""
    n_open = len(state.chosen) - level
    for i in range(state.n_candidates[level]):
        nearest = problem.nearest[state.candidates[level, i], n_open - 1]
        state.promises[level, i] = state.marginals[level, i] - nearest
    return int(settle(problem, state, level, n_open))


@compiled
def search_convex(problem: Problem, state: State, most_work: int, found: Any) -> int:
    """Continue the search as `kernels.search` does, with the convex part."""
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


# Long searches alternate between bounds with and without the convex part of the pair costs.
#
# Finding such a part takes time and makes each partial set slower, so that only the search shows
# which way is faster. The work of a search is counted, in looks at a candidate or a pair:
#
# - The part is computed when searches with the same pair costs have done a few times its work.
# - Each search begins without it. Then the two ways alternate, with longer turns for the part; they
#   share the best set, and the first to end ends both.
# - If the last search ended with the part, the next tries it early; if it ended without, late.
# - The part is improved for a search that has done many times the work of an improvement with it,
#   each time twice as many.
# - A search for many sets would find them twice. It switches to the part permanently if the last
#   one for few ended with it, and the part closes nearly all of the gap above the wanted value.
#
# So a search takes at most a few times the work of the better way, and its course depends on no
# clock.

# Computing a part takes about as long as this much search work, times n**3 + 3e5.
_WORK_OF_PART, _SMALL = 20, 3e5
_BEFORE_PART, _BEFORE_BETTER = 5, 3  # times that
_TURNS = 4  # times as long are those with the part
_SOON, _LATE = 0.25, 4  # times what the last search did
_CLOSED = 0.9  # of what is open
_LEAST_TO_CHOOSE = 5  # features; smaller sets are found as fast without
_EPSILON = float(np.finfo(np.float64).eps)


def count_work(found: Search, work: float, deadline: float | None) -> None:
    """Count the work of a search, and switch to the other way if it is its turn.

    `work`: number of looks at a candidate or a pair since the last call.
    """
    convexity, k = found.convexity, len(found.state.best) - int(found.state.level[0])
    if not len(found.problem.costs) or k < _LEAST_TO_CHOOSE:
        return
    found.work[found.is_convex] += work
    convexity.work += work
    if found.is_for_many and (found.is_declined or not convexity.is_quicker):
        return
    _, places = _fixed_and_open(found)
    cost = _WORK_OF_PART * (float(len(places)) ** 3 + _SMALL)
    if found.is_convex:
        if found.work[True] > _BEFORE_BETTER * cost * 2**found.n_begun:
            _find_part(found, deadline)
            _begin_convex(found)
        elif not found.is_for_many and found.work[True] > _TURNS * found.work[False]:
            found.turn()
    elif found.other is not None:
        if _TURNS * found.work[False] > 2 * found.work[True]:
            found.turn()
    elif convexity.part(found.features[places]) is not None:
        if found.work[False] > convexity.patience:
            _begin_convex(found)
    elif convexity.work > _BEFORE_PART * cost:
        _find_part(found, deadline)
        _begin_convex(found)


def begin_now(found: Search) -> None:
    """Compute a convex part and begin a search with it, regardless of the work so far."""
    _find_part(found, None)
    _begin_convex(found)


def learn(found: Search) -> None:
    """Remember which way came to its end, if both were tried."""
    if found.is_convex or found.other is not None:
        found.convexity.is_quicker = found.is_convex
        times = _SOON if found.is_convex else _LATE
        found.convexity.patience = times * found.work[found.is_convex]


def _fixed_and_open(found: Search) -> tuple[Integers, Integers]:
    """Return the places of the fixed features, and of those that may be added."""
    fixed = found.state.chosen[: int(found.state.level[0])].copy()
    return fixed, np.setdiff1d(np.arange(len(found.features)), fixed)


def _find_part(found: Search, deadline: float | None) -> None:
    """Compute a convex part, or improve it, for the features that may be added."""
    fixed, places = _fixed_and_open(found)
    problem, multipliers = found.problem, found.state.multipliers[len(fixed)]
    gains = problem.gains[places] - problem.costs[np.ix_(fixed, places)].sum(axis=0)
    gains -= problem.weights[places] @ multipliers
    costs = problem.costs[np.ix_(places, places)]
    k = len(found.state.best) - len(fixed)
    found.convexity.improve(found.features[places], gains, costs, k, deadline)


def _begin_convex(found: Search) -> None:
    """Begin a search with the known convex part."""
    fixed, places = _fixed_and_open(found)
    part = found.convexity.part(found.features[places])
    if part is None:
        return
    convex = np.zeros_like(found.problem.costs)
    convex[np.ix_(places, places)] = 2 * part
    rests = found.problem.costs - convex
    k = len(found.state.best)
    problem = found.problem._replace(
        convex=convex,
        rests=rests,
        partners=nearest_of(rests, found.problem.neighbours.shape[1]),
        margin=2 * MOST_ROUNDINGS * _EPSILON * k**2 * float(np.abs(convex).max()),
    )
    before, wanted = open_bound(found), float(found.state.best_value[0])
    state = _first_state(found, problem, fixed)
    closed = before - float(state.ceilings[len(fixed)])
    if found.is_for_many and not found.is_convex and closed < _CLOSED * (before - wanted):
        found.is_declined = True
        return
    if found.is_for_many and wanted == found.at_least:
        state.n_found[:] = 0  # all are found again
    found.begin(problem, state)


def _first_state(found: Search, problem: Problem, fixed: Integers) -> State:
    """Return the initial state, with the sets found so far."""
    level, before = len(fixed), found.state
    k, n = len(before.best), len(problem.gains)
    state = first_level(problem, fixed, k, float(before.best_value[0]), k + 1)
    state.multipliers[level] = before.multipliers[level]
    state.ceilings[level] = open_bound(found)
    shares, slopes = np.zeros((2, k + 1, n))
    state = state._replace(
        best=before.best,
        best_value=before.best_value,
        n_found=before.n_found,
        shares=shares,
        slopes=slopes,
    )
    if state.n_candidates[level] >= k - level:
        set_out(problem, state)
    return state
