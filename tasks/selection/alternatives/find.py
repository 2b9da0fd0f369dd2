"""`chaffinch.find_alternatives`: several diverse feature sets of the highest quality.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, get_args

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound.convex_bound import (
    begin_now,
    search_convex,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Limits,
    improve_by_swaps,
    prepared,
)
from chaffinch.tasks.selection.alternatives.constraints import (
    Constraints,
    Dissimilarity,
    largest_overlap,
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
)
from chaffinch.tasks.selection.alternatives.result import (
    Aggregate,
    Alternatives,
    Designs,
    FeatureSet,
    Solved,
    Status,
    best_first,
    overall_status,
)
from chaffinch.tasks.selection.alternatives.sequential import (
    Apart,
    Narrowed,
    Outcome,
    capped,
    one_by_one,
)
from chaffinch.tasks.selection.alternatives.simultaneous import price_and_enumerate, univariate
from chaffinch.tasks.selection.alternatives.simultaneous.annealing import (
    annealed,
    balanced_by_annealing,
    realised,
)
from chaffinch.tasks.selection.alternatives.simultaneous.feature_by_feature import (
    feature_by_feature,
)
from chaffinch.tasks.selection.alternatives.simultaneous.price_and_enumerate import by_prices
from chaffinch.tasks.selection.alternatives.simultaneous.univariate import best_by_values, dealt_out
from chaffinch.tasks.selection.alternatives.simultaneous.use_bounds import best_uses
from chaffinch.tasks.selection.alternatives.simultaneous.worst_set_targets import Targets
from chaffinch.tasks.selection.alternatives.validation import (
    Feature,
    Group,
    check_fits,
    in_short,
    indices_of,
    is_number,
    sizes_of,
)
from chaffinch.tasks.selection.core import Floats

_ROUNDING = 1e-15  # relative, of three operations
_SAME = 1e-9  # relative difference up to which two sets count as equal in value


def bounds_in_place(
    worths: Sequence[float], solved: Solved, n_asked: int, aggregate: Aggregate, highest: float
) -> list[float]:
    """Return an upper bound on each set, given all other sets.

    Replacing a set gives sets of the same problem, so the overall bound applies: a sum, minus the
    values of the others; the smallest itself, if all others are above its bound. For any other set
    only the bound on all sets is known, `highest`. A greedy search may have found fewer than
    `n_asked`.
    """
    no_higher = [max(worth, highest) for worth in worths]
    if len(worths) < n_asked:
        return no_higher
    if aggregate == "sum":
        spare = 0.0 if solved.complete else _spare(worths, solved.bound)
        return [min(worth + spare, most) for worth, most in zip(worths, no_higher, strict=True)]
    smallest, next_one = sorted([*worths, math.inf])[:2]
    bound = smallest if solved.complete else max(smallest, min(solved.bound, highest))
    if next_one > bound + solved.rounding + _SAME * abs(bound):
        no_higher[worths.index(smallest)] = bound
    return no_higher


def _spare(worths: Sequence[float], bound: float) -> float:
    """Return the remaining gap of the sum, plus a little for rounding."""
    rounding = _ROUNDING * math.fsum(map(abs, [bound, *worths]))
    return max(0.0, math.fsum([bound, rounding, *(-worth for worth in worths)]))


def highest_worth(form: Form, k: int, constraints: Constraints) -> float:
    """Return an upper bound on any set of k features that are not excluded."""
    left = np.delete(np.arange(len(form.gains)), constraints.excluded)
    highest = math.fsum(np.sort(form.gains[left])[-k:])
    pairs = form.pairs(left)
    if pairs is None or k < 2 or pairs.least == math.inf:
        return highest
    rest = math.comb(k, 2) * pairs.least
    return highest - rest + _ROUNDING * (abs(highest) + abs(rest))


# All kernels are compiled before the time limit starts.
#
# Compilation takes up to a minute once after an installation, and loading compiled code some tenths
# of a second once in a process. Neither counts as search time: equal calls are to give equal sets.

_N, _K, _N_ALTERNATIVES, _TAU = 8, 4, 3, 0.5


def make_ready(
    quality: Quality, find: Callable[..., object], *, has_rules: bool, **asked: Any
) -> None:
    """Run each kind of search on a small table once in this process, to compile its kernels.

    Qualities defined by calls need nothing. `has_rules`: whether there are constraints or previous
    sets.
    """
    kind = type(quality)
    if kind not in (Univariate, FCBF, MRMR, CFS):
        return
    _search(kind, find, **asked)
    if asked["search"] == "simultaneous" and (kind is FCBF or has_rules):
        _search_by_features(asked["aggregate"] or "sum")
        _search(MRMR, find, **asked)  # by prices, where that does not finish


@cache
def _search(kind: type[Any], find: Callable[..., object], **asked: Any) -> None:
    values, pairs = np.arange(_N, 0.0, -1.0), np.full((_N, _N), 0.01)
    if kind is FCBF:
        pairs[-1, -2] = _N  # more than either gain: a conflict
    small = kind(values) if kind is Univariate else kind(values, pairs)
    find(small, k=_K, n_alternatives=_N_ALTERNATIVES, tau=_TAU, **asked)
    _search_long(has_pairs=kind is not Univariate)
    if asked["search"] == "simultaneous":
        _anneal_sets()
        if kind is Univariate:
            _anneal(asked["aggregate"] or "sum")


@cache
def _search_long(*, has_pairs: bool) -> None:
    """Call the kernels of long searches."""
    form = Form(np.arange(_N, 0.0, -1.0), 0.01 * (1 - np.eye(_N)))
    found = prepared(form, _N - 2, Limits.none(_N), Constraints(), 0.0, only_best=True)
    if found is not None:
        improve_by_swaps(found)
    if found is not None and has_pairs:
        begin_now(found)
        search_convex(found.problem, found.state, 0, np.empty((0, _N - 2), dtype=np.int64))


@cache
def _anneal_sets() -> None:
    """Call the annealing kernels."""
    n, n_sets = 10, _N_ALTERNATIVES + 1
    annealed(
        np.arange(n, 0.0, -1.0),
        np.empty((0, 0)),
        np.array([np.arange(s, s + _K) for s in range(n_sets)], dtype=np.int32),
        0,
        np.arange(n),
        np.zeros((0, n), dtype=bool),
        np.full(n_sets, _K // 2),
        1.0,
        1,
        1,
    )


@cache
def _search_by_features(aggregate: Aggregate) -> None:
    """Call the search by features, with conflicts."""
    form = Form(np.arange(_N, 0.0, -1.0))
    rules = Constraints(groups=[Group(range(_N), at_most=2)]).checked(_N, 2, 2)
    designs = Designs.checked(form, 2, 2, 1, None, rules)
    sets = np.array([[0, 1], [0, 2]], dtype=np.int32)
    found = feature_by_feature(designs, sets, is_smallest_counted=aggregate == "min", deadline=None)
    if found is not None:
        found.go_on(sets, None)
    if aggregate == "min":
        _raise_target()


@cache
def _raise_target() -> None:
    """Call the search for the best smallest sum, up from a design."""
    targets = Targets(np.arange(_N, 0.0, -1.0), 2, 2, 1, None)
    targets.take(np.array([[0, 3], [1, 2]]))
    table = targets.table()
    if table is not None:
        targets.raise_target(table, 1)


def _anneal(aggregate: Aggregate) -> None:
    """Call the kernels for many univariate sets, and those that lower their bound."""
    n, n_sets, overlap = 10, _N_ALTERNATIVES + 1, _K // 2
    n_pairs = math.comb(n_sets, 2) * overlap
    units = np.arange(n, 0, -1)
    sets = greedy_balancing(units.astype(np.float64), _K, n_sets, overlap).astype(np.int64)
    uses = best_uses(units, n_sets, n_sets * _K, n_pairs)
    if uses is not None:
        realised(uses.counts, n_sets, _K, overlap, 1)
        dealt_out(uses.counts, n_sets, _K, overlap, None)
    if aggregate == "min":
        _raise_target()
        balanced_by_annealing(units, sets, overlap, 1, 1.0, 1, 1)
    by_prices(units.astype(np.float64), sets, overlap, aggregate, None)


# Simultaneous search for alternatives, exact or greedy.
#
# Bach, arXiv 2307.11607v3, definition 5 (simultaneous search) and Algorithms 2 to 4 (greedy ones).
# The algorithm depends on the quality and the constraints:
#
# - `Univariate`, with excluded features only: `simultaneous/univariate.py`
# - `Univariate` with other constraints or given sets, and `FCBF`, for a while:
#   `simultaneous/feature_by_feature.py`; then as `MRMR`
# - `MRMR`: `simultaneous/price_and_enumerate.py`
#
# The greedy searches support `Univariate` only, without constraints or given sets.

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
    """Return the sets of a simultaneous search, each with its bound and status.

    ValueError if the search does not suit the quality, the constraints or the given sets.
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
        solved = Solved(None, -math.inf, -math.inf, complete=True)  # two sets cannot differ
    elif search == "simultaneous":
        excludes_only = constraints == Constraints(must_exclude=constraints.must_exclude)
        is_alone = isinstance(quality, Univariate) and excludes_only and not has_given
        solved = _best_together(designs, highest, aggregate, deadline, is_alone=is_alone)
    else:
        solved = _greedily(search, designs, deadline)
    if not solved.complete:
        # an upper bound on any set costs nothing
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
    """Return the best sets by a simultaneous search, proven as far as time allows.

    `is_alone`: univariate, with excluded features only and no given sets.
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
        if aggregate == "sum":  # a set has to make up for the best possible others
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
        in_order = best_first(designs.form, np.sort(solved.sets, axis=1))  # by uncapped value
        solved = replace(solved, sets=in_order, value=value, bound=max(value, solved.bound))
    return replace(solved, complete=False) if is_hidden else solved


def _greedily(name: GreedyName, designs: Designs, deadline: float | None) -> Solved:
    """Return the univariate sets of a greedy search, fewer if it stops early."""
    # the bound is on the sum of the number of sets asked for
    values, asked = designs.form.gains, (designs.k, designs.n_sets, designs.overlap)
    if name == "greedy_depth_search":
        sets = greedy_depth_search(values, *asked, deadline=deadline)
    else:
        sets = GREEDY[name](values, *asked)
    value = float(sum(designs.form.value(one) for one in sets.tolist())) if len(sets) else -np.inf
    # a search that is late from the start still has a bound
    bound = univariate.best_sum(values, *asked, deadline=time.monotonic()).bound
    return Solved(sets if len(sets) else None, value, max(value, bound), complete=False)


def _each(
    solved: Solved,
    quality: Quality,
    form: Form,
    n_asked: int,
    aggregate: Aggregate,
    highest: float,
) -> list[FeatureSet]:
    """Return the sets of a simultaneous search, each with its bound and status."""
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


SearchName = Literal[
    "sequential",
    "simultaneous",
    "greedy_replacement",
    "greedy_balancing",
    "greedy_depth_search",
]

_MOST_AT_ONCE = 5_000  # the overlap of each pair is in memory, some bytes each


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
    """Find diverse feature sets of the highest quality.

    Parameters
    ----------
    quality : Univariate, FCBF, MRMR, CFS, Wrapper or MaskedLossQuality
        Quality of a set, over n features. `chaffinch.qualities` computes them from tables.
    k : int in 1..n
        Number of features per set; for the sequential search optionally one size per set.
    n_alternatives : int, at least 0
        Number of sets besides the first; at most 1,000,000 for the sequential search and 4,999
        otherwise.
    tau : float, above 0 and at most 1
        Least dissimilarity of any two sets; 1 for disjoint sets. With Dice and sets of one size,
        the share of features in which they differ.
    dissimilarity : "dice" or "jaccard"
        Measure for `tau`.
    search : str
        ``"sequential"``: one set at a time, each the best given all before it;
        ``"simultaneous"``: all at once, for `Univariate`, `FCBF` and `MRMR`;
        ``"greedy_replacement"``, ``"greedy_balancing"``, ``"greedy_depth_search"``: fast
        heuristics without a proof, for `Univariate` without constraints and previous sets. One that
        stops before it has all sets has the status ``"not_solved"``.
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
        always finds the first. Compilation, up to a minute at the first call after an
        installation, is done before the time starts, except for a few rarely used kernels. A
        simultaneous search ends early, with its bound, if a proof needs too many sets in memory.

    Returns
    -------
    Alternatives
        A sequence of `FeatureSet`, shorter if there are no more sets. Equal calls give equal sets.
        Among proven best sets of the sequential search, equal up to rounding, the
        lexicographically first is returned; any of them, if k times the number of relevant
        features is above 2**28.

    Raises
    ------
    ValueError
        If a setting is out of its range, or they contradict each other.

    Examples
    --------
    >>> import chaffinch
    >>> quality = chaffinch.qualities.Univariate([9, 8, 7, 3, 2, 1])
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
    sizes = sizes_of(k, n_alternatives)
    asked = _Asked.checked(quality, sizes, tau, dissimilarity, constraints, previous, time_limit)
    if search == "sequential":
        return _together(list(asked.sets(sizes)), dissimilarity)
    return asked.at_once(sizes, search, aggregate or "sum")


@dataclass(frozen=True)
class _Asked:
    """Checked arguments of a search."""

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
        """Check the arguments; ValueError if one is out of range."""
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
                shown = in_short(size)
                raise ValueError(f"k must be in 1..{n}, the number of features, but is {shown}")
        for size in each:
            checked = rules.checked(n, size, len(sizes), quality.names)
        given = tuple(indices_of(one, n, quality.names, "each set of previous") for one in previous)
        return cls(quality, Apart(tau, dissimilarity), checked, given, time_limit)

    def sets(self, sizes: Iterable[int]) -> Iterator[FeatureSet]:
        """Yield the sets of a sequential search."""
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
        """Return the sets of a simultaneous search; ValueError if it is not supported."""
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
    """Return the sets of a sequential search, without a final empty one."""
    there = tuple(one for one in sets if len(one))
    return Alternatives(
        sets=there,
        total=math.fsum(one.quality for one in there) if there else -math.inf,
        bound=math.fsum(one.bound for one in there) if there else sets[-1].bound,
        status=overall_status(sets),
        seconds=math.fsum(one.seconds for one in sets),
        dissimilarity=dissimilarity,
    )
