"""The best feature set of a size, or the best few, by branch and bound, with a bound.

The value of a set is the sum of its gains minus the sum of its pair costs (`Form`). Linear rows
only forbid sets: the features shared with previous sets, groups, a budget.

Among sets of equal value up to rounding, the lexicographically first is returned. More time
never gives a worse set.

Without pair costs, and if only limits on shared features forbid sets, a feature *dominates* another
if it has a higher gain, or an equal gain and the lower index, and is in no previous set that the
other is not in. The lexicographically first best set contains, with a feature, all that dominate
it: otherwise one of these features could be swapped in, for a set of no lower value and no larger
overlap that comes first. So features dominated by k others can be left out. In the sequential
search for a + 1 sets at most (a + 1) k features remain: the a k that are in previous sets, and the
k best others.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.exact.branch_and_bound import (
    DONE,
    FULL,
    PAUSED,
    Integers,
    Problem,
    State,
    dominating,
    open_bound,
    search,
)
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.constraints import Constraints, Rows
from chaffinch.tasks.selection.core import Floats, Mask

_EPSILON = float(np.finfo(np.float64).eps)
_WORK_BETWEEN_LOOKS = 2_000_000  # at the clock: some milliseconds
_WORK_OF_FIRST_SET = 1_000_000  # done however late it is
_ROWS_OF_WORK = 32  # more rows are more work
_MOST_TO_COMPARE = 4000  # features, each with each
_MOST_NUMBERS = 2**28  # on all levels: 2 GiB in each array
_FIRST_SETS = 1024
_FREE = Constraints()
GRACE = 0.25  # seconds after a deadline in which sets that take a moment each are still sought


def is_late(deadline: float | None, grace: float = 0.0) -> bool:
    """Return whether a deadline on the clock of `time.monotonic` has passed, and some grace."""
    return deadline is not None and time.monotonic() >= deadline + grace


def share_of_time(deadline: float | None, share: float) -> float | None:
    """Return the time when a share of the remaining time will be over; None without a deadline."""
    if deadline is None:
        return None
    now = time.monotonic()
    return now + share * (deadline - now)


@dataclass(frozen=True)
class Limits:
    """Largest numbers of features that a set may share with each of some other sets."""

    sets: Mask  # (r, n)
    at_most: Integers  # (r,)

    @classmethod
    def none(cls, n_features: int) -> Limits:
        """Return no limits over n features."""
        return cls(np.zeros((0, n_features), dtype=bool), np.zeros(0, dtype=np.int64))


@dataclass(frozen=True)
class BestSet:
    """Result of a search for the best set."""

    indices: tuple[int, ...] | None  # sorted; None if there is no set, or time was over
    value: float  # -inf without a set
    # on sets of value `at_least`; -inf if there are none. Above `value` by possible rounding
    # errors, even if the search is complete
    bound: float
    complete: bool


@dataclass(frozen=True)
class BestSets:
    """Result of a search for the best sets."""

    sets: NDArray[np.int32]  # (N, k), each sorted, the best first
    bound: float  # no set has a higher value; at least the required value
    complete: bool


def best_set(
    form: Form,
    k: int,
    *,
    limits: Limits,
    constraints: Constraints = _FREE,
    at_least: float = -math.inf,
    deadline: float | None = None,
) -> BestSet:
    """Return the best set of k features, of value `at_least` or more.

    The number of sets per feature is ignored. `deadline`, on the clock of `time.monotonic`, is
    checked every few milliseconds, once a first set has been searched for.
    """
    prepared = _prepare_search(form, k, limits, constraints, at_least, only_best=True)
    if prepared is None:
        return BestSet(None, -math.inf, -math.inf, complete=True)
    state, slack = prepared.state, prepared.problem.slack
    ended = prepared.run(np.empty((0, k), dtype=np.int64), deadline)
    is_there = bool(state.best[0] >= 0)
    if not is_there:
        bound = -math.inf if ended == DONE else max(open_bound(state), at_least) + slack
        return BestSet(None, -math.inf, bound, ended == DONE)
    indices = tuple(prepared.features[state.best].tolist())
    value, highest = form.value(indices), float(state.best_value[0])
    if ended != DONE:
        highest = max(highest, open_bound(state))
    return BestSet(indices, value, max(highest + slack, value), ended == DONE)


def best_sets(
    form: Form,
    k: int,
    least: float,
    *,
    limits: Limits,
    constraints: Constraints = _FREE,
    rows: Rows | None = None,
    most: int,
    deadline: float | None = None,
) -> BestSets:
    """Return the sets of k features of value `least`, finite, or more; the best if over `most`.

    `rows` are constraints besides. Ties with the last are then broken in a reproducible way.
    """
    prepared = _prepare_search(form, k, limits, constraints, least, rows, only_best=False)
    if prepared is None:
        return BestSets(np.empty((0, k), dtype=np.int32), least, complete=True)
    state, problem = prepared.state, prepared.problem
    of_all = Form(problem.gains, problem.costs if len(problem.costs) else None)
    sets = np.empty((min(most, _FIRST_SETS) + len(prepared.features), k), dtype=np.int64)
    ended = FULL
    while ended == FULL:
        ended = prepared.run(sets, deadline)
        known = sets[: int(state.n_found[0])]
        if ended == FULL and len(known) <= 2 * most:
            sets = np.concatenate([sets, np.empty_like(sets)])
            continue
        merits = worths(of_all, known)
        best = np.argsort(-merits, kind="stable")[:most]
        known, merits = known[best], merits[best]
        sets[: len(known)], state.n_found[0] = known, len(known)
        if len(known) == most:
            # there may be more sets of equal value than can be listed
            more = math.nextafter(float(merits[-1]) + 2 * problem.slack, math.inf)
            state.best_value[0] = max(state.best_value[0], more)
    bound = max([least, *merits[:1].tolist()])
    if ended != DONE:
        bound = max(bound, open_bound(state))
    features = prepared.features[np.sort(known, axis=1)].astype(np.int32)
    return BestSets(features, bound + problem.slack, ended == DONE)


@dataclass
class _Search:
    """A search that can be run and resumed."""

    features: Integers  # (n,), of its arrays, ascending
    problem: Problem
    state: State

    def run(self, sets: Integers, deadline: float | None) -> int:
        """Search until it is done, `sets` is full, or the deadline is over."""
        work = 1 + _WORK_BETWEEN_LOOKS // (1 + len(self.problem.caps) // _ROWS_OF_WORK)
        while True:
            is_over = is_late(deadline)
            needs_one = not len(sets) and self.state.best[0] < 0
            most_work = _WORK_OF_FIRST_SET if needs_one else 0  # without work there is a bound
            ended = search(self.problem, self.state, most_work if is_over else work, sets)
            if ended != PAUSED or is_over:
                return int(ended)


def _prepare_search(
    form: Form,
    k: int,
    limits: Limits,
    constraints: Constraints,
    at_least: float,
    further: Rows | None = None,
    *,
    only_best: bool,
) -> _Search | None:
    """Return a search for sets of value `at_least` or more; None if there plainly are none."""
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
    if len(features) * k > _MOST_NUMBERS:
        raise InputError(
            f"k times the number of features must be at most {_MOST_NUMBERS:,} but is "
            f"{len(features) * k:,}; use search='greedy_replacement'"
        )
    rows = constraints.rows(len(form.gains))
    problem = _problem(form, k, limits, [rows] if further is None else [rows, further], features)
    if dominates and len(features) <= _MOST_TO_COMPARE:
        matrix = dominating(problem.gains, _packed(limits.sets[:, features]))
        problem = problem._replace(dominates=matrix)
    return _Search(features, problem, _first_state(problem, fixed, k, at_least))


def _fixed_and_open(form: Form, k: int, constraints: Constraints) -> tuple[Mask, Mask]:
    """Return the fixed features, fewer than k, and those that may be added, both (n,)."""
    is_fixed = np.zeros(len(form.gains), dtype=bool)
    is_fixed[constraints.included] = True
    is_open = ~is_fixed
    is_open[constraints.excluded] = False
    if is_fixed.sum() == k:  # then only the last open feature may be added
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
        # of equals the new feature may have the higher index, and then it does not dominate
        kept[feature] = seen[where] <= k and gains[feature] >= floor
    return kept


def _packed(sets: Mask) -> NDArray[np.uint8]:
    """Return for each feature the sets (r, n) that contain it, eight to a byte."""
    return np.ascontiguousarray(np.packbits(sets, axis=0).T)


def _problem(
    form: Form, k: int, limits: Limits, rows: Sequence[Rows], features: Integers
) -> Problem:
    """Return the arrays of some features, without zero pair costs and redundant rows."""
    members = limits.sets[:, features]
    further = np.concatenate([block.weights for block in rows])[:, features]
    caps, n_sets = np.concatenate([limits.at_most, *(block.caps for block in rows)]), len(members)
    sums, sizes = np.zeros((2, len(caps), k + 1)), np.arange(k + 1)
    counts = members.sum(axis=1)[:, np.newaxis]
    sums[0, :n_sets] = np.maximum(0, sizes - (len(features) - counts))
    sums[1, :n_sets] = np.minimum(sizes, counts)
    in_order = np.sort(further, axis=1)
    sums[0, n_sets:, 1:] = np.cumsum(in_order, axis=1)[:, :k]
    sums[1, n_sets:, 1:] = np.cumsum(in_order[:, ::-1], axis=1)[:, :k]
    matters = sums[1, :, k] > caps
    pairs = form.pairs(features, k)
    gains = form.gains[features]
    n_terms = k + int(matters.sum()) + (0 if pairs is None else math.comb(k, 2))
    size = k * float(np.abs(gains).max())
    if pairs is not None:
        size += math.comb(k, 2) * pairs.largest
    most_charged = 4 * k * size if matters.any() else 0.0
    return Problem(
        gains=gains,
        costs=np.zeros((0, 0)) if pairs is None else pairs.costs,
        weights=np.vstack([members[matters[:n_sets]], further[matters[n_sets:]]])
        .astype(np.float64)
        .T.copy(),
        caps=caps[matters].astype(np.float64),
        least=sums[0, matters],
        most=sums[1, matters],
        halves=np.zeros((0, 0)) if pairs is None else pairs.halves,
        neighbours=np.zeros((0, 0), dtype=np.int64) if pairs is None else pairs.neighbours,
        dominates=np.zeros((0, 0), dtype=bool),
        sizes=np.abs(caps[matters]) + np.abs(sums[:, matters, k]).max(axis=0),
        most_charged=most_charged,
        slack=4 * _EPSILON * (n_terms + 8) * (size + most_charged),
    )


def _first_state(problem: Problem, fixed: Integers, k: int, at_least: float) -> State:
    """Return the initial state, with every candidate that rows and pair costs allow."""
    n, level, n_rows = len(problem.gains), len(fixed), len(problem.caps)
    state = State(
        chosen=np.zeros(k, dtype=np.int64),
        candidates=np.zeros((k + 1, n), dtype=np.int64),
        marginals=np.zeros((k + 1, n)),
        promises=np.zeros((k + 1, n)),
        losses=np.zeros((k + 1, n)),
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
    )
    marginals, form = problem.gains, Form(problem.gains)
    loads = problem.weights[fixed].sum(axis=0)
    if len(problem.costs):
        form = Form(problem.gains, problem.costs)
        marginals = marginals - problem.costs[fixed].sum(axis=0)
    promises = marginals - problem.halves[:, k - level - 1] if len(problem.costs) else marginals
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
