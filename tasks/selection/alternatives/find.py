"""`chaffinch.find_alternatives`: several feature sets that differ, each as good as it can be.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import repeat
from numbers import Integral
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
_SAME = 1e-9  # what two sets differ by, relative to one, that are taken to be worth the same


def bounds_in_place(
    worths: Sequence[float], solved: Solved, n_asked: int, aggregate: Aggregate, highest: float
) -> list[float]:
    """Return what no set is worth more than in the place of each, with all others kept.

    With it, they are again such sets, so that what bounds all of them bounds it: a sum, less what
    the others are worth; the smallest by itself, if all others are worth more than its bound. Of
    any other set it is only known what no set at all can exceed.

    Parameters
    ----------
    worths : sequence of float
        What each set is worth.
    solved : Solved
        The sets, and the bound on as many as were asked for.
    n_asked : int
        How many sets were asked for; a greedy search may have found fewer.
    aggregate : "sum" or "min"
        What is bounded: the sum of the sets' qualities, or the smallest.
    highest : float
        No set is worth more; inf if that is not known.
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
    """Return how much more sets can be worth in all, and a little for what is rounded."""
    rounding = _ROUNDING * math.fsum(map(abs, [bound, *worths]))
    return max(0.0, math.fsum([bound, rounding, *(-worth for worth in worths)]))


def highest_worth(form: Form, k: int, constraints: Constraints) -> float:
    """Return what no set of k features that are not excluded can exceed."""
    left = np.delete(np.arange(len(form.gains)), constraints.excluded)
    highest = math.fsum(np.sort(form.gains[left])[-k:])
    pairs = form.pairs(left)
    if pairs is None or k < 2 or pairs.least == math.inf:
        return highest
    rest = math.comb(k, 2) * pairs.least
    return highest - rest + _ROUNDING * (abs(highest) + abs(rest))


# What searches are compiled from is there before their clock starts, however short their time.
#
# Compiling takes up to a minute once after an installation, and reading what was compiled some
# tenths of a second once in a process. Neither is a part of any search: equal calls are to give
# equal sets.

_N, _K, _N_ALTERNATIVES, _TAU = 8, 4, 3, 0.5


def make_ready(
    quality: Quality, find: Callable[..., object], *, has_rules: bool, **asked: Any
) -> None:
    """Search a small table once in the life of this process, for each kind of search.

    Parameters
    ----------
    quality : Quality
        One of the kind that is to be searched; those that are judged by calls need nothing.
    find : function
        That searches: `find_alternatives`.
    has_rules : bool
        Whether there are constraints or previous sets.
    **asked
        Its ``search`` and ``aggregate``.
    """
    kind = type(quality)
    if kind not in (Univariate, FCBF, MRMR, CFS):
        return
    _search(kind, find, **asked)
    if asked["search"] == "simultaneous" and (kind is FCBF or has_rules):
        _search_by_features(asked["aggregate"] or "sum")
        _search(MRMR, find, **asked)  # by prices, where that comes to no end


@cache
def _search(kind: type[Any], find: Callable[..., object], **asked: Any) -> None:
    values, pairs = np.arange(_N, 0.0, -1.0), np.full((_N, _N), 0.01)
    if kind is FCBF:
        pairs[-1, -2] = _N  # more than either is worth: a conflict
    small = kind(values) if kind is Univariate else kind(values, pairs)
    find(small, k=_K, n_alternatives=_N_ALTERNATIVES, tau=_TAU, **asked)
    _search_long(has_pairs=kind is not Univariate)
    if asked["search"] == "simultaneous":
        _anneal_sets()
        if kind is Univariate:
            _anneal(asked["aggregate"] or "sum")


@cache
def _search_long(*, has_pairs: bool) -> None:
    """Call what searches that take long go on with."""
    form = Form(np.arange(_N, 0.0, -1.0), 0.01 * (1 - np.eye(_N)))
    found = prepared(form, _N - 2, Limits.none(_N), Constraints(), 0.0, only_best=True)
    if found is not None:
        improve_by_swaps(found)
    if found is not None and has_pairs:
        begin_now(found)
        search_convex(found.problem, found.state, 0, np.empty((0, _N - 2), dtype=np.int64))


@cache
def _anneal_sets() -> None:
    """Call what sets of many places are found by."""
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
    """Call what is searched feature by feature, where some do not go together."""
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
    """Call what the smallest sum is searched by, up from a design."""
    targets = Targets(np.arange(_N, 0.0, -1.0), 2, 2, 1, None)
    targets.take(np.array([[0, 3], [1, 2]]))
    table = targets.table()
    if table is not None:
        targets.raise_target(table, 1)


def _anneal(aggregate: Aggregate) -> None:
    """Call what univariate sets of many places are searched by, and what lowers their bound."""
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


# Alternatives all at once: best in all, exactly or greedily.
#
# Bach, arXiv 2307.11607v3, definition 5 (simultaneous search) and Algorithms 2 to 4 (greedy ones).
# Which way leads there depends on the quality, and on what else the sets must obey:
#
# - `Univariate`, where features may be excluded: `simultaneous/univariate.py`
# - `Univariate` with other constraints or given sets, and `FCBF`, for a while:
#   `simultaneous/feature_by_feature.py`; then as `MRMR`
# - `MRMR`: `simultaneous/price_and_enumerate.py`
#
# The greedy searches take `Univariate` alone, with neither.

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
