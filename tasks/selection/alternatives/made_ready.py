"""What searches are compiled from is there before their clock starts, however short their time.

Compiling takes up to a minute once after an installation, and reading what was compiled some tenths
of a second once in a process. Neither is a part of any search: equal calls are to give equal sets.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.annealing_kernels import (
    balanced_by_annealing,
    realised,
)
from chaffinch.tasks.selection.alternatives.by_prices import by_prices
from chaffinch.tasks.selection.alternatives.constraints import Constraints, Group
from chaffinch.tasks.selection.alternatives.convex_kernels import search_convex
from chaffinch.tasks.selection.alternatives.convex_search import begin_now
from chaffinch.tasks.selection.alternatives.dealing import dealt_out
from chaffinch.tasks.selection.alternatives.designs import Designs
from chaffinch.tasks.selection.alternatives.exchange_kernels import annealed
from chaffinch.tasks.selection.alternatives.feature_by_feature import feature_by_feature
from chaffinch.tasks.selection.alternatives.greedy import greedy_balancing
from chaffinch.tasks.selection.alternatives.quality import (
    CFS,
    FCBF,
    MRMR,
    Form,
    Quality,
    Univariate,
)
from chaffinch.tasks.selection.alternatives.search_problem import improve_by_swaps, prepared
from chaffinch.tasks.selection.alternatives.searching import Limits
from chaffinch.tasks.selection.alternatives.sets import Aggregate
from chaffinch.tasks.selection.alternatives.targets import Targets
from chaffinch.tasks.selection.alternatives.uses import best_uses

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
