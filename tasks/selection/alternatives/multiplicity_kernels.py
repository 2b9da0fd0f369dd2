"""The search for the best multiplicities that sets can have, compiled: see `multiplicities.py`.

Features are taken best first. For each, the search chooses in how many sets it is, then in which;
sets that have had the same features so far are interchangeable, and only the first of them are
taken. What the features after it can add at most is read off a table, that knows how many places
are left in all sets together, and how often two sets can still share a feature (`use_table.py`).
Where nothing bars two features from a set, no feature is in more sets than a better one.

A search stops after so many steps and goes on when called again: all it knows is in its state.
"""

from __future__ import annotations

from typing import Any

from chaffinch.tasks.selection.alternatives.array_kernels import write
from chaffinch.tasks.selection.alternatives.bar_kernels import is_barred
from chaffinch.tasks.selection.alternatives.multiplicity_state import Problem, State
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.use_table import NONE
from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined


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
    """Return whether later features, in no more sets than this one, can fill and beat the best.

    Where some do not go together, they may be in more; the table tells what they promise.
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
def _tell_barred(problem: Any, state: Any, j: int) -> int:
    """Tell which sets may not have feature j; return how many may."""
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
    """List in how many sets feature j may be, the most promising first, of equals the most."""
    state.n_counts[j], state.next_count[j], state.is_placed[j] = 0, 0, False
    pairs, most = _pairs_left(problem, state), min(state.most[j], state.left[j], problem.most_uses)
    if not problem.is_free:
        most = min(most, _tell_barred(problem, state, j))
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
    """Return whether set s may have feature j beside the first `depth` of its places."""
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
            write(state.best[i], state.has[i])
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
    """Make the next feature the present one, if each set can still be filled."""
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
    """Search on for the best design; return `DONE` or `PAUSED`. `state` is written to."""
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
