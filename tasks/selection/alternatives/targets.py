"""Two ways to the design whose worst set is worth most, where sets are worth what features are.

- *Down from the bound on the sum* (`uses.py`): for a target Z, prices tell which sets can be in a
  design that is worth Z (`feature_prices.py`); these are listed (`affordable_kernels.py`), and the
  best design of them is put together (`assembly_kernels.py`). If there is none, Z is lowered. This
  is fast where a design comes so near to the bound that there are few such sets.
- *Up from the best design known*: one that is better is searched for, feature by feature
  (`balance_kernels.py`). This is fast where a few features are worth so much that the bound is out
  of reach.

Both go on where some features do not go together: bounds by uses hold all the more.
"""

from __future__ import annotations

import math

import numpy as np

from chaffinch.tasks.selection.alternatives.assembly_kernels import (
    assemble,
    fresh_assembly,
    parts_of,
)
from chaffinch.tasks.selection.alternatives.balance_kernels import balance, fresh_balance
from chaffinch.tasks.selection.alternatives.bar_kernels import Bars
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.feature_prices import (
    Prices,
    Question,
    best_uses_for,
    prices_of_uses,
    sets_in_budget,
)
from chaffinch.tasks.selection.alternatives.greedy import Sets
from chaffinch.tasks.selection.alternatives.multiplicity_state import Problem
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.use_table import table_of_uses
from chaffinch.tasks.selection.alternatives.whole_numbers import (
    Integers,
    sums_of_sets,
    whole_values,
)
from chaffinch.tasks.selection.vocabulary import Floats

_WORK_BETWEEN_LOOKS = 500_000  # at the clock: some milliseconds
_PAIRS_BETWEEN_LOOKS = 4_000_000  # of sets, all of which a step looks at
_MOST_SETS = 50_000
_MOST_SUMS = 3_000
_FIRST_STEP = 2.0**-16  # down from the bound, relative to it
_SHORTER = 64  # where there are too many sets


class Targets:
    """The best design so far, in whole units above the least value, and the bound on it.

    Parameters
    ----------
    values : ndarray, shape (n,)
        What each feature is worth.
    k, n_sets, overlap : int
        k, m, K.
    deadline : float or None
        On the clock of `time.monotonic`.
    bars : Bars, optional
        What sets may not take, over the features with the best first, all of which are looked at;
        else only the best m k.
    most_uses : int, optional
        In how many sets a feature may be, if not in all.
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
