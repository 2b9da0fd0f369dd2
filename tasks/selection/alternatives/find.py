"""`chaffinch.find_alternatives`: several feature sets that differ, each as good as it can be.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from numbers import Integral
from typing import Literal, get_args

from chaffinch.tasks.selection.alternatives.constraints import Constraints, Feature, indices_of
from chaffinch.tasks.selection.alternatives.constraints_given import is_number
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.alternatives.made_ready import make_ready
from chaffinch.tasks.selection.alternatives.numbers_given import check_fits, in_short
from chaffinch.tasks.selection.alternatives.quality import Quality
from chaffinch.tasks.selection.alternatives.sequential import Apart, one_by_one
from chaffinch.tasks.selection.alternatives.sets import (
    Aggregate,
    Alternatives,
    FeatureSet,
    overall_status,
)
from chaffinch.tasks.selection.alternatives.sizes_given import sizes_of
from chaffinch.tasks.selection.alternatives.together import AtOnceName, at_once

SearchName = Literal[
    "sequential",
    "simultaneous",
    "greedy_replacement",
    "greedy_balancing",
    "greedy_depth_search",
]

_MOST_AT_ONCE = 5_000  # what each two of them share is in memory, some bytes each


def find_alternatives(
    quality: Quality,
    *,
    k: int | Sequence[int],
    n_alternatives: int,
    tau: float,
    dissimilarity: Dissimilarity = "dice",
    search: SearchName = "sequential",
    aggregate: Aggregate | None = None,
    constraints: Constraints | None = None,
    previous: Sequence[Sequence[Feature]] = (),
    time_limit: float | None = None,
) -> Alternatives:
    """Find feature sets that differ from each other, each as good as it can be.

    Parameters
    ----------
    quality : Univariate, FCBF, MRMR, CFS, Wrapper or MaskedLossQuality
        What a set is worth, over n features. `chaffinch.qualities` makes them of tables.
    k : int in 1..n
        How many features a set has; for the sequential search also one size for each set.
    n_alternatives : int, at least 0
        How many sets there are to be besides the first; 1,000,000 at most, and 4,999 but for the
        sequential search.
    tau : float, above 0 and at most 1
        How far apart each two sets are at least; 1: they share nothing. With Dice and sets of
        one size, the share of features in which they differ.
    dissimilarity : "dice" or "jaccard"
        What `tau` is measured by.
    search : str
        ``"sequential"``: one set at a time, each the best beside all before it;
        ``"simultaneous"``: all at once, for `Univariate`, `FCBF` and `MRMR`;
        ``"greedy_replacement"``, ``"greedy_balancing"``, ``"greedy_depth_search"``: quick, for
        `Univariate` without constraints and previous sets, and never the proven best. One that is
        stuck before it has all sets proves nothing: the status is then ``"not_solved"``.
    aggregate : "sum" or "min", optional
        For the simultaneous search: what is to be greatest of the sets' qualities, their sum,
        which is the default, or the smallest.
    constraints : Constraints, optional
        What every set must obey.
    previous : sequence of sequences of int or str
        Sets, of any size, that all new ones must differ from as well.
    time_limit : float, above 0, optional
        In seconds, for all of it. When it is over the best sets so far come back, with a bound on
        what is better than they are. One by one, sets that take a moment are found for a quarter
        of a second more, the first in any case. Compiling, which takes up to a minute the first
        time after an installation, is done before the clock starts, but for what few searches
        need. A simultaneous search ends before it, with its bound, where a proof takes more sets
        than memory should hold.

    Returns
    -------
    Alternatives
        A sequence of `FeatureSet`, fewer where there are no more. Equal calls give equal sets. Of
        sets that are proven best one at a time, and worth the same but for rounding, the first as
        a word of sorted indices is taken; any, where k times the features that matter is above
        2**28.

    Raises
    ------
    ValueError
        If a setting is out of its range, or they contradict each other.

    Examples
    --------
    >>> import chaffinch
    >>> quality = chaffinch.Univariate([9, 8, 7, 3, 2, 1])
    >>> found = chaffinch.find_alternatives(quality, k=3, n_alternatives=2, tau=0.5)
    >>> [one.features for one in found], found.total, found.status
    ([(0, 1, 2), (0, 3, 4), (1, 3, 5)], 50.0, 'optimal')
    """
    if search not in get_args(SearchName):
        known = ", ".join(get_args(SearchName))
        raise ValueError(f"search must be one of {known} but is {search!r}")
    if aggregate not in (None, *get_args(Aggregate)):
        raise ValueError(f"aggregate must be 'sum' or 'min' but is {aggregate!r}")
    if aggregate is not None and search != "simultaneous":
        raise ValueError(
            f"aggregate is for the simultaneous search but search is {search}; leave it out"
        )
    if n_alternatives is None:
        raise ValueError(
            "n_alternatives must be given but is None; alternatives_one_by_one goes on without end"
        )
    sizes = sizes_of(k, n_alternatives)
    asked = _Asked.checked(quality, sizes, tau, dissimilarity, constraints, previous, time_limit)
    if search == "sequential":
        return _together(list(asked.sets(sizes)), dissimilarity)
    return asked.at_once(sizes, search, aggregate or "sum")


def alternatives_one_by_one(
    quality: Quality,
    *,
    k: int | Sequence[int],
    n_alternatives: int | None = None,
    tau: float,
    dissimilarity: Dissimilarity = "dice",
    constraints: Constraints | None = None,
    previous: Sequence[Sequence[Feature]] = (),
    time_limit: float | None = None,
) -> Iterator[FeatureSet]:
    """Yield feature sets one at a time, for as long as they are asked for.

    Parameters
    ----------
    quality, k, tau, dissimilarity, constraints, previous
        See `find_alternatives`; the sets are the same.
    n_alternatives : int, at least 0, optional
        By default there is no end while there is another set.
    time_limit : float, above 0, optional
        In seconds, for all searches; what is done between them does not count.

    Returns
    -------
    iterator of FeatureSet
        The last one is empty where there is no further set, or none was found in time; its status
        says which.

    Raises
    ------
    ValueError
        If a setting is out of its range, or they contradict each other.

    Examples
    --------
    >>> import chaffinch
    >>> quality = chaffinch.Univariate([9, 8, 7, 3], names=["age", "income", "city", "size"])
    >>> for one in chaffinch.alternatives_one_by_one(quality, k=2, tau=1.0):
    ...     one.status, one.features
    ('optimal', ('age', 'income'))
    ('optimal', ('city', 'size'))
    ('infeasible', ())
    """
    sizes = sizes_of(k, n_alternatives)
    asked = _Asked.checked(quality, sizes, tau, dissimilarity, constraints, previous, time_limit)
    is_endless = n_alternatives is None and isinstance(k, Integral)
    return asked.sets(repeat(sizes[0]) if is_endless else sizes)


@dataclass(frozen=True)
class _Asked:
    """What is asked for, checked."""

    quality: Quality
    apart: Apart
    constraints: Constraints
    previous: tuple[tuple[int, ...], ...]
    time_limit: float | None

    @classmethod
    def checked(
        cls,
        quality: Quality,
        sizes: Sequence[int],
        tau: float,
        dissimilarity: Dissimilarity,
        constraints: Constraints | None,
        previous: Sequence[Sequence[Feature]],
        time_limit: float | None,
    ) -> _Asked:
        """Refuse what is out of range with ValueError."""
        if not isinstance(quality, Quality):
            raise ValueError(
                "quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is a "
                f"{type(quality).__name__}"
            )
        if not isinstance(constraints, Constraints | None):
            raise ValueError(f"constraints must be Constraints but are {constraints!r}")
        n = quality.n_features
        check_fits("tau", tau)
        check_fits("time_limit", time_limit)
        if not is_number(tau) or not 0 < tau <= 1:
            raise ValueError(f"tau must be above 0 and at most 1 but is {tau!r}")
        if dissimilarity not in get_args(Dissimilarity):
            raise ValueError(f"dissimilarity must be 'dice' or 'jaccard' but is {dissimilarity!r}")
        if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
            raise ValueError(f"time_limit must be above 0 seconds but is {time_limit!r}")
        if isinstance(previous, str) or not isinstance(previous, Iterable):
            raise ValueError(f"previous must be a sequence of sets but is {previous!r}")
        rules, each = constraints or Constraints(), sorted(set(sizes))
        for size in each:
            if not 1 <= size <= n:
                told = in_short(size)
                raise ValueError(f"k must be in 1..{n}, the number of features, but is {told}")
        for size in each:
            checked = rules.checked(n, size, len(sizes), quality.names)
        given = tuple(indices_of(one, n, quality.names, "each set of previous") for one in previous)
        return cls(quality, Apart(tau, dissimilarity), checked, given, time_limit)

    def sets(self, sizes: Iterable[int]) -> Iterator[FeatureSet]:
        """Yield one set after the other."""
        if self.time_limit is not None:
            make_ready(self.quality, find_alternatives, has_rules=False, search="sequential")
        return one_by_one(
            self.quality,
            sizes,
            apart=self.apart,
            constraints=self.constraints,
            previous=self.previous,
            time_limit=self.time_limit,
        )

    def at_once(
        self, sizes: Sequence[int], search: AtOnceName, aggregate: Aggregate
    ) -> Alternatives:
        """Return all sets as one search finds them; ValueError if it does not suit."""
        if len(sizes) > _MOST_AT_ONCE:
            raise ValueError(
                f"n_alternatives must be at most {_MOST_AT_ONCE - 1} if search is {search} but is "
                f"{len(sizes) - 1}; use sequential, with a time limit"
            )
        if len(set(sizes)) > 1:
            raise ValueError(
                f"k must be one size for all sets if search is {search} but is {list(sizes)}; use "
                "sequential"
            )
        k, apart = sizes[0], self.apart
        limits = apart.limits(self.previous, k, self.quality.n_features)
        overlap = largest_overlap(k, k, apart.tau, apart.dissimilarity)
        if self.time_limit is not None and search == "simultaneous":
            make_ready(
                self.quality,
                find_alternatives,
                has_rules=len(limits.at_most) > 0 or self.constraints != Constraints(),
                search=search,
                aggregate=aggregate,
            )
        return at_once(
            self.quality,
            k,
            len(sizes),
            overlap,
            search=search,
            aggregate=aggregate,
            dissimilarity=apart.dissimilarity,
            limits=limits,
            constraints=self.constraints,
            time_limit=self.time_limit,
        )


def _together(sets: Sequence[FeatureSet], dissimilarity: Dissimilarity) -> Alternatives:
    """Return sets that were found one by one, without a last one that is not there."""
    there = tuple(one for one in sets if len(one))
    return Alternatives(
        sets=there,
        total=math.fsum(one.quality for one in there) if there else -math.inf,
        bound=math.fsum(one.bound for one in there) if there else sets[-1].bound,
        status=overall_status(sets),
        seconds=math.fsum(one.seconds for one in sets),
        dissimilarity=dissimilarity,
    )
