"""What rows charge the candidates of a level, so that its bound comes down, compiled.

The charges are multipliers at least 0 of each candidate's weights in the rows (Lagrangian
relaxation), made better by subgradient steps of Polyak's length.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.search_state import Problem, State
from chaffinch.tasks.selection.masked_loss.compiling import compiled

_HALVINGS = 15  # how often a step may become half as long for want of a lower bound
_GUESS = 0.1  # how far below a bound the best set is taken to be where none is known


@compiled
def copy(state: Any, level: int, place: int, into: int) -> None:
    """Copy a candidate of a level to another place."""
    state.candidates[level, into] = state.candidates[level, place]
    state.marginals[level, into] = state.marginals[level, place]
    state.promises[level, into] = state.promises[level, place]
    state.losses[level, into] = state.losses[level, place]


@compiled
def _charged(problem: Any, state: Any, level: int, rows: Any, charged: Any, places: Any) -> float:
    """Charge by rows[0]; return the bound, whose features are at `places` and overfill rows[1]."""
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
    """Charge more for rows that are overfilled, less for others; return whether any changed."""
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
    """Charge the candidates of a level so that its bound comes down, and drop the hopeless ones.

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
