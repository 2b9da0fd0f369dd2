"""Alternatives one at a time: each the best there is beside all before it.

Bach, arXiv 2307.11607v3, definitions 2 and 3, eq 9. What is best for one may leave little for the
next: sets that are searched for at once can be worth more in all.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import Found, Limits, best_set
from chaffinch.tasks.selection.alternatives.cfs import best_cfs_set
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.deadlines import is_far_too_late
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.alternatives.narrowing import Narrowed, Outcome
from chaffinch.tasks.selection.alternatives.quality import CFS, Form, Quality, QualityWithForm
from chaffinch.tasks.selection.alternatives.sets import FeatureSet, Status
from chaffinch.tasks.selection.alternatives.wrapper import Wrapper


@dataclass(frozen=True)
class Apart:
    """How different sets are to be.

    Attributes
    ----------
    tau : float
        The least dissimilarity, above 0 and at most 1.
    dissimilarity : "dice" or "jaccard"
    """

    tau: float
    dissimilarity: Dissimilarity

    def limits(self, sets: Sequence[Sequence[int]], k: int, n_features: int) -> Limits:
        """Return how many features a set of k may share with each of some sets of indices."""
        return _Before(sets, n_features).limits(self, k)


class _Before:
    """The sets that a further one is to differ from, to which one is added at little cost."""

    def __init__(self, sets: Sequence[Sequence[int]], n_features: int) -> None:
        self._members = np.zeros((len(sets), n_features), dtype=bool)
        self._sizes = np.zeros(len(sets), dtype=np.int64)
        self._count = 0
        for one in sets:
            self.add(one)

    def add(self, indices: Sequence[int]) -> None:
        """Add a set of indices."""
        if self._count == len(self._members):  # twice the room, so that copies are few
            room = max(16, self._count)
            more = np.zeros((room, self._members.shape[1]), dtype=bool)
            self._members = np.concatenate([self._members, more])
            self._sizes = np.concatenate([self._sizes, np.zeros(room, dtype=np.int64)])
        self._members[self._count, list(indices)] = True
        self._sizes[self._count] = len(indices)
        self._count += 1

    def limits(self, apart: Apart, k: int) -> Limits:
        """Return how many features a set of k may share with each."""
        sizes, which = np.unique(self._sizes[: self._count], return_inverse=True)
        overlaps = [
            largest_overlap(k, size, apart.tau, apart.dissimilarity) for size in sizes.tolist()
        ]
        return Limits(self._members[: self._count], np.array(overlaps, dtype=np.int64)[which])


def one_by_one(
    quality: Quality,
    sizes: Iterable[int],
    *,
    apart: Apart,
    constraints: Constraints,
    previous: Sequence[Sequence[int]] = (),
    time_limit: float | None = None,
) -> Iterator[FeatureSet]:
    """Yield one set for each size, and stop after one that is not there.

    Parameters
    ----------
    quality : Quality
        Over n features.
    sizes : iterable of int in 1..n
        Of the sets.
    apart : Apart
        How different each is to be from all before it.
    constraints : Constraints
        Checked, with indices for names.
    previous : sequence of sequences of int
        Sets of indices that all are to be different from.
    time_limit : float, optional
        Seconds for all searches together; what happens between them does not count. Sets that
        take a moment are found a little longer, see `GRACE`; the first in any case.
    """
    before = _Before(previous, quality.n_features)
    used = np.zeros(quality.n_features, dtype=np.int64)
    left = math.inf if time_limit is None else time_limit
    is_first, form, size = True, None, 0
    for k in sizes:
        start = time.monotonic()
        if isinstance(quality, QualityWithForm) and k != size:  # of wide tables it takes long
            form, size = quality.form(k), k
        deadline = None if left == math.inf else start + left
        if is_far_too_late(deadline) and not is_first:
            found = Found(None, -math.inf, math.inf, complete=False)
        else:
            rules = _without_worn_out(constraints, used)
            found = _best(quality, form, k, before.limits(apart, k), rules, deadline)
        is_first = False
        seconds = time.monotonic() - start
        left -= seconds
        yield _as_set(quality, found, seconds)
        if found.indices is None:
            return
        before.add(found.indices)
        used[list(found.indices)] += 1


def _best(
    quality: Quality,
    form: Form | None,
    k: int,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None,
) -> Found:
    """Return the best set by whatever suits the quality."""
    is_worn_out = bool({*constraints.included} & {*constraints.excluded})
    if is_worn_out or quality.n_features - len(constraints.must_exclude) < k:
        return Found(None, -math.inf, -math.inf, complete=True)
    if form is not None:
        return _best_by_form(form, k, limits, constraints, deadline)
    if isinstance(quality, CFS):
        return best_cfs_set(quality, k, limits=limits, constraints=constraints, deadline=deadline)
    if isinstance(quality, Wrapper):
        return quality.climb(k, limits=limits, constraints=constraints, deadline=deadline)
    raise ValueError(
        f"quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is {type(quality).__name__}"
    )


def _best_by_form(
    form: Form, k: int, limits: Limits, constraints: Constraints, deadline: float | None
) -> Found:
    """Return the best set; it is not proven where rounding may hide a better one."""

    def search(form: Form, constraints: Constraints, deadline: float | None) -> Found:
        return best_set(form, k, limits=limits, constraints=constraints, deadline=deadline)

    def outcome_of(found: Found) -> Outcome:
        if found.indices is None:
            return Outcome((), -math.inf, 0.0, found.complete)
        return Outcome([found.indices], found.value, found.bound - found.value, found.complete)

    narrowed = Narrowed(form, k, limits, constraints, search, outcome_of)
    found, is_hidden = narrowed.run(deadline, time.monotonic())
    return replace(found, complete=False) if is_hidden else found


def _without_worn_out(
    constraints: Constraints, used: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Constraints:
    """Return constraints that exclude features which are in as many sets as they may be."""
    most = constraints.max_sets_per_feature
    if most is None:
        return constraints
    worn_out = np.flatnonzero(used >= most).tolist()
    return replace(constraints, must_exclude=sorted({*constraints.excluded, *worn_out}))


def _as_set(quality: Quality, found: Found, seconds: float) -> FeatureSet:
    indices = found.indices or ()
    status: Status = "optimal" if found.complete else "feasible"
    if found.indices is None:
        status = "infeasible" if found.complete else "not_solved"
    names = quality.names
    features = indices if names is None else tuple(names[index] for index in indices)
    # a search that is complete has proven as much as rounding allows
    bound = found.value if found.complete else found.bound
    return FeatureSet(features, indices, found.value, bound, status, seconds)
