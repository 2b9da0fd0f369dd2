"""Several univariate sets at once: simultaneous search, by their sum or by the worst set.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3,
definition 5 with equations 11 (a set is worth the sum of its features' values) and 17 (sum over
the sets). Integer programming over sets and pairs of them, as the paper has it, fails from three
alternatives on; the way here is our own.

In all, m sets are worth the sum of value_j c_j, where c_j is in how many sets feature j is: only
these multiplicities matter. Three things follow, for values of any sign, equal ones too.

1. *The better a feature, the more it is used.* Give the features of any sets other names, those
   used most the names of the best: the sets are as large and share as much as before, and by the
   rearrangement inequality they are worth no less. Nothing is left out by c_1 >= c_2 >= ...
2. *Only the best m k features are used*, because c_1 + ... + c_n = m k, and c descends.
3. *How much is shared bounds c*: see `use_bounds.py`. No sets are better than the best c within
   these bounds, if there are sets for that c at all.

With given sets, or a limit to some features, features are not interchangeable, and the first step
fails.

`feature_by_feature.py` searches c and the sets together, feature by feature. What it cannot end
in time is compared with designs by annealing: for c that make fewer and fewer pairs, and with c
left open (`annealing.py`). `use_bounds.py` then lowers the bound. Sets of many places are
annealed first, for longer if that helps, and prices of subsets (`price_and_enumerate.py`) lower
their bound.
"""

from __future__ import annotations

