"""The linear program over known sets, whose dual values are prices (column generation).

    maximise    sum of (what S counts for) x_S
    subject to  sum of x_S = m,
                c_R = sum of x_S over the sets S that have R, for each feature, some pairs, ...
                sum of c_R (c_R - 1) / 2 over R of one size r <= what designs may share.

The left side of the last line is taken as linear between whole numbers: c_R is a sum of pieces
u_R1 + u_R2 + ..., each at most 1, of which the t-th costs t - 1. A use beyond the last piece has a
*penalty*, so that the program always has a solution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.arrays import Integers, is_late, share_of_time
from chaffinch.tasks.selection.alternatives.result import Designs, Sets
from chaffinch.tasks.selection.alternatives.simultaneous.prices import (
    Bound,
    Known,
    Layer,
    Prices,
    Subsets,
    best_charged_sets,
    charged_within,
)
from chaffinch.tasks.selection.core import Floats, Mask

_LEAST_SECONDS = 1e-3
_LEAST_UNIT = 1e-6
_WORTH_A_PRICE = 1e-6  # a subset that more than one set has by less is not worth a price


@dataclass(frozen=True)
class Solution:
    """Solution of the linear program."""

    prices: Prices  # its dual values, those below 0 by rounding set to 0
    value: float  # without penalties
    beyond: float  # uses beyond what designs may have
    sets: Sets  # (N, k), the known ones
    shares: Floats  # (N,), x
    lacks: Floats  # (N,), how much more each would have to count for to be worth a share


class Master:
    """The linear program over the sets that are known so far.

    `penalty`: of a use beyond what designs may have, in the unit of what sets are worth. What is
    not solved by the deadline is given up.
    """

    def __init__(self, designs: Designs, penalty: float, deadline: float | None) -> None:
        self.designs, self.penalty, self.deadline = designs, penalty, deadline
        self.sets: Sets = np.empty((0, designs.k), dtype=np.int32)
        self.counts: Floats = np.empty(0)
        self.priced: list[Subsets] = []  # pairs, then larger ones
        self._known: set[bytes] = set()

    def add(self, sets: Sets) -> int:
        """Add sets, each sorted; return how many of them are new."""
        new = [features for features in sets if features.tobytes() not in self._known]
        if new:
            self._known.update(features.tobytes() for features in new)
            self.sets = np.concatenate((self.sets, new))
            self.counts = np.concatenate((self.counts, self.designs.counts(np.array(new))))
        return len(new)

    def cap(self, cap: float) -> None:
        """Let no set count for more than a cap."""
        self.designs = replace(self.designs, cap=cap)
        self.counts = self.designs.counts(self.sets)

    def keep(self, is_kept: Mask) -> None:
        """Forget the sets that are not kept."""
        self.sets, self.counts = self.sets[is_kept], self.counts[is_kept]
        self._known = {features.tobytes() for features in self.sets}

    def price_subsets(self, solution: Solution, size: int) -> int:
        """Price the subsets of which a solution has more than one set; return how many."""
        while len(self.priced) < size - 1:
            self.priced.append(np.empty((0, len(self.priced) + 2), dtype=np.int64))
        uses: dict[tuple[int, ...], float] = {}
        for place in np.flatnonzero(solution.shares > _WORTH_A_PRICE):
            for subset in combinations(solution.sets[place].tolist(), size):
                uses[subset] = uses.get(subset, 0.0) + float(solution.shares[place])
        known = {*map(tuple, self.priced[size - 2].tolist())}
        new = sorted(
            subset
            for subset, use in uses.items()
            if use > 1 + _WORTH_A_PRICE and subset not in known
        )
        if new:
            self.priced[size - 2] = np.concatenate((self.priced[size - 2], new))
        return len(new)

    def solve(self) -> Solution | None:
        """Solve it; None if the solver cannot, for want of precision or time."""
        designs, n_known = self.designs, len(self.sets)
        features: list[NDArray[np.integer]] = [self.sets.ravel()]
        features += [of_size.ravel() for of_size in self.priced]
        active = np.unique(np.concatenate(features))
        subsets = [active[:, None].astype(np.int64), *self.priced]
        counts = [len(of_size) for of_size in subsets]
        sizes = range(1, len(subsets) + 1)
        layer = np.repeat(np.arange(len(subsets)), counts)  # of each item
        pieces = np.repeat([designs.most_uses(size) for size in sizes], counts)
        n_items, n_pieces = len(pieces), int(pieces.sum())
        limits = designs.n_pairs_of_sets * np.array([designs.shared(size) for size in sizes])
        magnitude = designs.magnitude  # sets may count for next to nothing of it
        largest = float(np.abs(self.counts).max()) or magnitude
        unit = max(largest, _LEAST_UNIT * magnitude)  # the solver's tolerances are absolute
        penalties = np.full(n_items, self.penalty / unit)
        counted = np.repeat([[1.0, 0.0]], [n_known, n_pieces + n_items], axis=1)
        found = linprog(  # type: ignore[call-overload]  # it takes sparse matrices as well
            np.concatenate((-self.counts / unit, np.zeros(n_pieces), penalties)),
            A_ub=_constraints(self._uses(subsets), pieces, layer, len(subsets)),
            b_ub=np.concatenate((np.zeros(n_items), limits)),
            A_eq=sparse.csr_array(counted),
            b_eq=[designs.n_sets],
            bounds=np.repeat(
                [[0, np.inf], [0, 1], [0, np.inf]], [n_known, n_pieces, n_items], axis=0
            ),
            method="highs-ds",
            options=self._within_time(),
        )
        if found.status != 0:
            return None
        dual = np.maximum(-found.ineqlin.marginals, 0.0) * unit
        of_features = np.zeros(designs.n_features)
        of_features[active] = dual[: len(active)]
        others = np.split(dual[len(active) : n_items], np.cumsum(counts[1:-1]))[: len(self.priced)]
        everything = np.arange(designs.n_features)[:, None]
        layers = [
            Layer(of_size, prices, float(of_sharing))
            for of_size, prices, of_sharing in zip(
                [everything, *self.priced], [of_features, *others], dual[n_items:], strict=True
            )
        ]
        return Solution(
            Prices(tuple(layers)),
            value=-float(found.fun) * unit,
            beyond=float(found.x[n_known + n_pieces :].sum()),
            sets=self.sets,
            shares=found.x[:n_known],
            lacks=found.lower.marginals[:n_known],
        )

    def _within_time(self) -> dict[str, float]:
        if self.deadline is None:
            return {}
        return {"time_limit": max(_LEAST_SECONDS, self.deadline - time.monotonic())}

    def _uses(self, subsets: list[Subsets]) -> sparse.csr_array:
        """Return which of the subsets each known set has, shape (i, N)."""
        active = subsets[0][:, 0]
        has = np.zeros((len(active), len(self.sets)), dtype=bool)
        has[np.searchsorted(active, self.sets), np.arange(len(self.sets))[:, None]] = True
        rows = [has[np.searchsorted(active, of_size)].all(axis=1) for of_size in subsets]
        return sparse.csr_array(np.concatenate(rows).astype(np.float64))


def _constraints(
    uses: sparse.csr_array, pieces: Integers, layer: Integers, n_layers: int
) -> sparse.csc_array:
    """Return the rows of uses, less pieces and what is beyond, and those of what is shared."""
    n_items, n_known = uses.shape
    item = np.repeat(np.arange(n_items), pieces)
    place = np.arange(len(item))
    costs = place - np.repeat(np.cumsum(pieces) - pieces, pieces)
    piece_of = sparse.csr_array((np.ones(len(item)), (item, place)), (n_items, len(item)))
    shape = (n_layers, n_known + len(item) + n_items)
    shared = sparse.csr_array((costs.astype(np.float64), (layer[item], n_known + place)), shape)
    above = sparse.hstack([uses, -piece_of, -sparse.eye_array(n_items)])
    return sparse.csc_array(sparse.vstack([above, shared]))


# Sets that differ from known ones in one feature, where these are worth more at some prices.
#
# Column generation needs sets that are worth more, charged, than a linear program knows; that there
# are none has to be proven once only, at the end. Where it takes long to find the best set, one
# that is good enough is as a rule next to a set that the program has a share of.

_MOST_SWAPS = 400_000  # that are looked at
_AS_MANY = 4  # times what is asked for are looked at once more: some are not allowed


class OneApart:
    """Sets that are one swap away from given ones."""

    def __init__(self, designs: Designs) -> None:
        self.designs = designs
        constraints, n = designs.constraints, designs.n_features
        self._costs: Floats | None = None
        if designs.form.pair_costs is not None:  # more than all gains, for a conflict
            costs, never = designs.form.pair_costs, 4 * designs.magnitude
            self._costs = np.where(np.isfinite(costs), costs, never)
        self._stays, self._may_come = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
        self._stays[constraints.included] = True
        self._may_come[constraints.excluded] = False

    def better(self, prices: Prices, known: Sets, least: float, most: int) -> Sets:
        """Return charged sets that count for more than `least`, up to `most`, the best first.

        It begins with those of `known` (N, k) that are worth most, charged.
        """
        designs = self.designs
        n, k = designs.n_features, designs.k
        charged = Known(designs, known).charged(prices)
        n_bases = max(1, _MOST_SWAPS // (k * n))
        bases = known[np.argsort(-charged, kind="stable")[:n_bases]]
        counts = np.stack([self._swapped(base, prices) for base in bases])
        is_better = counts > least
        if is_better.sum() > _AS_MANY * most:
            is_better &= counts >= -np.partition(-counts.ravel(), _AS_MANY * most)[_AS_MANY * most]
        base, place, added = np.nonzero(is_better)
        sets = bases[base]
        sets[np.arange(len(sets)), place] = added
        sets = np.unique(np.sort(sets, axis=1), axis=0)
        sets = sets[self._are_allowed(sets)]
        charged = Known(designs, sets).charged(prices)
        best = np.argsort(-charged, kind="stable")[:most]
        return sets[best[charged[best] > least]]

    def _swapped(self, base: Integers, prices: Prices) -> Floats:
        """Return what a set with one feature for another counts for at most, shape (k, n)."""
        form, cap = self.designs.form, self.designs.cap
        of_features = prices.layers[0].prices
        worth = _after_swaps(form.gains, self._costs, base)
        charges = of_features[base].sum() - of_features[base][:, None] + of_features
        counts: Floats = np.minimum(worth, cap) - charges
        counts[:, base] = -np.inf
        counts[:, ~self._may_come] = -np.inf
        counts[self._stays[base]] = -np.inf
        return counts

    def _are_allowed(self, sets: Sets) -> Mask:
        limits, rows = self.designs.limits, self.designs.constraints.rows(self.designs.n_features)
        is_allowed = np.ones(len(sets), dtype=bool)
        for row, most in zip(limits.sets, limits.at_most, strict=True):
            is_allowed &= row[sets].sum(axis=1) <= most
        for weights, most in zip(rows.weights, rows.caps, strict=True):
            is_allowed &= weights[sets].sum(axis=1) <= most
        return is_allowed


def _after_swaps(gains: Floats, costs: Floats | None, base: Integers) -> Floats:
    """Return what a set is worth with one feature, down, for another, across; shape (k, n)."""
    of_pairs = np.zeros((len(base), len(gains))) if costs is None else costs[base]
    adds = gains - of_pairs.sum(axis=0)
    worth = float(gains[base].sum() - of_pairs[:, base].sum() / 2)
    swapped: Floats = worth - adds[base][:, None] + adds + of_pairs
    return swapped


# Column generation: sets are added to the linear program until it has all that matter.
#
# Each round solves the program over the known sets, charges its prices, and searches for sets of
# higher charged value. When there are none, the program has its optimum over all sets. The bound of
# `prices.py` holds with any proven upper bound on charged sets, so that it can be stopped any time.
#
# Only a proof takes a whole search. Where that is long, the neighbours of known sets are searched
# first, and there is no proof before nothing is found there.

_CLOSE = 1e-7  # relative to the bound; what rounds after that gain is not worth their time
_MOST_ROUNDS, _PER_ROUND = 500, 200
_MOST_KNOWN, _FEWER_KNOWN = 2_000, 1_000
_ABOVE = 1e-13  # relative; sets that a program knows come out above its level by rounding
_MOST_ENUMERATED = 400_000
_TIME_BEFORE_PROOF = 0.5  # of what is left


class FoundSets(NamedTuple):
    """Result of a search for sets."""

    highest: float  # no charged set exceeds it; inf if unknown
    sets: Sets  # (N, k), some that matter
    is_in_time: bool
    is_long: bool  # whether it takes more work than the linear program does
    is_whole: bool = True  # whether it is finished


Find = Callable[[Prices, float, bool], FoundSets]


def close(
    master: Master,
    bound: Bound,
    find: Find,
    *,
    floor: float = -math.inf,
    share_left: float = 0.0,
) -> tuple[Bound, Solution | None]:
    """Add sets to a linear program until it has all that matter; return the lowest bound.

    `find` is called with prices, what a charged set must be worth to matter, and whether a search
    that is long may end as soon as there is any. A bound below `floor` is as good as any; it is
    also enough if no more than `share_left` of what the bound came down may be left. The solution
    is None if the program was given up.
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


