"""The best feature set of a size, or all that are good enough, by depth-first branch and bound.

The value of a set is the sum of its gains minus the sum of its pair costs (`Form`). For a partial
set that lacks t features, an upper bound is its own value plus the t largest of

    gain - pair costs to the partial set - 1/2 (sum of the t - 1 smallest pair costs that are left),

since half of each future pair cost is counted with either of its two features. Rows (limits on
shared features, groups, a budget) only forbid sets. The bound relaxes them with nonnegative charges
for a feature's weights in them (Lagrangian relaxation): sets that obey the rows pay nothing in
total, so that the bound holds. The charges are improved by a few subgradient steps on every level.

A long search alternates with one that uses a tighter bound, from the convex part of the pair costs:
see `convex_bound.py`.

Among sets of equal value up to rounding, the lexicographically first one is returned. A long search
improves the best set so far by swaps at every pause, so that a stopped search returns a local
optimum. More time never gives a worse set.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import DONE, FULL, PAUSED, Integers, is_late
from chaffinch.tasks.selection.alternatives.branch_and_bound.convex_bound import (
    count_work,
    learn,
    search_convex,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.kernels import search
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import (
    Limits,
    Search,
    improve_by_swaps,
    open_bound,
    prepared,
)
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form, worths

__all__ = ["BestSets", "Found", "Limits", "best_set", "best_sets", "sets_within"]

_WORK_BETWEEN_LOOKS = 2_000_000  # at the clock: some milliseconds
_ROWS_OF_WORK = 32  # more rows are more work
_FIRST_SETS = 1024
_SOON = 8  # looks at the clock: as long as a linear program takes
_LONG = 60  # some tenths of a second
_FEW = 500  # sets

OnBetter = Callable[[tuple[int, ...]], None]


@dataclass(frozen=True)
class Found:
    """Result of a search for the best set."""

    indices: tuple[int, ...] | None  # sorted; None if there is no set, or none was found in time
    value: float  # -inf without a set
    # on sets of value `at_least`; -inf if there are none. Above `value` by possible rounding
    # errors, even if the search is complete
    bound: float
    complete: bool


@dataclass(frozen=True)
class BestSets:
    """Result of a search for the best sets."""

    sets: NDArray[np.int32]  # (N, k), each sorted, the best first
    bound: float  # at least the value asked for
    complete: bool
    is_long: bool  # takes more work than a linear program over some hundreds of sets


def best_set(
    form: Form,
    k: int,
    *,
    limits: Limits,
    constraints: Constraints | None = None,
    at_least: float = -math.inf,
    deadline: float | None = None,
    on_better: OnBetter | None = None,
    is_any_enough: bool = False,
) -> Found:
    """Return the best set of k features, of value `at_least` or more.

    The number of sets per feature is ignored. `deadline`, on the clock of `time.monotonic`, is
    checked every few milliseconds. `on_better` is called with the first set, with the best so far
    every few milliseconds, and with the best; with more time, a search makes the same calls in the
    same order, and then more. `is_any_enough`: a long search may stop, incomplete, as soon as it
    has found any set.
    """
    rules = constraints or Constraints()
    # apart from its end, the calls of a search must not depend on its time
    until = None if on_better else deadline
    found = prepared(form, k, limits, rules, at_least, only_best=True, deadline=until)
    if found is None:
        return Found(None, -math.inf, -math.inf, complete=True)

    def report() -> None:
        if on_better is not None and found.state.best[0] >= 0:
            on_better(found.best())

    pauses = 0

    def improve() -> bool:
        nonlocal pauses
        pauses += 1
        improve_by_swaps(found)
        report()
        return is_any_enough and pauses > _LONG and bool(found.state.best[0] >= 0)

    report()
    ended = _run(found, np.empty((0, k), dtype=np.int64), deadline, improve)
    if ended == DONE:
        report()
    slack, best_value = found.problem.slack, float(found.state.best_value[0])
    bound = -math.inf if ended == DONE else max(open_bound(found), best_value) + slack
    if found.state.best[0] < 0:
        return Found(None, -math.inf, bound, ended == DONE)
    indices = found.best()
    value = form.value(indices)
    return Found(indices, value, max(bound, best_value + slack, value), ended == DONE)


def sets_within(
    form: Form,
    k: int,
    least: float,
    *,
    limits: Limits,
    constraints: Constraints | None = None,
    most: int,
    deadline: float | None = None,
) -> tuple[NDArray[np.int32], bool]:
    """Return sets (N, k) of value `least` or more, up to `most`, and whether these are all.

    Each is sorted, in an arbitrary but reproducible order.
    """
    rules = constraints or Constraints()
    found = prepared(form, k, limits, rules, least, only_best=False, deadline=deadline)
    if found is None:
        return np.empty((0, k), dtype=np.int32), True
    found.is_for_many = True
    room = min(most, _FIRST_SETS) + len(found.features)  # a search stops before it runs out
    sets = np.empty((room, k), dtype=np.int64)
    ended = _run(found, sets, deadline)
    while ended == FULL and found.state.n_found[0] < most:
        sets = np.concatenate([sets, np.empty_like(sets)])
        ended = _run(found, sets, deadline)
    n_sets = min(int(found.state.n_found[0]), most)
    is_all = ended == DONE and n_sets == found.state.n_found[0]
    return found.features[np.sort(sets[:n_sets], axis=1)].astype(np.int32), is_all


def best_sets(
    form: Form,
    k: int,
    least: float,
    *,
    limits: Limits,
    constraints: Constraints | None = None,
    most: int,
    deadline: float | None = None,
    is_any_enough: bool = False,
) -> BestSets:
    """Return up to `most` best sets of k features of value `least`, finite, or more.

    Ties with the last are broken arbitrarily. For `is_any_enough` see `best_set`.
    """
    rules = constraints or Constraints()
    found = prepared(form, k, limits, rules, least, only_best=False, deadline=deadline)
    if found is None:
        return BestSets(np.empty((0, k), dtype=np.int32), least, complete=True, is_long=False)
    slack = found.problem.slack
    found.is_for_many = most > _FEW
    sets = np.empty((2 * most + len(found.features), k), dtype=np.int64)
    of_all = Form(found.problem.gains, found.problem.costs if len(found.problem.costs) else None)
    ended, pauses = FULL, 0

    def is_enough() -> bool:
        nonlocal pauses
        pauses += 1
        return is_any_enough and pauses > _LONG and bool(found.state.n_found[0] > 0)

    while ended == FULL:
        ended = _run(found, sets, deadline, is_enough)
        pauses += 1
        state = found.state
        known = sets[: int(state.n_found[0])]
        if found.n_begun:  # with a convex part it may have found sets twice
            known = np.unique(np.sort(known, axis=1), axis=0)
        merits = worths(of_all, known)
        best = np.argsort(-merits, kind="stable")[:most]
        sets[: len(best)] = known[best]
        state.n_found[0] = len(best)
        if len(best) == most:
            # there may be more sets of equal value than can be listed
            more = math.nextafter(float(merits[best[-1]]) + 2 * slack, math.inf)
            state.best_value[0] = max(state.best_value[0], more)
    bound = max([least, *merits[best[:1]].tolist()])
    if ended != DONE:
        bound = max(bound, open_bound(found))
    features = found.features[np.sort(sets[: len(best)], axis=1)].astype(np.int32)
    return BestSets(features, bound + slack, ended == DONE, is_long=pauses > _SOON)


def _run(
    found: Search,
    sets: Integers,
    deadline: float | None,
    on_pause: Callable[[], bool] | None = None,
) -> int:
    """Search until it is done, `found` is full, it is enough, or the deadline is over."""
    if found.is_rough:
        return DONE if found.is_proven else PAUSED
    work = 1 + _WORK_BETWEEN_LOOKS // (1 + len(found.problem.caps) // _ROWS_OF_WORK)
    most_work = 0 if is_late(deadline) else work  # without work it still gives a bound
    while True:
        kernel = search_convex if found.is_convex else search
        ended = kernel(found.problem, found.state, most_work, sets)
        if ended != PAUSED:
            if ended == DONE:
                learn(found)
            return ended
        if (on_pause is not None and on_pause()) or is_late(deadline):
            return ended
        count_work(found, work, deadline)
