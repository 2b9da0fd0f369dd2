"""Several sets of univariate worth at once, best in all: simultaneous search, sum aggregation.

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
3. *How much is shared bounds c*: see `uses.py`. No sets are worth more than the best c that obeys
   it, if there are sets for that c at all.

Given sets, or a limit to some features, would tell features apart, and the first step fails.

`multiplicity_kernels.py` searches c and the sets together, feature by feature. What it cannot end
in time is compared with designs by annealing: for c that make fewer and fewer pairs, and with c
left open (`exchange_kernels.py`). `prefixes.py` then lowers the bound. Sets of many places are
annealed first, for longer if that helps, and prices of subsets (`by_prices.py`) lower their bound.
"""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np

from chaffinch.tasks.selection.alternatives.annealing_kernels import realised
from chaffinch.tasks.selection.alternatives.by_prices import by_prices, is_priced
from chaffinch.tasks.selection.alternatives.deadlines import is_late, share_of_time
from chaffinch.tasks.selection.alternatives.dealing import best_dealt_out
from chaffinch.tasks.selection.alternatives.exchange_kernels import annealed
from chaffinch.tasks.selection.alternatives.greedy import Sets, check, greedy_balancing
from chaffinch.tasks.selection.alternatives.multiplicity_kernels import search
from chaffinch.tasks.selection.alternatives.multiplicity_state import FREE, Problem, fresh_state
from chaffinch.tasks.selection.alternatives.prefixes import bound_of_prefixes
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.sets import Solved
from chaffinch.tasks.selection.alternatives.use_table import NONE, table_of_uses
from chaffinch.tasks.selection.alternatives.uses import Uses, best_uses
from chaffinch.tasks.selection.alternatives.whole_numbers import (
    Integers,
    WholeValues,
    whole_values,
)
from chaffinch.tasks.selection.vocabulary import Floats

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
    """Return the sets that are worth most in all.

    Parameters
    ----------
    values : ndarray, shape (n,)
        What each feature is worth; any sign.
    k : int in 1..n
        The size of the sets.
    n_sets : int, at least 1
        m, how many sets.
    largest_overlap : int in 0..k
        K, how many features two of them may share.
    deadline : float, optional
        On the clock of `time.monotonic`; looked at every few milliseconds. Without one the search
        ends when it is proven, but for sets so many and large that it is not begun.

    Raises
    ------
    ValueError
        If an argument is outside its range.
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
