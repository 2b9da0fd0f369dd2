"""Several sets at once, each as different from the others as asked, and proven best together.

Simultaneous search for alternatives (arXiv 2307.11607v3, definition 5), for any quality that is a
`Form`, with constraints, given sets, and at most c sets per feature.

| paper | function |
|---|---|
| sum of the sets' qualities, eq 17 | `best_sum` |
| smallest of the sets' qualities, eq 18 | `best_min` |

The way there is our own, price and enumerate:

1. `price_and_enumerate.py` finds prices, and with them a bound B on what designs are worth.
2. A design that loses less than d, by those prices, is made of sets that each lose less than d
   (`NearSets`). These are found by branch and bound; `best_of_pool.py` looks among them for a
   good design, and then for the best of those that lose less than d.
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

from chaffinch.tasks.selection.alternatives.arrays import (
    DONE,
    PAUSED,
    Integers,
    is_far_too_late,
    is_late,
    share_of_time,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.branch_and_bound.solve import Found, best_set
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.alternatives.result import (
    Aggregate,
    Designs,
    Sets,
    Solved,
    best_first,
)
from chaffinch.tasks.selection.alternatives.simultaneous.annealing import annealed_designs
from chaffinch.tasks.selection.alternatives.simultaneous.best_of_pool import (
    Walk,
    improved,
    is_small,
    none_is_left,
    search_cliques,
)
from chaffinch.tasks.selection.alternatives.simultaneous.column_generation import (
    Master,
    Solution,
    close,
    enumerated,
    searched,
    sharpened,
)
from chaffinch.tasks.selection.alternatives.simultaneous.feature_by_feature import (
    FeatureByFeature,
    feature_by_feature,
)
from chaffinch.tasks.selection.alternatives.simultaneous.prices import (
    Bound,
    Known,
    Prices,
    best_charged,
    best_charged_sets,
    charged_within,
    graph_of,
)
from chaffinch.tasks.selection.core import Floats, Mask

_SHARE = 0.5  # of the time
_ROUNDS_OF_PAIRS = 12
_BEYOND = 1e-6
_DEARER = 1e3
_ROUNDS_FURTHER = 40
_WORTHWHILE = 1e-4
_MOST_PAIRS = 2**27  # of features, 8 bytes each
_SHARE_LEFT = 0.03  # between two rounds that price more subsets
_SHARE_ABOVE = 0.05  # of what is between a cap that is proven and one that is guessed


def one_after_another(designs: Designs, deadline: float | None) -> Sets:
    """Return sets (m', k), m' <= m, each a good one that goes with those before it.

    Each is the best, unless that takes long. None is searched for longer than for half of what is
    left of half of the time.
    """
    chosen: list[tuple[int, ...]] = []
    until = share_of_time(deadline, _SHARE)
    while len(chosen) < designs.n_sets and not (chosen and is_far_too_late(deadline)):
        others = np.array(chosen, dtype=np.int32)
        latest = share_of_time(until, 0.5)
        found = best_beside(designs, others, latest, is_any_enough=True)
        if found.indices is None:
            break
        chosen.append(found.indices)
    return np.array(chosen, dtype=np.int32).reshape(-1, designs.k)


def best_beside(
    designs: Designs,
    others: Sets,
    deadline: float | None,
    at_least: float = -math.inf,
    *,
    is_any_enough: bool = False,
) -> Found:
    """Return the best set that goes with others, shape (r, k) or (0,); see `best_set`."""
    has = np.zeros((len(others), designs.n_features), dtype=bool)
    if len(others):
        has[np.arange(len(others))[:, None], others] = True
    limits, most = designs.limits, designs.most_uses(1)
    if designs.overlap:
        limits = Limits(
            np.concatenate((limits.sets, has)),
            np.concatenate((limits.at_most, np.full(len(others), designs.overlap))),
        )
    used_up = np.flatnonzero(has.sum(axis=0) >= most)  # with an overlap of 0, all used features
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
        is_any_enough=is_any_enough,
    )


def price(
    designs: Designs, first: Sets, deadline: float | None, *, is_short: bool = False
) -> tuple[Bound, Master | None]:
    """Return the least bound on the sum that prices of features and pairs give.

    Also the linear program that gave it; None if it was given up. The bound is -inf if there is no
    design. `is_short`: larger subsets will be priced in any case, so that pairs are once at most,
    if two sets can share more than one feature.
    """
    nothing = Prices.none(designs.n_features)
    if is_late(deadline):  # without a first set, which takes some tens of milliseconds
        late = best_charged_sets(designs, nothing, -designs.penalty, 1, deadline)
        if not late.complete:
            return Bound.of(designs, nothing, late.bound), None
    found = best_charged(designs, nothing, deadline)
    bound = Bound.of(designs, nothing, found.bound)
    if found.indices is None:
        return bound, None
    master = Master(designs, designs.penalty, deadline)
    master.add(np.concatenate((first, np.array([found.indices], dtype=np.int32))))
    find = searched(designs, deadline)
    bound, solution = close(master, bound, find)
    if solution is not None and solution.beyond > _BEYOND:
        known, is_possible = _possible(designs, master.sets, deadline)
        if not is_possible:
            return replace(bound, value=-math.inf), None
        master.add(known)
        master.penalty *= _DEARER
        bound, solution = close(master, bound, find)
    for _ in range(1 if is_short and designs.overlap > 1 else _ROUNDS_OF_PAIRS):
        if solution is None or _is_wide(designs) or not master.price_subsets(solution, 2):
            break
        bound, solution = close(master, bound, find, share_left=_SHARE_LEFT)
    return bound, None if solution is None else master


def price_further(
    master: Master, bound: Bound, is_smallest_counted: bool, deadline: float | None
) -> tuple[Designs, Bound]:
    """Return a lower bound, with larger subsets priced, and the designs that it holds for.

    Where the smallest worth counts, what a set is worth beyond it does not. If designs count for
    B in all at most, none has a smallest worth above B / m, if that is no more than the cap; so
    that B / m is the next cap.

    A lower cap c is guessed first. A design whose smallest worth is above c would count for m c, so
    that there is none if designs come to less than that; if not, the guess is taken back.
    """
    solution, n_sets, is_guessing = master.solve(), master.designs.n_sets, is_smallest_counted
    for _ in range(_ROUNDS_FURTHER):
        cap, proven = master.designs.cap, bound
        guess = _next_cap(master, solution, bound) if is_guessing else math.inf
        if is_smallest_counted:
            master.cap(min(guess, bound.value / n_sets))
        sizes = range(2, 2 if _is_wide(master.designs) else master.designs.overlap + 2)
        if solution is None or not (
            sum(master.price_subsets(solution, size) for size in sizes) or is_smallest_counted
        ):
            break
        find = enumerated(master.designs, deadline)
        bound, solution = close(master, bound, find, share_left=_SHARE_LEFT)
        if guess <= bound.value / n_sets:
            master.cap(cap)
            bound, solution, is_guessing = proven, master.solve(), False
        elif proven.value - bound.value < _WORTHWHILE * abs(bound.value):
            break
    return master.designs, bound


def _is_wide(designs: Designs) -> bool:
    """Return whether a table of what pairs of features are charged would be too large."""
    return designs.n_features**2 > _MOST_PAIRS


def _next_cap(master: Master, solution: Solution | None, bound: Bound) -> float:
    """Return a cap that designs are likely to keep; inf if there is nothing to guess by.

    What designs count for at most is concave in the cap c, and its slope is how many sets are worth
    more than c. So it is no more than m c where the tangent is (Newton's method).
    """
    cap, n_sets, highest = master.designs.cap, master.designs.n_sets, bound.value
    if solution is None or cap == math.inf:
        return math.inf
    n_above = float(solution.shares[worths(master.designs.form, solution.sets) > cap].sum())
    if n_above >= n_sets:
        return math.inf
    guess = (highest - n_above * cap) / (n_sets - n_above)
    return guess + _SHARE_ABOVE * (highest / n_sets - guess)


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
    find = searched(worthless, deadline)
    bound, _ = close(master, Bound.of(worthless, nothing, 0.0), find)
    return master.sets, bound.value >= 0


MOST_TO_SWAP = 30_000
_MANY_PLACES = 100  # so that no proof is near
_POWER = 4  # of what a set is short of the best there can be


class BestDesign:
    """State of a search.

    `is_smallest_counted`: a design is worth what its worst set is. `is_any_enough`: the search is
    over with any design. `best` (m, k); `first`, another to start from; `value` of the best, -inf
    without one; `ceiling`: no design counts for more in all; `is_settled`: whether the search by
    features has proven the best.
    """

    def __init__(
        self,
        designs: Designs,
        deadline: float | None,
        *,
        is_smallest_counted: bool,
        is_any_enough: bool = False,
    ) -> None:
        self.designs, self.deadline = designs, deadline
        self.is_smallest_counted, self.is_any_enough = is_smallest_counted, is_any_enough
        self.best: Sets | None = None
        self.first: Sets | None = None
        self.value, self.ceiling = -math.inf, math.inf
        self.by_features: FeatureByFeature | None = None
        self.is_settled = False

    def take(self, sets: Sets) -> bool:
        """Take sets if they are a better design; return whether they are."""
        if not self.designs.contain(sets):
            return False
        of_sets = [self.designs.form.value(features) for features in sets.tolist()]
        value = min(of_sets) if self.is_smallest_counted else math.fsum(of_sets)
        if value > self.value:
            self.best, self.value = sets, value
            return True
        return False

    def begin_by_features(self) -> bool:
        """Search feature by feature, if that can be; see `is_settled_by_features`."""
        if not self.is_over():
            self.by_features = feature_by_feature(
                self.designs,
                self.best,
                is_smallest_counted=self.is_smallest_counted,
                deadline=self.deadline,
            )
        return self.is_settled_by_features()

    def is_settled_by_features(self) -> bool:
        """Search on feature by feature for a while; return whether the best is proven so."""
        if self.by_features is None or self.is_over():
            return False
        found = self.by_features.go_on(self.best, self.deadline)
        if found is not None:
            self.take(found)
        self.is_settled = self.by_features.is_done
        return self.is_settled

    def needed(self, bound: Bound) -> float:
        """Return what a design loses less than if it is better by more than rounding."""
        if self.is_settled:
            return -math.inf
        worst = -(self.designs.n_sets + 1) * self.designs.magnitude  # any design is better
        if self.best is not None:
            worst = self.value * (self.designs.n_sets if self.is_smallest_counted else 1)
            worst += bound.slack
        return bound.value - worst

    def is_over(self) -> bool:
        """Return whether it is late, or any design is enough and there is one."""
        return (self.is_any_enough and self.best is not None) or is_late(self.deadline)

    def improve(self, bound: Bound, sets: Sets) -> None:
        """Look for a better design by swaps, among the sets that lose least."""
        if len(sets) > MOST_TO_SWAP:
            charged = Known(self.designs, sets).charged(bound.prices)
            sets = sets[np.argsort(-charged, kind="stable")[:MOST_TO_SWAP]]
        if self.best is not None:
            sets = np.unique(np.concatenate((self.best, sets)), axis=0)
        merits = worths(self.designs.form, sets)
        if self.is_smallest_counted and len(sets):  # all are to come near to the best there can be
            short = np.maximum(bound.value / self.designs.n_sets - merits, 0.0)
            merits = -((short / (short.max() or 1.0)) ** _POWER)
        is_large = self.designs.n_sets * self.designs.k >= _MANY_PLACES
        starts = [self.best]
        if is_large and self.first is not self.best:  # what is best may lead nowhere
            starts.append(self.first)
        for start in starts:
            found = improved(self.designs, sets, merits, start, self.deadline)
            if found is not None and self.take(found):
                self._exchange(found)

    def _exchange(self, sets: Sets) -> None:
        """Exchange one set at a time for the best that goes with the others."""
        is_better, form = True, self.designs.form
        while is_better and not self.is_over():
            is_better = False
            for place in range(self.designs.n_sets):
                others = np.delete(sets, place, axis=0)
                least = form.value(sets[place].tolist()) + self.designs.rounding
                found = best_beside(self.designs, others, self.deadline, least)
                if found.indices is not None:
                    sets = np.insert(others, place, found.indices, axis=0)
                    is_better = self.take(sets) or is_better


# The sets that a better design can have, by the prices of a bound: those that lose little.
#
# A design that loses less than d, by those prices, is made of sets that each lose less than d.
# Where the smallest worth counts, each of them is also worth more than (B - d) / m.

_MOST_NEAR_SETS = 2_000_000


class NearSets:
    """Sets by what they lose.

    `is_smallest_counted`: a design counts for its worst set, m times.
    """

    def __init__(
        self, designs: Designs, bound: Bound, is_smallest_counted: bool, deadline: float | None
    ) -> None:
        self.designs, self.bound, self.deadline = designs, bound, deadline
        self.is_smallest_counted = is_smallest_counted
        self.rounding = bound.prices.rounding(designs)
        self._listed: Sets | None = None
        self._may_lose = 0.0  # by those that are listed

    @property
    def is_ordered(self) -> bool:
        """Whether those that lose least can be asked for: a cap, or larger subsets, hide them."""
        return self.designs.cap == math.inf and len(self.bound.prices.layers) <= 2

    def nearest(self, may_lose: float, most: int) -> tuple[Sets, float]:
        """Return sets that lose least, the first first, and what the last of so many loses.

        Where there are fewer than `most`, that is what they may lose.
        """
        bound = self.bound
        sets = best_charged_sets(
            self.designs, bound.prices, bound.highest - may_lose, most, self.deadline
        ).sets
        if len(sets) < most:
            return sets, may_lose
        return sets, bound.highest - float(Known(self.designs, sets[-1:]).charged(bound.prices)[0])

    def within(self, may_lose: float, most: int = _MOST_NEAR_SETS) -> tuple[Sets, bool]:
        """Return the sets that a design can have that loses less, and whether these are all."""
        if self._listed is not None and may_lose <= self._may_lose:
            sets = self._listed[self._are_near(self._listed, may_lose)]
            return sets[:most], len(sets) <= most
        bound = self.bound
        sets, is_all = charged_within(
            self.designs,
            bound.prices,
            bound.highest - may_lose,
            most,
            self.deadline,
            least_worth=self._least_worth(may_lose),
        )
        if is_all:
            self._listed, self._may_lose = sets, may_lose
        return sets, is_all

    def _least_worth(self, may_lose: float) -> float:
        """Return what each set of a design that loses less is worth."""
        if not self.is_smallest_counted:
            return -math.inf
        return (self.bound.value - may_lose) / self.designs.n_sets

    def _are_near(self, sets: Sets, may_lose: float) -> Mask:
        known, bound = Known(self.designs, sets), self.bound
        is_worth = known.worths >= self._least_worth(may_lose) - self.rounding
        least = bound.highest - may_lose - self.rounding
        return np.asarray(is_worth & (known.charged(bound.prices) >= least))


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
    """Return the sets with the largest sum of values.

    `start` (m, k) is a design that is known, each set sorted, so that none is searched for before
    it is priced. ValueError if `overlap` is outside its range, so that a set could be its own
    alternative.
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
        has_best = self.best is not None  # if none is found, prices often show that there is none
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
        """Return what to lose for enough sets to find a good design among; search for one.

        It is searched for among more and more sets, as with many a good one is easily missed.
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


# Several univariate sets by prices of subsets, where bounds on uses leave too large a gap.
#
# With c_R sets that have all of the features R, over all R of one size r (`result.py`),
#
#     sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!).
#
# `use_bounds.py` uses this for r = 1, and for r = K + 1 among the best features. This is too weak
# if a few features have far higher values than all others: these are together in nearly all sets,
# which can then share next to nothing else, and sets that lack them are poor. A linear program over
# sets takes every r from 1 to K + 1 into account; any prices of subsets bound the value of designs,
# by the proof in `prices.py`, and its dual values are good prices. So `price_and_enumerate.py`
# continues with the gap left after annealing.
#
# For the smallest value, a set is capped at the bound itself (`price_and_enumerate.py`).

_MOST_SETS = 1_000_000_000  # that there are; of more, too many are worth nearly as much


def is_priced(n_features: int, k: int, overlap: int) -> bool:
    """Return whether prices may lower a bound: sets share something, and there are few enough."""
    return 0 < overlap < k and math.comb(n_features, k) <= _MOST_SETS


def by_prices(
    values: Floats, start: Integers, overlap: int, aggregate: Aggregate, deadline: float | None
) -> Solved:
    """Return sets that are worth no less than those to start from, with a bound.

    `start` (m, k) is a design of the features of `values` (p,).
    """
    n_sets, k = start.shape
    search = best_sum if aggregate == "sum" else best_min
    return search(
        Form(values),
        k,
        n_sets,
        overlap,
        start=np.sort(start, axis=1).astype(np.int32),
        deadline=deadline,
    )