# A lower bound for designs of known sets: larger subsets are priced, and sets dropped.
#
# Where all sets that a better design can have are known, the linear program may price subsets of
# any size: no branch and bound has to find sets by those prices. With a lower bound fewer sets can
# be part of a better design, and without those the bound may be lower still.

_FIRST = 300
_ROUNDS = 40
_WORTHWHILE = 0.02
_WORTH_A_CAP = 0.1  # of the gap: without a cap, prices separate sets better


def sharpened(
    known: Known,
    bound: Bound,
    floor: float,
    is_smallest_counted: bool,
    deadline: float | None,
) -> tuple[Known, Bound]:
    """Return the sets that are left, and a bound on designs of them above a floor.

    `known` are all sets that a design worth more than `floor` can have. `is_smallest_counted`: a
    design counts for its worst set, m times, so that what a set is worth beyond B / m does not
    count.
    """
    if len(known.sets) < known.designs.n_sets:
        return known, bound
    master = Master(known.designs, known.designs.penalty, deadline)
    master.priced = [layer.subsets[layer.prices > 0] for layer in bound.prices.layers[1:]]
    master.add(known.sets[np.argsort(-known.charged(bound.prices), kind="stable")[:_FIRST]])
    known, bound = _lowered(master, known, bound, floor, deadline, is_capped=False)
    if is_smallest_counted and min(len(known.sets), len(master.sets)) > 0:
        capped = _lowered(master, known, bound, floor, deadline, is_capped=True)
        if bound.value - capped[1].value >= _WORTH_A_CAP * (bound.value - floor):
            return capped
    return known, bound


def _lowered(
    master: Master,
    known: Known,
    bound: Bound,
    floor: float,
    deadline: float | None,
    *,
    is_capped: bool,
) -> tuple[Known, Bound]:
    """Price more and more subsets, and drop sets, for as long as it is worthwhile."""
    for _ in range(_ROUNDS):
        before = bound.value
        if is_capped:
            master.cap(min(master.designs.cap, bound.value / master.designs.n_sets))
            known = Known(master.designs, known.sets)
        bound, solution = close(master, bound, listed(known), floor=floor)
        if solution is None or is_late(deadline):
            break
        sizes = range(2, known.designs.overlap + 2)
        new = sum(master.price_subsets(solution, size) for size in sizes)
        is_kept = bound.highest - known.charged(bound.prices) < bound.value - floor
        if not is_kept.all():
            known = Known(master.designs, known.sets[is_kept])
            left = {features.tobytes() for features in known.sets}
            master.keep(np.array([features.tobytes() in left for features in master.sets]))
        is_worthwhile = before - bound.value >= _WORTHWHILE * (bound.value - floor)
        if min(len(known.sets), len(master.sets)) == 0 or not (
            is_worthwhile or (new and not is_kept.all())
        ):
            break
    return known, bound
