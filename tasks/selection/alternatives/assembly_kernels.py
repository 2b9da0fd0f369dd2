"""Designs put together from known sets, compiled: the one whose worst set is worth most.

Sets have a price, and a feature has a *penalty* for each number of sets that it could be in, which
is 0 for the number that suits it. The prices of a design's sets and the penalties of all features
come to no more than a budget (`feature_prices.py`). So where the budget would not bear that a
feature is in no further set, one of the sets that have it must be next; else it is any.

A set is left out once all designs with it and those before it have been looked at, so that none is
met twice. A search stops after so much work and goes on when called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled


class Parts(NamedTuple):
    """What designs are made of: N sets of k of p features, the cheapest first.

    Attributes
    ----------
    sets : ndarray of int64, shape (N, k)
    has : ndarray of bool, shape (N, p)
    bits : ndarray of uint64, shape (N, w)
        The same.
    worth, price : ndarray of int64, shape (N,)
    penalties : ndarray of int64, shape (p, u + 1)
        Convex in the number of sets, of which a feature may be in u.
    budget : int
    overlap : int
        K, how many features two sets may share.
    blur : int
        What is worth no more than this above the best is not looked for.
    """

    sets: Integers
    has: NDArray[np.bool_]
    bits: NDArray[np.uint64]
    worth: Integers
    price: Integers
    penalties: Integers
    budget: int
    overlap: int
    blur: int


def parts_of(
    sets: Integers,
    price: Integers,
    units: Integers,
    penalties: Integers,
    budget: int,
    overlap: int,
    blur: int,
) -> Parts:
    """Return what designs are made of: `units` (p,) are what the features are worth."""
    n, n_words = len(sets), -(-len(units) // 64)
    has = np.zeros((n, len(units)), dtype=np.bool_)
    np.put_along_axis(has, sets, values=True, axis=1)
    padded = np.zeros((n, 64 * n_words), dtype=np.uint8)
    padded[:, : has.shape[1]] = has
    bits = np.packbits(padded, axis=1).view(np.uint64)
    worth = units[sets].sum(axis=1)
    return Parts(sets, has, bits, worth, price, penalties, budget, overlap, blur)


class Assembly(NamedTuple):
    """Where the search is. One row for each set that a design may have so far.

    Attributes
    ----------
    candidates, next_ones : ndarray of int32, shape (m, N)
        Sets that go with those chosen; those of them that must be tried.
    n_candidates, n_next, place : ndarray of int64, shape (m,)
        `place` is the one that is being tried, -1 before the first.
    is_tried : ndarray of bool, shape (m, N)
    spent, worst : ndarray of int64, shape (m + 1,)
        What the chosen cost, and what the worst of them is worth.
    uses : ndarray of int64, shape (p,)
    progress : ndarray of int64, shape (2,)
        How many sets are chosen, -1 when the search is done; and 1 if the row is new.
    best : ndarray of int64, shape (m,)
        -1 before a design is found.
    best_worth : ndarray of int64, shape (1,)
        What the worst set of a design is to beat.
    """

    candidates: NDArray[np.int32]
    next_ones: NDArray[np.int32]
    n_candidates: Integers
    n_next: Integers
    place: Integers
    is_tried: NDArray[np.bool_]
    spent: Integers
    worst: Integers
    uses: Integers
    progress: Integers
    best: Integers
    best_worth: Integers


def fresh_assembly(parts: Parts, n_sets: int, to_beat: int) -> Assembly:
    """Return the state of a search that has not begun."""
    n, m = len(parts.sets), n_sets
    rows = (m, n)
    candidates = np.zeros(rows, dtype=np.int32)
    candidates[0] = np.arange(n)
    n_candidates = np.zeros(m, dtype=np.int64)
    n_candidates[0] = n
    worst = np.zeros(m + 1, dtype=np.int64)
    worst[0] = np.iinfo(np.int64).max
    return Assembly(
        candidates,
        np.zeros(rows, dtype=np.int32),
        n_candidates,
        np.zeros(m, dtype=np.int64),
        np.full(m, -1),
        np.zeros(rows, dtype=np.bool_),
        np.zeros(m + 1, dtype=np.int64),
        worst,
        np.zeros(len(parts.penalties), dtype=np.int64),
        np.array([0, 1]),
        np.full(m, -1),
        np.array([to_beat]),
    )


@compiled
def _n_bits(word: np.uint64) -> int:
    """Return how many bits are set (Hamming weight, by adding neighbours)."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + (
        (word >> np.uint64(2)) & np.uint64(0x3333333333333333)
    )
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def _go_together(parts: Any, one: int, other: int) -> bool:
    shared = 0
    for w in range(parts.bits.shape[1]):
        shared += _n_bits(parts.bits[one, w] & parts.bits[other, w])
    return bool(shared <= parts.overlap)


