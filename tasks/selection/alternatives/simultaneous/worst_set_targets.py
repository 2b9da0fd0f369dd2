"""Compiled search for the design of known sets whose worst set is best.

Sets have a price, and a feature has a *penalty* for each number of its sets, 0 for the number that
suits it. The prices of a design's sets and the penalties of all features are within a budget
(`use_bounds.py`). So if the budget does not allow a feature to be in no further set, one of the
sets with the feature must be next; else it may be any set.

A set is left out once all designs with it and those before it have been visited, so that none is
visited twice. A search pauses after a given amount of work and continues when called again.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import DONE, PAUSED, Integers, is_late, write
from chaffinch.tasks.selection.alternatives.greedy import Sets
from chaffinch.tasks.selection.alternatives.simultaneous.use_bounds import (
    Prices,
    Question,
    best_uses_for,
    prices_of_uses,
    sets_in_budget,
)
from chaffinch.tasks.selection.alternatives.simultaneous.whole_numbers import (
    Bars,
    Problem,
    is_barred,
    sums_of_sets,
    table_of_uses,
    whole_values,
)
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled


class Parts(NamedTuple):
    """What designs are made of: N sets of k of p features, the cheapest first."""

    sets: Integers
    has: NDArray[np.bool_]  # (N, p)
    bits: NDArray[np.uint64]  # (N, w), the same
    worth: Integers
    price: Integers
    penalties: Integers  # (p, u + 1), convex in the number of sets, of which a feature may be in u
    budget: int
    overlap: int  # K
    blur: int  # a design worth no more than this above the best is not searched for


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
    """State of the search; one row for each set that a design may have so far."""

    candidates: NDArray[np.int32]  # (m, N), sets that go with those chosen
    next_ones: NDArray[np.int32]  # (m, N), those of them that must be tried
    n_candidates: Integers
    n_next: Integers
    place: Integers  # the one that is being tried, -1 before the first
    is_tried: NDArray[np.bool_]
    spent: Integers  # (m + 1,), what the chosen cost
    worst: Integers  # (m + 1,), what the worst of them is worth
    uses: Integers
    # how many sets are chosen, -1 when the search is done; and 1 if the row is new
    progress: Integers
    best: Integers  # (m,), -1 before a design is found
    best_worth: Integers  # (1,), what the worst set of a design is to beat


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


# The search for sets that all reach a target, compiled: see `univariate.py`.
#
# Features are taken best first, and for each its sets are chosen; sets with the same features so
# far are interchangeable. A partial design is left if a set cannot reach the target with the best
# of the remaining features, or if all sets below it together cannot: their largest total gain is
# read from a table of uses (`whole_numbers.py`), by the places that they have left and the features
# that pairs of them can still share.
#
# A design found raises the target above its worst set. A search pauses after a number of steps and
# continues when called again: all of its state is in `Balance`.


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
    best: NDArray[np.bool_]  # (p, m), the last design found; all False without one


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


# Two ways to the design whose worst set is best, for sums of feature values.
#
# - *Down from the bound on the sum* (`use_bounds.py`): for a target Z, prices determine the sets of
#   designs that reach Z; these are listed, and their best design is assembled
#   (`worst_set_targets.py`). If there is none, Z is lowered. This is fast if a design is so close
#   to the bound that there are few such sets.
# - *Up from the best design known*: a better one is searched for, feature by feature
#   (`worst_set_targets.py`). This is fast if a few features have such high values that the bound is
#   out of reach.
#
# Both work with conflicts too: bounds by uses then hold all the more.

_WORK_BETWEEN_LOOKS = 500_000  # at the clock: some milliseconds
_PAIRS_BETWEEN_LOOKS = 4_000_000  # of sets, all of which a step looks at
_MOST_SETS = 50_000
_MOST_SUMS = 3_000
_FIRST_STEP = 2.0**-16  # down from the bound, relative to it
_SHORTER = 64  # where there are too many sets


class Targets:
    """The best design so far, in whole units above the least value, and the bound on it.

    `bars`: what sets may not take, over all features with the best first; without it only the best
    m k count. `most_uses`: in how many sets a feature may be, if not in all.
    """

    def __init__(
        self,
        values: Floats,
        k: int,
        n_sets: int,
        overlap: int,
        deadline: float | None,
        *,
        bars: Bars | None = None,
        most_uses: int | None = None,
    ) -> None:
        self.values, self.k, self.n_sets, self.overlap = values, k, n_sets, overlap
        self.deadline = deadline
        self.bars = bars or Bars.none()
        self.most_uses = n_sets if most_uses is None else most_uses
        self.n_pairs = math.comb(n_sets, 2) * overlap
        n_best = min(len(values), n_sets * k) if bars is None else len(values)
        self.whole = whole_values(values, n_best, 4 * n_sets * k * (n_sets + self.n_pairs + 1))
        self.units = self.whole.units - self.whole.units[-1]
        self.blur, self.rounding = self.whole.blur(k), self.whole.rounding(k)
        self.sums = sums_of_sets(self.units, k, _MOST_SUMS)
        self.best: Integers | None = None  # places in the order of value, shape (m, k)
        self.worth = -1
        self.upper = int(self.units[:k].sum())

    def lower_bound_by_uses(self) -> None:
        """Lower the bound to the highest target for which the bound on the sum allows m sets."""
        low, high = max(self.worth, 0), self.upper + 1
        closest = max(1, int(high * _FIRST_STEP))
        while high - low > closest and not is_late(self.deadline):
            middle = (low + high) // 2
            uses = best_uses_for(self.question(middle), self.deadline)
            if uses.bound >= self.n_sets * middle:
                low = middle
            else:
                high = middle
        self.upper = high - 1

    def table(self) -> Integers | None:
        """Return the table of uses for the way up; None if it would be too large."""
        n_places = self.n_sets * self.k
        return table_of_uses(self.units, self.most_uses, n_places, self.n_pairs, self.deadline)

    def raise_target(self, table: Integers, most_steps: int) -> bool:
        """Search for better designs than the best; return whether there are no more."""
        sums = np.concatenate([[0], np.cumsum(self.units)])
        asked = self.n_pairs + 1, self.blur, self.k, self.overlap, self.most_uses
        problem = Problem(self.units, sums, table, *asked, self.bars, self.bars.is_none)
        state = fresh_balance(len(self.units), self.n_sets, self.k, self.worth + self.blur + 1)
        at_once = _PAIRS_BETWEEN_LOOKS // self.n_sets**2 + 1
        ended, steps = PAUSED, 0
        while ended == PAUSED and steps < most_steps and not is_late(self.deadline):
            state.target[0] = self._reachable(int(state.target[0]))
            ended = balance(problem, state, at_once)
            steps += at_once
        if state.best.any():
            self.take(np.nonzero(state.best.T)[1].reshape(self.n_sets, self.k))
        if ended == DONE:
            self.upper = self.worth + self.blur
        return ended == DONE

    def lower_target(self, most_work: int) -> bool:
        """Lower the target until the best design is found, or a step is too much work.

        Returns whether the best design is proven to be that.
        """
        step, is_first = max(1, int(self.upper * _FIRST_STEP)), True
        while self.upper > self.worth + self.blur:
            if is_late(self.deadline):
                return False
            lowest = max(self.worth + self.blur + 1, self.upper - step)
            target = self._reachable(lowest)
            if target <= self.upper:
                question = self.question(target)
                prices = prices_of_uses(question, best_uses_for(question, self.deadline))
                found = sets_in_budget(question, prices, _MOST_SETS, most_work, self.deadline)
                if found is not None:
                    is_allowed = self.bars.allow(found[0])
                    found = found[0][is_allowed], found[1][is_allowed]
                if found is None and is_first and step >= _SHORTER:
                    step //= _SHORTER
                    continue
                if found is None or not self._assemble(question, prices, *found, most_work):
                    return False
            self.upper = max(lowest - 1, self.worth + self.blur)
            step, is_first = 2 * step, False
        return True

    def _assemble(
        self, question: Question, prices: Prices, sets: Integers, costs: Integers, most_work: int
    ) -> bool:
        """Take the best design of some sets that is worth the target; False if too much work."""
        if len(sets) < self.n_sets:
            return True
        parts = parts_of(
            sets, costs, self.units, prices.penalties, prices.budget, self.overlap, self.blur
        )
        state = fresh_assembly(parts, self.n_sets, max(self.worth + self.blur, question.least - 1))
        ended, work = PAUSED, 0
        while ended == PAUSED and work < most_work and not is_late(self.deadline):
            ended = assemble(parts, state, _WORK_BETWEEN_LOOKS)
            work += _WORK_BETWEEN_LOOKS
        if state.best[0] >= 0:
            self.take(parts.sets[state.best])
        return ended == DONE

    def _reachable(self, target: int) -> int:
        """Return the least that a set can be worth, from the target up, as far as it is known."""
        if self.sums is None:
            return target
        place = int(np.searchsorted(self.sums, target))
        return int(self.sums[place]) if place < len(self.sums) else int(self.sums[-1]) + 1

    def question(self, target: int) -> Question:
        """Return what is asked for: designs whose sets are each worth a target."""
        worth = np.minimum(self.units, target)
        return Question(worth, self.k, self.n_sets, self.n_pairs, self.most_uses, target)

    def take(self, places: Integers | Sets) -> None:
        """Take a design, as places in the order of value, if it is better."""
        worth = int(self.units[places].sum(axis=1).min())
        if worth > self.worth:
            self.best, self.worth = np.asarray(places, dtype=np.int64), worth
