"""The best design that a search knows: what it takes to beat it, and how to make it better."""

from __future__ import annotations

import math

import numpy as np

from chaffinch.tasks.selection.alternatives.bounding import best_beside
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.feature_by_feature import (
    FeatureByFeature,
    feature_by_feature,
)
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.prices import Bound
from chaffinch.tasks.selection.alternatives.swaps import improved
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

MOST_TO_SWAP = 30_000
_MANY_PLACES = 100  # so that no proof is near
_POWER = 4  # of what a set is short of the best there can be


class BestDesign:
    """What a search has so far.

    Parameters
    ----------
    designs : Designs
    deadline : float or None
        On the clock of `time.monotonic`.
    is_smallest_counted : bool
        Whether a design is worth what its worst set is; else what its sets are in all.
    is_any_enough : bool
        Whether the search is over with any design.

    Attributes
    ----------
    best : ndarray of int32, shape (m, k), or None
    first : ndarray of int32, shape (m, k), or None
        Another to start from.
    value : float
        What the best is worth; -inf without one.
    ceiling : float
        No design counts for more in all.
    by_features : FeatureByFeature or None
        A search feature by feature, where there can be one.
    is_settled : bool
        Whether that has proven the best.
    """

    def __init__(
        self,
        designs: Designs,
        deadline: float | None,
        *,
        is_smallest_counted: bool,
        is_any_enough: bool = False,
    ) -> None:
        self.designs, self.deadline = designs, deadline
        self.is_smallest_counted, self.is_any_enough = is_smallest_counted, is_any_enough
        self.best: Sets | None = None
        self.first: Sets | None = None
        self.value, self.ceiling = -math.inf, math.inf
        self.by_features: FeatureByFeature | None = None
        self.is_settled = False

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

    def begin_by_features(self) -> bool:
        """Search feature by feature, if that can be; see `is_settled_by_features`."""
        if not self.is_over():
            self.by_features = feature_by_feature(
                self.designs,
                self.best,
                is_smallest_counted=self.is_smallest_counted,
                deadline=self.deadline,
            )
        return self.is_settled_by_features()

    def is_settled_by_features(self) -> bool:
        """Search on feature by feature for a while; return whether the best is proven so."""
        if self.by_features is None or self.is_over():
            return False
        found = self.by_features.go_on(self.best, self.deadline)
        if found is not None:
            self.take(found)
        self.is_settled = self.by_features.is_done
        return self.is_settled

    def needed(self, bound: Bound) -> float:
        """Return what a design loses less than if it is better by more than rounding."""
        if self.is_settled:
            return -math.inf
        worst = -(self.designs.n_sets + 1) * self.designs.magnitude  # any design is better
        if self.best is not None:
            worst = self.value * (self.designs.n_sets if self.is_smallest_counted else 1)
            worst += bound.slack
        return bound.value - worst

    def is_over(self) -> bool:
        """Return whether it is late, or any design is enough and there is one."""
        return (self.is_any_enough and self.best is not None) or is_late(self.deadline)

    def improve(self, bound: Bound, sets: Sets) -> None:
        """Look for a better design by swaps, among the sets that lose least."""
        if len(sets) > MOST_TO_SWAP:
            charged = Known(self.designs, sets).charged(bound.prices)
            sets = sets[np.argsort(-charged, kind="stable")[:MOST_TO_SWAP]]
        if self.best is not None:
            sets = np.unique(np.concatenate((self.best, sets)), axis=0)
        merits = worths(self.designs.form, sets)
        if self.is_smallest_counted and len(sets):  # all are to come near to the best there can be
            short = np.maximum(bound.value / self.designs.n_sets - merits, 0.0)
            merits = -((short / (short.max() or 1.0)) ** _POWER)
        is_large = self.designs.n_sets * self.designs.k >= _MANY_PLACES
        starts = [self.best]
        if is_large and self.first is not self.best:  # what is best may lead nowhere
            starts.append(self.first)
        for start in starts:
            found = improved(self.designs, sets, merits, start, self.deadline)
            if found is not None and self.take(found):
                self._exchange(found)

    def _exchange(self, sets: Sets) -> None:
        """Exchange one set at a time for the best that goes with the others."""
        is_better, form = True, self.designs.form
        while is_better and not self.is_over():
            is_better = False
            for place in range(self.designs.n_sets):
                others = np.delete(sets, place, axis=0)
                least = form.value(sets[place].tolist()) + self.designs.rounding
                found = best_beside(self.designs, others, self.deadline, least)
                if found.indices is not None:
                    sets = np.insert(others, place, found.indices, axis=0)
                    is_better = self.take(sets) or is_better
