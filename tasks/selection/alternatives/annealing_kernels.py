"""Designs by simulated annealing, compiled: what is too large to be searched through.

Both start from any sets of k features and exchange features; what is wrong with a design is
counted, and an exchange that makes it worse is made ever more rarely. Nothing is proven by it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled

_FIRST_TEMPERATURE, _LAST_TEMPERATURE = 0.6, 0.15  # of pairs shared too often
_HOT, _COLD = 1.0, 1e-3  # where worth counts
_FACTOR, _TERM = np.uint64(6364136223846793005), np.uint64(1442695040888963407)


@compiled
def below(random: Any, n: int) -> Any:
    """Return a whole number in 0..n - 1 (Knuth's linear congruential generator)."""
    random[0] = random[0] * _FACTOR + _TERM
    return np.int64((random[0] >> np.uint64(33)) % np.uint64(n))


@compiled
def _deal_out(counts: Integers, n_sets: int, k: int, overlap: int, design: Any) -> bool:
    """Put each feature into the sets with most room, rather where it is not shared too often."""
    has, sets, shared = design
    filled = np.zeros(n_sets, np.int64)
    for j in range(len(counts)):
        for _ in range(counts[j]):
            best, best_cost = -1, 0
            for s in range(n_sets):
                if has[s, j] or filled[s] >= k:
                    continue
                cost = filled[s]
                for other in range(n_sets):
                    if has[other, j] and shared[s, other] >= overlap:
                        cost += k
                if best < 0 or cost < best_cost:
                    best, best_cost = s, cost
            if best < 0:
                return False
            _move(design, best, -1, j)
            sets[best, filled[best]] = j
            filled[best] += 1
    return True


@compiled
def _move(design: Any, to: int, away_from: int, j: int) -> None:
    """Add feature j to a set and take it out of another; below 0 for none."""
    has, _, shared = design
    if away_from >= 0:
        has[away_from, j] = False
    for other in range(len(has)):
        if has[other, j]:
            if to >= 0:
                shared[to, other] += 1
                shared[other, to] += 1
            if away_from >= 0:
                shared[away_from, other] -= 1
                shared[other, away_from] -= 1
    if to >= 0:
        has[to, j] = True


@compiled
def _excess(shared: Integers, overlap: int) -> int:
    """Return by how much sets share too much, over all pairs of them."""
    total = 0
    for s in range(len(shared)):
        for other in range(s):
            total += max(0, shared[s, other] - overlap)
    return total


@compiled
def _excess_of_swap(design: Any, overlap: int, one: int, other: int, i: int, j: int) -> int:
    """Return the change of the excess if i goes from one set to the other, and j the other way."""
    has, _, shared = design
    change = 0
    for s in range(len(has)):
        step = int(has[s, j]) - int(has[s, i])
        if step == 0 or s in (one, other):
            continue
        change += max(0, shared[one, s] + step - overlap) - max(0, shared[one, s] - overlap)
        change += max(0, shared[other, s] - step - overlap) - max(0, shared[other, s] - overlap)
    return change


@compiled
def realised(
    counts: Integers, n_sets: int, k: int, overlap: int, most_swaps: int
) -> tuple[bool, Integers]:
    """Look for sets in which each feature is used so often.

    Parameters
    ----------
    counts : ndarray of int64, shape (p,)
        In how many sets each feature is; m k in all.
    n_sets, k, overlap : int
        m, k, K.
    most_swaps : int
        Give up after so many.

    Returns
    -------
    is_found : bool
    sets : ndarray of int64, shape (m, k)
        Of features in 0..p - 1, in no order; they share too much if none was found.
    """
    sets = np.zeros((n_sets, k), np.int64)
    has = np.zeros((n_sets, len(counts)), np.bool_)
    shared = np.zeros((n_sets, n_sets), np.int64)
    design = (has, sets, shared)
    if not _deal_out(counts, n_sets, k, overlap, design):
        return False, sets
    random = np.array([1], np.uint64)
    excess = _excess(shared, overlap)
    cooling = _LAST_TEMPERATURE / _FIRST_TEMPERATURE
    for swap in range(most_swaps):
        if excess == 0:
            break
        one, other = below(random, n_sets), below(random, n_sets)
        a, b = below(random, k), below(random, k)
        i, j = sets[one, a], sets[other, b]
        if one == other or has[other, i] or has[one, j]:
            continue
        change = _excess_of_swap(design, overlap, one, other, i, j)
        temperature = _FIRST_TEMPERATURE * cooling ** (swap / most_swaps)
        if change <= 0 or below(random, 2**30) < 2.0**30 * np.exp(-change / temperature):
            _move(design, other, one, i)
            _move(design, one, other, j)
            sets[one, a], sets[other, b] = j, i
            excess += change
    return excess == 0, sets


@compiled
def _excess_of_exchange(design: Any, overlap: int, one: int, i: int, j: int) -> int:
    """Return the change of the excess if a set has j in place of i."""
    has, _, shared = design
    change = 0
    for s in range(len(has)):
        step = int(has[s, j]) - int(has[s, i])
        if step != 0 and s != one:
            change += max(0, shared[one, s] + step - overlap) - max(0, shared[one, s] - overlap)
    return change


@compiled
def _shortfall(worth: int, target: int, hoped: int) -> float:
    """Return how bad it is that a set is not worth the target: convex, 1 without what is hoped."""
    share = max(0, target - worth) / hoped
    return float(share * share)


@compiled
def balanced_by_annealing(
    units: Integers,
    start: Integers,
    overlap: int,
    hoped: int,
    price: float,
    most_swaps: int,
    seed: int,
) -> Integers:
    """Look for a design of which the worst set is worth more.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth.
    start : ndarray of int64, shape (m, k)
        A design.
    overlap : int
        K.
    hoped : int, at least 1
        By how much every set had better be worth more than the worst of them.
    price : float, above 0
        What a pair of sets that shares too much is to cost, as worth of a set.
    most_swaps : int
        How often to exchange features.
    seed : int

    Returns
    -------
    ndarray of int64, shape (m, k)
        The best design met, the start at worst.
    """
    n_sets, k = start.shape
    sets, best = start.copy(), start.copy()
    has = np.zeros((n_sets, len(units)), np.bool_)
    shared = np.zeros((n_sets, n_sets), np.int64)
    design = (has, sets, shared)
    worth = np.zeros(n_sets, np.int64)
    for s in range(n_sets):
        for j in sets[s]:
            _move(design, s, -1, j)
            worth[s] += units[j]
    best_worth = worth.min()
    target, of_worth = best_worth + hoped, hoped / price
    random = np.array([seed], np.uint64)
    excess = _excess(shared, overlap)
    for swap in range(most_swaps):
        temperature = _HOT * (_COLD / _HOT) ** (swap / most_swaps)
        one, other = below(random, n_sets), below(random, n_sets)
        a, b = below(random, k), below(random, k)
        i, j = sets[one, a], sets[other, b]
        is_swap = one != other and below(random, 4) > 0
        if not is_swap:
            j = below(random, len(units))
        if has[one, j] or (is_swap and has[other, i]):
            continue
        gain = units[j] - units[i]
        cost = _shortfall(worth[one] + gain, target, hoped) - _shortfall(worth[one], target, hoped)
        if is_swap:
            change = _excess_of_swap(design, overlap, one, other, i, j)
            cost += _shortfall(worth[other] - gain, target, hoped)
            cost -= _shortfall(worth[other], target, hoped)
        else:
            change = _excess_of_exchange(design, overlap, one, i, j)
        cost = cost * of_worth + change
        if cost > 0 and below(random, 2**30) >= 2.0**30 * np.exp(-cost / temperature):
            continue
        _move(design, -1, one, i)
        _move(design, one, -1, j)
        sets[one, a] = j
        worth[one] += gain
        if is_swap:
            _move(design, -1, other, j)
            _move(design, other, -1, i)
            sets[other, b] = i
            worth[other] -= gain
        excess += change
        if excess == 0 and worth.min() > best_worth:
            best_worth = worth.min()
            for s in range(len(sets)):
                write(best[s], sets[s])
    return best
