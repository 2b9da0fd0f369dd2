"""Several sets of univariate worth at once, the worst as good as can be: min aggregation.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3,
definition 5 with equations 11 (a set is worth the sum of its features' values) and 18 (the least
of the sets counts). The way here is our own.

Only the best m k features are looked at (appendix A.4): in place of one beyond them, the sets that
have it can all take one of those that no set has, since m sets have m k features at most. As every
set has k features, the least of these values can be taken off all of them, so that none is below 0;
nothing else is asked of their signs, and equal values change nothing.

Two ways lead to the best design (`targets.py`), down from a bound and up from the best design that
annealing has found; they are tried in turn, for longer and longer.

Sets of many places are annealed for longer; prices of subsets (`by_prices.py`) lower the bound.
"""

from __future__ import annotations

import math
import time
from itertools import count

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.annealing_kernels import balanced_by_annealing
from chaffinch.tasks.selection.alternatives.by_prices import by_prices, is_priced
from chaffinch.tasks.selection.alternatives.deadlines import is_late, share_of_time
from chaffinch.tasks.selection.alternatives.feature_prices import best_uses_for
from chaffinch.tasks.selection.alternatives.greedy import check, greedy_balancing
from chaffinch.tasks.selection.alternatives.multiplicities import (
    NO_SETS,
    any_sets,
    in_order,
)
from chaffinch.tasks.selection.alternatives.sets import Solved
from chaffinch.tasks.selection.alternatives.targets import Targets
from chaffinch.tasks.selection.vocabulary import Floats

_WORK_AT_FIRST, _MORE_WORK = 1_000_000, 30  # times that in each round
_STEPS_AT_FIRST, _MORE_STEPS = 1_000_000, 10
_ROUNDS, _ENDLESS, _IN_VAIN = 2, 60, 3  # without a table, with one, and in vain
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


class _Search(Targets):
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
            self._anneal(_SWAPS * (rounds + 1), rounds + 1)
            is_proven = table is not None and self.raise_target(
                table, _STEPS_AT_FIRST * _MORE_STEPS**rounds
            )
            is_proven = is_proven or self.lower_target(_WORK_AT_FIRST * _MORE_WORK ** (rounds + 1))
        return is_proven

    def _anneal(self, n_swaps: int, seed: int) -> None:
        """Look for a better design, hoping for much at a low price, or less, as the seed says."""
        left = self.upper - self.worth
        if self.best is None or left <= 0 or is_late(self.deadline):
            return
        n_swaps = min(n_swaps, _OF_ALL_SETS // self.n_sets + 1)
        share, times = _HOPES[seed % len(_HOPES)], _DEARER[seed % len(_DEARER)]
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
            self.take(found.sets.astype(np.int64))
        lost = self.k * int(self.whole.units[-1])
        self.upper = min(self.upper, self.whole.units_at_most(found.bound, self.k) - lost)
        return found.complete