@compiled
def _least_penalty(parts: Any, j: int, uses: int, left: int) -> int:
    """Return the least penalty of feature j if up to `left` sets are still to come."""
    least = parts.penalties[j, uses]
    for count in range(uses + 1, min(uses + left + 1, parts.penalties.shape[1])):
        if parts.penalties[j, count] >= least:
            break
        least = parts.penalties[j, count]
    return int(least)


@compiled
def _list_next(parts: Any, state: Any, depth: int) -> None:
    """List which candidates must be tried: none if the budget or their number is too small."""
    left = len(state.best) - depth
    row = state.candidates[depth]
    state.n_next[depth], state.place[depth] = 0, -1
    n = 0
    for i in range(state.n_candidates[depth]):
        if parts.worth[row[i]] > state.best_worth[0]:
            row[n] = row[i]
            n += 1
    state.n_candidates[depth] = n
    if n < left or state.worst[depth] <= state.best_worth[0]:
        return
    slack = parts.budget - state.spent[depth]
    for i in range(left):
        slack -= parts.price[row[i]]
    for j in range(len(state.uses)):
        slack -= _least_penalty(parts, j, state.uses[j], left)
    if slack < 0:
        return
    needed, most = -1, slack
    for j in range(len(state.uses)):
        penalty = parts.penalties[j, state.uses[j]]
        penalty -= _least_penalty(parts, j, state.uses[j], left)
        if penalty > most:
            needed, most = j, penalty
    # in place of the dearest of the cheapest, a set may cost what is left more
    most_price = slack + parts.price[row[left - 1]]
    for i in range(n):
        if parts.price[row[i]] > most_price:
            state.n_candidates[depth] = i
            break
        state.is_tried[depth, row[i]] = False
        if needed < 0 or parts.has[row[i], needed]:
            state.next_ones[depth, state.n_next[depth]] = row[i]
            state.n_next[depth] += 1


@compiled
def _has_room(parts: Any, state: Any, one: int) -> bool:
    """Return whether each feature of a set may be in one more."""
    most, n_full = parts.penalties.shape[1] - 1, 0
    for i in range(parts.sets.shape[1]):
        n_full += state.uses[parts.sets[one, i]] >= most
    return bool(n_full == 0)


@compiled
def _use(parts: Any, state: Any, chosen: int, sign: int) -> None:
    for i in range(parts.sets.shape[1]):
        state.uses[parts.sets[chosen, i]] += sign


@compiled
def _go_down(parts: Any, state: Any, depth: int, chosen: int) -> int:
    """List what goes with one more set; return the work."""
    row, n = state.candidates[depth], 0
    for i in range(state.n_candidates[depth]):
        other = row[i]
        if other == chosen or state.is_tried[depth, other]:
            continue
        if (
            parts.worth[other] > state.best_worth[0]
            and _go_together(parts, chosen, other)
            and _has_room(parts, state, other)
        ):
            state.candidates[depth + 1, n] = other
            n += 1
    state.n_candidates[depth + 1] = n
    return int(state.n_candidates[depth])


@compiled
def _keep(parts: Any, state: Any) -> None:
    for depth in range(len(state.best)):
        state.best[depth] = state.next_ones[depth, state.place[depth]]
    state.best_worth[0] = state.worst[len(state.best)] + parts.blur


@compiled
def assemble(parts: Parts, state: Assembly, most_work: int) -> int:
    """Search on for the design to beat all; return `DONE` or `PAUSED`. `state` is written to."""
    m, work = len(state.best), 0
    while work < most_work:
        depth = state.progress[0]
        if depth < 0:
            return DONE
        work += 1
        if state.progress[1] == 1:
            state.progress[1] = 0
            work += state.n_candidates[depth]
            _list_next(parts, state, depth)
        else:
            chosen = state.next_ones[depth, state.place[depth]]
            _use(parts, state, chosen, -1)
            state.is_tried[depth, chosen] = True
        state.place[depth] += 1
        if state.place[depth] >= state.n_next[depth]:
            state.progress[0] -= 1
            continue
        chosen = state.next_ones[depth, state.place[depth]]
        _use(parts, state, chosen, 1)
        state.worst[depth + 1] = min(state.worst[depth], parts.worth[chosen])
        state.spent[depth + 1] = state.spent[depth] + parts.price[chosen]
        if state.worst[depth + 1] <= state.best_worth[0]:
            continue
        if depth == m - 1:
            _keep(parts, state)
        else:
            work += _go_down(parts, state, depth, chosen)
            state.progress[0] += 1
            state.progress[1] = 1
    return PAUSED
