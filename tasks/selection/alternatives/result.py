"""What a search for alternatives gives back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Literal, overload

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.constraints import (
    Constraints,
    Dissimilarity,
    dissimilarity,
)
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.core import Floats

if TYPE_CHECKING:
    import pandas as pd


Status = Literal["optimal", "feasible", "infeasible", "not_solved"]
Aggregate = Literal["sum", "min"]


@dataclass(frozen=True)
class Solved:
    """What a simultaneous search has found.

    Attributes
    ----------
    sets : ndarray of int, shape (m, k), or None
        The sets, best first; None if there are none, or none were found in time.
    value : float
        Their sum, or the smallest; -inf without sets.
    bound : float
        No such sets are worth more; -inf if there are none.
    complete : bool
        Whether the search came to its end, so that these are best, or there are none.
    rounding : float
        By how much others may be better all the same.
    """

    sets: NDArray[np.integer] | None
    value: float
    bound: float
    complete: bool
    rounding: float = 0.0


@dataclass(frozen=True)
class FeatureSet:
    """One feature set.

    Attributes
    ----------
    features : tuple of str, or of int
        Names in the table's order; indices where the quality has no names. Empty for a set that
        is not there, infeasible or not solved.
    indices : tuple of int
        Sorted.
    quality : float
        What it is worth; -inf for a set that is not there.
    bound : float
        Nothing in its place is worth more: given the sets before it, where they are searched for
        one by one; given all others, where they are found at once, by whatever is less: what no
        set can be worth, or what the bound of all leaves. inf where nothing is known.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        The best there is in its place, but for a billionth at most that rounding may hide; a set,
        with a bound; proven that there is none; none found, and not proven that there is none:
        time was over, or a search without proofs got stuck.
    seconds : float
        How long it was searched for; for sets found at once, all of them.
    """

    features: tuple[str, ...] | tuple[int, ...]
    indices: tuple[int, ...]
    quality: float
    bound: float
    status: Status
    seconds: float

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def gap(self) -> float:
        """How much better it might be, as a share of its quality; 0 if it is optimal."""
        return relative_gap(self.quality, self.bound)


@dataclass(frozen=True)
class Alternatives(Sequence[FeatureSet]):
    """Feature sets, each different enough from all others: a sequence of `FeatureSet`.

    Attributes
    ----------
    sets : tuple of FeatureSet
        In the order in which they were found, or from the best to the worst if all at once.
    total : float
        The sum of their qualities, or the smallest; -inf without sets.
    bound : float
        No sets of this search are worth more; sets that were searched for one by one, each given
        those before it. inf where nothing is known.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        All are the best there are, by `total`: where that is the smallest, a set that is worth
        more may be bettered in its place, and is feasible; all are there, with a bound; proven
        that there are not as many as asked for, after those that are here; not all were found,
        which proves nothing: time was over, or a search without proofs got stuck. So do the greedy
        ones where they have used up the features that they would add, a climb where every set on
        its way is worth -inf, and a simultaneous search of sets so many that it cannot go through
        all of them, where it happened on none that differ as much.
    seconds : float
        How long it all took.
    aggregate : "sum" or "min"
        What `total` is.
    dissimilarity : "dice" or "jaccard"
        What is to differ.
    """

    sets: tuple[FeatureSet, ...] = field(repr=False)
    total: float
    bound: float
    status: Status
    seconds: float
    aggregate: Aggregate = "sum"
    dissimilarity: Dissimilarity = "dice"

    @overload
    def __getitem__(self, place: int) -> FeatureSet: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[FeatureSet, ...]: ...

    def __getitem__(self, place: int | slice) -> FeatureSet | tuple[FeatureSet, ...]:
        return self.sets[place]

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[FeatureSet]:
        return iter(self.sets)

    @property
    def gap(self) -> float:
        """How much better they might be in all, as a share of `total`; 0 if they are optimal."""
        return relative_gap(self.total, self.bound)

    def overlap(self) -> NDArray[np.int64]:
        """Return how many features each two sets share, shape (m, m), sizes on the diagonal."""
        of_sets = [set(one.indices) for one in self.sets]
        shared = [[len(one & other) for other in of_sets] for one in of_sets]
        return np.array(shared, dtype=np.int64).reshape(len(of_sets), len(of_sets))

    def dissimilarities(self) -> Floats:
        """Return how far apart each two sets are, shape (m, m), in 0..1."""
        sets = [one.indices for one in self.sets]
        apart = [[dissimilarity(one, other, self.dissimilarity) for other in sets] for one in sets]
        return np.array(apart, dtype=np.float64).reshape(len(sets), len(sets))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row for each set."""
        import pandas as pd

        columns = ["features", "quality", "bound", "gap", "status", "seconds"]
        return pd.DataFrame(
            [[getattr(one, column) for column in columns] for one in self.sets], columns=columns
        )


def relative_gap(value: float, bound: float) -> float:
    """Return how far a bound is above a value, as a share of the value."""
    if bound <= value:
        return 0.0
    if not value or not math.isfinite(value):
        return math.inf
    return (bound - value) / abs(value)


def overall_status(sets: Sequence[FeatureSet]) -> Status:
    """Return the status of sets found one by one, the last of which may not be there."""
    if sets and not len(sets[-1]):
        return sets[-1].status
    return "optimal" if all(one.status == "optimal" for one in sets) else "feasible"


# What a simultaneous search is for: several sets at once, any two of which share little.
#
# A *design* is m sets of k features, any two with at most K features in common (`overlap`). No
# feature, no pair of features, and no larger subset can then be in many of its sets. With c_R sets
# that have all of the features R, summed over all R of one size r,
#
#     sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!),
#
# because the left side counts the subsets that two sets share, over all pairs of sets. With r = K +
# 1 the right side is 0: no two sets share so many.

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
