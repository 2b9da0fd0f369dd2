"""Initialisation of the branch and bound: relevant features, rows, multipliers, a first set.

Without pair costs, and if only limits on shared features forbid sets, a feature *dominates* another
if it has a higher gain, or an equal one and the lower index, and is in no given set that the other
is not in. The lexicographically first best set contains, with a feature, all that dominate it:
otherwise one of these could be swapped in, for a set of no lower value and no larger overlap that
comes first. So features dominated by k others can be left out. In the sequential search for a + 1
sets at most (a + 1) k features remain: the a k that are in given sets, and the k best others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.arrays import (
    Integers,
    Problem,
    State,
    dominating,
    is_late,
)
from chaffinch.tasks.selection.alternatives.branch_and_bound import kernels as swaps
from chaffinch.tasks.selection.alternatives.branch_and_bound.kernels import charge
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.pair_costs import Convexity
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.core import Floats, Mask


@dataclass(frozen=True)
class Limits:
    """Largest numbers of features that a set may share with each of some given sets."""

    sets: Mask  # (r, n)
    at_most: Integers  # (r,)

    @classmethod
    def none(cls, n_features: int) -> Limits:
        """Return no limits over n features."""
        return cls(np.zeros((0, n_features), dtype=bool), np.zeros(0, dtype=np.int64))


@dataclass
class Search:
    """A search that can be run and resumed."""

    features: Integers  # (n,), of its arrays, ascending
    problem: Problem
    state: State
    convexity: Convexity
    at_least: float  # value that sets must reach
    is_rough: bool = False  # not to be run: it began late or lacks memory, and its bound is rough
    is_proven: bool = False  # whether a rough one nevertheless has a best set
    is_for_many: bool = False  # for so many sets that listing them takes longer than the proof
    # the same with a convex part if this is without, and vice versa
    other: tuple[Problem, State] | None = None
    # work with a convex part, since it was last begun, and without
    work: dict[bool, float] = field(default_factory=lambda: {False: 0.0, True: 0.0})
    n_begun: int = 0  # number of starts with a convex part
    is_declined: bool = False  # whether the convex part was found not to be worth its time

    @property
    def is_convex(self) -> bool:
        """Whether it uses a convex part of its pair costs."""
        return len(self.problem.convex) > 0

    def begin(self, problem: Problem, state: State) -> None:
        """Switch to a search with a convex part, from its beginning."""
        if not self.is_convex:
            self.other = self.problem, self.state
        self.problem, self.state = problem, state
        self.work[True], self.n_begun = 0.0, self.n_begun + 1

    def turn(self) -> None:
        """Switch to the other search, where it was left."""
        if self.other is not None:
            here, (self.problem, self.state) = (self.problem, self.state), self.other
            self.other = here

    def best(self) -> tuple[int, ...]:
        """Return the best set so far, which must exist, as indices of all features."""
        return tuple(self.features[self.state.best].tolist())


def open_bound(found: Search) -> float:
    """Return an upper bound on sets not visited yet; -inf when the search is done."""
    here = open_bound_of(found.state)
    return here if found.other is None else min(here, open_bound_of(found.other[1]))


def open_bound_of(state: State) -> float:
    """Return the same for one of the two ways, or for a search that has no other."""
    if state.shares.shape[1]:
        levels = state.ceilings[int(state.level[0]) : int(state.level[1]) + 1]
        return float(levels.max(initial=-math.inf))
    bounds = [-math.inf]
    for level in range(int(state.level[0]), int(state.level[1]) + 1):
        promises = state.promises[level, max(0, state.place[level]) : state.n_candidates[level]]
        n_open = len(state.chosen) - level
        if len(promises) >= n_open:
            bounds.append(state.value[level] + state.constant[level] + promises[:n_open].sum())
    return float(max(bounds))


# One set of many features, without pair costs, where a tree does not fit into memory.
#
# A branch and bound stores, on each of its k levels, up to n numbers in each of four arrays. Here
# only the first level is stored. Its rows are charged to minimise its bound. A set built with these
# charges attains the bound if rows form a matroid, as with one given set, and is then best; with
# more given sets it may lack a few of the best features.

MOST_NUMBERS = 2**28  # on all levels: 2 GiB in each array
_MOST_PLANES = 200
_CLOSE = 1e-13  # relative: rounding


def has_room(n_features: int, k: int) -> bool:
    """Return whether a tree over so many relevant features fits into memory."""
    return n_features * k <= MOST_NUMBERS


def best_charges(problem: Problem, state: State, deadline: float | None) -> Floats:
    """Return the charges of rows, (r,), that minimise the bound of the first level.

    The bound is convex in the charges. It is bounded from below by planes, one for each vector of
    charges tried, and the next vector is their minimum (Kelley's cutting planes).
    """
    level = int(state.level[0])
    here = (level, slice(int(state.n_candidates[level])))
    gains, weights = state.marginals[here], problem.weights[state.candidates[here]]
    room, n_open = problem.caps - state.loads[level], len(state.chosen) - level
    n_rows, unit = len(room), float(np.ptp(gains)) or 1.0  # of charges
    lowest, best = np.inf, np.zeros(n_rows)
    charges, planes, heights = best, np.empty((0, n_rows)), np.empty(0)
    for _ in range(_MOST_PLANES):
        charged = gains - weights @ charges
        chosen = np.argpartition(charged, len(charged) - n_open)[len(charged) - n_open :]
        bound = float(charged[chosen].sum() + charges @ room)
        slopes = room - weights[chosen].sum(axis=0)
        if bound < lowest:
            lowest, best = bound, charges
        planes = np.vstack([planes, slopes])
        heights = np.append(heights, bound - charges @ slopes)
        if is_late(deadline):
            break
        # scaled and shifted, as the solver's tolerances are absolute
        rises = (heights - heights[0]) / unit
        found = linprog(
            np.append(np.zeros(n_rows), 1.0),
            A_ub=np.hstack([planes, np.full((len(planes), 1), -1.0)]),
            b_ub=-rises,
            bounds=[*[(0.0, 1.0)] * n_rows, (None, None)],
            method="highs-ds",
        )
        if found.fun is None or found.x is None:  # solver failed for lack of precision
            break
        if lowest - (heights[0] + unit * found.fun) <= _CLOSE * abs(lowest):
            break
        charges = found.x[:-1] * unit
    return best


def charge_all(problem: Problem, state: State, multipliers: Floats) -> None:
    """Charge the candidates of the first level for their weights in the rows."""
    level = int(state.level[0])
    here = (level, slice(int(state.n_candidates[level])))
    candidates, marginals = state.candidates[here], state.marginals[here]
    promises = marginals - problem.weights[candidates] @ multipliers
    order = np.argsort(-promises, kind="stable")
    state.candidates[here], state.marginals[here] = candidates[order], marginals[order]
    state.promises[here] = promises[order]
    state.multipliers[level] = multipliers
    state.constant[level] = multipliers @ (problem.caps - state.loads[level])


_STEPS, _WORK_OF_STEPS = 150, 30_000_000
_EPSILON = float(np.finfo(np.float64).eps)
_MOST_TO_COMPARE = 4000  # features, each with each
_ROOM = 2.0  # factor by which multipliers may grow


def prepared(
    form: Form,
    k: int,
    limits: Limits,
    constraints: Constraints,
    at_least: float,
    *,
    only_best: bool,
    deadline: float | None = None,
) -> Search | None:
    """Return a search for the best set, or all sets, of value `at_least` or more.

    None if limits and constraints plainly allow no set. A search with pair costs that is late
    before these are sorted only has a first set, if found, and a rough bound; so has one without
    pair costs whose tree does not fit into memory.
    """
    is_fixed, is_open = _fixed_and_open(form, k, constraints)
    n_open = k - int(is_fixed.sum())
    dominates = only_best and form.pair_costs is None
    dominates &= not constraints.groups and constraints.costs is None
    if dominates:
        is_open = _undominated(form.gains, limits.sets, is_open, n_open)
    features = np.flatnonzero(is_fixed | is_open)
    fixed = np.flatnonzero(is_fixed[features])
    if len(features) - len(fixed) < n_open or form.value(features[fixed]) == -math.inf:
        return None
    pairs = form.pairs(features)
    problem = _problem(form, k, limits, constraints, features)
    size = k * float(np.abs(problem.gains).max())
    if pairs is not None:
        problem = problem._replace(costs=pairs.costs)
        size += k * (k - 1) / 2 * pairs.largest
    problem = _with_slack(problem, k, size, 4 * k * size if len(problem.caps) else 0.0)
    if dominates and len(features) <= _MOST_TO_COMPARE:
        matrix = dominating(problem.gains, _packed(limits.sets[:, features]))
        problem = problem._replace(dominates=matrix)
    first = _good_set(problem, fixed, k, np.zeros(len(problem.caps))) if only_best else None
    is_rough = is_proven = False
    if pairs is not None:
        is_enough = first is not None or not only_best
        is_rough = is_enough and is_late(deadline)
        nearest = pairs.roughly(k) if is_rough else pairs.nearest(k)
        is_rough = is_enough and is_late(deadline)  # of a wide table they take a while
        problem = problem._replace(neighbours=nearest.neighbours, nearest=nearest.halves)
    is_wide = pairs is None and not has_room(len(features), k)
    n_levels = len(fixed) + 1 if is_wide else k + 1
    state = first_level(problem, fixed, k, at_least, n_levels)
    _take(problem, state, first, at_least)
    if not is_rough:
        problem = _charged(
            problem, state, size, at_least, deadline, only_best=only_best, is_wide=is_wide
        )
    if is_wide:
        is_proven = open_bound_of(state) <= state.best_value[0] + problem.slack
        is_rough, is_proven = True, bool(is_proven and state.best[0] >= 0)
    return Search(features, problem, state, form.convexity, at_least, is_rough, is_proven)


def _fixed_and_open(form: Form, k: int, constraints: Constraints) -> tuple[Mask, Mask]:
    """Return the fixed features, fewer than k, and those that may be added, both (n,)."""
    is_fixed = np.zeros(len(form.gains), dtype=bool)
    is_fixed[constraints.included] = True
    is_open = ~is_fixed
    is_open[constraints.excluded] = False
    if is_fixed.sum() == k:  # then only the last one may be added
        last = np.flatnonzero(is_fixed)[-1]
        is_fixed[last], is_open[:] = False, False
        is_open[last] = True
    if form.pair_costs is not None:
        is_open &= np.isfinite(form.pair_costs[is_fixed]).all(axis=0)
    return is_fixed, is_open


def _undominated(gains: Floats, sets: Mask, is_open: Mask, k: int) -> Mask:
    """Return features dominated by fewer than k others with the same sets, or with none."""
    kept = np.zeros_like(is_open)
    in_some = sets.any(axis=0)
    order = np.argsort(-gains, kind="stable")
    fresh = order[(is_open & ~in_some)[order]]
    kept[fresh[:k]] = True
    floor = gains[fresh[k - 1]] if len(fresh) >= k else -math.inf
    seen: dict[bytes, int] = {}
    packed = _packed(sets)
    for feature in order[(is_open & in_some)[order]].tolist():
        where = packed[feature].tobytes()
        seen[where] = seen.get(where, 0) + 1
        # of equals the fresh one may have the higher index, and then it does not dominate
        kept[feature] = seen[where] <= k and gains[feature] >= floor
    return kept


def _packed(sets: Mask) -> NDArray[np.uint8]:
    """Return for each feature the sets (r, n) that contain it, eight to a byte."""
    return np.ascontiguousarray(np.packbits(sets, axis=0).T)


def _problem(
    form: Form, k: int, limits: Limits, constraints: Constraints, features: Integers
) -> Problem:
    """Return the arrays of some features, without zero pair costs and redundant rows."""
    rows = constraints.rows(len(form.gains))
    members, further = limits.sets[:, features], rows.weights[:, features]
    caps, n_sets = np.concatenate([limits.at_most, rows.caps]), len(members)
    sums, sizes = np.zeros((2, len(caps), k + 1)), np.arange(k + 1)
    counts = members.sum(axis=1)[:, np.newaxis]
    sums[0, :n_sets] = np.maximum(0, sizes - (len(features) - counts))
    sums[1, :n_sets] = np.minimum(sizes, counts)
    in_order = np.sort(further, axis=1)
    sums[0, n_sets:, 1:] = np.cumsum(in_order, axis=1)[:, :k]
    sums[1, n_sets:, 1:] = np.cumsum(in_order[:, ::-1], axis=1)[:, :k]
    matters = sums[1, :, k] > caps
    return Problem(
        gains=form.gains[features],
        costs=np.zeros((0, 0)),
        weights=np.vstack([members[matters[:n_sets]], further[matters[n_sets:]]])
        .astype(np.float64)
        .T.copy(),
        caps=caps[matters].astype(np.float64),
        least=sums[0, matters],
        most=sums[1, matters],
        nearest=np.zeros((0, 0)),
        neighbours=np.zeros((0, 0), dtype=np.int64),
        dominates=np.zeros((0, 0), dtype=bool),
        sizes=np.abs(caps[matters]) + np.abs(sums[:, matters, k]).max(axis=0),
        most_charged=0.0,
        slack=0.0,
        convex=np.zeros((0, 0)),
        rests=np.zeros((0, 0)),
        partners=np.zeros((0, 0), dtype=np.int64),
        margin=0.0,
    )


def _with_slack(problem: Problem, k: int, size: float, most_charged: float) -> Problem:
    """Return the problem with the slack needed for multipliers up to a size.

    `size`: upper bound on gains and pair costs of a set in absolute value.
    """
    n_rows = len(problem.caps)
    n_pairs = k * (k - 1) // 2 if len(problem.costs) else 0  # number of added terms
    slack = 4 * _EPSILON * (k + n_pairs + n_rows + 8) * (size + most_charged)
    return problem._replace(most_charged=most_charged, slack=slack)


def _charged(
    problem: Problem,
    state: State,
    size: float,
    at_least: float,
    deadline: float | None,
    *,
    only_best: bool,
    is_wide: bool,
) -> Problem:
    """Charge for weights in rows on the first level; return the problem with its slack."""
    level, k = int(state.level[0]), len(state.best)
    if not len(problem.caps) or state.n_candidates[level] < k - level:
        return problem
    if is_wide:
        charge_all(problem, state, best_charges(problem, state, deadline))
    else:
        work_of_step = int(state.n_candidates[level]) * len(problem.caps)
        charge(problem, state, level, min(_STEPS, 1 + _WORK_OF_STEPS // work_of_step))
        _take_back_charges(problem, state)
    multipliers = state.multipliers[level]
    charged = float(multipliers @ problem.sizes)
    problem = _with_slack(problem, k, size, charged if is_wide else _ROOM * charged + size)
    if only_best:
        chosen = _good_set(problem, state.chosen[:level], k, multipliers)
        _take(problem, state, chosen, at_least)
    return problem


def _take_back_charges(problem: Problem, state: State) -> None:
    """Reset promises of the first level to those without charges."""
    level = int(state.level[0])
    candidates = slice(int(state.n_candidates[level]))
    state.promises[level, candidates] = state.marginals[level, candidates]
    if len(problem.costs):
        places = state.candidates[level, candidates], len(state.chosen) - level - 1
        state.promises[level, candidates] -= problem.nearest[places]


def first_level(problem: Problem, fixed: Integers, k: int, at_least: float, n_levels: int) -> State:
    """Return the initial state, with every candidate that rows and pair costs allow.

    It has room for levels 0..n_levels - 1; k + 1 if it is to be searched.
    """
    n, level, n_rows = len(problem.gains), len(fixed), len(problem.caps)
    state = State(
        chosen=np.zeros(k, dtype=np.int64),
        candidates=np.zeros((n_levels, n + 1), dtype=np.int64),
        marginals=np.zeros((n_levels, n + 1)),
        promises=np.zeros((n_levels, n + 1)),
        losses=np.zeros((n_levels, n + 1)),
        n_candidates=np.zeros(k + 1, dtype=np.int64),
        place=np.full(k + 1, -1),
        value=np.zeros(k + 1),
        constant=np.zeros(k + 1),
        loads=np.zeros((k + 1, n_rows)),
        multipliers=np.zeros((k + 1, n_rows)),
        level=np.array([level, level]),
        best=np.full(k, -1),
        best_value=np.array([at_least]),
        n_found=np.zeros(1, dtype=np.int64),
        shares=np.zeros((k + 1, 0)),
        slopes=np.zeros((k + 1, 0)),
        roundings=np.zeros(k + 1),
        halved=np.full(k + 1, math.inf),
        ceilings=np.full(k + 1, -math.inf),
    )
    marginals = problem.gains.copy()
    form = Form(problem.gains)
    if len(problem.costs):
        form = Form(problem.gains, problem.costs)
        marginals -= problem.costs[fixed].sum(axis=0)
    loads = problem.weights[fixed].sum(axis=0)
    promises = marginals
    if len(problem.costs):
        promises = marginals - problem.nearest[:, k - level - 1]
    fits = problem.weights + loads + problem.least[:, k - level - 1] <= problem.caps
    is_open = fits.all(axis=1) & (promises > -math.inf)
    is_open[fixed] = False
    candidates = np.flatnonzero(is_open)
    candidates = candidates[np.argsort(-promises[candidates], kind="stable")]
    count = len(candidates)
    state.chosen[:level] = fixed
    state.n_candidates[level], state.value[level] = count, form.value(fixed)
    state.loads[level] = loads
    state.candidates[level, :count] = candidates
    state.marginals[level, :count] = marginals[candidates]
    state.promises[level, :count] = promises[candidates]
    return state


def _good_set(problem: Problem, fixed: Integers, k: int, multipliers: Floats) -> Integers | None:
    """Return a set found by exchange, in any order; None if rows prevent it."""
    chosen, work_left = np.zeros(k, dtype=np.int64), np.array([swaps.MOST_WORK])
    if swaps.good_set(problem, fixed, multipliers, chosen, work_left):
        return chosen
    return None


def improve_by_swaps(found: Search) -> None:
    """Improve the best set so far, if any, by swaps that obey the rows."""
    problem, state = found.problem, found.state
    if state.best[0] < 0:
        return
    fixed = state.chosen[: int(state.level[0])]  # fixed at the first level
    chosen = np.concatenate([fixed, np.setdiff1d(state.best, fixed)])
    loads = problem.weights[chosen].sum(axis=0)
    work_left = np.array([swaps.MOST_WORK])
    while work_left[0] > 0 and swaps.exchange(problem, chosen, len(fixed), loads, work_left):
        continue
    _take(problem, state, chosen, math.inf)


def _take(problem: Problem, state: State, chosen: Integers | None, at_least: float) -> None:
    """Use a set as the best so far if it is better, or the first that is good enough."""
    if chosen is None:
        return
    value = Form(problem.gains, problem.costs if len(problem.costs) else None).value(chosen)
    if value > state.best_value[0] or (state.best[0] < 0 and value >= at_least):
        state.best[:], state.best_value[0] = np.sort(chosen), value