import math
import time
from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import (
    DONE,
    PAUSED,
    Integers,
    is_far_too_late,
    is_late,
    share_of_time,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.kernels import search as search_one_set
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Limits,
    improve_by_swaps,
    prepared,
)
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.greedy import (
    Sets,
    best_first,
    check,
    greedy_balancing,
    greedy_depth_search,
)
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Aggregate, Solved
from chaffinch.tasks.selection.alternatives.simultaneous.annealing import (
    annealed,
    balanced_by_annealing,
    realised,
)
from chaffinch.tasks.selection.alternatives.simultaneous.feature_by_feature import search
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import (
    by_prices,
    is_priced,
)
from chaffinch.tasks.selection.alternatives.simultaneous.use_bounds import (
    Uses,
    at_price,
    best_uses,
    best_uses_for,
    bound_of_prefixes,
)
from chaffinch.tasks.selection.alternatives.simultaneous.whole_numbers import (
    FREE,
    NONE,
    Problem,
    WholeValues,
    fresh_state,
    table_of_uses,
    whole_values,
)
from chaffinch.tasks.selection.alternatives.simultaneous.worst_set_targets import Targets
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# Many sets constructed one after the other, compiled: a design where annealing would take too long.
#
# Each set starts with the feature that is furthest behind its intended uses, and continues with the
# allowed ones: no feature of a set with which it already shares all it may. The bookkeeping takes,
# for each feature added, a visit to the sets that have it.
#
# The best uses by pairs alone often have no sets, and are not searched for long. At multiples of
# the price of a pair they are more even, and the best sets found for any of them are taken.
_NONE = -1
_DEARER_DEALT = (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_PRICES_IN_VAIN = 3  # prices, once there are sets


class _Dealt(NamedTuple):
    """The arrays that change in place as features are distributed."""

    sets: Integers  # (m, k)
    left: Integers  # (p,), remaining uses of each feature; below 0 if used more often
    last: Integers  # (p,), the place where each feature was used last
    before: Integers  # (m k,), of each place the one before it


@compiled
def _deal(dealt: _Dealt, one: int, overlap: int) -> bool:
    """Deal out a set; return whether there is one."""
    sets, left, last, before = dealt
    k = sets.shape[1]
    shared = np.zeros(one, np.int64)
    is_barred = np.zeros(len(left), np.bool_)
    if overlap == 0:
        is_barred[:] = last > _NONE
    for a in range(k):
        taken = _NONE
        for j in range(len(left)):
            if not is_barred[j] and (taken == _NONE or left[j] > left[taken]):
                taken = j
        if taken == _NONE:
            return False
        sets[one, a] = taken
        is_barred[taken] = True
        place = last[taken]
        while place > _NONE:
            other = place // k
            shared[other] += 1
            if shared[other] == overlap:
                for b in range(k):
                    is_barred[sets[other, b]] = True
            place = before[place]
    for a in range(k):
        j, place = sets[one, a], one * k + a
        before[place], last[j] = last[j], place
        left[j] -= 1
    return True


def best_dealt_out(
    units: Integers, k: int, n_sets: int, overlap: int, uses: Uses, deadline: float | None
) -> Integers:
    """Return the best of the sets constructed for uses at several prices of a pair.

    `units` (p,) descend; `uses` are the best by pairs alone. Returns no sets where none are found.
    """
    best = np.zeros((0, k), dtype=np.int64)
    n_pairs, most, in_vain = math.comb(n_sets, 2) * overlap, int(units[0] - units[-1]) + 1, 0
    for dearer in _DEARER_DEALT:
        price = min(dearer * uses.price, most)
        counts = at_price(units, n_sets, n_sets * k, n_pairs, price).counts
        sets = dealt_out(counts, n_sets, k, overlap, deadline)
        if len(sets) and (not len(best) or units[sets].sum() > units[best].sum()):
            best, in_vain = sets, 0
        elif len(best):
            in_vain += 1
        if in_vain == _PRICES_IN_VAIN or is_late(deadline):
            break
    return best


def dealt_out(
    counts: Integers, n_sets: int, k: int, overlap: int, deadline: float | None
) -> Integers:
    """Return sets (m, k) of features that are used about as often as they should be.

    `counts` (p,): how often; m k in all. Returns no sets where one cannot be filled, or it is too
    late.
    """
    dealt = _Dealt(
        np.zeros((n_sets, k), dtype=np.int64),
        np.array(counts),
        np.full(len(counts), _NONE),
        np.full(n_sets * k, _NONE),
    )
    for one in range(n_sets):
        if is_late(deadline) or not _deal(dealt, one, overlap):
            return dealt.sets[:0]
    return dealt.sets


_MOST_TO_ANNEAL = 300_000_000  # looks at a set for each of all places and sets
_STEPS_BEFORE_ANNEALING, _LOOKS_BEFORE_PRICES = 1_000_000, 10
_PAIRS_BETWEEN_LOOKS = 4_000_000  # at the clock; of sets, all of which a step looks at
_SWAPS = 300_000
_ATTEMPTS = 9
_FEWER = 0.85
_MANY_PLACES = 42  # of as many a proof is not to be hoped for, and annealing comes first
_MOVES_OF_A_PLACE, _MOST_MOVES = 8_000, 1_000_000
_DEARER = (4, 8, 2)  # times the price at which the best uses share what they may
_LONGER, _OF_ALL_SETS = 5_000_000, 50_000_000  # moves; of these each looks at all sets
_OF_ANNEALING, _BEFORE_PRICES, _OF_PRICES = 0.6, 0.2, 0.75  # of the time that is left then
_IN_VAIN = 3  # rounds, where there is no limit
_SO_DEAR, _SHORTER = (100, 1000), 10  # for any sets rather than good ones

NO_SETS = Solved(None, -math.inf, -math.inf, complete=True)


def best_sum(
    values: Floats, k: int, n_sets: int, largest_overlap: int, *, deadline: float | None = None
) -> Solved:
    """Return the sets with the largest sum of values (n,), of any sign.

    Without a deadline the search ends when it is proven, but for sets so many and large that it is
    not begun. ValueError if an argument is outside its range.
    """
    check(values, k, n_sets, largest_overlap)
    values = np.asarray(values, dtype=np.float64)
    return _Search(values, k, n_sets, largest_overlap, deadline, is_any_enough=False).run()


def any_sets(
    values: Floats, k: int, n_sets: int, largest_overlap: int, deadline: float | None
) -> Solved:
    """Return the first sets that are found on the way to the best; see `best_sum`."""
    return _Search(values, k, n_sets, largest_overlap, deadline, is_any_enough=True).run()


class _Search:
    """The best sets so far, in whole units, and the bound on them."""

    def __init__(
        self,
        values: Floats,
        k: int,
        n_sets: int,
        overlap: int,
        deadline: float | None,
        *,
        is_any_enough: bool,
    ) -> None:
        self.values, self.k, self.n_sets, self.overlap = values, k, n_sets, overlap
        self.deadline, self.is_any_enough = deadline, is_any_enough
        self.n_places = n_sets * k
        self.n_pairs = math.comb(n_sets, 2) * overlap
        self.scale = self.n_pairs + 1
        self.whole: WholeValues = whole_values(
            values, min(len(values), self.n_places), self.n_places * self.scale
        )
        self.rounding = self.whole.rounding(self.n_places)
        self.best: Integers | None = None  # places in the order of value, shape (m, k)
        self.worth = NONE

    def run(self) -> Solved:
        units = self.whole.units
        uses = best_uses(units, self.n_sets, self.n_places, self.n_pairs, self.deadline)
        if uses is None:
            return NO_SETS
        self._take(
            greedy_balancing(-np.arange(float(len(units))), self.k, self.n_sets, self.overlap)
        )
        bound, is_proven = self._improve(uses)
        if is_proven and self.best is None:
            return NO_SETS
        upper = self.whole.at_most(max(bound, self.worth), self.n_places)
        if self.best is None:
            return Solved(None, -math.inf, upper, complete=False)
        sets = in_order(self.values, self.whole.order[self.best])
        value = math.fsum(self.values[sets].ravel())
        return Solved(sets, value, max(upper, value), is_proven, self.rounding)

    def _improve(self, uses: Uses) -> tuple[int, bool]:
        """Search until it is proven or too late; return a bound, and whether it is proven."""
        bound, are_many = uses.bound, self.n_places >= _MANY_PLACES
        if are_many and not self._is_settled(bound):
            bound = self._anneal(bound, uses)
        if self._is_settled(bound) or self._is_enough():
            return bound, self._is_settled(bound)
        table = table_of_uses(
            self.whole.units, self.n_sets, self.n_places, self.n_pairs, self.deadline
        )
        if table is None:
            if not are_many:
                bound = self._anneal(bound, uses)
                return bound, self._is_settled(bound)
            return self._search_longer(bound, uses)
        promise = int(table[0, -1, -1])
        if promise == NONE:
            return bound, True
        return self._search(table, min(bound, -(-promise // self.scale)), uses, are_many)

    def _search(self, table: Integers, bound: int, uses: Uses, are_many: bool) -> tuple[int, bool]:
        """Search through all; if it takes long, first anneal, or longer if that has been done."""
        units, blur = self.whole.units, self.whole.blur(self.n_places)
        sums = np.concatenate([[0], np.cumsum(units)])
        asked = self.scale, blur, self.k, self.overlap, self.n_sets
        problem = Problem(units, sums, table, *asked, *FREE)
        state = fresh_state(len(units), self.n_sets, self.n_places)
        at_once = _PAIRS_BETWEEN_LOOKS // self.n_sets**2 + 1
        steps_before = _LOOKS_BEFORE_PRICES * at_once if are_many else _STEPS_BEFORE_ANNEALING
        ended, steps, is_long, is_proven = PAUSED, 0, False, False
        while ended == PAUSED and not is_proven and not self._is_enough():
            if self.best is not None:
                state.best_worth[:] = self.worth, (self.worth + blur) * self.scale
            ended = search(problem, state, at_once)
            steps += at_once
            if state.best_worth[0] > self.worth:
                self._take(np.nonzero(state.best.T)[1].reshape(self.n_sets, self.k))
            if ended == PAUSED and not is_long and steps >= steps_before:
                is_long = True
                if not are_many:
                    bound = self._anneal(bound, uses)
                else:
                    bound, is_proven = self._search_longer(bound, uses)
        if ended == DONE:
            return self.worth + blur, True
        return bound, is_proven

    def _is_settled(self, bound: int) -> bool:
        """Return whether the best sets come up to a bound."""
        return self.best is not None and bound <= self.worth + self.whole.blur(self.n_places)

    def _is_enough(self) -> bool:
        is_found = self.is_any_enough and self.best is not None
        return is_found or is_late(self.deadline)

    def _anneal(self, bound: int, uses: Uses) -> int:
        """Look for designs without a proof; return a bound that is no higher."""
        are_too_many = self.n_places * self.n_sets**2 > _MOST_TO_ANNEAL
        asked = self.whole.units, self.k, self.n_sets, self.overlap, uses, self.deadline
        if are_too_many:
            self._take(best_dealt_out(*asked))
        self._anneal_with_open_uses(uses)
        if not are_too_many:
            self._anneal_by_uses()
        of_prefixes = None
        if not self._is_enough():
            of_prefixes = bound_of_prefixes(*asked)
        return bound if of_prefixes is None else min(bound, of_prefixes)

    def _anneal_with_open_uses(self, uses: Uses) -> None:
        """Look for designs by exchanges of features, at some prices of what is shared too often."""
        most = _OF_ALL_SETS // self.n_sets + 1
        n_moves = min(_MOVES_OF_A_PLACE * self.n_places, _MOST_MOVES, most)
        if self.is_any_enough:
            n_moves //= _SHORTER
        for factor in _SO_DEAR if self.is_any_enough else _DEARER:
            if not self._is_enough():
                self._exchange(factor * uses.price, n_moves, 1)

    def _anneal_longer(self, bound: int, uses: Uses) -> None:
        """Look for better designs for some time; without a limit, while there are some."""
        in_vain, seconds = 0, 0.0
        has_prices = is_priced(len(self.whole.units), self.k, self.overlap)
        until = share_of_time(self.deadline, _BEFORE_PRICES if has_prices else _OF_ANNEALING)
        for rounds in count():
            is_over = in_vain >= _IN_VAIN if until is None else is_late(until, seconds)
            if is_over or self._is_settled(bound) or self._is_enough():
                return
            before, start = self.worth, time.monotonic()
            n_moves = max(_MOST_MOVES, min(_LONGER, _OF_ALL_SETS // self.n_sets + 1))
            self._exchange(_DEARER[rounds % 2] * uses.price, n_moves, rounds + 2)
            seconds = time.monotonic() - start
            in_vain = 0 if self.worth > before else in_vain + 1

    def _exchange(self, price: int, n_moves: int, seed: int) -> None:
        """Anneal by exchanges at a price of what is shared too often, as long as time allows."""
        n_features = len(self.whole.units)
        start = self.best
        if start is None:
            start = np.arange(self.n_places).reshape(self.n_sets, self.k) % n_features
        is_found, sets = annealed(
            self.whole.units.astype(np.float64),
            np.empty((0, 0)),
            start.astype(np.int32),
            0,
            np.arange(n_features),
            np.zeros((0, n_features), dtype=bool),
            np.full(self.n_sets, self.overlap),
            float(max(1, price)),
            n_moves,
            seed,
            self.deadline,
        )
        if is_found:
            self._take(sets)

    def _anneal_by_uses(self) -> None:
        """Look for designs of the best uses that make so many pairs; bisect that number."""
        n_pairs, most, least = self.n_pairs, self.n_pairs, -1
        n_swaps = min(_SWAPS, _OF_ALL_SETS // self.n_sets + 1)
        for _ in range(_ATTEMPTS):
            uses = best_uses(self.whole.units, self.n_sets, self.n_places, n_pairs, self.deadline)
            if uses is None or self._is_enough():
                return
            is_found, sets = realised(uses.counts, self.n_sets, self.k, self.overlap, n_swaps)
            if is_found:
                self._take(sets)
                least = n_pairs
            else:
                most = n_pairs
            n_pairs = (least + most) // 2 if least >= 0 else int(most * _FEWER)
            if n_pairs in (least, most):
                return

    def _search_longer(self, bound: int, uses: Uses) -> tuple[int, bool]:
        """Look for better designs and a lower bound; return it, and whether it is proven."""
        self._anneal_longer(bound, uses)
        if self.best is None or self._is_settled(bound) or self._is_enough():
            return bound, self._is_settled(bound)
        if self.deadline is None or not is_priced(len(self.whole.units), self.k, self.overlap):
            return bound, False  # no end to prices is known
        values = self.values[self.whole.order]
        deadline = share_of_time(self.deadline, _OF_PRICES)
        found = by_prices(values, self.best, self.overlap, "sum", deadline)
        self.rounding = max(self.rounding, found.rounding)
        if found.sets is not None:
            self._take(found.sets.astype(np.int64))
        bound = min(bound, self.whole.units_at_most(found.bound, self.n_places))
        return bound, found.complete or self._is_settled(bound)

    def _take(self, sets: Integers | Sets) -> None:
        worth = int(self.whole.units[sets].sum()) if len(sets) else NONE
        if worth > self.worth:
            self.best, self.worth = np.asarray(sets, dtype=np.int64), worth


def in_order(values: Floats, sets: Integers) -> Sets:
    """Return sets with their indices sorted, the best first, of equals the first as a word."""
    words = sorted(sorted(features) for features in sets.tolist())
    words.sort(key=lambda word: -math.fsum(values[word]))
    return np.array(words, dtype=np.int32)


# Several sets of univariate worth at once, the worst as good as can be: min aggregation.
#
# Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv
# 2307.11607v3, definition 5 with equations 11 (a set is worth the sum of its features' values) and
# 18 (the least of the sets counts). The way here is our own.
#
# Only the best m k features are looked at (appendix A.4): in place of one beyond them, the sets
# that have it can all take one of those that no set has, since m sets have m k features at most. As
# every set has k features, the least of these values can be taken off all of them, so that none is
# below 0; nothing else is asked of their signs, and equal values change nothing.
#
# Two ways lead to the best design (`worst_set_targets.py`), down from a bound and up from the best
# design that annealing has found; they are tried in turn, for longer and longer.
#
# Sets of many places are annealed for longer; prices of subsets (`price_and_enumerate.py`) lower
# the bound.

_WORK_AT_FIRST, _MORE_WORK = 1_000_000, 30  # times that in each round
_STEPS_AT_FIRST, _MORE_STEPS = 1_000_000, 10
_ROUNDS, _ENDLESS, _IN_VAIN_BALANCED = 2, 60, 3  # without a table, with one, and without a gain
_SWAPS_BALANCED = 1_000_000
_HOPES = (1.0, 1.0, 0.5, 0.25, 0.1)  # shares of what the bound leaves
_DEARER_BALANCED = (4, 2, 8)  # times the price at which the best uses share what they may
_LONGER_BALANCED, _OF_ALL_SETS_BALANCED = (
    5_000_000,
    100_000_000,
)  # swaps; of these each looks at all sets


def best_min(
    values: Floats, k: int, n_sets: int, largest_overlap: int, *, deadline: float | None = None
) -> Solved:
    """Return the sets of which the worst is worth most.

    Without a deadline the search ends when it is proven, or when more than 200,000 sets would have
    to be compared. ValueError if an argument is outside its range.
    """
    check(values, k, n_sets, largest_overlap)
    values = np.asarray(values, dtype=np.float64)
    return _BalancedSearch(values, k, n_sets, largest_overlap, deadline).run()


class _BalancedSearch(Targets):
    """The way to the best design, where any features go together."""

    def run(self) -> Solved:
        if self.overlap == self.k:
            self.take(np.tile(np.arange(self.k), (self.n_sets, 1)))
        elif not self._start():
            return NO_SETS
        self.lower_bound_by_uses()
        is_proven = self._search()
        lost = self.k * int(self.whole.units[-1])
        upper = self.whole.at_most(max(self.upper, self.worth) + lost, self.k)
        if self.best is None:
            return Solved(None, -math.inf, upper, complete=False)
        sets = in_order(self.values, self.whole.order[self.best])
        value = min(math.fsum(self.values[features]) for features in sets)
        return Solved(sets, value, max(upper, value), is_proven, self.rounding)

    def _start(self) -> bool:
        """Take any sets to start from; return whether there may be some."""
        order = -np.arange(float(len(self.units)))
        worth = self.units.astype(np.float64)
        places: NDArray[np.integer] = greedy_balancing(worth, self.k, self.n_sets, self.overlap)
        if not len(places):
            found = any_sets(order, self.k, self.n_sets, self.overlap, self.deadline)
            if found.sets is None:
                return not found.complete
            places = found.sets
        self.take(places.astype(np.int64))
        return True

    def _search(self) -> bool:
        """Try one way after the other, for longer and longer; return whether it is proven."""
        is_proven, table = self.lower_target(_WORK_AT_FIRST), None
        if not is_proven and self.best is not None:
            table = self.table()
        for rounds in range(_ROUNDS if table is None else _ENDLESS):
            if is_proven or self.best is None or is_late(self.deadline):
                break
            if rounds == 1 and self.n_sets * self.k >= _MANY_PLACES:
                self._anneal_longer()
                if self._search_by_prices():
                    return True
            self._anneal(_SWAPS_BALANCED * (rounds + 1), rounds + 1)
            is_proven = table is not None and self.raise_target(
                table, _STEPS_AT_FIRST * _MORE_STEPS**rounds
            )
            is_proven = is_proven or self.lower_target(_WORK_AT_FIRST * _MORE_WORK ** (rounds + 1))
        return is_proven

    def _anneal(self, n_swaps: int, seed: int) -> None:
        """Search for a better design with several prices and hopes, which depend on the seed."""
        left = self.upper - self.worth
        if self.best is None or left <= 0 or is_late(self.deadline):
            return
        n_swaps = min(n_swaps, _OF_ALL_SETS_BALANCED // self.n_sets + 1)
        share, times = _HOPES[seed % len(_HOPES)], _DEARER_BALANCED[seed % len(_DEARER_BALANCED)]
        hoped = max(1, int(left * share))
        uses = best_uses_for(self.question(self.upper), self.deadline)
        price = float(max(1, times * uses.price))
        self.take(
            balanced_by_annealing(self.units, self.best, self.overlap, hoped, price, n_swaps, seed)
        )

    def _anneal_longer(self) -> None:
        """Look for better designs for some time; without a limit, while there are some."""
        in_vain, seconds = 0, 0.0
        has_prices = is_priced(len(self.units), self.k, self.overlap)
        until = share_of_time(self.deadline, _BEFORE_PRICES if has_prices else _OF_ANNEALING)
        for seed in count():
            is_over = in_vain >= _IN_VAIN_BALANCED if until is None else is_late(until, seconds)
            if is_over or self.upper <= self.worth + self.blur:
                return
            before, start = self.worth, time.monotonic()
            self._anneal(_LONGER_BALANCED, seed)
            seconds = time.monotonic() - start
            in_vain = 0 if self.worth > before else in_vain + 1

    def _search_by_prices(self) -> bool:
        """Lower the bound by prices of subsets; return whether the best sets are proven by it."""
        if self.best is None or self.upper <= self.worth + self.blur:
            return self.best is not None
        is_over = self.deadline is None or is_late(self.deadline)  # prices know no end
        if is_over or not is_priced(len(self.units), self.k, self.overlap):
            return False
        values, until = self.values[self.whole.order], share_of_time(self.deadline, _OF_PRICES)
        found = by_prices(values, self.best, self.overlap, "min", until)
        self.rounding = max(self.rounding, found.rounding)
        if found.sets is not None:
            self.take(found.sets.astype(np.int64))
        lost = self.k * int(self.whole.units[-1])
        self.upper = min(self.upper, self.whole.units_at_most(found.bound, self.k) - lost)
        return found.complete


# Univariate sets at once, at least as good as those of a sequential search.
#
# The best set may leave little for the next, so that sequential sets are no proof; but they are a
# design, also where annealing finds none, or none as good. Annealing does not start from them: they
# share all they may, so that it would hardly leave them. Each search gets at most half of the
# remaining work and time; its best set by then is kept. If the last sets have too few features
# left, Greedy Depth Search is used.
#
# If two sets need only differ in one feature, any different sets will do: the m best, which are
# enumerated in the order of value. These are best by sum and by smallest.

_SHARE = 0.25  # of the time
_WORK, _WORK_BETWEEN_LOOKS = 1_000_000_000, 1_000_000  # where there is no limit to the time
_STEPS, _WORK_OF_STEPS = 150, 30_000_000  # that look at all features and rows before a search
_MOST_IN_DEPTH = 1_000_000  # sets that there are
_MOST_NUMBERS = 2_000_000  # in the sets that are enumerated


def best_by_values(
    values: Floats,
    k: int,
    n_sets: int,
    overlap: int,
    aggregate: Aggregate,
    deadline: float | None,
) -> Solved:
    """Return the sets that are best in all, worth no less than those found one after the other.

    `aggregate`: whether the sum of what they are worth counts, or the smallest.
    """
    if overlap == k - 1:
        solved = _best_different(values, k, n_sets, aggregate, deadline)
        if solved is not None:
            return solved
    in_turn = sets_in_turn(values, k, n_sets, overlap, deadline)
    if in_turn is None:
        in_turn = _sets_in_depth(values, k, n_sets, overlap, deadline)
    find = best_sum if aggregate == "sum" else best_min
    solved = find(values, k, n_sets, overlap, deadline=deadline)
    if in_turn is None or solved.complete:
        return solved
    worths = [math.fsum(values[one]) for one in in_turn]
    value = math.fsum(values[in_turn].ravel()) if aggregate == "sum" else min(worths)
    if value <= solved.value:
        return solved
    return replace(solved, sets=in_turn, value=value, bound=max(value, solved.bound))


def sets_in_turn(
    values: Floats, k: int, n_sets: int, overlap: int, deadline: float | None
) -> Sets | None:
    """Return m sets, shape (m, k), each the best given those before it, as far as searched.

    None if no further set is left, or it takes too long. `one_after_another` does the same for any
    form and constraints. Each of its searches has work of its own, which is fine for a few sets;
    hundreds, with as many rows, would take it thirty times as long as here, where all share one
    amount of work.
    """
    kept = np.sort(best_first(values)[: n_sets * k])
    form, n = Form(np.asarray(values, dtype=np.float64)[kept]), len(kept)
    has = np.zeros((n_sets, n), dtype=bool)
    caps = np.full(n_sets, overlap)
    until = share_of_time(deadline, _SHARE)
    work_left = _WORK if until is None else math.inf
    for one in range(n_sets):
        work_left -= min(_STEPS * n * one, _WORK_OF_STEPS)
        if work_left < 0 or (one and is_far_too_late(until)):
            return None
        limits = Limits(has[:one], caps[:one])
        found = prepared(form, k, limits, Constraints(), -math.inf, only_best=True)
        if found is None:
            return None
        none, work, ended = np.empty((0, k), dtype=np.int64), 0, PAUSED
        latest, most = share_of_time(until, 0.5), 0.0 if found.is_rough else work_left / 2
        while ended == PAUSED and work < most and not (work and is_late(latest)):
            ended = search_one_set(found.problem, found.state, _WORK_BETWEEN_LOOKS, none)
            work += _WORK_BETWEEN_LOOKS
        if ended == PAUSED:
            improve_by_swaps(found)
        if found.state.best[0] < 0:
            return None
        has[one, list(found.best())] = True
        work_left -= max(0, work - _WORK_BETWEEN_LOOKS)
    return kept[np.nonzero(has)[1]].reshape(n_sets, k).astype(np.int32)


def _sets_in_depth(
    values: Floats, k: int, n_sets: int, overlap: int, deadline: float | None
) -> Sets | None:
    """Return the first m sets as words, best features first, that differ enough from those before.

    There are often more of these than of the best ones, as those of a code of constant weight. None
    where there are too few, or too many sets to go through.
    """
    kept = np.sort(best_first(values)[: n_sets * k])
    if math.comb(len(kept), k) > _MOST_IN_DEPTH:
        return None
    until = share_of_time(deadline, _SHARE)
    found = greedy_depth_search(values[kept], k, n_sets, overlap, deadline=until)
    return kept[found].astype(np.int32) if len(found) == n_sets else None


def _best_different(
    values: Floats, k: int, n_sets: int, aggregate: Aggregate, deadline: float | None
) -> Solved | None:
    """Return the best sets of which no two are equal; None if they are too many, or it is late.

    By places in the order of value, each set but the best comes of one that is worth no less and
    has, in place of one of its features, the one before it.
    """
    if n_sets * k > _MOST_NUMBERS:
        return None
    n, order = len(values), best_first(values)

    def entry(places: tuple[int, ...]) -> tuple[float, list[int], tuple[int, ...]]:
        features = sorted(order[list(places)].tolist())
        return -math.fsum(values[features]), features, places

    first = tuple(range(k))
    queue, seen = [entry(first)], {first}
    found: list[tuple[float, list[int]]] = []
    while queue and len(found) < n_sets:
        if is_late(deadline):
            return None
        negative, features, places = heappop(queue)
        found.append((-negative, features))
        for i, place in enumerate(places):
            if place + 1 < (places[i + 1] if i + 1 < k else n):
                further = (*places[:i], place + 1, *places[i + 1 :])
                if further not in seen:
                    seen.add(further)
                    heappush(queue, entry(further))
    if len(found) < n_sets:
        return NO_SETS
    worths = [worth for worth, _ in found]
    sets = np.array([features for _, features in found], dtype=np.int32)
    value = math.fsum(values[sets].ravel()) if aggregate == "sum" else min(worths)
    return Solved(sets, value, value, complete=True)
