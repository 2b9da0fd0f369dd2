"""How little any design can be worth at most: prices by column generation, and first designs.

Each round solves the linear program over the known sets, charges its prices, and asks the branch
and bound for sets that are worth more, so charged, than the program knows. When there are none, the
program has its value over all sets. The bound of `prices.py` holds in every round, so that it can
be stopped at any time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import (
    Found,
    Limits,
    best_set,
)
from chaffinch.tasks.selection.alternatives.charged_sets import (
    best_charged,
    best_charged_sets,
    charged_within,
)
from chaffinch.tasks.selection.alternatives.deadlines import is_far_too_late
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.master import Master, Solution
from chaffinch.tasks.selection.alternatives.prices import Bound, Prices
from chaffinch.tasks.selection.alternatives.quality import Form

_CLOSE = 1e-7  # relative to the bound; what rounds after that gain is not worth their time
_MOST_ROUNDS, _PER_ROUND = 500, 200
_MOST_KNOWN, _FEWER_KNOWN = 2_000, 1_000
_ROUNDS_OF_PAIRS = 12
_BEYOND = 1e-6
_ABOVE = 1e-9  # relative; sets that a program knows come out above its level by rounding
_DEARER = 1e3
_ROUNDS_FURTHER = 40
_MOST_ENUMERATED = 400_000
_WORTHWHILE = 1e-4


Find = Callable[[Prices, float], tuple[float, Sets, bool]]


def one_after_another(designs: Designs, deadline: float | None) -> Sets:
    """Return sets, shape (m', k), m' <= m, each the best that goes with those before it."""
    chosen: list[tuple[int, ...]] = []
    while len(chosen) < designs.n_sets and not (chosen and is_far_too_late(deadline)):
        found = best_beside(designs, np.array(chosen, dtype=np.int32), deadline)
        if found.indices is None:
            break
        chosen.append(found.indices)
    return np.array(chosen, dtype=np.int32).reshape(-1, designs.k)


def best_beside(
    designs: Designs, others: Sets, deadline: float | None, at_least: float = -math.inf
) -> Found:
    """Return the best set that goes with others, shape (r, k) or (0,)."""
    has = np.zeros((len(others), designs.n_features), dtype=bool)
    if len(others):
        has[np.arange(len(others))[:, None], others] = True
    limits, most = designs.limits, designs.most_uses(1)
    if designs.overlap:
        limits = Limits(
            np.concatenate((limits.sets, has)),
            np.concatenate((limits.at_most, np.full(len(others), designs.overlap))),
        )
    used_up = np.flatnonzero(has.sum(axis=0) >= most)  # with an overlap of 0, whatever is used
    constraints = designs.constraints
    excluded = {*(int(j) for j in constraints.must_exclude), *used_up.tolist()}
    if excluded & set(constraints.must_include):
        return Found(None, -math.inf, -math.inf, complete=True)
    return best_set(
        designs.form,
        designs.k,
        limits=limits,
        constraints=replace(constraints, must_exclude=tuple(sorted(excluded))),
        at_least=at_least,
        deadline=deadline,
    )


def price(
    designs: Designs, first: Sets, deadline: float | None, *, is_short: bool = False
) -> tuple[Bound, Master | None]:
    """Return the least bound on the sum that prices of features and pairs give.

    Parameters
    ----------
    designs : Designs
        Without a cap.
    first : ndarray of int32, shape (N, k)
        Sets to start from.
    deadline : float, optional
        On the clock of `time.monotonic`.
    is_short : bool
        Whether larger subsets will be priced in any case, so that pairs are once at most, if two
        sets can share more than one feature.

    Returns
    -------
    bound : Bound
        Its value is -inf if there is no design.
    master : Master or None
        The linear program that gave it; None if it was given up.
    """
    nothing = Prices.none(designs.n_features)
    found = best_charged(designs, nothing, deadline)
    bound = Bound.of(designs, nothing, found.bound)
    if found.indices is None:
        return bound, None
    master = Master(designs, penalty_of(designs), deadline)
    master.add(np.concatenate((first, np.array([found.indices], dtype=np.int32))))
    find = _searched(designs, deadline)
    bound, solution = close(master, bound, find)
    if solution is not None and solution.beyond > _BEYOND:
        known, is_possible = _possible(designs, master.sets, deadline)
        if not is_possible:
            return replace(bound, value=-math.inf), None
        master.add(known)
        master.penalty *= _DEARER
        bound, solution = close(master, bound, find)
    for _ in range(1 if is_short and designs.overlap > 1 else _ROUNDS_OF_PAIRS):
        if solution is None or not master.price_subsets(solution, 2):
            break
        bound, solution = close(master, bound, find)
    return bound, None if solution is None else master


def price_further(
    master: Master, bound: Bound, is_smallest_counted: bool, deadline: float | None
) -> tuple[Designs, Bound]:
    """Return a lower bound, with larger subsets priced, and the designs that it holds for.

    Where the smallest worth counts, what a set is worth beyond it does not. If designs count for
    B in all at most, none has a smallest worth above B / m, if that is no more than the cap; so
    that B / m is the next cap.
    """
    solution = master.solve()
    for _ in range(_ROUNDS_FURTHER):
        before = bound.value
        if is_smallest_counted:
            master.cap(bound.value / master.designs.n_sets)
        sizes = range(2, master.designs.overlap + 2)
        if solution is None or not (
            sum(master.price_subsets(solution, size) for size in sizes) or is_smallest_counted
        ):
            break
        bound, solution = close(master, bound, _enumerated(master.designs, deadline))
        if before - bound.value < _WORTHWHILE * abs(bound.value):
            break
    return master.designs, bound


def is_late(deadline: float | None) -> bool:
    """Return whether a deadline, on the clock of `time.monotonic`, has passed."""
    return deadline is not None and time.monotonic() >= deadline


def penalty_of(designs: Designs) -> float:
    """Return more than a use beyond what designs may have is worth, as a rule."""
    return 4 * designs.n_sets * designs.magnitude


def _possible(designs: Designs, first: Sets, deadline: float | None) -> tuple[Sets, bool]:
    """Return sets that designs can be made of, and False if it is proven that there are none.

    All sets are worth nothing, and a use beyond what designs may have costs 1: if every design
    would have to cost something, there is none.
    """
    costs = designs.form.pair_costs
    if costs is not None:
        costs = np.where(np.isfinite(costs), 0.0, np.inf)
    worthless = replace(designs, form=Form(np.zeros(designs.n_features), costs))
    master = Master(worthless, 1.0, deadline)
    master.add(first)
    nothing = Prices.none(designs.n_features)
    find = _searched(worthless, deadline)
    bound, _ = close(master, Bound.of(worthless, nothing, 0.0), find)
    return master.sets, bound.value >= 0


def close(
    master: Master, bound: Bound, find: Find, floor: float = -math.inf
) -> tuple[Bound, Solution | None]:
    """Add sets to a linear program until it knows all that matter.

    Parameters
    ----------
    master : Master
        With sets to start from.
    bound : Bound
        The one so far.
    find : function
        From prices, and what a charged set must be worth to matter, to what no charged set
        exceeds (inf if that is not known), some that matter, and False if it is too late.
    floor : float
        A bound below this is as good as any.

    Returns
    -------
    bound : Bound
        The lowest.
    solution : Solution or None
        None if the program was given up before it knew all that matter.
    """
    designs = master.designs
    for _ in range(_MOST_ROUNDS):
        solution = master.solve()
        if solution is None:
            break
        prices = solution.prices
        level = (solution.value - prices.refund(designs)) / designs.n_sets
        highest, sets, is_complete = find(prices, level)
        new = Bound.of(designs, prices, highest)
        bound = new if new.value < bound.value else bound
        if not is_complete or bound.value <= floor:
            break
        if len(master.sets) > _MOST_KNOWN:
            master.keep(solution.lacks <= np.partition(solution.lacks, _FEWER_KNOWN)[_FEWER_KNOWN])
        is_close = new.value - solution.value <= _CLOSE * max(abs(new.value), designs.magnitude)
        if is_close or not master.add(sets):
            return bound, solution
    return bound, None


def _searched(designs: Designs, deadline: float | None) -> Find:
    """Return how to find sets where features and pairs are priced: by looking for the best."""

    def find(prices: Prices, level: float) -> tuple[float, Sets, bool]:
        least = max(level, -penalty_of(designs)) + _ABOVE * designs.magnitude
        sets, highest, is_complete = best_charged_sets(designs, prices, least, _PER_ROUND, deadline)
        return highest, sets, is_complete

    return find


def _enumerated(designs: Designs, deadline: float | None) -> Find:
    """Return how to find sets with a cap or larger subsets priced: among all that are worth it."""

    def find(prices: Prices, level: float) -> tuple[float, Sets, bool]:
        least = level + _CLOSE * designs.magnitude / (2 * designs.n_sets)
        sets, is_all = charged_within(designs, prices, least, _MOST_ENUMERATED, deadline)
        charged = Known(designs, sets).charged(prices)
        best = np.argsort(-charged, kind="stable")[:_PER_ROUND]
        highest = max([least, *charged[best].tolist()]) if is_all else math.inf  # not known
        return highest, sets[best], not is_late(deadline)

    return find
