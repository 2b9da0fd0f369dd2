"""Several sets at once, each as different from the others as asked, and proven best together.

Simultaneous search for alternatives (arXiv 2307.11607v3, definition 5), for any quality that is a
`Form`, with constraints, given sets, and at most c sets per feature.

| paper | function |
|---|---|
| sum of the sets' qualities, eq 17 | `best_sum` |
| smallest of the sets' qualities, eq 18 | `best_min` |

The way there is our own, price and enumerate:

1. `bounding.py` finds prices, and with them a bound B on what designs are worth.
2. A design that loses less than d, by those prices, is made of sets that each lose less than d
   (`near_sets.py`). These are found by branch and bound; `swaps.py` looks among them for a good
   design, and `cliques.py`, or `packing.py`, for the best of those that lose less than d.
3. d grows until a design is known that is worth B - d. No other is then worth more.

Where a design has many places, `annealing.py` finds good ones before all that.

For the smallest quality: a design whose sets are all worth more than Z is worth more than m Z in
all, so that it loses less than B - m Z.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.annealing import annealed_designs
from chaffinch.tasks.selection.alternatives.best_design import MOST_TO_SWAP, BestDesign
from chaffinch.tasks.selection.alternatives.bounding import (
    one_after_another,
    price,
    price_further,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound import Limits
from chaffinch.tasks.selection.alternatives.cliques import Walk, search_cliques
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.designs import Designs, Sets, best_first
from chaffinch.tasks.selection.alternatives.graph import Known, graph_of
from chaffinch.tasks.selection.alternatives.near_sets import NearSets
from chaffinch.tasks.selection.alternatives.packing import is_small, none_is_left
from chaffinch.tasks.selection.alternatives.prices import Bound
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.search_state import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.sets import Solved
from chaffinch.tasks.selection.alternatives.sharpening import sharpened
from chaffinch.tasks.selection.alternatives.worth_kernels import worths

_WORK_BETWEEN_LOOKS = 5_000_000  # at the clock: some milliseconds
_WORK_BEFORE_SHARPENING = 5_000_000
_WORK_BEFORE_PACKING = 5_000_000
_TO_CHOOSE = 8  # times as many are enumerated where a step gives too many
_TOO_MANY = 1_500_000
_FIRST_STEP = 1e-5  # of what a design may lose, relative to what a set can be worth
_POOLS = (1_500, 3_000, 6_000, 12_000)  # sets to find a good design among
_GROWTH_AT_FIRST, _GROWTH = 2.0, 1.5
_NEAR = 3.0  # times a step, and what is needed is looked at in one


def best_sum(
    form: Form,
    k: int,
    n_sets: int,
    overlap: int,
    *,
    limits: Limits | None = None,
    constraints: Constraints | None = None,
    start: Sets | None = None,
    deadline: float | None = None,
) -> Solved:
    """Return the sets that are worth most in all.

    Parameters
    ----------
    form : Form
        What a set is worth, over n features.
    k : int in 1..n
        The size of the sets.
    n_sets : int, at least 1
        m, how many sets.
    overlap : int in 0..k - 1
        How many features two of them may share.
    limits : Limits, optional
        On what each may share with given sets.
    constraints : Constraints, optional
        Checked, with indices for names.
    start : ndarray of int32, shape (m, k), optional
        A design that is known, each set sorted, so that none is looked for before it is priced.
    deadline : float, optional
        On the clock of `time.monotonic`.

    Raises
    ------
    ValueError
        If `overlap` is outside its range, so that a set could be its own alternative.
    """
    designs = Designs.checked(form, k, n_sets, overlap, limits, constraints)
    return _Search(designs, deadline, is_smallest_counted=False).run(start)


def best_min(
    form: Form,
    k: int,
    n_sets: int,
    overlap: int,
    *,
    limits: Limits | None = None,
    constraints: Constraints | None = None,
    start: Sets | None = None,
    deadline: float | None = None,
) -> Solved:
    """Return the sets of which the worst is worth most; see `best_sum`."""
    designs = Designs.checked(form, k, n_sets, overlap, limits, constraints)
    return _Search(designs, deadline, is_smallest_counted=True).run(start)


class _Search(BestDesign):
    """The way to a design that is proven best."""

    def run(self, start: Sets | None = None) -> Solved:
        """Price, and enumerate until it is proven or too late."""
        is_close = start is not None  # so that what is open is a matter of the bound
        first = one_after_another(self.designs, self.deadline) if start is None else start
        self.take(first)
        self.first = self.best
        if not is_close:
            self._anneal(first)
        if self.is_smallest_counted and self.best is None:  # by the worst it is harder to find any
            found = _Search(
                self.designs, self.deadline, is_smallest_counted=False, is_any_enough=True
            ).run()
            if found.sets is None:
                return replace(found, bound=found.bound / self.designs.n_sets)
            self.take(found.sets.astype(np.int32))
        has_best = self.best is not None  # where none is found, prices often tell that none is
        if not is_close and has_best and self.begin_by_features():
            return self._solved(self.value, 0.0, is_proven=True)
        bound, master = price(self.designs, first, self.deadline, is_short=is_close)
        if bound.value == -math.inf:
            return Solved(None, -math.inf, -math.inf, complete=True)
        if master is not None and not is_close:
            self.improve(bound, master.sets)  # those that it has shares of often go together
        if not is_close and not has_best and self.begin_by_features():
            return self._solved(self.value, 0.0, is_proven=True)
        near = self._near(bound)
        step = None if is_close else self._first_step(near, _POOLS)
        if master is not None and not self.is_over() and (is_close or self._are_many(near)):
            further = price_further(master, bound, self.is_smallest_counted, self.deadline)
            self.designs, bound = further
            near, step = self._near(bound), None
        if step is None:
            step = self._first_step(near, (MOST_TO_SWAP,))
        self.ceiling = bound.value
        is_proven = self._look(near, step)
        share = self.designs.n_sets if self.is_smallest_counted else 1
        return self._solved(self.ceiling / share, bound.slack / share, is_proven=is_proven)

    def _anneal(self, first: Sets) -> None:
        """Take designs that are soon found where there are many places."""
        smallest = {"is_smallest_counted": self.is_smallest_counted}
        for sets in annealed_designs(self.designs, first, self.deadline, **smallest):
            self.take(sets)

    def _solved(self, ceiling: float, rounding: float, *, is_proven: bool) -> Solved:
        """Return the best design, or that there is none."""
        if is_proven and self.best is None:
            return Solved(None, -math.inf, -math.inf, complete=True)
        if self.by_features is not None:
            rounding = max(rounding, self.by_features.rounding)
        bound = self.value if is_proven else max(ceiling, self.value)
        in_order = None if self.best is None else best_first(self.designs.form, self.best)
        return Solved(in_order, self.value, bound + rounding, is_proven, rounding)

    def _near(self, bound: Bound) -> NearSets:
        return NearSets(self.designs, bound, self.is_smallest_counted, self.deadline)

    def _first_step(self, near: NearSets, pools: tuple[int, ...]) -> float:
        """Return what to lose for enough sets to find a good design among; look for one.

        It is looked for among more and more sets, as with many a good one is easily missed.
        """
        least = max(sys.float_info.min, _FIRST_STEP * self.designs.magnitude)  # has to grow
        needed = self.needed(near.bound)
        if least >= needed or self.is_over():
            return least
        if near.is_ordered:
            return max(self._step_among_nearest(near, pools), least)
        step, sets = least, np.empty((0, self.designs.k), np.int32)
        while len(sets) < pools[-1] and step < needed and not self.is_over():
            step *= _GROWTH_AT_FIRST
            sets, _ = near.within(min(step, needed), _TO_CHOOSE * pools[-1])
        self.improve(near.bound, sets)
        return step

    def _step_among_nearest(self, near: NearSets, pools: tuple[int, ...]) -> float:
        """Look for a good design among those that lose least; return what the last one loses."""
        step = self.needed(near.bound)
        sets, is_all = near.within(step, pools[-1])
        if is_all:
            self.improve(near.bound, sets)
            return step
        for sizes in filter(None, (pools[:1], pools[1:])):
            sets, step = near.nearest(self.needed(near.bound), sizes[-1])
            for size in sizes:
                self.improve(near.bound, sets[:size])
            if len(sets) < sizes[-1] or step >= self.needed(near.bound) or self.is_over():
                break
        return step

    def _are_many(self, near: NearSets) -> bool:
        """Return whether too many sets would have to be looked at by the prices of the sum."""
        needed = self.needed(near.bound)
        return needed > 0 and not near.within(needed, _TOO_MANY)[1]

    def _look(self, near: NearSets, step: float) -> bool:
        """Look at designs that lose more and more; return whether none is better than the best."""
        bound, lost, n_before = near.bound, 0.0, 0
        while lost < self.needed(bound) and not self.is_over():
            needed = self.needed(bound)
            may_lose = needed if needed < _NEAR * step else step
            sets, is_all = near.within(may_lose)
            if not is_all or not self._search(bound, sets, may_lose):
                return self.needed(bound) <= lost
            is_growing = len(sets) > _GROWTH * n_before
            lost, n_before = may_lose, len(sets)
            step = may_lose * (_GROWTH if is_growing else _GROWTH**3)
            self.ceiling = min(self.ceiling, bound.value - lost)
            if lost < self.needed(bound):
                self.improve(bound, sets)
        return lost >= self.needed(bound)

    def _search(self, bound: Bound, sets: Sets, may_lose: float) -> bool:
        """Find the best design among sets; return whether the search came to its end."""
        floor = bound.value - may_lose  # what designs in all are to be worth more than
        known = self._known(sets, floor)
        is_done = self._walk(known, bound, floor, _WORK_BEFORE_SHARPENING)
        is_done = is_done or self.is_settled_by_features()
        if not is_done and not self.is_over():
            floor = self._raised(floor, bound)
            known, bound = sharpened(
                self._known(sets, floor), bound, floor, self.is_smallest_counted, self.deadline
            )
            self.ceiling = min(self.ceiling, max(bound.value, floor))
            if self.is_smallest_counted and is_small(known):
                is_done = self._walk(known, bound, floor, _WORK_BEFORE_PACKING) or none_is_left(
                    known, bound, self._raised(floor, bound), self.take, self.deadline
                )
            is_done = is_done or self._walk(known, bound, self._raised(floor, bound))
        return is_done

    def _raised(self, floor: float, bound: Bound) -> float:
        """Return what designs in all are to be worth more than, the best so far considered."""
        return max(floor, bound.value - self.needed(bound))

    def _known(self, sets: Sets, floor: float) -> Known:
        """Return the sets that a design can have that counts and is worth more than a floor."""
        is_worth = worths(self.designs.form, sets) > self._above(floor)
        return Known(self.designs, sets[is_worth])

    def _above(self, floor: float) -> float:
        """Return what each set is worth more than in a design that is worth more than a floor."""
        return floor / self.designs.n_sets if self.is_smallest_counted else -math.inf

    def _walk(self, known: Known, bound: Bound, floor: float, most_work: float = math.inf) -> bool:
        """Search for a design worth more than a floor; return whether it came to its end."""
        if len(known.sets) < self.designs.n_sets or bound.value <= floor:
            return True
        graph = graph_of(known, bound)
        walk = Walk.of(graph, self.designs.n_sets, bound.value - floor, self._above(floor))
        in_all, work, ended = bound.value - bound.slack, 0, PAUSED
        while ended == PAUSED and work <= most_work and not self.is_over():
            work += _WORK_BETWEEN_LOOKS
            ended = search_cliques(
                graph, walk, _WORK_BETWEEN_LOOKS, self.is_smallest_counted, in_all
            )
        if walk.best[0] >= 0:
            self.take(known.sets[walk.best])
        return ended == DONE
