"""Several sets of univariate worth at once, the worst as good as can be: min aggregation.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3,
definition 5 with equations 11 (a set is worth the sum of its features' values) and 18 (the least
of the sets counts). The way here is our own.

Only the best m k features are looked at (appendix A.4): in place of one beyond them, the sets that
have it can all take one of those that no set has, since m sets have m k features at most. As every
set has k features, the least of these values can be taken off all of them, so that none is below 0;
nothing else is asked of their signs, and equal values change nothing.

Two ways lead to the best design, and they are tried in turn, for longer and longer.

- *Down from the bound on the sum* (`uses.py`): for a target Z, prices tell which sets can be in a
  design that is worth Z (`feature_prices.py`); these are listed (`affordable_kernels.py`), and the
  best design of them is put together (`assembly_kernels.py`). If there is none, Z is lowered. This
  is fast where a design comes so near to the bound that there are few such sets.
- *Up from the best design known*, found by annealing: one that is better is searched for, feature
  by feature (`balance_kernels.py`). This is fast where a few features are worth so much that the
  bound is out of reach.

Sets of many places are annealed for longer; prices of subsets (`by_prices.py`) lower the bound.
"""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.annealing_kernels import balanced_by_annealing
from chaffinch.tasks.selection.alternatives.assembly_kernels import (
    assemble,
    fresh_assembly,
    parts_of,
)
from chaffinch.tasks.selection.alternatives.balance_kernels import balance, fresh_balance
from chaffinch.tasks.selection.alternatives.by_prices import by_prices, is_priced
from chaffinch.tasks.selection.alternatives.deadlines import is_late, share_of_time
from chaffinch.tasks.selection.alternatives.feature_prices import (
    Prices,
    Question,
    best_uses_for,
    prices_of_uses,
    sets_in_budget,
)
from chaffinch.tasks.selection.alternatives.greedy import Sets, check, greedy_balancing
from chaffinch.tasks.selection.alternatives.multiplicities import (
    NO_SETS,
    any_sets,
    in_order,
)
from chaffinch.tasks.selection.alternatives.multiplicity_state import Problem
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.sets import Solved
from chaffinch.tasks.selection.alternatives.use_table import table_of_uses
from chaffinch.tasks.selection.alternatives.whole_numbers import (
    Integers,
    sums_of_sets,
    whole_values,
)
from chaffinch.tasks.selection.vocabulary import Floats

_WORK_BETWEEN_LOOKS = 500_000  # at the clock: some milliseconds
_PAIRS_BETWEEN_LOOKS = 4_000_000  # of sets, all of which a step looks at
_WORK_AT_FIRST, _MORE_WORK = 1_000_000, 30  # times that in each round
_STEPS_AT_FIRST, _MORE_STEPS = 1_000_000, 10
_ROUNDS, _ENDLESS, _IN_VAIN = 2, 60, 3  # without a table, with one, and in vain
_MOST_SETS = 50_000
_MOST_SUMS = 3_000
_FIRST_STEP = 2.0**-16  # down from the bound, relative to it
_SHORTER = 64  # where there are too many sets
_SWAPS = 1_000_000
_MANY_PLACES = 42  # of as many a proof is not to be hoped for in moments
_HOPES = (1.0, 1.0, 0.5, 0.25, 0.1)  # shares of what the bound leaves
_DEARER = (4, 2, 8)  # times the price at which the best uses share what they may
_LONGER, _OF_ALL_SETS = 5_000_000, 100_000_000  # swaps; of these each looks at all sets
_OF_ANNEALING, _BEFORE_PRICES, _OF_PRICES = 0.6, 0.2, 0.75  # of the time that is left then


def best_min(
    values: Floats, k: int, n_sets: int, largest_overlap: int, *, deadline: float | None = None
) -> Solved:
    """Return the sets of which the worst is worth most.

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
        ends when it is proven, or when more than 200,000 sets would have to be looked at together.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """
    check(values, k, n_sets, largest_overlap)
    values = np.asarray(values, dtype=np.float64)
    return _Search(values, k, n_sets, largest_overlap, deadline).run()


