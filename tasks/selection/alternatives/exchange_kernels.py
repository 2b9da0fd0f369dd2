"""Designs of large worth by simulated annealing, compiled: features are exchanged one at a time.

For designs too large to be searched through: an exchange that makes a design worse is made ever
more rarely, and each feature that two sets share beyond what they may costs a *price*. The design
that is returned shares no more than it may; nothing is proven by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.annealing_kernels import below
from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.designs import Sets
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_HOT, _COLD = 1.0, 0.02  # of the price


@compiled
def _shared(has: Any, n_sets: int) -> Any:
    """Return how many features each of the first sets shares with each, shape (m, m + r)."""
    shared = np.zeros((n_sets, len(has)), np.int64)
    for s in range(n_sets):
        for t in range(len(has)):
            if s != t:
                shared[s, t] = (has[s] & has[t]).sum()
    return shared


@compiled
def _all_excess(shared: Any, at_most: Any) -> int:
    """Return by how much sets share too much in all."""
    total = 0
    for s in range(len(shared)):
        for t in range(s + 1, len(at_most)):
            total += max(0, shared[s, t] - at_most[t])
    return total


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
) -> tuple[bool, Sets]:
    """Look for a design that is worth much in all.

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

    Returns
    -------
    is_found : bool
    sets : ndarray of int32, shape (m, k)
        The best design met, in no order; the start if there was none.
    """
    n_sets, k = start.shape
    sets, best = start.copy(), start.copy()
    has = np.zeros((len(at_most), len(gains)), np.bool_)
    has[n_sets:] = given
    for s in range(n_sets):
        for feature in sets[s]:
            has[s, feature] = True
    shared = _shared(has, n_sets)
    excess = _all_excess(shared, at_most)
    is_found, worth, best_worth = excess == 0, 0.0, 0.0  # more than the start
    random = np.array([seed], np.uint64)
    for move in range(n_moves):
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
        gain = _gain(gains, costs, sets[one], a, j)
        if other >= 0:
            gain += _gain(gains, costs, sets[other], b, i)
        change = _excess(has, shared, at_most, one, other, i, j)
        cost = change - gain / price
        if cost > 0 and below(random, 2**30) >= 2.0**30 * np.exp(-cost / temperature):
            continue
        _exchange(has, shared, one, other, i, j)
        sets[one, a] = j
        if other >= 0:
            sets[other, b] = i
        excess += change
        worth += gain
        if excess == 0 and (worth > best_worth or not is_found):
            is_found, best_worth = True, worth
            for s in range(n_sets):
                write(best[s], sets[s])
    return is_found, best
