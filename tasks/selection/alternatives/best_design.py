"""The best design that a search knows, and what it takes to beat it."""

from __future__ import annotations

import math

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.prices import Bound


class BestDesign:
    """What a search has so far.

    Parameters
    ----------
    designs : Designs
    is_smallest_counted : bool
        Whether a design is worth what its worst set is; else what its sets are in all.

    Attributes
    ----------
    best : ndarray of int32, shape (m, k), or None
    value : float
        What it is worth; -inf without one.
    """

    def __init__(self, designs: Designs, is_smallest_counted: bool) -> None:
        self.designs, self.is_smallest_counted = designs, is_smallest_counted
        self.best: Sets | None = None
        self.value = -math.inf

    def take(self, sets: Sets) -> bool:
        """Take sets if they are a better design; return whether they are."""
        if not self.designs.contain(sets):
            return False
        of_sets = [self.designs.form.value(features) for features in sets.tolist()]
        value = min(of_sets) if self.is_smallest_counted else math.fsum(of_sets)
        if value > self.value:
            self.best, self.value = sets, value
            return True
        return False

    def needed(self, bound: Bound) -> float:
        """Return what a design loses less than if it is better by more than rounding."""
        worst = -(self.designs.n_sets + 1) * self.designs.magnitude  # any design is better
        if self.best is not None:
            worst = self.value * (self.designs.n_sets if self.is_smallest_counted else 1)
            worst += bound.slack
        return bound.value - worst
