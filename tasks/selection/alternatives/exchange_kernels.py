"""Designs of large worth by simulated annealing, compiled: features are exchanged one at a time.

For designs too large to be searched through: an exchange that makes a design worse is made ever
more rarely, and each feature that two sets share beyond what they may costs a *price*. The design
that is returned shares no more than it may; nothing is proven by it.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.annealing_kernels import below
from chaffinch.tasks.selection.alternatives.array_kernels import least, write
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.designs import Sets
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.alternatives.worth_kernels import worths
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_HOT, _COLD = 1.0, 0.02  # of the price
_LOOKS_BETWEEN_LOOKS_AT_THE_CLOCK = 10_000_000  # at sets: some milliseconds
_OF_A_PLACE = 10  # looks that one at the pair costs of a place takes as long as


class _State(NamedTuple):
    """Where an annealing is: the arrays that it changes in place.

    Attributes
    ----------
    sets, best : ndarray of int32, shape (m, k)
        The present design, and the best met.
    has : ndarray of bool, shape (m + r, n)
        What is in the present one, and in given sets.
    shared : ndarray of int32, shape (m, m + r)
        How many features each of its sets shares with each; 0 with itself.
    random : ndarray of uint64, shape (1,)
    counts : ndarray of int64, shape (2,)
        By how much sets share too much in all, and whether a design has been met.
    worths : ndarray, shape (2,)
        Of the present design and the best, or of their worst sets where these count.
    of_sets : ndarray, shape (m,)
        What each set of the present one is worth.
    """

    sets: Sets
    best: Sets
    has: Mask
    shared: NDArray[np.int32]
    random: NDArray[np.uint64]
    counts: Integers
    worths: Floats
    of_sets: Floats


@compiled
def _merit(worth: float, target: float, spread: float) -> float:
    """Return what a set counts for: the more it is short of a target, the worse it is to be so."""
    if target == np.inf:
        return worth
    return -(max(0.0, target - worth) ** 2) / spread


@compiled
def _excess(has: Any, shared: Any, at_most: Any, one: int, other: int, i: int, j: int) -> int:
    """Return the change of the excess if a set has j in place of i; another may have i for it."""
    change = 0
    for t in range(len(has)):
        step = int(has[t, j]) - int(has[t, i])
        if step == 0 or t in (one, other):
            continue
        most = at_most[t]
        change += max(0, shared[one, t] + step - most) - max(0, shared[one, t] - most)
        if other >= 0:
            change += max(0, shared[other, t] - step - most) - max(0, shared[other, t] - most)
    return change


@compiled
def _gain(gains: Any, costs: Any, features: Any, place: int, j: int) -> float:
    """Return what a set gains by j in a place of it."""
    i = features[place]
    gain = gains[j] - gains[i]
    if len(costs):
        for a in range(len(features)):
            if a != place:
                gain += costs[i, features[a]] - costs[j, features[a]]
    return float(gain)


@compiled
def _exchange(has: Any, shared: Any, one: int, other: int, i: int, j: int) -> None:
    """Put j in place of i into one set, and i in place of j into the other; below 0 for none."""
    n_sets = len(shared)
    for t in range(len(has)):
        step = int(has[t, j]) - int(has[t, i])
        if step == 0 or t in (one, other):
            continue
        shared[one, t] += step
        if t < n_sets:
            shared[t, one] += step
        if other >= 0:
            shared[other, t] -= step
            if t < n_sets:
                shared[t, other] -= step
    has[one, i], has[one, j] = False, True
    if other >= 0:
        has[other, j], has[other, i] = False, True


@compiled
def _anneal(
    gains: Floats,
    costs: Floats,
    n_fixed: int,
    pool: Integers,
    at_most: Integers,
    price: float,
    n_moves: int,
    first: int,
    last: int,
    target: float,
    spread: float,
    state: Any,
) -> None:
    """Make the moves first..last - 1 of all."""
    sets, has, shared, random = state.sets, state.has, state.shared, state.random
    of_sets, of_other = state.of_sets, 0.0
    n_sets, k = sets.shape
    for move in range(first, last):
        temperature = _HOT * (_COLD / _HOT) ** (move / n_moves)
        one, a = below(random, n_sets), n_fixed + below(random, k - n_fixed)
        other, b = -1, -1
        i, j = sets[one, a], pool[below(random, len(pool))]
        if below(random, 2) > 0:
            other, b = below(random, n_sets), n_fixed + below(random, k - n_fixed)
            j = sets[other, b]
            if one == other or has[other, i]:
                continue
        if has[one, j]:
            continue
        of_one = of_sets[one] + _gain(gains, costs, sets[one], a, j)
        gain = _merit(of_one, target, spread) - _merit(of_sets[one], target, spread)
        if other >= 0:
            of_other = of_sets[other] + _gain(gains, costs, sets[other], b, i)
            gain += _merit(of_other, target, spread) - _merit(of_sets[other], target, spread)
        change = _excess(has, shared, at_most, one, other, i, j)
        cost = change - gain / price
        if cost > 0 and below(random, 2**30) >= 2.0**30 * np.exp(-cost / temperature):
            continue
        _exchange(has, shared, one, other, i, j)
        sets[one, a], of_sets[one] = j, of_one
        if other >= 0:
            sets[other, b], of_sets[other] = i, of_other
        state.counts[0] += change
        state.worths[0] += gain
        if state.counts[0] != 0:
            continue
        if target < np.inf:
            state.worths[0] = least(of_sets)
        if state.worths[0] > state.worths[1] or not state.counts[1]:
            state.counts[1], state.worths[1] = 1, state.worths[0]
            for s in range(n_sets):
                write(state.best[s], sets[s])


def annealed(
    gains: Floats,
    costs: Floats,
    start: Sets,
    n_fixed: int,
    pool: Integers,
    given: Mask,
    at_most: Integers,
    price: float,
    n_moves: int,
    seed: int,
    deadline: float | None = None,
    target: float = np.inf,
) -> tuple[bool, Sets]:
    """Look for a design that is worth much in all, or whose sets come near to a target.

    Parameters
    ----------
    gains : ndarray, shape (n,)
    costs : ndarray, shape (n, n) or (0, 0)
        Of pairs, finite.
    start : ndarray of int32, shape (m, k)
        Any sets, of which the first `n_fixed` columns stay and the others are of the pool.
    n_fixed : int, less than k
    pool : ndarray of int64
        Features that may be exchanged.
    given : ndarray of bool, shape (r, n)
        Sets that share with those of the design as well.
    at_most : ndarray of int64, shape (m + r,)
        How many features a set may share with each of the design, and with each given one.
    price : float, above 0
        Of a feature that is shared beyond that.
    n_moves : int
        How often to exchange.
    seed : int
    deadline : float, optional
        On the clock of `time.monotonic`; looked at every few milliseconds.
    target : float
        What every set had better be worth, so that the worst counts; inf where all count.

    Returns
    -------
    is_found : bool
    sets : ndarray of int32, shape (m, k)
        The best design met, in no order; the start if there was none.
    """
    n_sets = len(start)
    has = np.zeros((len(at_most), len(gains)), dtype=bool)
    has[n_sets:] = given
    has[np.arange(n_sets)[:, np.newaxis], start] = True
    numbers = has.astype(np.float32)  # sums of which are exact
    shared = (numbers[:n_sets] @ numbers.T).astype(np.int32)
    np.fill_diagonal(shared, 0)
    beyond = np.maximum(0, shared - at_most)
    excess = int(beyond[:, :n_sets].sum()) // 2 + int(beyond[:, n_sets:].sum())
    of_sets = worths(Form(gains, costs if len(costs) else None), start)
    worth = of_sets.min() if target < np.inf else of_sets.sum()
    state = _State(
        start.copy(),
        start.copy(),
        has,
        shared,
        np.array([seed], dtype=np.uint64),
        np.array([excess, excess == 0]),
        np.array([worth, worth]),
        of_sets,
    )
    spread = max(target - worth, sys.float_info.min) if target < np.inf else 1.0
    looks = len(at_most) + _OF_A_PLACE * start.shape[1] * (len(costs) > 0)  # of a move
    at_once = 1 + _LOOKS_BETWEEN_LOOKS_AT_THE_CLOCK // looks
    for first in range(0, n_moves, at_once):
        if is_late(deadline):
            break
        last = min(n_moves, first + at_once)
        _anneal(
            gains, costs, n_fixed, pool, at_most, price, n_moves, first, last, target, spread, state
        )
    return bool(state.counts[1]), state.best
