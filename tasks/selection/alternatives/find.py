"""`chaffinch.find_alternatives`: several diverse feature sets of the highest quality.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.cfs_designs import best_cfs_design
from chaffinch.tasks.selection.alternatives.designs import INFEASIBLE, Designs, Solved
from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.alternatives.exact.price_and_enumerate import (
    best_design,
    best_univariate_design,
)
from chaffinch.tasks.selection.alternatives.greedy import (
    Sets,
    greedy_balancing,
    greedy_depth_search,
    greedy_replacement,
)
from chaffinch.tasks.selection.alternatives.quality import (
    CFS,
    FCBF,
    MRMR,
    Form,
    Quality,
    QualityWithForm,
    Univariate,
    is_hidden,
)
from chaffinch.tasks.selection.alternatives.result import (
    Aggregate,
    Alternatives,
    FeatureSet,
    Status,
    overall_status,
)
from chaffinch.tasks.selection.alternatives.sequential import Apart, search_sequentially
from chaffinch.tasks.selection.alternatives.validation import check_fits, check_n_alternatives
from chaffinch.tasks.selection.constraints import Constraints, Feature, indices_of
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import check_count, is_number

GreedyName = Literal["greedy_replacement", "greedy_balancing", "greedy_depth_search"]
SearchName = Literal["sequential", "simultaneous"] | GreedyName

_GREEDY: dict[str, Callable[[Floats, int, int, int], Sets]] = {
    "greedy_replacement": greedy_replacement,
    "greedy_balancing": greedy_balancing,
    "greedy_depth_search": greedy_depth_search,
}
_MOST_AT_ONCE = 1_000  # sets; any two of them have a limit of their own
_ROUNDING = 1e-15  # relative, of three operations
_SAME = 1e-9  # relative difference up to which two sets count as equal in value


def find_alternatives(
    quality: Quality,
    *,
    k: int,
    n_alternatives: int,
    tau: float,
    dissimilarity: Dissimilarity = "dice",
    search: SearchName = "sequential",
    aggregate: Aggregate | None = None,
    constraints: Constraints | None = None,
    previous: Sequence[Sequence[Feature]] = (),
    time_limit: float | None = None,
) -> Alternatives:
    """Find diverse feature sets of the highest quality.

    Parameters
    ----------
    quality : Univariate, FCBF, MRMR, CFS, Wrapper or MaskedLossQuality
        Quality of a set, over n features. `chaffinch.qualities` computes them from tables.
    k : int in 1..n
        Number of features per set.
    n_alternatives : int, at least 0
        Number of sets besides the first; at most 1,000,000 for the sequential search and 999
        otherwise.
    tau : float, above 0 and at most 1
        Least dissimilarity of any two sets; 1 for disjoint sets. With Dice, the share of features
        in which they differ.
    dissimilarity : "dice" or "jaccard"
        Measure for `tau`.
    search : str
        ``"sequential"``: set by set, each the best that differs enough from all before;
        ``"simultaneous"``: all at once, for all but `Wrapper` and `MaskedLossQuality`;
        ``"greedy_replacement"``, ``"greedy_balancing"``, ``"greedy_depth_search"``: fast
        heuristics without a proof, for `Univariate` without previous sets, and constraints
        but `must_exclude`. One that stops before it has all sets has the status ``"not_solved"``.
    aggregate : "sum" or "min", optional
        Objective of the simultaneous search: the sum of the sets' qualities (default), or the
        smallest.
    constraints : Constraints, optional
        Constraints on every set.
    previous : sequence of sequences of int or str
        Sets, of any size, that all new ones must differ from as well.
    time_limit : float, above 0, optional
        In seconds, for the whole search. After it the best sets so far are returned, with a bound.
        The sequential search continues for a quarter of a second if sets take a moment each, and
        always looks for the first. Compilation, some seconds at the first call after an
        installation, is done before the time starts.

    Returns
    -------
    Alternatives
        A sequence of `FeatureSet`, shorter if there are no more sets. Equal calls give equal sets.
        Among proven best sets of the sequential search, equal up to rounding, the
        lexicographically first is returned.

    Raises
    ------
    InputError
        If a setting is out of its range, or they contradict each other.

    Examples
    --------
    >>> import chaffinch
    >>> quality = chaffinch.qualities.Univariate([9, 8, 7, 3, 2, 1])
    >>> alternatives = chaffinch.find_alternatives(quality, k=3, n_alternatives=2, tau=0.5)
    >>> [s.features for s in alternatives], alternatives.total, alternatives.status
    ([(0, 1, 2), (0, 3, 4), (1, 3, 5)], 50.0, 'optimal')
    """
    if search not in ("sequential", "simultaneous", *_GREEDY):
        known = ", ".join(("sequential", "simultaneous", *_GREEDY))
        raise InputError(f"search must be one of {known} but is {search!r}")
    if aggregate not in (None, *get_args(Aggregate)):
        raise InputError(f"aggregate must be 'sum' or 'min' but is {aggregate!r}")
    if aggregate is not None and search != "simultaneous":
        raise InputError(
            f"aggregate is for the simultaneous search but search is {search}; leave it out"
        )
    check_n_alternatives(n_alternatives)
    n_sets = 1 + int(n_alternatives)
    request = _Request.checked(
        quality, k, n_sets, tau, dissimilarity, constraints, previous, time_limit
    )
    if search == "sequential":
        if time_limit is not None:
            _compile(type(quality), search)
        sets = search_sequentially(
            quality,
            request.k,
            n_sets,
            apart=request.apart,
            constraints=request.constraints,
            previous=request.previous,
            time_limit=time_limit,
        )
        return _join_sets(sets, dissimilarity)
    return _search_at_once(request, search, aggregate or "sum")


@dataclass(frozen=True)
class _Request:
    """Checked arguments of a search."""

    quality: Quality
    k: int
    n_sets: int
    apart: Apart
    constraints: Constraints
    previous: tuple[tuple[int, ...], ...]
    time_limit: float | None

    @classmethod
    def checked(
        cls,
        quality: Quality,
        k: int,
        n_sets: int,
        tau: float,
        dissimilarity: Dissimilarity,
        constraints: Constraints | None,
        previous: Sequence[Sequence[Feature]],
        time_limit: float | None,
    ) -> _Request:
        """Check the arguments; InputError if a value is out of range."""
        if not isinstance(quality, Quality):
            raise InputError(
                "quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is a "
                f"{type(quality).__name__}"
            )
        if not isinstance(constraints, Constraints | None):
            raise InputError(f"constraints must be Constraints but are {constraints!r}")
        n = quality.n_features
        check_fits("tau", tau)
        check_fits("time_limit", time_limit)
        if not is_number(tau) or not 0 < tau <= 1:
            raise InputError(f"tau must be above 0 and at most 1 but is {tau!r}")
        if dissimilarity not in get_args(Dissimilarity):
            raise InputError(f"dissimilarity must be 'dice' or 'jaccard' but is {dissimilarity!r}")
        if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
            raise InputError(f"time_limit must be above 0 seconds but is {time_limit!r}")
        if isinstance(previous, str) or not isinstance(previous, Iterable):
            raise InputError(f"previous must be a sequence of sets but is {previous!r}")
        check_count("k", k, 1, n)
        names = quality.names
        rules = (constraints or Constraints()).checked(n, int(k), n_sets, names)
        indices = {name: j for j, name in enumerate(names or ())}
        previous_sets = tuple(
            indices_of(features, n, indices, "each set of previous") for features in previous
        )
        apart = Apart(tau, dissimilarity)
        return cls(quality, int(k), n_sets, apart, rules, previous_sets, time_limit)


def _join_sets(sets: Sequence[FeatureSet], dissimilarity: Dissimilarity) -> Alternatives:
    """Return the sets of a sequential search, without a final empty set."""
    there = tuple(feature_set for feature_set in sets if len(feature_set))
    return Alternatives(
        sets=there,
        total=math.fsum(feature_set.quality for feature_set in there) if there else -math.inf,
        bound=math.fsum(feature_set.bound for feature_set in there) if there else sets[-1].bound,
        status=overall_status(sets),
        seconds=math.fsum(feature_set.seconds for feature_set in sets),
        dissimilarity=dissimilarity,
    )


def _search_at_once(request: _Request, search: SearchName, aggregate: Aggregate) -> Alternatives:
    """Return the sets of a simultaneous or greedy search, each with its bound and status.

    InputError if the search does not suit the quality, the constraints or the previous sets.
    """
    quality, k, n_sets, apart = request.quality, request.k, request.n_sets, request.apart
    if n_sets > _MOST_AT_ONCE:
        raise InputError(
            f"n_alternatives must be at most {_MOST_AT_ONCE - 1} if search is {search} but is "
            f"{n_sets - 1}; use sequential, with a time limit"
        )
    takes = (QualityWithForm, CFS) if search == "simultaneous" else Univariate
    if not isinstance(quality, takes):
        kinds = "Univariate, FCBF, MRMR or CFS" if search == "simultaneous" else "Univariate"
        others = "sequential" if search == "simultaneous" else "sequential or simultaneous"
        raise InputError(
            f"search {search} needs a quality that is {kinds} but is {type(quality).__name__}; "
            f"use {others}"
        )
    excludes = Constraints(must_exclude=request.constraints.must_exclude)
    if search != "simultaneous" and (request.previous or request.constraints != excludes):
        raise InputError(
            f"search {search} knows neither previous sets nor constraints but must_exclude; use "
            "sequential or simultaneous"
        )
    if request.time_limit is not None and search == "simultaneous":
        _compile(type(request.quality), search, aggregate)
    start = time.monotonic()
    deadline = None if request.time_limit is None else start + request.time_limit
    designs = Designs(
        Form(quality.relevance) if isinstance(quality, CFS) else quality.form(k),
        k,
        n_sets,
        largest_overlap(k, k, apart.tau, apart.dissimilarity),
        apart.limits(request.previous, k, quality.n_features),
        request.constraints,
        aggregate,
    )
    if isinstance(quality, CFS):
        solved, highest = _search_cfs_designs(request, quality, designs, deadline)
    else:
        highest = _highest_worth(designs.form, k, request.constraints)
        if search == "simultaneous":
            solved = _search_designs(designs, deadline)
        else:
            solved = _search_greedily(search, designs, deadline)
    if not solved.complete:  # an upper bound on any set costs nothing
        of_all = highest if aggregate == "min" else math.nextafter(n_sets * highest, math.inf)
        solved = replace(solved, bound=max(solved.value, min(solved.bound, of_all)))
    sets = _feature_sets(solved, quality, designs, highest)
    status: Status = "optimal" if solved.complete else "feasible"
    if len(sets) < n_sets:
        status = "infeasible" if solved.complete else "not_solved"
    seconds = time.monotonic() - start
    return Alternatives(
        sets=tuple(replace(feature_set, seconds=seconds) for feature_set in sets),
        total=solved.value,
        bound=solved.value if solved.complete else solved.bound,
        status=status,
        seconds=seconds,
        aggregate=aggregate,
        dissimilarity=apart.dissimilarity,
    )


def _search_designs(designs: Designs, deadline: float | None) -> Solved:
    """Return the best sets by a simultaneous search, proven as far as time allows."""
    if designs.n_sets > 1 and 2 * designs.k - designs.overlap > designs.n_features:
        return INFEASIBLE  # two sets cannot differ
    excludes = Constraints(must_exclude=designs.constraints.must_exclude)
    is_free = not len(designs.limits.at_most) and designs.constraints == excludes
    if is_free and designs.form.pair_costs is None:
        solved = best_univariate_design(designs, deadline)
    else:
        solved = best_design(designs, deadline)
    if solved.sets is None or not solved.complete:
        return solved
    if is_hidden(designs.form, solved.sets.tolist(), solved.rounding):
        return replace(solved, complete=False, bound=solved.value + solved.rounding)
    return solved


def _search_cfs_designs(
    request: _Request, quality: CFS, designs: Designs, deadline: float | None
) -> tuple[Solved, float]:
    """Return the best sets by CFS, proven as far as time allows, and a bound on any set."""
    if designs.n_sets > 1 and 2 * designs.k - designs.overlap > designs.n_features:
        return INFEASIBLE, 0.0
    one_by_one = search_sequentially(
        quality,
        designs.k,
        designs.n_sets,
        apart=request.apart,
        constraints=request.constraints,
        previous=request.previous,
        time_limit=None if request.time_limit is None else request.time_limit / 2,
    )
    first = one_by_one[0]
    if first.status == "infeasible":
        return INFEASIBLE, 0.0
    start = np.array([one.indices for one in one_by_one if len(one)], dtype=np.int32)
    start = start.reshape(-1, designs.k)
    return best_cfs_design(quality, designs, start, first.bound, deadline), first.bound


def _search_greedily(search: str, designs: Designs, deadline: float | None) -> Solved:
    """Return the univariate sets of a greedy search, fewer if it stops early."""
    values, sizes = designs.form.gains, (designs.k, designs.n_sets, designs.overlap)
    features = np.delete(np.arange(len(values), dtype=np.int32), designs.constraints.excluded)
    if search == "greedy_depth_search":
        sets = greedy_depth_search(values[features], *sizes, deadline=deadline)
    else:
        sets = _GREEDY[search](values[features], *sizes)
    sets = features[sets]
    value = math.fsum(values[sets].ravel()) if len(sets) else -math.inf
    bound = math.inf  # of any sets of this quality, see `_search_at_once`
    return Solved(sets if len(sets) else None, value, bound, complete=False)


def _feature_sets(
    solved: Solved, quality: Quality, designs: Designs, highest: float
) -> list[FeatureSet]:
    """Return the sets of a simultaneous search, each with its bound and status."""
    if solved.sets is None:
        return []
    sets = list(map(tuple, np.sort(solved.sets, axis=1).tolist()))
    value_of = quality.value if isinstance(quality, CFS) else designs.form.value
    values, names = [value_of(indices) for indices in sets], quality.names
    bounds = bounds_in_place(values, solved, designs.n_sets, designs.aggregate, highest)
    return [
        FeatureSet(
            features=indices if names is None else tuple(names[j] for j in indices),
            indices=indices,
            quality=value,
            bound=bound,
            status="optimal" if bound == value else "feasible",
            seconds=math.nan,
        )
        for indices, value, bound in zip(sets, values, bounds, strict=True)
    ]


def bounds_in_place(
    values: Sequence[float], solved: Solved, n_sets: int, aggregate: Aggregate, highest: float
) -> list[float]:
    """Return an upper bound on each set if all other sets stay.

    Replacing a set gives sets of the same problem, so the overall bound applies: a sum, minus the
    values of the others; the smallest itself, if all others are above its bound. For any other set
    only the bound on all sets is known, `highest`. A greedy search may return fewer than
    `n_sets`.
    """
    no_higher = [max(value, highest) for value in values]
    if len(values) < n_sets:
        return no_higher
    if aggregate == "sum":
        spare = 0.0
        if not solved.complete:  # the remaining gap of the sum, plus a little for rounding
            rounding = _ROUNDING * math.fsum(map(abs, [solved.bound, *values]))
            spare = max(0.0, math.fsum([solved.bound, rounding, *(-value for value in values)]))
        return [min(value + spare, most) for value, most in zip(values, no_higher, strict=True)]
    smallest, next_smallest = sorted([*values, math.inf])[:2]
    bound = smallest if solved.complete else max(smallest, min(solved.bound, highest))
    if next_smallest > bound + solved.rounding + _SAME * abs(bound):
        no_higher[values.index(smallest)] = bound
    return no_higher


def _highest_worth(form: Form, k: int, constraints: Constraints) -> float:
    """Return an upper bound on any set of k features that are not excluded."""
    left = np.delete(np.arange(len(form.gains)), constraints.excluded)
    highest = math.fsum(np.sort(form.gains[left])[-k:])
    if form.pair_costs is None or k < 2:
        return highest
    costs = form.pair_costs[np.ix_(left, left)]
    least = float(costs[~np.eye(len(costs), dtype=bool)].min(initial=math.inf))
    if least == math.inf:
        return highest
    rest = math.comb(k, 2) * least
    return highest - rest + _ROUNDING * (abs(highest) + abs(rest))


@cache
def _compile(kind: type[Any], search: str, aggregate: Aggregate | None = None) -> None:
    """Search small tables, so that all kernels are compiled before a time limit starts.

    Equal calls are to give equal sets.
    """
    if kind not in (Univariate, FCBF, MRMR, CFS):
        return
    values, pairs = np.arange(8.0, 0.0, -1.0), np.eye(8, k=1)
    kinds = {kind, MRMR} if search == "simultaneous" else {kind}  # MRMR: sets are listed
    for cls in kinds:
        small = cls(values) if cls is Univariate else cls(values, pairs)
        rules = {"k": 4, "n_alternatives": 3, "tau": 0.5, "search": search, "aggregate": aggregate}
        find_alternatives(small, **rules)  # type: ignore[arg-type]
