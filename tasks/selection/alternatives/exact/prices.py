"""Prices of features and pairs, and the bound on designs that they prove.

Charge each set a price p_R for its features and some of its pairs R, and refund the charges by how
often each is used. A design that is worth f in all is then worth, with the c_R of `designs.py` and
for features and pairs a price s of sharing,

    sum over its sets of (worth - charges)
    + sum over R of (p_R c_R - s c_R (c_R - 1) / 2)
    + sum over both sizes of s * (features, or priced pairs, that its pairs of sets share),

and each of the terms has a largest value by itself: m times that of the best charged set, the
largest over c_R = 0, 1, 2, ..., and what m (m - 1) / 2 pairs of sets may share. Their sum bounds
every design, for any prices (Lagrangian relaxation); what the terms of a design lack to
their largest values, its *loss*, is what it is worth less than the bound.

Good prices are the dual values of a linear program over the known sets S,

    maximise    sum of (worth of S) x_S
    subject to  sum of x_S = m,
                c_R = sum of x_S over the sets S that have R, for each feature and some pairs,
                sum of c_R (c_R - 1) / 2 over features, and over pairs <= what designs may share,

where the left side of the last line is taken as linear between whole numbers: c_R is a sum of
pieces, each at most 1, of which the t-th costs t - 1. Sets of higher charged value come from
branch and bound and added, until there are none (column generation). A use beyond the last piece
has a penalty, so that the program always has a solution.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.designs import ROUNDING, Designs, Sets
from chaffinch.tasks.selection.alternatives.exact.best_sets import BestSets, best_sets, is_late
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.core import Floats

if TYPE_CHECKING:  # loading OR-Tools takes long
    from ortools.linear_solver import pywraplp  # type: ignore[import-untyped]

_PENALTIES = (0.25, 4.0, 64.0, 4e3)  # times the magnitude of a design
_ROUNDING_OF_TERMS = 1e-15  # relative, of a few operations; their sum is exact
_BEYOND = 1e-6  # uses beyond what designs may have, from which the penalty is raised
_PER_ROUND = 100  # sets
_MOST_ROUNDS, _MOST_ROUNDS_OF_PAIRS = 500, 12
_CLOSE = 1e-7  # relative to the bound; what rounds after that gain is not worth their time
_SHARE_LEFT = 0.03  # of what pairs have lowered the bound by
_WORTH_A_PRICE = 1e-6  # a pair that sets share by less is not worth a price
_MOST_PAIRS = 2**25  # of features, 8 bytes each


@dataclass(frozen=True)
class Prices:
    """What is charged; prices are at least 0."""

    of_features: Floats  # (n,)
    sharing_features: float
    pairs: NDArray[np.int64]  # (q, 2), that have a price, each sorted
    of_pairs: Floats  # (q,)
    sharing_pairs: float

    @classmethod
    def none(cls, n_features: int) -> Prices:
        """Charge nothing."""
        return cls(np.zeros(n_features), 0.0, np.zeros((0, 2), dtype=np.int64), np.zeros(0), 0.0)

    def charged(self, form: Form, share: float = 1.0) -> Form:
        """Return what sets are worth less a share of what they are charged."""
        costs = form.pair_costs
        if len(self.pairs):
            n = len(form.gains)
            costs = np.zeros((n, n)) if costs is None else costs.copy()
            first, second = self.pairs.T
            costs[first, second] += share * self.of_pairs
            costs[second, first] += share * self.of_pairs
        return Form(form.gains - share * self.of_features, costs)

    def charges(self, sets: Sets) -> Floats:
        """Return what sets (N, k) are charged, (N,)."""
        return -worths(self.charged(Form(np.zeros(len(self.of_features)))), sets)

    def lacks(self, designs: Designs) -> tuple[Floats, Floats]:
        """Return what each number of uses lacks to the best refund, (n, m + 2) and (q, m + 2)."""
        of_sizes = []
        sharing = self.sharing_features, self.sharing_pairs
        for size, (prices, s) in enumerate(
            zip((self.of_features, self.of_pairs), sharing, strict=True), start=1
        ):
            uses = np.arange(designs.most_uses(size) + 1)
            refunds = prices[:, np.newaxis] * uses - s * (uses * (uses - 1) / 2)
            lacks = np.full((len(prices), designs.n_sets + 2), np.inf)
            lacks[:, : len(uses)] = refunds.max(axis=1, keepdims=True) - refunds
            of_sizes.append(lacks)
        return of_sizes[0], of_sizes[1]

    def per_pair_of_sets(self, designs: Designs) -> float:
        """Return what two sets pay at most for what they share."""
        in_pairs = self.sharing_pairs * math.comb(designs.overlap, 2)
        return self.sharing_features * designs.overlap + in_pairs

    def refund(self, designs: Designs) -> float:
        """Return what a design gets back at most: the lack of no uses is the best refund."""
        of_features, of_pairs = self.lacks(designs)
        terms = [*of_features[:, 0].tolist(), *of_pairs[:, 0].tolist()]
        return math.fsum([*terms, designs.n_pairs_of_sets * self.per_pair_of_sets(designs)])

    def rounding(self, designs: Designs) -> float:
        """Return more than rounding can add up to in the sums that a bound is made of."""
        of_set = np.sort(self.of_features)[-designs.k :].sum()
        of_set += np.sort(self.of_pairs)[-math.comb(designs.k, 2) :].sum() if designs.k > 1 else 0
        refunds = designs.n_sets * float(self.of_features.sum() + self.of_pairs.sum())
        refunds += designs.n_pairs_of_sets * self.per_pair_of_sets(designs)
        in_sums = ROUNDING * designs.n_sets * float(of_set)
        return designs.rounding + in_sums + _ROUNDING_OF_TERMS * refunds


@dataclass(frozen=True)
class Bound:
    """No design is worth more than `value` in all."""

    value: float  # rounding allowed for
    prices: Prices  # that prove it
    highest: float  # no charged set is worth more
    slack: float  # by how much designs may differ for rounding alone

    @classmethod
    def of(cls, designs: Designs, prices: Prices, highest: float) -> Bound:
        """Return the bound that prices give, if no charged set is worth more than `highest`."""
        rounding = prices.rounding(designs)
        value = designs.n_sets * highest + prices.refund(designs) + rounding
        return cls(value, prices, highest, 4 * rounding)


def price(designs: Designs, first: Sets, deadline: float | None) -> tuple[Bound, Sets]:
    """Return the least bound on the sum that prices give, and the sets that were priced.

    The bound is -inf if there is no set. `first` are known sets.
    """

    def best_charged(prices: Prices, least: float) -> BestSets:
        return best_sets(
            prices.charged(designs.form),
            designs.k,
            least,
            limits=designs.limits,
            constraints=designs.constraints,
            most=_PER_ROUND,
            deadline=deadline,
        )

    nothing = Prices.none(designs.n_features)
    best = best_charged(nothing, -designs.magnitude)
    if not len(best.sets):
        return Bound.of(designs, nothing, -math.inf if best.complete else best.bound), first
    master = _Master(designs, math.inf, deadline)
    master.add(np.concatenate((first, best.sets)))
    bound = Bound.of(designs, nothing, best.bound)
    return _priced(master, bound, best_charged, deadline), master.sets


def sharpened(
    designs: Designs, bound: Bound, sets: Sets, cap: float, deadline: float | None
) -> Bound:
    """Return a lower bound on designs of some sets only, where no set counts for more than a cap.

    `bound` holds for all.
    """
    merits = np.minimum(worths(designs.form, sets), cap)

    def best_listed(prices: Prices, least: float) -> BestSets:
        charged = merits - prices.charges(sets)
        order = np.argsort(-charged, kind="stable")[:_PER_ROUND]
        highest = max(least, float(charged[order[0]])) + prices.rounding(designs)
        return BestSets(sets[order[charged[order] >= least]], highest, complete=True)

    master = _Master(designs, cap, deadline)
    master.add(best_listed(bound.prices, -math.inf).sets)
    master.price_pairs(list(map(tuple, bound.prices.pairs.tolist())))
    return _priced(master, bound, best_listed, deadline)


Find = Callable[[Prices, float], BestSets]  # best charged sets, that are worth so much


def _priced(master: _Master, bound: Bound, find: Find, deadline: float | None) -> Bound:
    """Add sets and price pairs for as long as that lowers the bound."""
    bound, is_closed = _close(master, bound, find, deadline)
    for penalty in _PENALTIES[1:]:  # large ones make rounding errors large
        if is_closed and master.beyond() > _BEYOND:
            master.penalise(penalty)
            bound, is_closed = _close(master, bound, find, deadline)
    for _ in range(_MOST_ROUNDS_OF_PAIRS if master.designs.n_features**2 <= _MOST_PAIRS else 0):
        if not is_closed or not master.price_pairs(master.shared_pairs()):
            break
        bound, is_closed = _close(master, bound, find, deadline, _SHARE_LEFT)
    return bound


def _close(
    master: _Master, bound: Bound, find: Find, deadline: float | None, share_left: float = 0.0
) -> tuple[Bound, bool]:
    """Add sets to a linear program until it has all that matter; return the lowest bound.

    Also whether the program was solved, up to a share of what the bound came down.
    """
    designs, before = master.designs, bound.value
    for _ in range(_MOST_ROUNDS):
        if not master.solve():
            return bound, False
        prices = master.prices()
        level = (master.value() - prices.refund(designs)) / designs.n_sets
        best = find(prices, level + ROUNDING * designs.magnitude)
        new = Bound.of(designs, prices, best.bound)
        bound = new if new.value < bound.value else bound
        if is_late(deadline):
            return bound, False
        left = new.value - master.value()
        is_close = left <= _CLOSE * max(abs(new.value), designs.magnitude)
        if is_close or left <= share_left * (before - new.value) or not master.add(best.sets):
            return bound, True
    return bound, False


class _Master:
    """The linear program over the sets that are known so far, kept between solutions."""

    def __init__(self, designs: Designs, cap: float, deadline: float | None) -> None:
        self.designs, self._cap, self._deadline = designs, cap, deadline
        self.sets: Sets = np.empty((0, designs.k), dtype=np.int32)
        from ortools.linear_solver import pywraplp

        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._objective = self._solver.Objective()
        self._objective.SetMaximization()
        self._n_sets = self._solver.Constraint(designs.n_sets, designs.n_sets)
        self._shared = [
            self._at_most(designs.n_pairs_of_sets * math.comb(designs.overlap, size))
            for size in (1, 2)
        ]
        self._uses: dict[tuple[int, ...], pywraplp.Constraint] = {}
        self._beyond: list[pywraplp.Variable] = []
        self._shares: list[pywraplp.Variable] = []
        self._known: set[bytes] = set()
        self._penalty = _PENALTIES[0]

    def _at_most(self, most: float) -> pywraplp.Constraint:
        return self._solver.Constraint(-self._solver.infinity(), most)

    def add(self, sets: Sets) -> int:
        """Add sets, each sorted; return how many of them are new."""
        new = [indices for indices in sets if indices.tobytes() not in self._known]
        if not new:
            return 0
        self._known.update(indices.tobytes() for indices in new)
        added = np.array(new, dtype=np.int32)
        self.sets = np.concatenate((self.sets, added))
        # in units of the magnitude, as tolerances of the solver are absolute
        merits = np.minimum(worths(self.designs.form, added), self._cap) / self.designs.magnitude
        for features, merit in zip(added.tolist(), merits.tolist(), strict=True):
            share = self._variable(math.inf, merit)
            self._shares.append(share)
            self._n_sets.SetCoefficient(share, 1)
            for feature in features:
                self._row((feature,)).SetCoefficient(share, 1)
            for pair in combinations(features, 2):
                if pair in self._uses:
                    self._uses[pair].SetCoefficient(share, 1)
        return len(new)

    def shared_pairs(self) -> list[tuple[int, ...]]:
        """Return the pairs that several sets of the solution share."""
        uses: dict[tuple[int, ...], float] = {}
        shares = self._values(self._shares)
        for place in np.flatnonzero(shares > _WORTH_A_PRICE):
            for pair in combinations(self.sets[place].tolist(), 2):
                uses[pair] = uses.get(pair, 0.0) + float(shares[place])
        return sorted(pair for pair, use in uses.items() if use > 1 + _WORTH_A_PRICE)

    def price_pairs(self, pairs: list[tuple[int, ...]]) -> int:
        """Price pairs; return how many were not priced before."""
        new = [pair for pair in pairs if pair not in self._uses]
        for pair in new:
            row = self._row(pair)
            for place in np.flatnonzero((np.isin(self.sets, pair)).sum(axis=1) == 2):
                row.SetCoefficient(self._shares[place], 1)
        return len(new)

    def penalise(self, penalty: float) -> None:
        """Raise the penalty of uses beyond what designs may have."""
        self._penalty = penalty
        for variable in self._beyond:
            self._objective.SetCoefficient(variable, -penalty * self.designs.n_sets)

    def solve(self) -> bool:
        """Solve the program; return whether that was done in time."""
        if self._deadline is not None:
            left = max(1, int(1000 * (self._deadline - time.monotonic())))
            self._solver.set_time_limit(left)
        return bool(self._solver.Solve() == self._solver.OPTIMAL)

    def value(self) -> float:
        """Return the value of the solution."""
        return float(self._objective.Value()) * self.designs.magnitude

    def beyond(self) -> float:
        """Return the uses beyond what designs may have."""
        return float(self._values(self._beyond).sum())

    def prices(self) -> Prices:
        """Return the dual values, those below 0 by rounding set to 0."""
        of_features = np.zeros(self.designs.n_features)
        pairs, of_pairs = [], []
        for subset, row in self._uses.items():
            dual = max(0.0, row.dual_value()) * self.designs.magnitude
            if len(subset) == 1:
                of_features[subset] = dual
            elif dual > 0:
                pairs.append(subset)
                of_pairs.append(dual)
        sharing = [max(0.0, row.dual_value()) * self.designs.magnitude for row in self._shared]
        at = np.array(pairs, dtype=np.int64).reshape(-1, 2)
        return Prices(of_features, sharing[0], at, np.array(of_pairs), sharing[1])

    def _row(self, subset: tuple[int, ...]) -> pywraplp.Constraint:
        """Return the row of a subset's uses, less its pieces."""
        if subset not in self._uses:
            row = self._uses[subset] = self._at_most(0)
            for place in range(self.designs.most_uses(len(subset))):
                piece = self._variable(1, 0)
                row.SetCoefficient(piece, -1)
                self._shared[len(subset) - 1].SetCoefficient(piece, place)
            beyond = self._variable(math.inf, -self._penalty * self.designs.n_sets)
            row.SetCoefficient(beyond, -1)
            self._beyond.append(beyond)
        return self._uses[subset]

    def _variable(self, most: float, merit: float) -> pywraplp.Variable:
        most = self._solver.infinity() if most == math.inf else most
        variable = self._solver.NumVar(0, most, "")
        self._objective.SetCoefficient(variable, merit)
        return variable

    @staticmethod
    def _values(variables: list[pywraplp.Variable]) -> Floats:
        return np.array([variable.solution_value() for variable in variables])
