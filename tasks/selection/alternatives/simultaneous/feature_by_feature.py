"""Designs searched feature by feature, where a set is worth the sum of what its features are.

For univariate quality, and for FCBF, which adds conflicts between features. If conflicts, given
sets, groups or a budget affect few of the best features, designs are nearly as good as without
them. There are then too many sets near the bound by prices to list them
(`price_and_enumerate.py`); but the largest contribution of features by their uses is close to the
actual one. The two searches are those of univariate quality: the one here for the sum,
`worst_set_targets.py` for the smallest; `whole_numbers.py` has the features barred from a set.

Features that every set must have are removed first, so that sets are smaller, and share less.

Only some features are relevant. Let m k of those before a feature, in the order of value, be
unrestricted. A design with the feature does not have all of them, so that one of them can replace
it in all of its sets; unless it counts for a requirement, as in a group.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.tasks.selection.alternatives.arrays import DONE, PAUSED, Integers, is_late, write
from chaffinch.tasks.selection.alternatives.greedy import best_first
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.result import Designs, Sets
from chaffinch.tasks.selection.alternatives.simultaneous.whole_numbers import (
    NONE,
    Bars,
    Problem,
    State,
    WholeValues,
    fresh_state,
    is_barred,
    is_too_large,
    table_of_uses,
    whole_values,
)
from chaffinch.tasks.selection.alternatives.simultaneous.worst_set_targets import Targets
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, inlined

# The search for the best multiplicities that sets can have, compiled: see `univariate.py`.
#
# Features are taken best first. For each, the search chooses the number of its sets, then the sets;
# sets with the same features so far are interchangeable, and only the first of them are taken. The
# largest contribution of the remaining features is read from a table, by the number of places left
# in all sets, and of features that pairs of sets can still share (`whole_numbers.py`). Without
# conflicts no feature is in more sets than a better one.
#
# A search pauses after a number of steps and continues when called again: all of its state is in
# `State`.


@inlined
def _pairs_left(problem: Any, state: Any) -> int:
    """Return how often two sets that have room can still share a feature."""
    k, pairs = problem.size, 0
    for s in range(len(state.filled)):
        room = k - state.filled[s]
        if room > 0:
            for other in range(s):
                room_of_both = min(room, k - state.filled[other])
                pairs += min(room_of_both, problem.overlap - state.shared[s, other])
    return pairs


@inlined
def _is_enough(problem: Any, state: Any, j: int, count: int) -> bool:
    """Return whether later features, in no more sets than this one, can fill and beat the best.

    With conflicts they may be in more; the table has their promises.
    """
    if not problem.is_free:
        return True
    left = state.left[j] - count
    if left == 0:
        return True
    if count == 0:
        return False
    last = j + 1 + left // count
    rest = left % count
    if last + (rest > 0) > len(problem.units):
        return False
    worth = state.worth[j] + count * (problem.units[j] + problem.sums[last] - problem.sums[j + 1])
    if rest > 0:
        worth += rest * problem.units[last]
    return bool(state.best_worth[0] == NONE or worth * problem.scale > state.best_worth[1])


@inlined
def _mark_barred(problem: Any, state: Any, j: int) -> int:
    """Mark the sets that may not have feature j; return how many may."""
    n = 0
    for s in range(len(state.filled)):
        n_open = problem.size - state.filled[s]
        members, n_members = state.members[s], state.filled[s]
        barred = n_open == 0 or is_barred(problem.bars, members, n_members, j, n_open)
        state.is_barred[j, s] = barred
        n += not barred
    return n


@inlined
def _list_counts(problem: Any, state: Any, j: int) -> None:
    """List the allowed numbers of sets of feature j, most promising first; ties, largest first."""
    state.n_counts[j], state.next_count[j], state.is_placed[j] = 0, 0, False
    pairs, most = _pairs_left(problem, state), min(state.most[j], state.left[j], problem.most_uses)
    if not problem.is_free:
        most = min(most, _mark_barred(problem, state, j))
    for count in range(most + 1):
        shares = count * (count - 1) // 2
        if shares > pairs:
            break
        after = problem.table[j + 1, state.left[j] - count, pairs - shares]
        if after == NONE or not _is_enough(problem, state, j, count):
            continue
        promise = (state.worth[j] + count * problem.units[j]) * problem.scale - shares + after
        if state.best_worth[0] > NONE and promise <= state.best_worth[1]:
            continue
        place = state.n_counts[j]
        while place > 0 and state.promises[j, place - 1] <= promise:
            state.promises[j, place] = state.promises[j, place - 1]
            state.counts[j, place] = state.counts[j, place - 1]
            place -= 1
        state.promises[j, place], state.counts[j, place] = promise, count
        state.n_counts[j] += 1


@inlined
def _may_take(problem: Any, state: Any, j: int, depth: int, s: int) -> bool:
    """Return whether set s may have feature j together with the first `depth` of its places."""
    if state.filled[s] >= problem.size or (not problem.is_free and state.is_barred[j, s]):
        return False
    if state.alike[j, s] and (depth == 0 or state.places[j, depth - 1] != s - 1):
        return False
    most_shared = -1
    for place in range(depth):
        most_shared = max(most_shared, state.shared[s, state.places[j, place]])
    return bool(most_shared < problem.overlap)


@inlined
def _place(problem: Any, state: Any, j: int, count: int) -> bool:
    """Find the next sets, as a word, that feature j may be in, or the first if it has none."""
    m, places = len(state.filled), state.places
    depth, s = 0, 0
    if state.is_placed[j]:
        depth = count - 1
        s = places[j, depth] + 1 if count else 0
    elif count == 0:
        return True
    while depth >= 0:
        while s <= m - count + depth and not _may_take(problem, state, j, depth, s):
            s += 1
        if s > m - count + depth:
            depth -= 1
            if depth >= 0:
                s = places[j, depth] + 1
        else:
            places[j, depth] = s
            if depth == count - 1:
                return True
            depth += 1
            s += 1
    return False


@inlined
def _put(state: Any, j: int, count: int, sign: int) -> None:
    """Add feature j to the sets of its places, or take it out of them."""
    for i in range(count):
        s = state.places[j, i]
        state.has[j, s] = sign > 0
        if sign > 0:
            state.members[s, state.filled[s]] = j
        state.filled[s] += sign
        for other in range(i):
            state.shared[s, state.places[j, other]] += sign
            state.shared[state.places[j, other], s] += sign


@inlined
def _keep(problem: Any, state: Any, j: int) -> None:
    if state.best_worth[0] == NONE or state.worth[j] > state.best_worth[0] + problem.blur:
        state.best[:] = False
        for i in range(j):
            write(state.best[i], state.has[i])
        state.best_worth[0] = state.worth[j]
        state.best_worth[1] = (state.worth[j] + problem.blur) * problem.scale


@inlined
def _advance(problem: Any, state: Any, j: int) -> bool:
    """Put feature j where it has not been yet; return whether there is such a choice."""
    if state.is_placed[j]:
        _put(state, j, state.counts[j, state.next_count[j]], -1)
    while state.next_count[j] < state.n_counts[j]:
        i = state.next_count[j]
        if state.best_worth[0] > NONE and state.promises[j, i] <= state.best_worth[1]:
            break
        if _place(problem, state, j, state.counts[j, i]):
            state.is_placed[j] = True
            _put(state, j, state.counts[j, i], 1)
            return True
        state.next_count[j] += 1
        state.is_placed[j] = False
    state.is_placed[j] = False
    return False


@inlined
def _go_down(problem: Any, state: Any, j: int) -> bool:
    """Make the next feature the present one, if each set can still be filled."""
    n_after = len(problem.units) - j - 1
    count = state.counts[j, state.next_count[j]]
    for s in range(len(state.filled)):
        if problem.size - state.filled[s] > n_after:
            return False
        state.alike[j + 1, s] = (
            s > 0 and state.alike[j, s] and state.has[j, s] == state.has[j, s - 1]
        )
    state.worth[j + 1] = state.worth[j] + count * problem.units[j]
    state.left[j + 1] = state.left[j] - count
    state.most[j + 1] = count if problem.is_free else state.most[j]
    return True


@compiled
def search(problem: Problem, state: State, most_steps: int) -> int:
    """Search on for the best design; return `DONE` or `PAUSED`. `state` is written to."""
    for _ in range(most_steps):
        j = state.feature[0]
        if j < 0:
            return DONE
        if state.feature[1] == 1:
            state.feature[1] = 0
            if state.left[j] == 0:
                _keep(problem, state, j)
                state.feature[0] -= 1
                continue
            _list_counts(problem, state, j)
        if not _advance(problem, state, j):
            state.feature[0] -= 1
        elif _go_down(problem, state, j):
            state.feature[0] += 1
            state.feature[1] = 1
    return PAUSED


_STEPS, _STEPS_UP = 200_000, 500_000  # by the sum; by the smallest, up from a design
_WORK, _MORE_WORK = 1_000_000, 3_000_000  # down from a bound
_USUAL_PAIRS = 36  # of sets, all of which a step looks at; where there are more, steps are fewer
_MOST_TURNS, _LONGER = 2, 4  # times as long
_HOPEFUL = 0.03  # of what the terms of sets come to: what may be open, or prices are better
_PAIRS_BETWEEN_LOOKS = 2_000_000  # at the clock; of sets, all of which a step looks at


@dataclass
class FeatureByFeature:
    """A search that can be run and resumed."""

    designs: Designs
    is_smallest_counted: bool  # the smallest worth of a design's sets counts, not the sum
    features: Integers  # (p,), the best first
    k: int  # without what all sets must have; likewise the overlap
    overlap: int
    bars: Bars
    whole: WholeValues
    by_sum: tuple[Problem, State] | None = None  # state of the search by the sum
    n_turns: int = 0  # how often it was resumed
    is_done: bool = False  # no design is better than the best one given or found

    @property
    def rounding(self) -> float:
        """By how much a design may be better then, and yet count as much."""
        n_sets = 1 if self.is_smallest_counted else self.designs.n_sets
        return self.whole.rounding(n_sets * self.k)

    def go_on(self, best: Sets | None, deadline: float | None) -> Sets | None:
        """Search for a better design than `best`, longer each time; return one (m, k), or None."""
        self.n_turns += 1
        if self.n_turns > _MOST_TURNS:
            return None
        if self.by_sum is not None:
            places = self._search(*self.by_sum, best, deadline)
        else:
            places = None if best is None else self._balance(best, deadline)
        if places is None:
            return None
        included = np.array(self.designs.constraints.included, dtype=np.int64)
        fixed = np.tile(included, (self.designs.n_sets, 1))
        found = np.hstack((fixed, self.features[places])).astype(np.int32)
        return np.sort(found, axis=1)

    def _search(
        self,
        problem: Problem,
        state: State,
        best: Sets | None,
        deadline: float | None,
    ) -> Integers | None:
        """Look for what is worth more in all."""
        n_sets, n_places = self.designs.n_sets, self.designs.n_sets * self.k
        if best is not None:
            worth = math.fsum(self.designs.form.gains[self._without_included(best)].ravel())
            units = math.floor(math.ldexp(worth, -self.whole.exponent))
            units -= math.ceil(self.whole.error * n_places)
            if units > state.best_worth[0]:
                state.best_worth[:] = units, (units + problem.blur) * problem.scale
            promise = int(problem.table[0, -1, -1]) // problem.scale
            if promise - units > _HOPEFUL * n_places * np.abs(problem.units).max():
                return None
        at_once = _PAIRS_BETWEEN_LOOKS // n_sets**2 + 1
        steps, most_steps = 0, self._most_steps(_STEPS)
        if best is None:
            most_steps //= _LONGER
        state.best[:] = False
        while not self.is_done and steps < most_steps and not is_late(deadline):
            self.is_done = search(problem, state, at_once) == DONE
            steps += at_once
        if not state.best.any():
            return None
        return np.nonzero(state.best.T)[1].reshape(n_sets, self.k)

    def _balance(self, best: Sets, deadline: float | None) -> Integers | None:
        """Look for what is worth more by its worst set."""
        start = self._without_included(best)
        if not np.isin(start, self.features).all():
            return None
        places = {int(feature): place for place, feature in enumerate(self.features)}
        values = self.designs.form.gains[self.features]
        asked = self.k, self.designs.n_sets, self.overlap, deadline
        targets = Targets(values, *asked, bars=self.bars, most_uses=self.designs.most_uses(1))
        targets.take(np.array([[places[int(j)] for j in features] for features in start]))
        at_first = targets.best
        self.is_done = self._is_best(targets)
        return None if targets.best is at_first else targets.best

    def _is_best(self, targets: Targets) -> bool:
        """Go both ways for a while; return whether one came to its end."""
        if self.n_turns == 1:
            targets.lower_bound_by_uses()
            if targets.lower_target(_WORK):
                return True
        if targets.upper - targets.worth > _HOPEFUL * self.k * np.abs(targets.units).max():
            self.n_turns = _MOST_TURNS
            return False
        table = targets.table()
        if table is not None and targets.raise_target(table, self._most_steps(_STEPS_UP)):
            return True
        return self.n_turns == 1 and targets.lower_target(_MORE_WORK)

    def _most_steps(self, usual: int) -> int:
        """Return after how many steps the present turn ends."""
        n_pairs, times = max(_USUAL_PAIRS, self.designs.n_sets**2), _LONGER ** (self.n_turns - 1)
        return int(usual * times * _USUAL_PAIRS // n_pairs + 1)

    def _without_included(self, sets: Sets) -> Sets:
        is_fixed = np.isin(sets, self.designs.constraints.included)
        return sets[~is_fixed].reshape(len(sets), self.k)


def feature_by_feature(
    designs: Designs, best: Sets | None, *, is_smallest_counted: bool, deadline: float | None
) -> FeatureByFeature | None:
    """Return a search that has not begun, or None if there is none for such designs.

    There is none where pairs of features cost something, nor where a table of what features can add
    at most would be too large, nor once it is late.
    """
    rules, form = designs.constraints, designs.form
    included = np.array(rules.included, dtype=np.int64)
    k, overlap = designs.k - len(included), designs.overlap - len(included)
    if not _is_of_features(form) or k < 1 or overlap < 0:
        return None
    left = np.setdiff1d(np.arange(designs.n_features), [*included, *rules.excluded])
    if form.pair_costs is not None:
        left = left[~np.isinf(form.pair_costs[np.ix_(included, left)]).any(axis=0)]
    weights, caps = _rows(designs, left, k)
    left = left[best_first(form.gains[left])]
    conflicts = np.zeros((0, 0), dtype=bool)
    if form.pair_costs is not None:
        conflicts = np.isinf(form.pair_costs[np.ix_(left, left)])
        np.fill_diagonal(conflicts, False)
    is_kept = _can_matter(conflicts, weights[:, left], designs.n_sets * k)
    if best is not None:
        is_kept |= np.isin(left, best)
    left = left[is_kept]
    n_places, n_pairs = designs.n_sets * k, designs.n_pairs_of_sets * overlap
    if len(left) < k or is_too_large(len(left), n_places, n_pairs):
        return None
    if len(conflicts):
        conflicts = conflicts[np.ix_(is_kept, is_kept)]
    bars = Bars.of(conflicts, weights[:, left], caps, k)
    whole = whole_values(form.gains[left], len(left), n_places * (n_pairs + 1))
    found = FeatureByFeature(designs, is_smallest_counted, left, k, overlap, bars, whole)
    if not is_smallest_counted:
        most_uses = designs.most_uses(1)
        table = table_of_uses(whole.units, most_uses, n_places, n_pairs, deadline)
        if table is None:
            return None
        sums = np.concatenate([[0], np.cumsum(whole.units)])
        asked = n_pairs + 1, whole.blur(n_places), k, overlap, most_uses
        problem = Problem(whole.units, sums, table, *asked, bars, bars.is_none)
        found.by_sum = problem, fresh_state(len(left), designs.n_sets, n_places)
    return found


def _is_of_features(form: Form) -> bool:
    """Return whether pairs of features cost nothing, but for those that do not go together."""
    table = form.pairs()
    return table is None or table.largest == 0


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
