"""The sets that a better design can have, by the prices of a bound: those that lose little.

A design that loses less than d, by those prices, is made of sets that each lose less than d. Where
the smallest worth counts, each of them is also worth more than (B - d) / m.
"""

from __future__ import annotations

import math

import numpy as np

from chaffinch.tasks.selection.alternatives.charged_sets import best_charged_sets, charged_within
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.prices import Bound
from chaffinch.tasks.selection.vocabulary import Mask

_MOST_SETS = 2_000_000


class NearSets:
    """Sets by what they lose.

    Parameters
    ----------
    designs : Designs
    bound : Bound
        On what they are worth.
    is_smallest_counted : bool
        Whether a design counts for its worst set, m times.
    deadline : float, optional
        On the clock of `time.monotonic`.
    """

    def __init__(
        self, designs: Designs, bound: Bound, is_smallest_counted: bool, deadline: float | None
    ) -> None:
        self.designs, self.bound, self.deadline = designs, bound, deadline
        self.is_smallest_counted = is_smallest_counted
        self.rounding = bound.prices.rounding(designs)
        self._listed: Sets | None = None
        self._may_lose = 0.0  # by those that are listed

    @property
    def is_ordered(self) -> bool:
        """Whether those that lose least can be asked for: a cap, or larger subsets, hide them."""
        return self.designs.cap == math.inf and len(self.bound.prices.layers) <= 2

    def nearest(self, may_lose: float, most: int) -> tuple[Sets, float]:
        """Return sets that lose least, the first first, and what the last of so many loses.

        Where there are fewer than `most`, that is what they may lose.
        """
        bound = self.bound
        sets = best_charged_sets(
            self.designs, bound.prices, bound.highest - may_lose, most, self.deadline
        ).sets
        if len(sets) < most:
            return sets, may_lose
        return sets, bound.highest - float(Known(self.designs, sets[-1:]).charged(bound.prices)[0])

    def within(self, may_lose: float, most: int = _MOST_SETS) -> tuple[Sets, bool]:
        """Return the sets that a design can have that loses less, and whether these are all."""
        if self._listed is not None and may_lose <= self._may_lose:
            sets = self._listed[self._are_near(self._listed, may_lose)]
            return sets[:most], len(sets) <= most
        bound = self.bound
        sets, is_all = charged_within(
            self.designs,
            bound.prices,
            bound.highest - may_lose,
            most,
            self.deadline,
            least_worth=self._least_worth(may_lose),
        )
        if is_all:
            self._listed, self._may_lose = sets, may_lose
        return sets, is_all

    def _least_worth(self, may_lose: float) -> float:
        """Return what each set of a design that loses less is worth."""
        if not self.is_smallest_counted:
            return -math.inf
        return (self.bound.value - may_lose) / self.designs.n_sets

    def _are_near(self, sets: Sets, may_lose: float) -> Mask:
        known, bound = Known(self.designs, sets), self.bound
        is_worth = known.worths >= self._least_worth(may_lose) - self.rounding
        least = bound.highest - may_lose - self.rounding
        return np.asarray(is_worth & (known.charged(bound.prices) >= least))
