"""One set of many features among many more, without pair costs, where a tree has no room in memory.

A branch and bound keeps on each of its k levels what may still be added, up to n numbers in each of
four arrays. Here is the first level only. Its rows are charged for so that its bound is lowest. A
set that is made at these charges reaches that bound where rows make a matroid, as beside one given
set, so that it is best; beside more of them it may be short of it by a few features.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.search_state import Problem, State
from chaffinch.tasks.selection.vocabulary import Floats

MOST_NUMBERS = 2**28  # on all levels: 2 GiB in each array
_MOST_PLANES = 200
_CLOSE = 1e-13  # relative: rounding


def has_room(n_features: int, k: int) -> bool:
    """Return whether a tree over so many features that matter has room in memory."""
    return n_features * k <= MOST_NUMBERS


def best_charges(problem: Problem, state: State, deadline: float | None) -> Floats:
    """Return what rows are charged on the first level so that its bound is lowest, (r,).

    That bound is convex in the charges. It is bounded from below by planes, one for each charges
    that were tried, and the next to try are where these are lowest (Kelley's cutting planes).
    """
    level = int(state.level[0])
    here = (level, slice(int(state.n_candidates[level])))
    gains, weights = state.marginals[here], problem.weights[state.candidates[here]]
    room, n_open = problem.caps - state.loads[level], len(state.chosen) - level
    n_rows, unit = len(room), float(np.ptp(gains)) or 1.0  # of charges
    lowest, best = np.inf, np.zeros(n_rows)
    charges, planes, heights = best, np.empty((0, n_rows)), np.empty(0)
    for _ in range(_MOST_PLANES):
        charged = gains - weights @ charges
        chosen = np.argpartition(charged, len(charged) - n_open)[len(charged) - n_open :]
        bound = float(charged[chosen].sum() + charges @ room)
        slopes = room - weights[chosen].sum(axis=0)
        if bound < lowest:
            lowest, best = bound, charges
        planes = np.vstack([planes, slopes])
        heights = np.append(heights, bound - charges @ slopes)
        if is_late(deadline):
            break
        # in the unit of charges, and above the first plane, as the solver's tolerances are absolute
        rises = (heights - heights[0]) / unit
        found = linprog(
            np.append(np.zeros(n_rows), 1.0),
            A_ub=np.hstack([planes, np.full((len(planes), 1), -1.0)]),
            b_ub=-rises,
            bounds=[*[(0.0, 1.0)] * n_rows, (None, None)],
            method="highs-ds",
        )
        if found.fun is None or found.x is None:  # for want of precision
            break
        if lowest - (heights[0] + unit * found.fun) <= _CLOSE * abs(lowest):
            break
        charges = found.x[:-1] * unit
    return best


def charge_all(problem: Problem, state: State, multipliers: Floats) -> None:
    """Charge the candidates of the first level for their weights in the rows."""
    level = int(state.level[0])
    here = (level, slice(int(state.n_candidates[level])))
    candidates, marginals = state.candidates[here], state.marginals[here]
    promises = marginals - problem.weights[candidates] @ multipliers
    order = np.argsort(-promises, kind="stable")
    state.candidates[here], state.marginals[here] = candidates[order], marginals[order]
    state.promises[here] = promises[order]
    state.multipliers[level] = multipliers
    state.constant[level] = multipliers @ (problem.caps - state.loads[level])
