"""Sets are added to the linear program until it knows all that matter (column generation).

Each round solves the program over the sets that are known, charges its prices, and asks for sets
that are worth more, so charged, than the program knows. When there are none, the program has its
value over all sets. The bound of `prices.py` holds whenever it is proven what no charged set
exceeds, so that it can be stopped at any time.

Only a proof takes a whole search. Where that is long, sets are first looked for next to those that
are known (`one_apart.py`), and there is none before nothing is found there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.charged_sets import best_charged_sets, charged_within
from chaffinch.tasks.selection.alternatives.deadlines import is_late, share_of_time
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.master import Master, Solution
from chaffinch.tasks.selection.alternatives.one_apart import OneApart
from chaffinch.tasks.selection.alternatives.prices import Bound, Prices

_CLOSE = 1e-7  # relative to the bound; what rounds after that gain is not worth their time
_MOST_ROUNDS, _PER_ROUND = 500, 200
_MOST_KNOWN, _FEWER_KNOWN = 2_000, 1_000
_ABOVE = 1e-13  # relative; sets that a program knows come out above its level by rounding
_MOST_ENUMERATED = 400_000
_TIME_BEFORE_PROOF = 0.5  # of what is left


class FoundSets(NamedTuple):
    """What a search for sets found.

    Attributes
    ----------
    highest : float
        No charged set exceeds it; inf if that is not known.
    sets : ndarray of int32, shape (N, k)
        Some that matter.
    is_in_time : bool
    is_long : bool
        Whether it takes more work than the linear program does.
    is_whole : bool
        Whether it came to its end.
    """

    highest: float
    sets: Sets
    is_in_time: bool
    is_long: bool
    is_whole: bool = True


Find = Callable[[Prices, float, bool], FoundSets]


def close(
    master: Master,
    bound: Bound,
    find: Find,
    *,
    floor: float = -math.inf,
    share_left: float = 0.0,
) -> tuple[Bound, Solution | None]:
    """Add sets to a linear program until it knows all that matter.

    Parameters
    ----------
    master : Master
        With sets to start from.
    bound : Bound
        The one so far.
    find : function
        From prices, what a charged set must be worth to matter, and whether a search that is long
        may end as soon as there is any.
    floor : float
        A bound below this is as good as any.
    share_left : float
        It is also enough if no more than this share of what the bound came down may be left.

    Returns
    -------
    bound : Bound
        The lowest.
    solution : Solution or None
        None if the program was given up before it knew all that matter.
    """
    designs, before = master.designs, bound.value
    one_apart: OneApart | None = None
    is_any_enough = True
    proof = share_of_time(master.deadline, _TIME_BEFORE_PROOF)
    for _ in range(_MOST_ROUNDS):
        solution = master.solve()
        if solution is None:
            break
        prices = solution.prices
        level = (solution.value - prices.refund(designs)) / designs.n_sets
        if len(master.sets) > _MOST_KNOWN:
            master.keep(solution.lacks <= np.partition(solution.lacks, _FEWER_KNOWN)[_FEWER_KNOWN])
        if one_apart is not None and not is_late(proof):
            least = level + _ABOVE * designs.magnitude
            if master.add(one_apart.better(prices, master.sets, least, _PER_ROUND)):
                continue
        found = find(prices, level, is_any_enough)
        if found.is_long and one_apart is None:
            one_apart = OneApart(designs)
        new = Bound.of(designs, prices, found.highest)
        bound = new if new.value < bound.value else bound
        if not found.is_in_time or bound.value <= floor:
            break
        left = new.value - solution.value
        is_close = math.inf > left and left <= _CLOSE * max(abs(new.value), designs.magnitude)
        is_close = is_close or left <= share_left * (before - new.value)
        if is_close:
            return bound, solution
        is_new = master.add(found.sets)
        if not (is_new or found.is_whole):  # what is known came out above the level by rounding
            is_any_enough = False
        elif not is_new:
            return bound, solution
        else:
            is_any_enough = True
    return bound, None


def searched(designs: Designs, deadline: float | None) -> Find:
    """Return how to find sets where features and pairs are priced: by looking for the best."""

    def find(prices: Prices, level: float, is_any_enough: bool) -> FoundSets:
        least = max(level, -designs.penalty) + _ABOVE * designs.magnitude
        found = best_charged_sets(
            designs, prices, least, _PER_ROUND, deadline, is_any_enough=is_any_enough
        )
        is_in_time = found.complete or not is_late(deadline)
        return FoundSets(found.bound, found.sets, is_in_time, found.is_long, found.complete)

    return find


def enumerated(designs: Designs, deadline: float | None) -> Find:
    """Return how to find sets with a cap or larger subsets priced: among all that are worth it."""

    def find(prices: Prices, level: float, _: bool) -> FoundSets:
        least = level + _CLOSE * designs.magnitude / (2 * designs.n_sets)
        sets, is_all = charged_within(designs, prices, least, _MOST_ENUMERATED, deadline)
        charged = Known(designs, sets).charged(prices)
        best = np.argsort(-charged, kind="stable")[:_PER_ROUND]
        highest = max([least, *charged[best].tolist()]) if is_all else math.inf
        return FoundSets(highest, sets[best], not is_late(deadline), is_long=True)

    return find


def listed(known: Known) -> Find:
    """Return how to find sets among known ones."""

    def find(prices: Prices, level: float, _: bool) -> FoundSets:
        charged = known.charged(prices)
        best = np.argsort(-charged, kind="stable")[:_PER_ROUND]
        sets = known.sets[best[charged[best] >= level]]
        return FoundSets(float(charged[best[0]]), sets, is_in_time=True, is_long=False)

    return find
