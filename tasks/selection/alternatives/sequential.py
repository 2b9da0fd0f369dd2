"""Sequential search for alternatives: each the best given all sets before it.

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
from chaffinch.tasks.selection.alternatives.best_sets import (
    GRACE,
    Found,
    Limits,
    best_set,
    is_late,
)
from chaffinch.tasks.selection.alternatives.cfs import best_cfs_set
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
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
        for row, one in zip(members, sets, strict=True):
            row[list(one)] = True
        at_most = [largest_overlap(k, len(set(s)), self.tau, self.dissimilarity) for s in sets]
        return Limits(members, np.array(at_most, dtype=np.int64))


def one_by_one(
    quality: Quality,
    k: int,
    n_sets: int,
    *,
    apart: Apart,
    constraints: Constraints,
    previous: Sequence[Sequence[int]] = (),
    time_limit: float | None = None,
) -> list[FeatureSet]:
    """Return the sets, until one is missing; that one is the last, and empty.

    `time_limit`: seconds for all searches together. Sets that take a moment are found a little
    longer, see `GRACE`; the first in any case.
    """
    n = quality.n_features
    deadline = None if time_limit is None else time.monotonic() + time_limit
    form = quality.form(k) if isinstance(quality, QualityWithForm) else None
    limits, used = apart.limits(previous, k, n), np.zeros(n, dtype=np.int64)
    overlap = largest_overlap(k, k, apart.tau, apart.dissimilarity)
    at_most = np.concatenate([limits.at_most, np.full(n_sets, overlap)])
    members = np.concatenate([limits.sets, np.zeros((n_sets, n), dtype=bool)])
    found: list[FeatureSet] = []
    while len(found) < n_sets and (not found or len(found[-1])):
        start, n_before = time.monotonic(), len(limits.at_most) + len(found)
        one = Found(None, -math.inf, math.inf, complete=False)
        if not found or not is_late(deadline, GRACE):
            before = Limits(members[:n_before], at_most[:n_before])
            rules = _without_worn_out(constraints, used)
            one = _best(quality, form, k, before, rules, deadline)
        found.append(_as_set(quality, one, time.monotonic() - start))
        members[n_before, list(found[-1].indices)] = True
        used[list(found[-1].indices)] += 1
    return found


def _best(
    quality: Quality,
    form: Form | None,
    k: int,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None,
) -> Found:
    """Return the best set by the search for this quality."""
    is_worn_out = bool({*constraints.included} & {*constraints.excluded})
    if is_worn_out or quality.n_features - len(constraints.must_exclude) < k:
        return Found(None, -math.inf, -math.inf, complete=True)
    asked = {"limits": limits, "constraints": constraints, "deadline": deadline}
    if form is not None:
        found = best_set(form, k, **asked)  # type: ignore[arg-type]
        rounding = found.bound - found.value
        if found.complete and found.indices and is_hidden(form, [found.indices], rounding):
            return replace(found, complete=False)
        return found
    if isinstance(quality, CFS):
        return best_cfs_set(quality, k, **asked)  # type: ignore[arg-type]
    if isinstance(quality, Wrapper):
        return quality.climb(k, **asked)  # type: ignore[arg-type]
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


def _as_set(quality: Quality, found: Found, seconds: float) -> FeatureSet:
    indices = found.indices or ()
    status: Status = "optimal" if found.complete else "feasible"
    if found.indices is None:
        status = "infeasible" if found.complete else "not_solved"
    names = quality.names
    features = indices if names is None else tuple(names[index] for index in indices)
    # a complete search has a proof up to rounding
    bound = found.value if found.complete else found.bound
    return FeatureSet(features, indices, found.value, bound, status, seconds)
