"""What a simultaneous search is for: several sets at once, any two of which share little.

A *design* is m sets of k features, any two with at most K features in common (`overlap`). No
feature, no pair of features, and no larger subset can then be in many of its sets. With c_R sets
that have all of the features R, summed over all R of one size r,

    sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!),

because the left side counts the subsets that two sets share, over all pairs of sets. With r = K + 1
the right side is 0: no two sets share so many.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.branch_and_bound import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.worth_kernels import worths
from chaffinch.tasks.selection.vocabulary import Floats

Sets = NDArray[np.int32]

ROUNDING = 1e-13  # relative, of sums of up to a thousand terms


@dataclass(frozen=True)
class Designs:
    """All designs that may be found.

    Attributes
    ----------
    form : Form
        What a set is worth, over n features.
    k : int
        The size of the sets.
    n_sets : int
        m, how many sets a design has.
    overlap : int in 0..k - 1
        K, how many features two sets share at most.
    limits : Limits
        On what each set shares with given sets.
    constraints : Constraints
        Checked; what each set obeys, and in how many sets a feature may be.
    cap : float
        A set counts for what it is worth, and for this at most.
    """

    form: Form
    k: int
    n_sets: int
    overlap: int
    limits: Limits
    constraints: Constraints
    cap: float = math.inf

    @classmethod
    def checked(
        cls,
        form: Form,
        k: int,
        n_sets: int,
        overlap: int,
        limits: Limits | None,
        constraints: Constraints | None,
    ) -> Designs:
        """Refuse an overlap that is out of range with ValueError."""
        if not 0 <= overlap < k:
            raise ValueError(f"overlap must be in 0..{k - 1}, less than k, but is {overlap}")
        limits = limits or Limits.none(len(form.gains))
        return cls(form, k, n_sets, overlap, limits, constraints or Constraints())

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return len(self.form.gains)

    @property
    def n_pairs_of_sets(self) -> int:
        """How many pairs a design's sets make."""
        return math.comb(self.n_sets, 2)

    def shared(self, size: int) -> int:
        """Return how many subsets of so many features two sets share at most."""
        return math.comb(self.overlap, size)

    def most_uses(self, size: int) -> int:
        """Return how many sets can have all of so many features."""
        budget = self.n_pairs_of_sets * self.shared(size)
        most = (1 + math.isqrt(1 + 8 * budget)) // 2  # of which two and two are no more pairs
        return min(most, self.n_sets, self.constraints.max_sets_per_feature or self.n_sets)

    def counts(self, sets: Sets) -> Floats:
        """Return what each of many sets counts for, shape (N,)."""
        return np.minimum(worths(self.form, sets), self.cap)

    def contain(self, sets: Sets) -> bool:
        """Return whether m sets are one of the designs, groups and budget aside."""
        has = np.zeros((len(sets), self.n_features), dtype=np.int64)
        has[np.arange(len(sets))[:, None], sets] = 1
        shared = has @ has.T
        np.fill_diagonal(shared, 0)
        with_given = has @ self.limits.sets.T.astype(np.int64)
        return bool(
            len(sets) == self.n_sets
            and shared.max(initial=0) <= self.overlap
            and has.sum(axis=0).max() <= self.most_uses(1)
            and (with_given <= self.limits.at_most).all()
        )

    @cached_property
    def magnitude(self) -> float:
        """What the terms of a set's worth are in all, in absolute value; 1 if that is 0."""
        of_set = self.k * float(np.abs(self.form.gains).max(initial=0.0))
        pairs = self.form.pairs()
        if pairs is not None:
            of_set += math.comb(self.k, 2) * pairs.largest
        return of_set or 1.0

    @property
    def penalty(self) -> float:
        """More than a use beyond what designs may have is worth, as a rule."""
        return 4 * self.n_sets * self.magnitude

    @property
    def rounding(self) -> float:
        """More than rounding can add up to in what a design is worth."""
        return ROUNDING * self.n_sets * self.magnitude


def best_first(form: Form, sets: Sets) -> Sets:
    """Return sets, each sorted, with the best first; of equals the first as a word."""
    words = sorted(sets.tolist(), key=lambda features: (-form.value(features), features))
    return np.array(words, dtype=np.int32)
