"""Alternatives all at once: best in all, exactly or greedily.

Bach, arXiv 2307.11607v3, definition 5 (simultaneous search) and Algorithms 2 to 4 (greedy ones).
Which way leads there depends on the quality, and on what else the sets must obey:

| quality | exact search, `.py` |
|---|---|
| `Univariate`; features may be excluded | `in_turn`, `multiplicities`, `balanced` |
| `Univariate` with other constraints or given sets, `FCBF` | `feature_by_feature` for a while |
| and where that does not end; `MRMR` | `price_and_enumerate` |

The greedy searches take `Univariate` alone, with neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from chaffinch.tasks.selection.alternatives import multiplicities, price_and_enumerate
from chaffinch.tasks.selection.alternatives.branch_and_bound import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.designs import Designs, best_first
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity
from chaffinch.tasks.selection.alternatives.greedy import (
    Sets,
    greedy_balancing,
    greedy_depth_search,
    greedy_replacement,
)
from chaffinch.tasks.selection.alternatives.in_place import bounds_in_place, highest_worth
from chaffinch.tasks.selection.alternatives.in_turn import best_by_values
from chaffinch.tasks.selection.alternatives.narrowing import Narrowed, Outcome, capped
from chaffinch.tasks.selection.alternatives.quality import (
    Form,
    Quality,
    QualityWithForm,
    Univariate,
)
from chaffinch.tasks.selection.alternatives.sets import (
    Aggregate,
    Alternatives,
    FeatureSet,
    Solved,
    Status,
)
from chaffinch.tasks.selection.vocabulary import Floats

GreedyName = Literal["greedy_replacement", "greedy_balancing", "greedy_depth_search"]
AtOnceName = GreedyName | Literal["simultaneous"]

GREEDY: dict[GreedyName, Callable[[Floats, int, int, int], Sets]] = {
    "greedy_replacement": greedy_replacement,
    "greedy_balancing": greedy_balancing,
    "greedy_depth_search": greedy_depth_search,
}


def at_once(
    quality: Quality,
    k: int,
    n_sets: int,
    overlap: int,
    *,
    search: AtOnceName,
    aggregate: Aggregate,
    dissimilarity: Dissimilarity,
    limits: Limits,
    constraints: Constraints,
    time_limit: float | None,
) -> Alternatives:
    """Return the sets that one search finds, each with what is known of it.

    Parameters
    ----------
    quality : Univariate, FCBF or MRMR
        Over n features; for the greedy searches univariate.
    k : int in 1..n
        The size of the sets.
    n_sets : int, at least 1
        m, how many.
    overlap : int in 0..k - 1
        How many features two of them may share.
    search : str
        Which: see `find_alternatives`.
    aggregate : "sum" or "min"
        What is to be greatest: the sum of their qualities, or the smallest.
    dissimilarity : "dice" or "jaccard"
        What is to differ.
    limits : Limits
        On what each may share with given sets.
    constraints : Constraints
        Checked, with indices for names.
    time_limit : float or None
        In seconds.

    Raises
    ------
    ValueError
        If the search does not suit the quality, the constraints or the given sets.
    """
    start = time.monotonic()
    deadline = None if time_limit is None else start + time_limit
    if not isinstance(quality, QualityWithForm if search == "simultaneous" else Univariate):
        kinds = "Univariate, FCBF or MRMR" if search == "simultaneous" else "Univariate"
        others = "sequential" if search == "simultaneous" else "sequential or simultaneous"
        raise ValueError(
            f"search {search} needs a quality that is {kinds} but is {type(quality).__name__}; "
            f"use {others}"
        )
    has_given = len(limits.at_most) > 0
    is_free = not has_given and constraints == Constraints()
    if search != "simultaneous" and not is_free:
        raise ValueError(
            f"search {search} knows neither constraints nor previous sets; use sequential or "
            "simultaneous"
        )
    designs = Designs.checked(quality.form(k), k, n_sets, overlap, limits, constraints)
    highest = highest_worth(designs.form, k, constraints)
    if search == "simultaneous" and n_sets > 1 and 2 * k - overlap > designs.n_features:
        solved = Solved(None, -math.inf, -math.inf, complete=True)  # there is no room for two
    elif search == "simultaneous":
        excludes_only = constraints == Constraints(must_exclude=constraints.must_exclude)
        is_alone = isinstance(quality, Univariate) and excludes_only and not has_given
        solved = _best_together(designs, highest, aggregate, deadline, is_alone=is_alone)
    else:
        solved = _greedily(search, designs, deadline)
    if not solved.complete:
        # that no set is worth more is known at no cost
        of_all = highest if aggregate == "min" else math.nextafter(n_sets * highest, math.inf)
        solved = replace(solved, bound=max(solved.value, min(solved.bound, of_all)))
    sets = _each(solved, quality, designs.form, n_sets, aggregate, highest)
    status: Status = "optimal" if solved.complete else "feasible"
    if len(sets) < n_sets:
        status = "infeasible" if solved.complete else "not_solved"
    seconds = time.monotonic() - start
    return Alternatives(
        sets=tuple(replace(one, seconds=seconds) for one in sets),
        total=solved.value,
        bound=solved.value if solved.complete else solved.bound,
        status=status,
        seconds=seconds,
        aggregate=aggregate,
        dissimilarity=dissimilarity,
    )


def _best_together(
    designs: Designs,
    highest: float,
    aggregate: Aggregate,
    deadline: float | None,
    *,
    is_alone: bool,
) -> Solved:
    """Return the sets that are best in all, proven as far as time allows.

    `is_alone`: of univariate worth, with no constraints but what is excluded, nor given sets.
    """
    k, n_sets, overlap, limits = designs.k, designs.n_sets, designs.overlap, designs.limits
    counts = math.fsum if aggregate == "sum" else min
    others = (n_sets - 1) * highest

    def search(form: Form, constraints: Constraints, deadline: float | None) -> Solved:
        if is_alone:
            left = np.delete(np.arange(len(form.gains)), constraints.excluded)
            solved = best_by_values(form.gains[left], k, n_sets, overlap, aggregate, deadline)
            return solved if solved.sets is None else replace(solved, sets=left[solved.sets])
        by_form = price_and_enumerate.best_sum, price_and_enumerate.best_min
        return by_form[aggregate == "min"](
            form, k, n_sets, overlap, limits=limits, constraints=constraints, deadline=deadline
        )

    def outcome_of(solved: Solved) -> Outcome:
        if solved.sets is None:
            return Outcome((), -math.inf, 0.0, solved.complete)
        least = counts([designs.form.value(one) for one in solved.sets.tolist()])
        if aggregate == "sum":  # a set has to make up for what the others can be worth at most
            least -= others + designs.rounding
        return Outcome(solved.sets.tolist(), least, solved.rounding, solved.complete)

    def lowered(form: Form, constraints: Constraints) -> Form:
        if aggregate == "sum":
            return form
        return capped(form, k, n_sets, designs.most_uses(1), constraints)

    narrowed = Narrowed(
        designs.form, k, limits, designs.constraints, search, outcome_of, lowered, counts
    )
    solved, is_hidden = narrowed.run(deadline, time.monotonic())
    if solved.sets is not None:
        value = counts([designs.form.value(one) for one in solved.sets.tolist()])
        in_order = best_first(designs.form, np.sort(solved.sets, axis=1))  # not as they were capped
        solved = replace(solved, sets=in_order, value=value, bound=max(value, solved.bound))
    return replace(solved, complete=False) if is_hidden else solved


def _greedily(name: GreedyName, designs: Designs, deadline: float | None) -> Solved:
    """Return the sets of univariate worth that a greedy search finds, fewer where it stops early.

    The bound is on the sum of as many sets as are asked for.
    """
    values, asked = designs.form.gains, (designs.k, designs.n_sets, designs.overlap)
    if name == "greedy_depth_search":
        sets = greedy_depth_search(values, *asked, deadline=deadline)
    else:
        sets = GREEDY[name](values, *asked)
    value = float(sum(designs.form.value(one) for one in sets.tolist())) if len(sets) else -np.inf
    # a search that is late before it begins still knows a bound
    bound = multiplicities.best_sum(values, *asked, deadline=time.monotonic()).bound
    return Solved(sets if len(sets) else None, value, max(value, bound), complete=False)


def _each(
    solved: Solved,
    quality: Quality,
    form: Form,
    n_asked: int,
    aggregate: Aggregate,
    highest: float,
) -> list[FeatureSet]:
    """Return sets that were found at once, each with what is known of it."""
    if solved.sets is None:
        return []
    sets = list(map(tuple, np.sort(solved.sets, axis=1).tolist()))
    worths, names = [form.value(one) for one in sets], quality.names
    bounds = bounds_in_place(worths, solved, n_asked, aggregate, highest)
    return [
        FeatureSet(
            features=one if names is None else tuple(names[j] for j in one),
            indices=one,
            quality=worth,
            bound=bound,
            status="optimal" if bound == worth else "feasible",
            seconds=math.nan,
        )
        for one, worth, bound in zip(sets, worths, bounds, strict=True)
    ]
