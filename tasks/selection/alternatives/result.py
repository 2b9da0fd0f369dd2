"""Results of a search for alternatives, and the problem of a simultaneous one."""

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
    """Result of a simultaneous search."""

    # (m, k), best first; None if there are none, or none were found in time
    sets: NDArray[np.integer] | None
    value: float  # their sum, or the smallest; -inf without sets
    bound: float  # on `value` of any sets; -inf if there are none
    complete: bool  # whether these are proven best, or that there are none
    rounding: float = 0.0  # possible error of `value` and `bound`


@dataclass(frozen=True)
class FeatureSet:
    """One feature set.

    Attributes
    ----------
    features : tuple of str, or of int
        Names in the table's order; indices if the quality has no names. Empty for a missing set,
        infeasible or not solved.
    indices : tuple of int
        Sorted.
    quality : float
        -inf for a missing set.
    bound : float
        Upper bound on the quality of any set in its place: given the sets before it, for a
        sequential search; given all others, for a simultaneous one, the smaller of the bound on any
        set and what the overall bound leaves. inf if unknown.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        The best in its place, up to 1e-9 that rounding may hide; a set with a bound; proven that
        there is none; none found without a proof, because time was over or a heuristic got stuck.
    seconds : float
        Search time; for a simultaneous search, that of all sets.
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
        """Possible improvement as a share of the quality; 0 if it is optimal."""
        return relative_gap(self.quality, self.bound)


@dataclass(frozen=True)
class Alternatives(Sequence[FeatureSet]):
    """Diverse feature sets: a sequence of `FeatureSet`.

    Attributes
    ----------
    sets : tuple of FeatureSet
        In the order found; from best to worst for a simultaneous search.
    total : float
        The sum of their qualities, or the smallest; -inf without sets.
    bound : float
        Upper bound on `total`; for a sequential search, each set given those before it. inf if
        unknown.
    status : "optimal", "feasible", "infeasible" or "not_solved"
        All are best, by `total` (if that is the smallest, a better set may be improvable, and is
        then feasible); all were found, with a bound; proven that there are no more sets than these;
        not all were found, without a proof: time was over or a heuristic got stuck. Greedy searches
        get stuck when features run out, a climb when all sets visited have a quality of -inf, and a
        simultaneous search when there are too many sets to list and none found are diverse enough.
    seconds : float
        Total search time.
    aggregate : "sum" or "min"
        Meaning of `total`.
    dissimilarity : "dice" or "jaccard"
        Measure of diversity.
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
        """Possible improvement as a share of `total`; 0 if it is optimal."""
        return relative_gap(self.total, self.bound)

    def overlap(self) -> NDArray[np.int64]:
        """Return the number of shared features, shape (m, m), with sizes on the diagonal."""
        of_sets = [set(one.indices) for one in self.sets]
        shared = [[len(one & other) for other in of_sets] for one in of_sets]
        return np.array(shared, dtype=np.int64).reshape(len(of_sets), len(of_sets))

    def dissimilarities(self) -> Floats:
        """Return the pairwise dissimilarities, shape (m, m), in 0..1."""
        sets = [one.indices for one in self.sets]
        apart = [[dissimilarity(one, other, self.dissimilarity) for other in sets] for one in sets]
        return np.array(apart, dtype=np.float64).reshape(len(sets), len(sets))

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one row per set."""
        import pandas as pd

        columns = ["features", "quality", "bound", "gap", "status", "seconds"]
        return pd.DataFrame(
            [[getattr(one, column) for column in columns] for one in self.sets], columns=columns
        )


def relative_gap(value: float, bound: float) -> float:
    """Return the distance of a bound from a value, as a share of the value."""
    if bound <= value:
        return 0.0
    if not value or not math.isfinite(value):
        return math.inf
    return (bound - value) / abs(value)


def overall_status(sets: Sequence[FeatureSet]) -> Status:
    """Return the status of the sets of a sequential search, the last of which may be missing."""
    if sets and not len(sets[-1]):
        return sets[-1].status
    return "optimal" if all(one.status == "optimal" for one in sets) else "feasible"


# Problem of a simultaneous search: several sets with small pairwise overlap.
#
# A *design* is m sets of k features, any two with at most K features in common (`overlap`). No
# feature, no pair of features, and no larger subset can then be in many of its sets. With c_R sets
# that have all of the features R, summed over all R of one size r,
#
#     sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!),
#
# because the left side counts the subsets that two sets share, over all pairs of sets. With r =
# K + 1 the right side is 0: no two sets share so many.

Sets = NDArray[np.int32]

ROUNDING = 1e-13  # relative, of sums of up to a thousand terms


@dataclass(frozen=True)
class Designs:
    """Problem of a simultaneous search: all feasible designs."""

    form: Form
    k: int
    n_sets: int  # m
    overlap: int  # K, largest number of features that two sets share, below k
    limits: Limits  # on features shared with given sets
    constraints: Constraints  # checked
    cap: float = math.inf  # values of sets are capped at this

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
        """Check that an overlap is in range; ValueError if not."""
        if not 0 <= overlap < k:
            raise ValueError(f"overlap must be in 0..{k - 1}, less than k, but is {overlap}")
        limits = limits or Limits.none(len(form.gains))
        return cls(form, k, n_sets, overlap, limits, constraints or Constraints())

    @property
    def n_features(self) -> int:
        """Number of features."""
        return len(self.form.gains)

    @property
    def n_pairs_of_sets(self) -> int:
        """Number of pairs of sets of a design."""
        return math.comb(self.n_sets, 2)

    def shared(self, size: int) -> int:
        """Return the largest number of subsets of this size that two sets share."""
        return math.comb(self.overlap, size)

    def most_uses(self, size: int) -> int:
        """Return the largest number of sets that have all of `size` features."""
        budget = self.n_pairs_of_sets * self.shared(size)
        most = (1 + math.isqrt(1 + 8 * budget)) // 2  # largest number with at most `budget` pairs
        return min(most, self.n_sets, self.constraints.max_sets_per_feature or self.n_sets)

    def counts(self, sets: Sets) -> Floats:
        """Return the capped values of many sets, shape (N,)."""
        return np.minimum(worths(self.form, sets), self.cap)

    def contain(self, sets: Sets) -> bool:
        """Return whether m sets are a design, ignoring groups and budget."""
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
        """Sum of the absolute terms of a set's value; 1 if that is 0."""
        of_set = self.k * float(np.abs(self.form.gains).max(initial=0.0))
        pairs = self.form.pairs()
        if pairs is not None:
            of_set += math.comb(self.k, 2) * pairs.largest
        return of_set or 1.0

    @property
    def penalty(self) -> float:
        """Penalty per excess use, larger than its gain as a rule."""
        return 4 * self.n_sets * self.magnitude

    @property
    def rounding(self) -> float:
        """Upper bound on rounding errors in the value of a design."""
        return ROUNDING * self.n_sets * self.magnitude


def best_first(form: Form, sets: Sets) -> Sets:
    """Return sets, each sorted, best first; ties in lexicographic order."""
    words = sorted(sets.tolist(), key=lambda features: (-form.value(features), features))
    return np.array(words, dtype=np.int32)
