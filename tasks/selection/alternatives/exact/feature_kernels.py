"""Designs searched feature by feature, compiled, where a set is worth the sum of its features.

`search` finds the best sum, and `balance` the best smallest value; both take the features best
first, and read the largest contribution of the features that are left from the table of
`multiplicities.py`. A search pauses after a number of steps and continues when called again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import DONE, PAUSED, Integers
from chaffinch.tasks.selection.alternatives.exact.multiplicities import NONE, Bars, is_barred
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, inlined


class Problem(NamedTuple):
    """Designs of m sets of k of p features, any two with at most K in common."""

    units: Integers  # (p,), the features' worth, descending
    sums: Integers  # (p + 1,), of the first ones
    # (p + 1, m k + 1, m (m - 1) / 2 K + 1), the most that the features from an index on promise, by
    # places left and by pairs of sets that can still share a feature
    table: Integers
    scale: int  # more than the pairs that there are
    blur: int  # a design worth no more than this above the best is not searched for
    size: int  # k
    overlap: int  # K
    most_uses: int  # in how many sets a feature may be
    bars: Bars
    is_free: bool  # without bars, so that no feature is in more sets than a better feature


class State(NamedTuple):
    """State of a search; a row for each feature; the present feature's is the last that counts."""

    has: NDArray[np.bool_]  # (p, m), the partial design
    # (p + 1, m), whether a set has had the same features as the one before it
    alike: NDArray[np.bool_]
    counts: Integers  # (p, m + 1), in how many sets the feature may be, the most promising first
    promises: Integers
    n_counts: Integers
    next_count: Integers
    places: Integers  # (p, m), in which sets it is
    is_placed: NDArray[np.bool_]
    is_barred: NDArray[np.bool_]  # (p, m), which sets may not have it
    most: Integers  # (p + 1,), how often it may be used
    worth: Integers  # (p + 1,), of those before
    left: Integers  # (p + 1,), places left for this and those after
    members: Integers  # (m, k), the features of each set, in order
    filled: Integers  # (m,), how many these are
    shared: Integers
    feature: Integers  # the present one, -1 when the search is done; and 1 if it is new
    best: NDArray[np.bool_]
    best_worth: Integers  # NONE without a design; and the promise that is to be beaten


