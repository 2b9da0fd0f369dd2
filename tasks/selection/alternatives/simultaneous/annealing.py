"""Designs of large worth by simulated annealing, compiled: features are exchanged one at a time.

For designs too large to be searched through: an exchange that makes a design worse is made ever
more rarely, and each feature that two sets share beyond what they may costs a *price*. The design
that is returned shares no more than it may; nothing is proven by it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import Integers, is_late, least, write
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.alternatives.result import Designs, Sets
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

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
    """Search for sets (m, k) in which each feature of 0..p - 1 is used so often.

    Gives up after `most_swaps`; then the sets share too much, and the first value returned is
    false.
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
    """Search for a design whose worst set is worth more; return the best found, or the start.

    `hoped`: by how much every set should be worth more than the worst of them. `price`: what a pair
    of sets that shares too much costs, in worth of a set.
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


_HOT_EXCHANGES, _COLD_EXCHANGES = 1.0, 0.02  # of the price
_LOOKS_BETWEEN_LOOKS_AT_THE_CLOCK = 10_000_000  # at sets: some milliseconds
_OF_A_PLACE = 10  # looks that one at the pair costs of a place takes as long as


class _State(NamedTuple):
    """The arrays that an annealing changes in place."""

    sets: Sets  # (m, k), the present design
    best: Sets  # (m, k), the best found
    has: Mask  # (m + r, n): which features are in the present one, and in given sets
    # (m, m + r): how many features each set shares with each; 0 with itself
    shared: NDArray[np.int32]
    random: NDArray[np.uint64]  # (1,)
    counts: Integers  # by how much sets share too much in all, and whether a design was found
    worths: Floats  # of the present design and the best, or of their worst sets
    of_sets: Floats  # (m,), worth of each set of the present one


@compiled
def _merit(worth: float, target: float, spread: float) -> float:
    """Return what a set counts for: the more it is short of a target, the worse it is to be so."""
    if target == np.inf:
        return worth
    return -(max(0.0, target - worth) ** 2) / spread


@compiled
def _change_of_excess(
    has: Any, shared: Any, at_most: Any, one: int, other: int, i: int, j: int
) -> int:
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
        temperature = _HOT_EXCHANGES * (_COLD_EXCHANGES / _HOT_EXCHANGES) ** (move / n_moves)
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
        change = _change_of_excess(has, shared, at_most, one, other, i, j)
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
    """Search for a design of large total worth, or whose sets come near to a target.

    Of `start` (m, k), any sets, the first `n_fixed` < k columns stay; the others are exchanged with
    features of `pool`. `at_most` (m + r,): how many features a set may share with each of the
    design, and with each of `given` (r, n); `price`: of a feature shared beyond that. `target`:
    what every set should be worth, so that the worst counts; inf where all count. Returns whether a
    design was found, and the best (m, k), or the start.
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


# First designs by annealing, where there are too many sets to hope for a proof in moments.
#
# Groups, a budget and a limit to the sets of a feature are not known to annealing: with any of them
# there are no such designs.

_MANY_PLACES = 25
_MOVES_OF_A_PLACE, _MOST_MOVES = 4_000, 1_000_000
_PRICES = (0.5, 0.12, 2.0)  # of what is shared too often, in terms of the largest number
_OF_CONFLICT = 8.0
_OF_ALL_SETS = 50_000_000  # moves; of these each looks at all sets
_SEED = 1


def annealed_designs(
    designs: Designs, first: Sets, deadline: float | None, *, is_smallest_counted: bool = False
) -> Iterator[Sets]:
    """Yield some designs of large total worth, none if these have few places.

    Where the smallest worth counts, they are followed by some whose worst sets are worth much.
    `first` (m', k): sets to start from, if they are m.
    """
    rules, m, k = designs.constraints, designs.n_sets, designs.k
    fixed, excluded = rules.included, rules.excluded
    is_unknown = rules.groups or rules.costs is not None or rules.max_sets_per_feature is not None
    if is_late(deadline):  # before costs are copied
        return
    if is_unknown or m * k < _MANY_PLACES or len(fixed) >= min(k, designs.overlap + 1):
        return
    pool = np.setdiff1d(np.arange(designs.n_features), [*fixed, *excluded])
    n_free = k - len(fixed)
    start = pool[np.arange(m * n_free).reshape(m, n_free) % len(pool)]
    if len(first) == m:
        start = np.array([np.setdiff1d(features, fixed) for features in first])
    start = np.hstack((np.tile(np.array(fixed, dtype=np.int64), (m, 1)), start))
    gains, costs, pairs = designs.form.gains, np.empty((0, 0)), designs.form.pairs()
    size = float(np.abs(gains).max(initial=0.0))
    if pairs is not None:
        costs = pairs.costs
        size += pairs.largest
        if pairs.has_conflicts:
            costs = np.where(np.isinf(costs), _OF_CONFLICT * size, costs)
    at_most = np.concatenate((np.full(m, designs.overlap), designs.limits.at_most))
    most = min(_MOVES_OF_A_PLACE * m * k, _MOST_MOVES)
    few = min(most, _OF_ALL_SETS // len(at_most) + 1)  # so that there are designs in a moment

    def designs_near(start: Sets, target: float) -> Iterator[Sets]:
        for n_moves, price in product(sorted({few, most}), _PRICES):
            if is_late(deadline):
                return
            is_found, sets = annealed(
                gains,
                costs,
                start.astype(np.int32),
                len(fixed),
                pool,
                designs.limits.sets,
                at_most,
                price * size or 1.0,
                n_moves,
                _SEED,
                deadline,
                target,
            )
            if is_found and np.isfinite(worths(designs.form, sets)).all():  # without conflicts
                yield sets

    in_all = -np.inf
    for sets in designs_near(start, np.inf):
        yield np.sort(sets, axis=1)
        worth = float(worths(designs.form, sets).sum())
        if worth > in_all:
            in_all, start = worth, sets
    if is_smallest_counted and in_all > -np.inf:  # in the best of all the worst is below the mean
        for sets in designs_near(start, in_all / m):
            yield np.sort(sets, axis=1)
