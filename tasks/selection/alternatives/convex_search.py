"""Searches that take long go on in turns, with and without the convex part of their pair costs.

To find such a part takes time, and with it each partial set takes more, so that which of the two
ways is the quicker shows only on the way. What a search does is counted, in looks at a candidate or
a pair:

- The part is found when searches of the same pair costs have done a few times what it costs.
- Each search begins without it. Then the two ways take turns, the longer ones with the part; they
  know of the same best set, and what ends first ends both.
- If the last search ended with the part, the next tries it soon; if it ended without, late.
- The part is made better for a search that, with it, has done many times what that costs; each time
  twice as many.
- A search for many sets would find them twice. It goes on with the part, for good, if the last one
  for few ended with it, and the part closes nearly all of what is open above what is wanted.

So a search takes no more than a few times what the better way takes, and what it does depends on no
clock.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.alternatives.convex_kernels import set_out
from chaffinch.tasks.selection.alternatives.nearest_kernels import nearest_of
from chaffinch.tasks.selection.alternatives.search_problem import first_level
from chaffinch.tasks.selection.alternatives.search_state import Integers, Problem, State
from chaffinch.tasks.selection.alternatives.searching import Search, open_bound
from chaffinch.tasks.selection.alternatives.weight_kernels import MOST_ROUNDINGS

# A part takes as long as a search takes for so much, times n**3 + 3e5.
_WORK_OF_PART, _SMALL = 20, 3e5
_BEFORE_PART, _BEFORE_BETTER = 5, 3  # times that
_TURNS = 4  # times as long are those with the part
_SOON, _LATE = 0.25, 4  # times what the last search did
_CLOSED = 0.9  # of what is open
_LEAST_TO_CHOOSE = 5  # features; fewer are found as soon without
_EPSILON = float(np.finfo(np.float64).eps)


def count_work(found: Search, work: float, deadline: float | None) -> None:
    """Count what a search has done, and let the other way go on if it is its turn.

    Parameters
    ----------
    found : Search
    work : float
        How many looks at a candidate or a pair it has taken since the last call.
    deadline : float or None
        On the clock of `time.monotonic`; a part that is looked for is then as good as it is.
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
            _begin(found)
        elif not found.is_for_many and found.work[True] > _TURNS * found.work[False]:
            found.turn()
    elif found.other is not None:
        if _TURNS * found.work[False] > 2 * found.work[True]:
            found.turn()
    elif convexity.part(found.features[places]) is not None:
        if found.work[False] > convexity.patience:
            _begin(found)
    elif convexity.work > _BEFORE_PART * cost:
        _find_part(found, deadline)
        _begin(found)


def begin_now(found: Search) -> None:
    """Find a convex part and begin a search with it, however little has been done."""
    _find_part(found, None)
    _begin(found)


def learn(found: Search) -> None:
    """Keep which way came to its end, if both were gone."""
    if found.is_convex or found.other is not None:
        found.convexity.is_quicker = found.is_convex
        times = _SOON if found.is_convex else _LATE
        found.convexity.patience = times * found.work[found.is_convex]


def _fixed_and_open(found: Search) -> tuple[Integers, Integers]:
    """Return the places of what is in every set, and of what a search may add."""
    fixed = found.state.chosen[: int(found.state.level[0])].copy()
    return fixed, np.setdiff1d(np.arange(len(found.features)), fixed)


def _find_part(found: Search, deadline: float | None) -> None:
    """Find a convex part, or a better one, for what a search may add to what is fixed."""
    fixed, places = _fixed_and_open(found)
    problem, multipliers = found.problem, found.state.multipliers[len(fixed)]
    gains = problem.gains[places] - problem.costs[np.ix_(fixed, places)].sum(axis=0)
    gains -= problem.weights[places] @ multipliers
    costs = problem.costs[np.ix_(places, places)]
    k = len(found.state.best) - len(fixed)
    found.convexity.improve(found.features[places], gains, costs, k, deadline)


def _begin(found: Search) -> None:
    """Begin a search with the convex part that is known."""
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
        state.n_found[:] = 0  # all are met again
    found.begin(problem, state)


def _first_state(found: Search, problem: Problem, fixed: Integers) -> State:
    """Return the state before the first candidate is added that knows what was found so far."""
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
