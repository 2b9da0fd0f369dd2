"""Alternatives all at once: best in all, exactly or greedily.

Bach, arXiv 2307.11607v3, definition 5 (simultaneous search) and Algorithms 2 to 4 (greedy ones).
Which way leads there depends on the quality, and on what else the sets must obey:

| quality | exact search |
|---|---|
| `Univariate`, neither constraints nor given sets | `multiplicities.py` and `balanced.py` |
| `Univariate` with either, `FCBF`, `MRMR` | `price_and_enumerate.py` |

The greedy searches take `Univariate` alone, with neither.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np

from chaffinch.tasks.selection.alternatives import (
    balanced,
    multiplicities,
    price_and_enumerate,
)
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

GREEDY: dict[GreedyName, Callable[[Floats, int, int, int], Sets]] = {
    "greedy_replacement": greedy_replacement,
    "greedy_balancing": greedy_balancing,
    "greedy_depth_search": greedy_depth_search,
}


def best_together(
    quality: Quality,
    k: int,
    n_sets: int,
    overlap: int,
    *,
    aggregate: Aggregate,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None,
) -> Solved:
    """Return the sets that are best in all, proven as far as time allows.

    Parameters
    ----------
    quality : Univariate, FCBF or MRMR
        Over n features.
    k : int in 1..n
        The size of the sets.
    n_sets : int, at least 1
        m, how many.
    overlap : int in 0..k - 1
        How many features two of them may share.
    aggregate : "sum" or "min"
        What is to be greatest: the sum of their qualities, or the smallest.
    limits : Limits
        On what each may share with given sets.
    constraints : Constraints
        Checked, with indices for names.
    deadline : float or None
        On the clock of `time.monotonic`.

    Raises
    ------
    ValueError
        If the quality is none of these.
    """
    if not isinstance(quality, QualityWithForm):
        raise ValueError(
            "search simultaneous needs a quality that is Univariate, FCBF or MRMR but is "
            f"{type(quality).__name__}; use sequential"
        )
    is_alone = isinstance(quality, Univariate) and is_free(limits, constraints)
    designs = Designs.checked(quality.form(k), k, n_sets, overlap, limits, constraints)
    counts = math.fsum if aggregate == "sum" else min
    others = (n_sets - 1) * highest_worth(quality, k, constraints)

    def search(form: Form, constraints: Constraints, deadline: float | None) -> Solved:
        if is_alone:
            return _by_values(form, k, n_sets, overlap, aggregate, constraints, deadline)
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

    narrowed = Narrowed(designs.form, k, limits, constraints, search, outcome_of, lowered, counts)
    solved, is_hidden = narrowed.run(deadline, time.monotonic())
    if solved.sets is not None:
        value = counts([designs.form.value(one) for one in solved.sets.tolist()])
        in_order = best_first(designs.form, np.sort(solved.sets, axis=1))  # not as they were capped
        solved = replace(solved, sets=in_order, value=value, bound=max(value, solved.bound))
    return replace(solved, complete=False) if is_hidden else solved


def _by_values(
    form: Form,
    k: int,
    n_sets: int,
    overlap: int,
    aggregate: Aggregate,
    constraints: Constraints,
    deadline: float | None,
) -> Solved:
    """Return the best sets of features that are not excluded, by what each is worth."""
    search = multiplicities.best_sum if aggregate == "sum" else balanced.best_min
    left = np.delete(np.arange(len(form.gains)), constraints.excluded)
    solved = search(form.gains[left], k, n_sets, overlap, deadline=deadline)
    return solved if solved.sets is None else replace(solved, sets=left[solved.sets])


def greedily(
    name: GreedyName,
    quality: Quality,
    k: int,
    n_sets: int,
    overlap: int,
    *,
    is_free: bool,
    deadline: float | None,
) -> Solved:
    """Return the sets that a greedy search finds, fewer where it stops early.

    Parameters
    ----------
    name : str
        Which search.
    quality : Univariate
    k, n_sets, overlap : int
        See `best_together`.
    is_free : bool
        Whether there are neither constraints nor given sets.
    deadline : float or None
        On the clock of `time.monotonic`; only Greedy Depth Search can take long.

    Returns
    -------
    Solved
        The bound is on the sum of as many sets as are asked for.

    Raises
    ------
    ValueError
        If the quality is not univariate, or there are constraints or given sets.
    """
    if not isinstance(quality, Univariate):
        raise ValueError(
            f"search {name} needs a quality that is Univariate but is {type(quality).__name__}; "
            "use sequential or simultaneous"
        )
    if not is_free:
        raise ValueError(
            f"search {name} knows neither constraints nor previous sets; use sequential or "
            "simultaneous"
        )
    if name == "greedy_depth_search":
        sets = greedy_depth_search(quality.values, k, n_sets, overlap, deadline=deadline)
    else:
        sets = GREEDY[name](quality.values, k, n_sets, overlap)
    value = float(sum(quality.value(one) for one in sets.tolist())) if len(sets) else -np.inf
    # a search that is late before it begins still knows a bound
    bound = multiplicities.best_sum(
        quality.values, k, n_sets, overlap, deadline=time.monotonic()
    ).bound
    return Solved(sets if len(sets) else None, value, max(value, bound), complete=False)


def is_free(limits: Limits, constraints: Constraints) -> bool:
    """Return whether sets have to obey nothing but their distance from each other."""
    return not len(limits.at_most) and constraints == Constraints()


def as_alternatives(
    solved: Solved,
    quality: Quality,
    n_asked: int,
    seconds: float,
    aggregate: Aggregate,
    dissimilarity: Dissimilarity,
    highest: float,
) -> Alternatives:
    """Return sets that were found at once, each with what is known of it.

    Parameters
    ----------
    solved : Solved
        What was found.
    quality : Quality
        By which.
    n_asked : int
        How many sets were asked for.
    seconds : float
        How long it took.
    aggregate : "sum" or "min"
        What their worth in all is.
    dissimilarity : "dice" or "jaccard"
        What is to differ.
    highest : float
        No set is worth more.
    """
    status: Status = "optimal" if solved.complete else "feasible"
    if solved.sets is None or len(solved.sets) < n_asked:
        status = "infeasible" if solved.complete else "not_solved"
    sets = () if solved.sets is None else tuple(map(tuple, np.sort(solved.sets, axis=1).tolist()))
    worths = [quality.value(one) for one in sets]
    bounds = bounds_in_place(worths, solved, n_asked, aggregate, highest)
    return Alternatives(
        sets=tuple(
            FeatureSet(
                features=one if quality.names is None else tuple(quality.names[j] for j in one),
                indices=one,
                quality=worth,
                bound=bound,
                status="optimal" if bound == worth else "feasible",
                seconds=seconds,
            )
            for one, worth, bound in zip(sets, worths, bounds, strict=True)
        ),
        total=solved.value,
        bound=solved.value if solved.complete else solved.bound,
        status=status,
        seconds=seconds,
        aggregate=aggregate,
        dissimilarity=dissimilarity,
    )