class _Search:
    """The best design so far, in whole units above the least value, and the bound on it."""

    def __init__(
        self, values: Floats, k: int, n_sets: int, overlap: int, deadline: float | None
    ) -> None:
        self.values, self.k, self.n_sets, self.overlap = values, k, n_sets, overlap
        self.deadline = deadline
        self.n_pairs = math.comb(n_sets, 2) * overlap
        n_best = min(len(values), n_sets * k)
        self.whole = whole_values(values, n_best, 4 * n_sets * k * (n_sets + self.n_pairs + 1))
        self.units = self.whole.units - self.whole.units[-1]
        self.blur, self.rounding = self.whole.blur(k), self.whole.rounding(k)
        self.sums = sums_of_sets(self.units, k, _MOST_SUMS)
        self.best: Integers | None = None  # places in the order of value, shape (m, k)
        self.worth = -1
        self.upper = int(self.units[:k].sum())

    def run(self) -> Solved:
        if self.overlap == self.k:
            self._take(np.tile(np.arange(self.k), (self.n_sets, 1)))
        elif not self._start():
            return NO_SETS
        self._lower_bound_by_uses()
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
        self._take(places.astype(np.int64))
        return True

    def _lower_bound_by_uses(self) -> None:
        """Lower the bound to the highest target for which the bound on the sum allows m sets."""
        low, high = max(self.worth, 0), self.upper + 1
        closest = max(1, int(high * _FIRST_STEP))
        while high - low > closest and not is_late(self.deadline):
            middle = (low + high) // 2
            uses = best_uses_for(self._question(middle))
            if uses.bound >= self.n_sets * middle:
                low = middle
            else:
                high = middle
        self.upper = high - 1

    def _search(self) -> bool:
        """Try one way after the other, for longer and longer; return whether it is proven."""
        is_proven, table = self._lower_target(_WORK_AT_FIRST), None
        if not is_proven and self.best is not None:
            n_places = self.n_sets * self.k
            table = table_of_uses(self.units, self.n_sets, n_places, self.n_pairs, self.deadline)
        for rounds in range(_ROUNDS if table is None else _ENDLESS):
            if is_proven or self.best is None or is_late(self.deadline):
                break
            if rounds == 1 and self.n_sets * self.k >= _MANY_PLACES:
                self._anneal_longer()
                if self._search_by_prices():
                    return True
            self._anneal(_SWAPS * (rounds + 1), rounds + 1)
            is_proven = table is not None and self._raise_target(
                table, _STEPS_AT_FIRST * _MORE_STEPS**rounds
            )
            is_proven = is_proven or self._lower_target(_WORK_AT_FIRST * _MORE_WORK ** (rounds + 1))
        return is_proven

    def _anneal(self, n_swaps: int, seed: int) -> None:
        """Look for a better design, hoping for much at a low price, or less, as the seed says."""
        left = self.upper - self.worth
        if self.best is None or left <= 0 or is_late(self.deadline):
            return
        n_swaps = min(n_swaps, _OF_ALL_SETS // self.n_sets + 1)
        share, times = _HOPES[seed % len(_HOPES)], _DEARER[seed % len(_DEARER)]
        hoped = max(1, int(left * share))
        price = float(max(1, times * best_uses_for(self._question(self.upper)).price))
        self._take(
            balanced_by_annealing(self.units, self.best, self.overlap, hoped, price, n_swaps, seed)
        )

    def _anneal_longer(self) -> None:
        """Look for better designs for some time; without a limit, while there are some."""
        in_vain, seconds = 0, 0.0
        has_prices = is_priced(len(self.units), self.k, self.overlap)
        until = share_of_time(self.deadline, _BEFORE_PRICES if has_prices else _OF_ANNEALING)
        for seed in count():
            is_over = in_vain >= _IN_VAIN if until is None else is_late(until, seconds)
            if is_over or self.upper <= self.worth + self.blur:
                return
            before, start = self.worth, time.monotonic()
            self._anneal(_LONGER, seed)
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
            self._take(found.sets.astype(np.int64))
        lost = self.k * int(self.whole.units[-1])
        self.upper = min(self.upper, self.whole.units_at_most(found.bound, self.k) - lost)
        return found.complete

    def _raise_target(self, table: Integers, most_steps: int) -> bool:
        """Search for better designs than the best; return whether there are no more."""
        sums = np.concatenate([[0], np.cumsum(self.units)])
        problem = Problem(
            self.units, sums, table, self.n_pairs + 1, self.blur, self.k, self.overlap
        )
        state = fresh_balance(len(self.units), self.n_sets, self.worth + self.blur + 1)
        at_once = _PAIRS_BETWEEN_LOOKS // self.n_sets**2 + 1
        ended, steps = PAUSED, 0
        while ended == PAUSED and steps < most_steps and not is_late(self.deadline):
            state.target[0] = self._reachable(int(state.target[0]))
            ended = balance(problem, state, at_once)
            steps += at_once
        if state.best.any():
            self._take(np.nonzero(state.best.T)[1].reshape(self.n_sets, self.k))
        if ended == DONE:
            self.upper = self.worth + self.blur
        return ended == DONE

    def _lower_target(self, most_work: int) -> bool:
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
                question = self._question(target)
                prices = prices_of_uses(question, best_uses_for(question))
                found = sets_in_budget(question, prices, _MOST_SETS, most_work, self.deadline)
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
            self._take(parts.sets[state.best])
        return ended == DONE

    def _reachable(self, target: int) -> int:
        """Return the least that a set can be worth, from the target up, as far as it is known."""
        if self.sums is None:
            return target
        place = int(np.searchsorted(self.sums, target))
        return int(self.sums[place]) if place < len(self.sums) else int(self.sums[-1]) + 1

    def _question(self, target: int) -> Question:
        worth = np.minimum(self.units, target)
        return Question(worth, self.k, self.n_sets, self.n_pairs, target)

    def _take(self, places: Integers | Sets) -> None:
        worth = int(self.units[places].sum(axis=1).min())
        if worth > self.worth:
            self.best, self.worth = np.asarray(places, dtype=np.int64), worth
