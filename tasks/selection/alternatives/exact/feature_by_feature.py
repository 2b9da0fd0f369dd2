"""Designs searched feature by feature, where pairs of features cost nothing.

For univariate quality, and for FCBF, which adds conflicts between features, with all constraints.
There are often too many sets near the bound by prices to list them (`price_and_enumerate.py`); but
the bound by the multiplicities of features is close. Features that every set must have are removed
first, so that sets are smaller, and share less.

Only some features are relevant. Let m k of those before a feature, in the order of value, be
unrestricted. A design with the feature does not have all of them, so that another can replace
it in all of its sets; unless it counts for a requirement, as in a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.exact.best_sets import is_late
from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import DONE, Integers
from chaffinch.tasks.selection.alternatives.exact.feature_kernels import (
    Balance,
    Problem,
    State,
    balance,
    fresh_balance,
    fresh_state,
    search,
)
from chaffinch.tasks.selection.alternatives.exact.multiplicities import (
    NONE,
    Bars,
    WholeValues,
    is_too_large,
    table_of_uses,
    whole_values,
)
from chaffinch.tasks.selection.alternatives.greedy import best_first
from chaffinch.tasks.selection.core import Floats, Mask

_PAIRS_BETWEEN_LOOKS = 2_000_000  # at the clock; of sets, all of which a step looks at


@dataclass
class FeatureByFeature:
    """A search that can be run and resumed."""

    designs: Designs
    features: Integers  # (p,), the best first
    whole: WholeValues
    problem: Problem
    state: State | Balance
    is_done: bool = False  # no design is better than the best known

    @property
    def rounding(self) -> float:
        """By how much a design may be better, and yet count as much."""
        n_sets = 1 if self.designs.aggregate == "min" else self.designs.n_sets
        return self.whole.rounding(n_sets * self.problem.size)

    @property
    def bound(self) -> float:
        """Bound on the sum of any design; -inf if the table shows that there is none."""
        promise = int(self.problem.table[0, -1, -1])
        if promise == NONE:
            return -math.inf
        included = self.designs.form.gains[self.designs.constraints.included]
        n_sets = self.designs.n_sets
        most = self.whole.at_most(-(-promise // self.problem.scale), n_sets * self.problem.size)
        return most + n_sets * math.fsum(included.tolist()) + self.designs.rounding

    def run(self, best: Sets | None, n_steps: int, deadline: float | None) -> Sets | None:
        """Search for a better design than `best` (m, k); return it, or None."""
        m, k, problem, state = self.designs.n_sets, self.problem.size, self.problem, self.state
        at_once, steps = _PAIRS_BETWEEN_LOOKS // m**2 + 1, 0
        if best is not None:
            self._start_from(best)
        state.best[:] = False
        while not self.is_done and steps < n_steps and not is_late(deadline):
            if isinstance(state, Balance):
                self.is_done = balance(problem, state, at_once) == DONE
            else:
                self.is_done = search(problem, state, at_once) == DONE
            steps += at_once
        if not state.best.any():
            return None
        places = np.nonzero(state.best.T)[1].reshape(m, k)
        included = np.array(self.designs.constraints.included, dtype=np.int64)
        sets = np.hstack((np.tile(included, (m, 1)), self.features[places]))
        return np.sort(sets, axis=1).astype(np.int32)

    def _start_from(self, best: Sets) -> None:
        """Search for what is better than a design only."""
        left = ~np.isin(best, self.designs.constraints.included)
        values = self.designs.form.gains[best[left]].reshape(len(best), -1)
        n_places = self.problem.size
        if isinstance(self.state, State):
            n_places *= len(best)
        worths = [math.fsum(gains) for gains in values.tolist()]
        worth = min(worths) if isinstance(self.state, Balance) else math.fsum(worths)
        units = math.floor(math.ldexp(worth, -self.whole.exponent))
        units -= math.ceil(self.whole.error * n_places)
        if isinstance(self.state, Balance):
            above = units - self.problem.size * self.whole.lowest + self.problem.blur + 1
            self.state.target[0] = max(self.state.target[0], above)
        elif units > self.state.best_worth[0]:
            self.state.best_worth[:] = units, (units + self.problem.blur) * self.problem.scale


def feature_by_feature(designs: Designs, deadline: float | None) -> FeatureByFeature | None:
    """Return a search that has not begun, or None if there is none for such designs.

    There is none where pairs of features cost something, nor where the table would be too large,
    nor once it is late.
    """
    rules, form, m = designs.constraints, designs.form, designs.n_sets
    included = np.array(rules.included, dtype=np.int64)
    k, overlap = designs.k - len(included), designs.overlap - len(included)
    costs = form.pair_costs
    has_costs = costs is not None and bool(costs[np.isfinite(costs)].any())
    if has_costs or k < 1 or overlap < 0:
        return None
    left = np.setdiff1d(np.arange(designs.n_features), [*included, *rules.excluded])
    if costs is not None:
        left = left[~np.isinf(costs[np.ix_(included, left)]).any(axis=0)]
    weights, caps = _rows(designs, left, k)
    left = left[best_first(form.gains[left])]
    conflicts = np.zeros((0, 0), dtype=bool)
    if costs is not None:
        conflicts = np.isinf(costs[np.ix_(left, left)])
        np.fill_diagonal(conflicts, False)
    is_kept = _can_matter(conflicts, weights[:, left], m * k)
    left = left[is_kept]
    n_places, n_pairs, most_uses = m * k, designs.n_pairs_of_sets * overlap, designs.most_uses(1)
    if len(left) < k or is_too_large(len(left), n_places, n_pairs):
        return None
    if len(conflicts):
        conflicts = conflicts[np.ix_(is_kept, is_kept)]
    bars = Bars.of(conflicts, weights[:, left], caps, k)
    is_min = designs.aggregate == "min"
    whole = whole_values(form.gains[left], 4 * m * n_places * (n_pairs + 1), is_from_0=is_min)
    table = table_of_uses(whole.units, most_uses, n_places, n_pairs, deadline)
    if table is None:
        return None
    blur = whole.blur(k if is_min else n_places)
    sums = np.concatenate([[0], np.cumsum(whole.units)])
    limits = n_pairs + 1, blur, k, overlap, most_uses
    problem = Problem(whole.units, sums, table, *limits, bars, bars.is_none)
    state: State | Balance = fresh_state(len(left), m, n_places)
    if is_min:
        state = fresh_balance(len(left), m, k, 0)
    return FeatureByFeature(designs, left, whole, problem, state)


def _rows(designs: Designs, left: Integers, k: int) -> tuple[Floats, Floats]:
    """Return weights, shape (r, n), and caps of what k features of those left have to obey."""
    rules, limits = designs.constraints, designs.limits
    rows = rules.rows(designs.n_features)
    weights = np.vstack((limits.sets, rows.weights))
    caps = np.concatenate((limits.at_most, rows.caps)) - weights[:, rules.included].sum(axis=1)
    heaviest = np.sort(weights[:, left], axis=1)[:, -k:].sum(axis=1)
    is_felt = heaviest > caps
    return weights[is_felt], caps[is_felt]


def _can_matter(conflicts: Mask, weights: Floats, n_places: int) -> Mask:
    """Return which features, the best first, some best design may need."""
    is_plain = ~weights.any(axis=0)
    if len(conflicts):
        is_plain &= ~conflicts.any(axis=1)
    n_before: Integers = np.cumsum(is_plain) - is_plain
    return np.asarray((n_before < n_places) | (weights < 0).any(axis=0))
