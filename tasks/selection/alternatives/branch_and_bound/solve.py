"""The best feature set of a size, or all that are good enough, by depth-first branch and bound.

A set is worth the sum of its gains less the sum of its pair costs (`Form`). A partial set that
lacks t features can come to no more than its own worth and the t largest of

    gain - pair costs to the partial set - 1/2 (sum of the t - 1 smallest pair costs that are left),

since each pair that is still to come is counted by half with either of its two features. Rows (how
much may be shared with other sets, groups, a budget) only ever forbid sets. They are let go of in
the bound, against a charge for a feature's weights in them that is at least 0: what a set saves or
pays by that is at least 0 if it obeys them (Lagrangian relaxation), so that the bound holds. The
charges are improved by a few subgradient steps on every level.

A search that takes long goes on in turns with one by a closer bound, from what is convex in the
pair costs: `convex_bound.py`.

Of sets that are worth the same but for rounding, the first as a word of sorted indices is taken.
A search that takes long makes the best set so far better by swaps whenever it pauses, so that what
it is stopped with is best among its neighbours. More time never leaves a worse one.
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
    """What a search for the best set has found.

    Attributes
    ----------
    indices : tuple of int, sorted, or None
        The set; None if there is none, or none was found in time.
    value : float
        What it is worth; -inf without a set.
    bound : float
        No set is worth more: of those worth `at_least`, if that was asked for. -inf if there is
        none. Above `value` by what rounding can add up to, even where the search is complete.
    complete : bool
        Whether the search came to its end, so that the set is best, or there is none.
    """

    indices: tuple[int, ...] | None
    value: float
    bound: float
    complete: bool


@dataclass(frozen=True)
class BestSets:
    """What a search for the best sets has found.

    Attributes
    ----------
    sets : ndarray of int32, shape (N, k)
        N sets, each sorted, the best first.
    bound : float
        No set is worth more; at least what was asked for.
    complete : bool
        Whether the search came to its end.
    is_long : bool
        Whether it takes more work than to solve a linear program over some hundreds of sets.
    """

    sets: NDArray[np.int32]
    bound: float
    complete: bool
    is_long: bool


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
    """Return the best set of k features.

    Parameters
    ----------
    form : Form
        What sets are worth, over n features.
    k : int in 1..n
        Their size.
    limits : Limits
        On what is shared with given sets.
    constraints : Constraints, optional
        Checked, with indices for names; the number of sets per feature is not looked at.
    at_least : float
        Only sets that are worth this are looked for.
    deadline : float, optional
        On the clock of `time.monotonic`; looked at every few milliseconds.
    on_better : callable, optional
        Called with the set that the search begins with, with the best so far every few
        milliseconds, and with the best. A search that is given more time calls it with the same
        sets in the same order, and then with more.
    is_any_enough : bool
        Whether a search that is long may stop, not complete, as soon as it has found any set.
    """
    rules = constraints or Constraints()
    # what a search tells does not depend on its time, but for the end
    until = None if on_better else deadline
    found = prepared(form, k, limits, rules, at_least, only_best=True, deadline=until)
    if found is None:
        return Found(None, -math.inf, -math.inf, complete=True)

    def tell() -> None:
        if on_better is not None and found.state.best[0] >= 0:
            on_better(found.best())

    pauses = 0

    def improve() -> bool:
        nonlocal pauses
        pauses += 1
        improve_by_swaps(found)
        tell()
        return is_any_enough and pauses > _LONG and bool(found.state.best[0] >= 0)

    tell()
    ended = _run(found, np.empty((0, k), dtype=np.int64), deadline, improve)
    if ended == DONE:
        tell()
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
    """Return all sets of k features that are worth `least`.

    Parameters
    ----------
    form, k, limits, constraints, deadline
        See `best_set`.
    least : float
        Finite.
    most : int
        Stop after so many sets.

    Returns
    -------
    sets : ndarray of int32, shape (N, k)
        N sets, each sorted, in no order that means anything, but always the same.
    complete : bool
        Whether these are all there are.
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
    """Return the best sets of k features that are worth `least`, as many as asked for or fewer.

    Parameters
    ----------
    form, k, limits, constraints, deadline
        See `best_set`.
    least : float
        Finite.
    most : int
        How many; of those that are worth the same as the last, any.
    is_any_enough : bool
        Whether a search that is long may stop, not complete, as soon as it has found any.
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
        if found.n_begun:  # with a convex part, so that it may have met sets twice
            known = np.unique(np.sort(known, axis=1), axis=0)
        merits = worths(of_all, known)
        best = np.argsort(-merits, kind="stable")[:most]
        sets[: len(best)] = known[best]
        state.n_found[0] = len(best)
        if len(best) == most:
            # of sets that are worth the same there may be more than can be looked at
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
    """Search until it is done, there is no room for more sets, it is enough, or too late."""
    if found.is_rough:
        return DONE if found.is_proven else PAUSED
    work = 1 + _WORK_BETWEEN_LOOKS // (1 + len(found.problem.caps) // _ROWS_OF_WORK)
    most_work = 0 if is_late(deadline) else work  # none still makes a bound
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
