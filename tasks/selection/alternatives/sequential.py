"""Sequential search for alternatives: each the best that differs enough from all before.

Bach, arXiv 2307.11607v3, definitions 2 and 3, eq 9. The best set may leave little for the next: a
simultaneous search can give a larger total.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.cfs import best_cfs_set
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.alternatives.exact.best_sets import (
    GRACE,
    BestSet,
    Limits,
    best_set,
    is_late,
)
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.quality import (
    CFS,
    Form,
    Quality,
    QualityWithForm,
    is_hidden,
)
from chaffinch.tasks.selection.alternatives.result import FeatureSet, Status
from chaffinch.tasks.selection.constraints import Constraints


@dataclass(frozen=True)
class Apart:
    """Required dissimilarity of sets; `tau` is above 0 and at most 1."""

    tau: float
    dissimilarity: Dissimilarity

    def limits(self, sets: Sequence[Sequence[int]], k: int, n_features: int) -> Limits:
        """Return the limits on features that a set of k shares with each of some sets."""
        members = np.zeros((len(sets), n_features), dtype=bool)
        for row, features in zip(members, sets, strict=True):
            row[list(features)] = True
        at_most = [largest_overlap(k, len(set(s)), self.tau, self.dissimilarity) for s in sets]
        return Limits(members, np.array(at_most, dtype=np.int64))


def search_sequentially(
    quality: Quality,
    k: int,
    n_sets: int,
    *,
    apart: Apart,
    constraints: Constraints,
    previous: Sequence[Sequence[int]] = (),
    time_limit: float | None = None,
) -> list[FeatureSet]:
    """Return the sets; if a set is missing, the search ends with an empty set.

    `time_limit`: seconds for all searches together. Sets that take a moment are searched a
    little longer, see `GRACE`; the first in any case.
    """
    n = quality.n_features
    deadline = None if time_limit is None else time.monotonic() + time_limit
    form = quality.form(k) if isinstance(quality, QualityWithForm) else None
    limits, used = apart.limits(previous, k, n), np.zeros(n, dtype=np.int64)
    overlap = largest_overlap(k, k, apart.tau, apart.dissimilarity)
    at_most = np.concatenate([limits.at_most, np.full(n_sets, overlap)])
    members = np.concatenate([limits.sets, np.zeros((n_sets, n), dtype=bool)])
    feature_sets: list[FeatureSet] = []
    while len(feature_sets) < n_sets and (not feature_sets or len(feature_sets[-1])):
        start, n_before = time.monotonic(), len(limits.at_most) + len(feature_sets)
        best = BestSet(None, -math.inf, math.inf, complete=False)
        if not feature_sets or not is_late(deadline, GRACE):
            before = Limits(members[:n_before], at_most[:n_before])
            rules = _without_worn_out(constraints, used)
            best = _best(quality, form, k, before, rules, deadline)
        feature_sets.append(_as_set(quality, best, time.monotonic() - start))
        members[n_before, list(feature_sets[-1].indices)] = True
        used[list(feature_sets[-1].indices)] += 1
    return feature_sets


def _best(
    quality: Quality,
    form: Form | None,
    k: int,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None,
) -> BestSet:
    """Return the best set by the search for this quality."""
    is_worn_out = bool({*constraints.included} & {*constraints.excluded})
    if is_worn_out or quality.n_features - len(constraints.must_exclude) < k:
        return BestSet(None, -math.inf, -math.inf, complete=True)
    settings = {"limits": limits, "constraints": constraints, "deadline": deadline}
    if form is not None:
        best = best_set(form, k, **settings)  # type: ignore[arg-type]
        rounding = best.bound - best.value
        if best.complete and best.indices and is_hidden(form, [best.indices], rounding):
            return replace(best, complete=False)
        return best
    if isinstance(quality, CFS):
        return best_cfs_set(quality, k, **settings)  # type: ignore[arg-type]
    if isinstance(quality, Wrapper):
        return quality.climb(k, **settings)  # type: ignore[arg-type]
    raise InputError(
        f"quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is {type(quality).__name__}"
    )


def _without_worn_out(
    constraints: Constraints, used: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Constraints:
    """Return constraints that exclude features that have reached the limit of sets."""
    most = constraints.max_sets_per_feature
    if most is None:
        return constraints
    worn_out = np.flatnonzero(used >= most).tolist()
    return replace(constraints, must_exclude=sorted({*constraints.excluded, *worn_out}))


def _as_set(quality: Quality, best: BestSet, seconds: float) -> FeatureSet:
    indices = best.indices or ()
    status: Status = "optimal" if best.complete else "feasible"
    if best.indices is None:
        status = "infeasible" if best.complete else "not_solved"
    names = quality.names
    features = indices if names is None else tuple(names[index] for index in indices)
    # a complete search has a proof up to rounding
    bound = best.value if best.complete else best.bound
    return FeatureSet(features, indices, best.value, bound, status, seconds)
