"""Problem of a simultaneous search: several sets with small pairwise overlap.

A *design* is m sets of k features, any two with at most K features in common (`overlap`). No
feature, and no pair of features, can then be in many of its sets. With c_R sets that have all of
the features R, summed over all R of size r,

    sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!),

because the left side counts the subsets that two sets share, over all pairs of sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.exact.best_sets import Limits
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Aggregate
from chaffinch.tasks.selection.constraints import Constraints

Sets = NDArray[np.int32]

ROUNDING = 1e-13  # relative, of sums of up to a thousand terms


@dataclass(frozen=True)
class Solved:
    """Result of a simultaneous search."""

    # (m, k), best first; None if there are none, or time was over
    sets: Sets | None
    value: float  # their sum, or the smallest; -inf without sets
    bound: float  # on `value` of any sets; -inf if there are none
    complete: bool  # whether these are proven best, or that there are none
    rounding: float = 0.0  # possible error of `value` and `bound`


INFEASIBLE = Solved(None, -math.inf, -math.inf, complete=True)


@dataclass(frozen=True)
class Designs:
    """All feasible designs, and what they are worth."""

    form: Form
    k: int
    n_sets: int  # m
    overlap: int  # K, largest number of features that two sets share, below k
    limits: Limits  # on features shared with previous sets
    constraints: Constraints  # checked
    aggregate: Aggregate = "sum"

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.form.gains)

    @property
    def n_pairs_of_sets(self) -> int:
        """Number of pairs of sets of a design."""
        return math.comb(self.n_sets, 2)

    def most_uses(self, size: int) -> int:
        """Return the largest number of sets that have all of `size` features."""
        budget = self.n_pairs_of_sets * math.comb(self.overlap, size)
        most = (1 + math.isqrt(1 + 8 * budget)) // 2  # largest number with at most `budget` pairs
        return min(most, self.n_sets, self.constraints.max_sets_per_feature or self.n_sets)

    def worth(self, sets: Sequence[Sequence[int]]) -> float:
        """Return the sum of the values of sets, or the smallest."""
        values = [self.form.value(indices) for indices in sets]
        return min(values) if self.aggregate == "min" else math.fsum(values)

    def best_first(self, sets: Sets) -> Sets:
        """Return sets, each sorted, best first; ties in lexicographic order."""
        words = sorted(np.sort(sets, axis=1).tolist())
        words.sort(key=lambda indices: -self.form.value(indices))
        return np.array(words, dtype=np.int32)

    @cached_property
    def magnitude(self) -> float:
        """Sum of the absolute terms of a set's value, at most; 1 if that is 0."""
        of_set = self.k * float(np.abs(self.form.gains).max(initial=0.0))
        if self.form.pair_costs is not None:
            costs = self.form.pair_costs[np.isfinite(self.form.pair_costs)]
            of_set += math.comb(self.k, 2) * float(np.abs(costs).max(initial=0.0))
        return of_set or 1.0

    @property
    def rounding(self) -> float:
        """Upper bound on rounding errors in the value of a design."""
        return ROUNDING * self.n_sets * self.magnitude