def fresh_state(n_features: int, n_sets: int, n_places: int) -> State:
    """Return the state of a search that has not begun."""
    p, m = n_features, n_sets
    alike = np.zeros((p + 1, m), dtype=np.bool_)
    alike[0, 1:] = True
    most, left = np.zeros(p + 1, dtype=np.int64), np.zeros(p + 1, dtype=np.int64)
    most[0], left[0] = m, n_places
    return State(
        has=np.zeros((p, m), dtype=np.bool_),
        alike=alike,
        counts=np.zeros((p, m + 1), dtype=np.int64),
        promises=np.zeros((p, m + 1), dtype=np.int64),
        n_counts=np.zeros(p, dtype=np.int64),
        next_count=np.zeros(p, dtype=np.int64),
        places=np.zeros((p, m), dtype=np.int64),
        is_placed=np.zeros(p, dtype=np.bool_),
        is_barred=np.zeros((p, m), dtype=np.bool_),
        most=most,
        worth=np.zeros(p + 1, dtype=np.int64),
        left=left,
        members=np.zeros((m, n_places // m), dtype=np.int64),
        filled=np.zeros(m, dtype=np.int64),
        shared=np.zeros((m, m), dtype=np.int64),
        feature=np.array([0, 1]),
        best=np.zeros((p, m), dtype=np.bool_),
        best_worth=np.array([NONE, NONE]),
    )


@inlined
def _pairs_left(problem: Any, state: Any) -> int:
    """Return how often two sets that have room can still share a feature."""
    k, pairs = problem.size, 0
    for s in range(len(state.filled)):
        room = k - state.filled[s]
        if room > 0:
            for other in range(s):
                room_of_both = min(room, k - state.filled[other])
                pairs += min(room_of_both, problem.overlap - state.shared[s, other])
    return pairs


@inlined
def _is_enough(problem: Any, state: Any, j: int, count: int) -> bool:
    """Return whether later features, in no more sets than this, can fill and beat the best.

    With conflicts they may be in more; the table has their promises.
    """
    if not problem.is_free:
        return True
    left = state.left[j] - count
    if left == 0:
        return True
    if count == 0:
        return False
    last = j + 1 + left // count
    rest = left % count
    if last + (rest > 0) > len(problem.units):
        return False
    worth = state.worth[j] + count * (problem.units[j] + problem.sums[last] - problem.sums[j + 1])
    if rest > 0:
        worth += rest * problem.units[last]
    return bool(state.best_worth[0] == NONE or worth * problem.scale > state.best_worth[1])


@inlined
def _mark_barred(problem: Any, state: Any, j: int) -> int:
    """Mark the sets that may not have feature j; return how many may."""
    n = 0
    for s in range(len(state.filled)):
        n_open = problem.size - state.filled[s]
        members, n_members = state.members[s], state.filled[s]
        barred = n_open == 0 or is_barred(problem.bars, members, n_members, j, n_open)
        state.is_barred[j, s] = barred
        n += not barred
    return n


@inlined
def _list_counts(problem: Any, state: Any, j: int) -> None:
    """List the allowed numbers of sets of feature j, most promising first; ties, largest first."""
    state.n_counts[j], state.next_count[j], state.is_placed[j] = 0, 0, False
    pairs, most = _pairs_left(problem, state), min(state.most[j], state.left[j], problem.most_uses)
    if not problem.is_free:
        most = min(most, _mark_barred(problem, state, j))
    for count in range(most + 1):
        shares = count * (count - 1) // 2
        if shares > pairs:
            break
        after = problem.table[j + 1, state.left[j] - count, pairs - shares]
        if after == NONE or not _is_enough(problem, state, j, count):
            continue
        promise = (state.worth[j] + count * problem.units[j]) * problem.scale - shares + after
        if state.best_worth[0] > NONE and promise <= state.best_worth[1]:
            continue
        place = state.n_counts[j]
        while place > 0 and state.promises[j, place - 1] <= promise:
            state.promises[j, place] = state.promises[j, place - 1]
            state.counts[j, place] = state.counts[j, place - 1]
            place -= 1
        state.promises[j, place], state.counts[j, place] = promise, count
        state.n_counts[j] += 1


@inlined
def _may_take(problem: Any, state: Any, j: int, depth: int, s: int) -> bool:
    """Return whether set s may have feature j together with the first `depth` of its places."""
    if state.filled[s] >= problem.size or (not problem.is_free and state.is_barred[j, s]):
        return False
    if state.alike[j, s] and (depth == 0 or state.places[j, depth - 1] != s - 1):
        return False
    most_shared = -1
    for place in range(depth):
        most_shared = max(most_shared, state.shared[s, state.places[j, place]])
    return bool(most_shared < problem.overlap)


@inlined
def _place(problem: Any, state: Any, j: int, count: int) -> bool:
    """Find the next sets, as a word, that feature j may be in, or the first if it has none."""
    m, places = len(state.filled), state.places
    depth, s = 0, 0
    if state.is_placed[j]:
        depth = count - 1
        s = places[j, depth] + 1 if count else 0
    elif count == 0:
        return True
    while depth >= 0:
        while s <= m - count + depth and not _may_take(problem, state, j, depth, s):
            s += 1
        if s > m - count + depth:
            depth -= 1
            if depth >= 0:
                s = places[j, depth] + 1
        else:
            places[j, depth] = s
            if depth == count - 1:
                return True
            depth += 1
            s += 1
    return False


@inlined
def _put(state: Any, j: int, count: int, sign: int) -> None:
    """Add feature j to the sets of its places, or take it out of them."""
    for i in range(count):
        s = state.places[j, i]
        state.has[j, s] = sign > 0
        if sign > 0:
            state.members[s, state.filled[s]] = j
        state.filled[s] += sign
        for other in range(i):
            state.shared[s, state.places[j, other]] += sign
            state.shared[state.places[j, other], s] += sign


@inlined
def _keep(problem: Any, state: Any, j: int) -> None:
    if state.best_worth[0] == NONE or state.worth[j] > state.best_worth[0] + problem.blur:
        state.best[:] = False
        for i in range(j):
            for s in range(state.has.shape[1]):
                state.best[i, s] = state.has[i, s]
        state.best_worth[0] = state.worth[j]
        state.best_worth[1] = (state.worth[j] + problem.blur) * problem.scale


@inlined
def _advance(problem: Any, state: Any, j: int) -> bool:
    """Put feature j where it has not been yet; return whether there is such a choice."""
    if state.is_placed[j]:
        _put(state, j, state.counts[j, state.next_count[j]], -1)
    while state.next_count[j] < state.n_counts[j]:
        i = state.next_count[j]
        if state.best_worth[0] > NONE and state.promises[j, i] <= state.best_worth[1]:
            break
        if _place(problem, state, j, state.counts[j, i]):
            state.is_placed[j] = True
            _put(state, j, state.counts[j, i], 1)
            return True
        state.next_count[j] += 1
        state.is_placed[j] = False
    state.is_placed[j] = False
    return False


@inlined
def _go_down(problem: Any, state: Any, j: int) -> bool:
    """Move to the next feature, if each set can still be filled."""
    n_after = len(problem.units) - j - 1
    count = state.counts[j, state.next_count[j]]
    for s in range(len(state.filled)):
        if problem.size - state.filled[s] > n_after:
            return False
        state.alike[j + 1, s] = (
            s > 0 and state.alike[j, s] and state.has[j, s] == state.has[j, s - 1]
        )
    state.worth[j + 1] = state.worth[j] + count * problem.units[j]
    state.left[j + 1] = state.left[j] - count
    state.most[j + 1] = count if problem.is_free else state.most[j]
    return True


@compiled
def search(problem: Problem, state: State, most_steps: int) -> int:
    """Search on for the best design; return `DONE` or `PAUSED`. `state` is written to.

    Features are taken best first. For each, the search chooses the number of its sets, then the
    sets; sets with the same features so far are interchangeable, and only the first of them are
    taken. The largest contribution of the remaining features is read from a table, by the number of
    places left in all sets, and of features that pairs of sets can still share. Without conflicts
    no feature is in more sets than a better feature.

    A search pauses after a number of steps and continues when called again: all of its state is in
    `State`.
    """
    for _ in range(most_steps):
        j = state.feature[0]
        if j < 0:
            return DONE
        if state.feature[1] == 1:
            state.feature[1] = 0
            if state.left[j] == 0:
                _keep(problem, state, j)
                state.feature[0] -= 1
                continue
            _list_counts(problem, state, j)
        if not _advance(problem, state, j):
            state.feature[0] -= 1
        elif _go_down(problem, state, j):
            state.feature[0] += 1
            state.feature[1] = 1
    return PAUSED


class Balance(NamedTuple):
    """State of the search."""

    has: NDArray[np.bool_]  # (p, m), the partial design
    # (p + 1, m), whether a set has had the same features as the one before it
    alike: NDArray[np.bool_]
    members: Integers  # (m, k), the features of each set, in order
    filled: Integers  # (m,), how many these are
    worth: Integers  # (m,)
    shared: Integers
    feature: Integers  # the present one, -1 when the search is done; and 1 if it is new
    target: Integers  # (1,), what every set is to be worth
    best: NDArray[np.bool_]  # (p, m), the best design so far; all False at first


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
def _toggle(problem: Any, state: Any, j: int, s: int) -> None:
    """Give feature j to a set, or take it away, when only the sets before have been decided."""
    sign = -1 if state.has[j, s] else 1
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
            _toggle(problem, state, j, s)
            n_uses += 1
    for s in range(1, len(state.filled)):
        is_same = state.has[j, s] == state.has[j, s - 1]
        state.alike[j + 1, s] = state.alike[j, s] and is_same


@compiled
def _take_last(problem: Any, state: Any, j: int) -> int:
    """Take feature j from the last set that has it; return the set, -1 if there is none."""
    for s in range(len(state.filled) - 1, -1, -1):
        if state.has[j, s]:
            _toggle(problem, state, j, s)
            return s
    return -1


@compiled
def balance(problem: Problem, state: Balance, most_steps: int) -> int:
    """Search on for designs; return `DONE` or `PAUSED`. `state` is written to.

    For each feature its sets are chosen; sets with the same features so far are interchangeable. A
    partial design is left if a set cannot reach the target with the best of the remaining features,
    or if all sets below it together cannot: their largest total gain is read from the table, by the
    places that they have left and the features that pairs of them can still share. A new design
    raises the target above its worst set.
    """
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
                    for s in range(state.has.shape[1]):
                        state.best[i, s] = state.has[i, s]
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
