"""The search for sets that are all worth a target, compiled: see `balanced.py`.

Features are taken best first, and for each the sets that have it are chosen; sets that have had the
same features so far are interchangeable. A partial design is left where a set cannot come to the
target with the best of the features to come, or where all sets that fall short of it cannot: what
they can be given in all is read off a table of uses (`use_table.py`), with the places that they
have left and the pairs of them that can still share a feature.

A design that is found raises the target above its worst set. A search stops after so many steps and
goes on when called again: all it knows is in its state.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.bar_kernels import is_barred
from chaffinch.tasks.selection.alternatives.multiplicity_state import Problem
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled


class Balance(NamedTuple):
    """Where the search is.

    Attributes
    ----------
    has : ndarray of bool, shape (p, m)
        The partial design.
    alike : ndarray of bool, shape (p + 1, m)
        Whether a set has had the same features as the one before it, of those before each.
    members : ndarray of int64, shape (m, k)
        The features of each set, in order.
    filled, worth : ndarray of int64, shape (m,)
        How many these are, and what they are worth.
    shared : ndarray of int64, shape (m, m)
    feature : ndarray of int64, shape (2,)
        The present one, -1 when the search is done; and 1 if it is new.
    target : ndarray of int64, shape (1,)
        What every set is to be worth.
    best : ndarray of bool, shape (p, m)
        The last design found; all False without one.
    """

    has: NDArray[np.bool_]
    alike: NDArray[np.bool_]
    members: Integers
    filled: Integers
    worth: Integers
    shared: Integers
    feature: Integers
    target: Integers
    best: NDArray[np.bool_]


def fresh_balance(n_features: int, n_sets: int, k: int, target: int) -> Balance:
    """Return the state of a search that has not begun."""
    p, m = n_features, n_sets
    alike = np.zeros((p + 1, m), dtype=np.bool_)
    alike[0, 1:] = True
    return Balance(
        np.zeros((p, m), dtype=np.bool_),
        alike,
        np.zeros((m, k), dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros(m, dtype=np.int64),
        np.zeros((m, m), dtype=np.int64),
        np.array([0, 1]),
        np.array([target]),
        np.zeros((p, m), dtype=np.bool_),
    )


@compiled
def _is_hopeless(problem: Any, state: Any, j: int) -> bool:
    """Return whether the features from j on cannot fill the sets, or not with enough worth."""
    k, target, n_left = problem.size, state.target[0], len(problem.units) - j
    short, places, pairs = 0, 0, 0
    for s in range(len(state.filled)):
        room, needed = k - state.filled[s], target - state.worth[s]
        if room > n_left or needed > problem.sums[j + room] - problem.sums[j]:
            return True
        if needed <= 0:
            continue
        short += needed
        places += room
        for other in range(s):
            if state.worth[other] < target:
                room_of_both = min(room, k - state.filled[other])
                pairs += min(room_of_both, problem.overlap - state.shared[s, other])
    return bool(short > 0 and problem.table[j, places, pairs] <= (short - 1) * problem.scale)


@compiled
def _toggle(problem: Any, state: Any, j: int, s: int, sign: int) -> None:
    """Give feature j to a set, or take it away, when only the sets before have been decided."""
    state.has[j, s] = sign > 0
    if sign > 0:
        state.members[s, state.filled[s]] = j
    state.filled[s] += sign
    state.worth[s] += sign * problem.units[j]
    for other in range(s):
        if state.has[j, other]:
            state.shared[s, other] += sign
            state.shared[other, s] += sign


@compiled
def _give(problem: Any, state: Any, j: int, first: int) -> None:
    """Give feature j to each set from `first` on that may have it, and note which are alike."""
    n_uses = 0
    for s in range(first):
        n_uses += state.has[j, s]
    for s in range(first, len(state.filled)):
        n_open = problem.size - state.filled[s]
        may = n_open > 0 and n_uses < problem.most_uses
        may = may and not (state.alike[j, s] and not state.has[j, s - 1])
        if may and not problem.is_free:
            may = not is_barred(problem.bars, state.members[s], state.filled[s], j, n_open)
        for other in range(s):
            if state.has[j, other] and state.shared[s, other] >= problem.overlap:
                may = False
        if may:
            _toggle(problem, state, j, s, 1)
            n_uses += 1
    for s in range(1, len(state.filled)):
        is_same = state.has[j, s] == state.has[j, s - 1]
        state.alike[j + 1, s] = state.alike[j, s] and is_same


@compiled
def _take_last(problem: Any, state: Any, j: int) -> int:
    """Take feature j from the last set that has it; return the set, -1 if there is none."""
    for s in range(len(state.filled) - 1, -1, -1):
        if state.has[j, s]:
            _toggle(problem, state, j, s, -1)
            return s
    return -1


@compiled
def balance(problem: Problem, state: Balance, most_steps: int) -> int:
    """Search on for designs; return `DONE` or `PAUSED`. `state` is written to."""
    for _ in range(most_steps):
        j = state.feature[0]
        if j < 0:
            return DONE
        first = 0
        if state.feature[1] == 1:
            state.feature[1] = 0
            if _is_hopeless(problem, state, j):
                state.feature[0] -= 1
                continue
            if state.filled.min() == problem.size:
                for i in range(j):
                    write(state.best[i], state.has[i])
                state.best[j:] = False
                state.target[0] = state.worth.min() + problem.blur + 1
                state.feature[0] -= 1
                continue
        else:
            first = _take_last(problem, state, j) + 1
            if first == 0:
                state.feature[0] -= 1
                continue
        _give(problem, state, j, first)
        state.feature[0] += 1
        state.feature[1] = 1
    return PAUSED
