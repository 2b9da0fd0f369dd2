"""Several sets at once, proven best together, for any quality that is a `Form`.

Simultaneous search for alternatives (arXiv 2307.11607v3, definition 5; sum, eq 17; smallest, eq
18), with constraints, previous sets, and at most c sets per feature. The way is our own:

1. prices, and with them a bound B on the sum of a design (`prices.py`);
2. a design that loses less than d, by those prices, consists of sets that each lose less than d:
   these are listed by branch and bound, and the best design among them is chosen (`packing.py`);
3. d grows until a design is known that is worth B - d. No other is then worth more.

A design whose sets are all worth more than Z is worth more than m Z in all: for the smallest
quality it loses less than B - m Z, and none of its sets is worth more than the others leave. Z
comes down from the bound until there is such a design.

Prices computed again for the listed sets alone, none of which counts for more than the bound on the
smallest quality, leave fewer of them.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.designs import INFEASIBLE, Designs, Sets, Solved
from chaffinch.tasks.selection.alternatives.exact.best_sets import (
    Limits,
    best_set,
    best_sets,
    is_late,
    share_of_time,
)
from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import DONE, PAUSED
from chaffinch.tasks.selection.alternatives.exact.feature_by_feature import (
    FeatureByFeature,
    feature_by_feature,
)
from chaffinch.tasks.selection.alternatives.exact.packing import Pool, Walk, pack, pack_by_solver
from chaffinch.tasks.selection.alternatives.exact.prices import Bound, price, sharpened
from chaffinch.tasks.selection.alternatives.greedy import (
    best_first,
    greedy_balancing,
    greedy_depth_search,
)
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.constraints import Constraints, Rows
from chaffinch.tasks.selection.core import Mask

_SHARE, _SHARE_OF_STARTS = 0.5, 0.25  # of the time
_POOLS = (1_000, 10_000, 100_000, 1_000_000)  # sets that lose least
_WORK_BETWEEN_LOOKS = 2_000_000  # at the clock: some milliseconds
_WORK_BEFORE_SHARPENING = 10_000_000  # looks at an item of a set
_WORK_AT_FIRST, _SECONDS_AT_FIRST, _LONGER = 30_000_000, 1.0, 4  # seconds of a solver's count
# of the search by features, where something keeps some apart, and where nothing does
_STEPS_AT_FIRST = (100_000, 1_000_000)
_MOST_ENTRIES = 500_000  # of an integer program over sets
_MOST_NEAR_SETS = 100_000  # to a target for the smallest quality
_FIRST_STEP, _SHORTER, _SHORTEST_STEP = 2.0**-10, 4, 2.0**-20  # of a target, down from the bound
_SHARE_OF_WORTH = 0.8  # the larger, the quicker the search, and the more sets to sift


def best_design(
    designs: Designs,
    deadline: float | None,
    start: Sets | None = None,
) -> Solved:
    """Return the best design; with a bound if it is not proven in time.

    `start` (m, k) is a design that is known.
    """
    search = _Search(designs, deadline)
    first = choose_sequentially(designs, deadline) if start is None else start
    search.take(first)
    return search.run(first)


def choose_sequentially(designs: Designs, deadline: float | None) -> Sets:
    """Return sets (m', k), m' <= m, each the best that goes with those before it, as a rule."""
    chosen: list[tuple[int, ...]] = []
    constraints, limits = designs.constraints, designs.limits
    until = share_of_time(deadline, _SHARE)
    for _ in range(designs.n_sets):
        has = np.zeros((len(chosen), designs.n_features), dtype=bool)
        for row, indices in zip(has, chosen, strict=True):
            row[list(indices)] = True
        at_most = np.append(limits.at_most, np.full(len(chosen), designs.overlap))
        used_up = np.flatnonzero(has.sum(axis=0) >= designs.most_uses(1)).tolist()
        excluded = {*constraints.excluded, *used_up}
        is_impossible = excluded & {*constraints.included}
        if is_impossible or designs.n_features - len(excluded) < designs.k:
            break
        best = best_set(
            designs.form,
            designs.k,
            limits=Limits(np.concatenate((limits.sets, has)), at_most),
            constraints=replace(constraints, must_exclude=tuple(sorted(excluded))),
            deadline=share_of_time(until, _SHARE),
        )
        if best.indices is None:
            break
        chosen.append(best.indices)
    return np.array(chosen, dtype=np.int32).reshape(-1, designs.k)


class _Search:
    """State of a search: the best design, and a bound on the sum of all others."""

    def __init__(self, designs: Designs, deadline: float | None) -> None:
        self.designs, self.deadline = designs, deadline
        self.share = designs.n_sets if designs.aggregate == "min" else 1  # values in a sum
        self.best: Sets | None = None
        self.value = -math.inf
        self.floor = -math.inf  # what is searched for is worth more
        self.ceiling = math.inf  # on the sum of designs that are better than the best
        self.by_features: FeatureByFeature | None = None

    def run(self, first: Sets) -> Solved:
        """Price, and list more and more sets until the best design is proven."""
        self.by_features = feature_by_feature(self.designs, self.deadline)
        if self.by_features is not None:
            self.ceiling = self.by_features.bound
            is_free = self.by_features.problem.is_free
            n_steps = 0 if self.best is None else _STEPS_AT_FIRST[is_free]
            if self.ceiling == -math.inf or self._is_settled_by_features(n_steps):
                return self._solved(self.by_features.rounding, is_proven=True)
        bound, priced = price(self.designs, first, self.deadline)
        self.ceiling = min(self.ceiling, bound.value)
        is_proven = self.ceiling <= self.share * self.value + bound.slack
        if not is_proven:
            # those that the linear program has shares of often go together
            self._is_walked(bound, priced, _WORK_BEFORE_SHARPENING)
            is_min = self.designs.aggregate == "min"
            is_proven = is_min and self._is_target_reached(bound)
        is_proven = is_proven or self._is_best_of_pools(bound)
        rounding = bound.slack
        if self.by_features is not None:
            rounding = max(rounding, self.by_features.rounding)
        return self._solved(rounding, is_proven=is_proven)

    def _is_best_of_pools(self, bound: Bound) -> bool:
        """Search more and more of the sets that lose least; return whether the best is proven."""
        for most in _POOLS:
            if is_late(self.deadline):
                break
            sets, covered = self._list_cheapest_sets(bound, most)
            is_whole, longer = self._pack(bound, sets), 1
            while not is_whole and covered == math.inf and not is_late(self.deadline):
                longer *= _LONGER
                is_whole = self._is_settled_by_features(longer * _STEPS_AT_FIRST[0])
                is_whole = is_whole or self._pack(bound, sets, longer)
            if is_whole and covered > 0:
                self.ceiling = min(self.ceiling, bound.value - covered)
            if is_whole and covered >= self._allowed_loss(bound):
                return True
        return False

    def _is_target_reached(self, bound: Bound) -> bool:
        """Lower a target for the smallest quality until there is a design above it.

        There are few sets for a target near the bound, however far the best known design is below.
        Returns whether the best design is proven; False if there are too many sets.
        """
        n_sets, lowest = self.designs.n_sets, self.value
        if self.best is None:
            lowest = -2 * self.designs.magnitude
        reached = min(self.ceiling, bound.value) / n_sets
        step, longer = _FIRST_STEP * (reached - lowest), 1
        shortest = _SHORTEST_STEP * step
        while step > shortest and not is_late(self.deadline):
            target = max(lowest, reached - step)
            self.floor = max(target, self.value)
            sets, covered = self._list_cheapest_sets(bound, _MOST_NEAR_SETS)
            is_whole = covered == math.inf and self._pack(bound, sets, longer)
            self.floor = self.value
            if is_whole:
                reached, step = target, 2 * step
                self.ceiling = min(self.ceiling, n_sets * max(target, self.value))
            elif covered == math.inf:
                step, longer = step / 2, 2 * longer
            else:
                step /= _SHORTER
            if is_whole and (self.value > target or target <= lowest):
                return True
        return False

    def take(self, sets: Sets) -> None:
        """Take a design if it is better; sets that are too few are none."""
        if len(sets) == self.designs.n_sets:
            value = self.designs.worth(sets.tolist())
            if value > self.value:
                self.best, self.value = sets, value
                self.floor = max(self.floor, value)

    def _allowed_loss(self, bound: Bound) -> float:
        """Return what a design loses less than if it is better by more than rounding."""
        if self.floor == -math.inf:
            return bound.value + self.designs.n_sets * self.designs.magnitude + bound.slack
        return bound.value - self.share * self.floor - bound.slack

    def _most_charged(self, bound: Bound) -> float:
        """Return what a set is charged at most where all sets are worth more than the floor."""
        return bound.value - (self.designs.n_sets - 1) * self.floor - bound.highest + bound.slack

    def _list_cheapest_sets(self, bound: Bound, most: int) -> tuple[Sets, float]:
        """Return sets that lose least, and what all others lose more than; inf if that is enough.

        Where the smallest counts, each set of a better design is worth more than the floor, and so
        is charged no more than the others leave. Charges for features are a row; the worth and all
        charges are required at once, with shares of 1 - s and s: worth - (1 - s) charges >=
        (1 - s) least + s floor.
        """
        designs, needed = self.designs, self._allowed_loss(bound)
        least, share, rows = bound.highest - needed, 0.0, None
        if designs.aggregate == "min" and self.floor > -math.inf:
            share = _SHARE_OF_WORTH
            least = (1 - share) * least + share * self.floor
            cap = np.array([self._most_charged(bound)])
            rows = Rows(bound.prices.of_features[np.newaxis], cap)
        best = best_sets(
            bound.prices.charged(designs.form, 1 - share),
            designs.k,
            least,
            limits=designs.limits,
            constraints=designs.constraints,
            rows=rows,
            most=most,
            deadline=self.deadline,
        )
        is_all = best.complete and len(best.sets) < most
        if is_all:
            covered = math.inf
        elif share or not best.complete:
            covered = 0.0
        else:
            last = worths(bound.prices.charged(designs.form), best.sets[-1:])
            covered = bound.highest - float(last[0])
        sets = best.sets
        return sets[self._may_be_better(bound, sets)] if share else sets, covered

    def _pack(self, bound: Bound, sets: Sets, longer: int = 1) -> bool:
        """Look for a better design among sets; return whether that came to its end."""
        if self._is_walked(bound, sets, _WORK_BEFORE_SHARPENING):
            return True
        cap = math.inf
        if self.designs.aggregate == "min":
            cap = min(self.ceiling, bound.value) / self.designs.n_sets
        bound = sharpened(self.designs, bound, sets, cap, self.deadline)
        sets = sets[self._may_be_better(bound, sets)]
        if self._is_walked(bound, sets, longer * _WORK_AT_FIRST):
            return True
        n_entries = len(sets) * math.comb(self.designs.k, self.designs.overlap + 1)
        return n_entries <= _MOST_ENTRIES and self._pack_by_program(
            bound, sets, longer * _SECONDS_AT_FIRST
        )

    def _is_walked(self, bound: Bound, sets: Sets, most_work: int) -> bool:
        """Look for a better design by branch and bound; return whether that came to its end."""
        if len(sets) < self.designs.n_sets or self._allowed_loss(bound) <= 0:
            return True
        pool = Pool.of(self.designs, bound, sets)
        walk, ended = Walk.of(pool, self.designs.n_sets, self.floor), PAUSED
        for _ in range(0, most_work, _WORK_BETWEEN_LOOKS):
            ended = pack(pool, walk, _WORK_BETWEEN_LOOKS)
            if ended == DONE or is_late(self.deadline):
                break
        if walk.best[0] >= 0:
            self.take(sets[walk.best])
        return ended == DONE

    def _pack_by_program(self, bound: Bound, sets: Sets, seconds: float) -> bool:
        """Look for a better design by integer programs; return whether it is proven best."""
        while not is_late(self.deadline):  # for the smallest, better ones until there is none
            sets, before = sets[self._may_be_better(bound, sets)], self.floor
            if len(sets) < self.designs.n_sets:
                return True
            merits = worths(self.designs.form, sets)
            packed, is_proven = pack_by_solver(
                self.designs, sets, merits, before, self.deadline, seconds
            )
            if packed is not None:
                self.take(packed)
            if is_proven or packed is None:
                return is_proven
            if self.floor <= before:  # sets that are worth more by rounding alone
                exact = np.array([self.designs.form.value(indices) for indices in sets.tolist()])
                if self.designs.aggregate != "min" or (exact > before).all():
                    return False
                sets = sets[exact > before]
        return False

    def _is_settled_by_features(self, n_steps: int) -> bool:
        """Look for a better design feature by feature; return whether the best is proven."""
        if self.by_features is None:
            return False
        design = self.by_features.run(self.best, n_steps, self.deadline)
        if design is not None:
            self.take(design)
        return self.by_features.is_done

    def _may_be_better(self, bound: Bound, sets: Sets) -> Mask:
        """Return which sets can be in a better design than the best."""
        merits = worths(self.designs.form, sets)
        charges = bound.prices.charges(sets)
        if self.designs.aggregate == "min" and self.floor > -math.inf:
            return np.asarray((merits > self.floor) & (charges <= self._most_charged(bound)))
        least = bound.highest - self._allowed_loss(bound) - bound.slack
        return np.asarray(merits - charges >= least)

    def _solved(self, rounding: float, *, is_proven: bool) -> Solved:
        """Return the best design, or that there is none; the rounding is that of the sum."""
        if is_proven and self.best is None:
            return INFEASIBLE
        highest = self.value if is_proven else max(self.ceiling / self.share, self.value)
        sets = None if self.best is None else self.designs.best_first(self.best)
        rounding /= self.share
        return Solved(sets, self.value, highest + rounding, is_proven, rounding)


def best_univariate_design(designs: Designs, deadline: float | None) -> Solved:
    """Return the best design of univariate sets, whose features may go together or are excluded.

    Bach, arXiv 2307.11607v3, definition 5 with equations 11, 17 and 18.
    """
    order = best_first(designs.form.gains)
    is_open = ~np.isin(order, designs.constraints.excluded)
    kept = order[is_open][: designs.n_sets * designs.k]  # no others are needed (appendix A.4)
    values = designs.form.gains[kept]
    few = replace(
        designs, form=Form(values), limits=Limits.none(len(kept)), constraints=Constraints()
    )
    start = max(_starts(few, deadline), key=lambda sets: few.worth(sets.tolist()), default=None)
    solved = best_design(few, deadline, start)
    if solved.sets is None:
        return solved
    return replace(solved, sets=designs.best_first(kept[solved.sets].astype(np.int32)))


def _starts(designs: Designs, deadline: float | None) -> list[Sets]:
    """Return designs by fast searches, none if these find too few sets."""
    values, k, m, overlap = designs.form.gains, designs.k, designs.n_sets, designs.overlap
    until = share_of_time(deadline, _SHARE_OF_STARTS)
    starts = [greedy_balancing(values, k, m, overlap), choose_sequentially(designs, until)]
    starts = [sets for sets in starts if len(sets) == m]
    if not starts:
        starts.append(greedy_depth_search(values, k, m, overlap, deadline=until))
    return [sets for sets in starts if len(sets) == m]
