"""Sequential search for alternatives: each the best given all sets before it.

Bach, arXiv 2307.11607v3, definitions 2 and 3, eq 9. The best set may leave little for the next: a
simultaneous search can give a larger total.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from chaffinch.tasks.selection.alternatives.arrays import Integers, is_far_too_late, is_late
from chaffinch.tasks.selection.alternatives.branch_and_bound.problem import Limits
from chaffinch.tasks.selection.alternatives.branch_and_bound.solve import Found, best_set
from chaffinch.tasks.selection.alternatives.constraints import (
    Constraints,
    Dissimilarity,
    largest_overlap,
)
from chaffinch.tasks.selection.alternatives.hill_climbing import Wrapper
from chaffinch.tasks.selection.alternatives.quality import CFS, Form, Quality, QualityWithForm
from chaffinch.tasks.selection.alternatives.result import FeatureSet, Status
from chaffinch.tasks.selection.core import Floats, Mask


class Swaps:
    """The swaps allowed by limits and constraints.

    `pair_costs` (n, n): redundancies of pairs, both directions summed; inf for conflicts.
    """

    def __init__(
        self, quality: CFS, pair_costs: Floats, limits: Limits, constraints: Constraints
    ) -> None:
        rows = constraints.rows(quality.n_features)
        self._quality, self._pair_costs = quality, pair_costs
        self._weights = np.vstack([limits.sets, rows.weights])
        self._caps = np.concatenate([limits.at_most, rows.caps])
        self._may_leave = np.ones(quality.n_features, dtype=bool)
        self._may_leave[constraints.included] = False
        self._may_enter = np.ones(quality.n_features, dtype=bool)
        self._may_enter[constraints.excluded] = False

    def climb(self, features: tuple[int, ...], deadline: float | None) -> tuple[int, ...]:
        """Return the local optimum that repeated best swaps of a set of positive quality reach."""
        value = self._quality.value(features)
        while not is_late(deadline):
            other = self._swapped(np.array(features))
            if other is None or self._quality.value(other) <= value:
                break
            features, value = other, self._quality.value(other)
        return features

    def _swapped(self, chosen: Integers) -> tuple[int, ...] | None:
        """Return a set after its best swap, up to rounding; None if no swap improves it."""
        leaving = chosen[self._may_leave[chosen]]
        may_enter = self._may_enter.copy()
        may_enter[chosen] = False
        entering = np.flatnonzero(may_enter)
        if not len(leaving) or not len(entering):
            return None
        worths = self._worths(chosen, leaving, entering)
        for row, cap in zip(self._weights, self._caps, strict=True):
            loads = row[chosen].sum() - row[leaving, np.newaxis] + row[entering]
            worths[loads > cap] = -np.inf
        place, by = np.unravel_index(np.argmax(worths), worths.shape)
        if worths[place, by] == -np.inf:
            return None
        kept = chosen[chosen != leaving[place]].tolist()
        return tuple(sorted([*kept, int(entering[by])]))

    def _worths(self, chosen: Integers, leaving: Integers, entering: Integers) -> Floats:
        """Return the quality of a set after each swap of (l,) for (e,), shape (l, e)."""
        relevance, costs = self._quality.relevance, self._pair_costs
        met = costs[chosen].sum(axis=0)
        relevances = relevance[chosen].sum() - relevance[leaving, np.newaxis] + relevance[entering]
        with np.errstate(over="ignore", invalid="ignore"):
            spreads = len(chosen) + met[chosen].sum() / 2 - met[leaving, np.newaxis]
            spreads = spreads + met[entering] - costs[np.ix_(leaving, entering)]
        known = np.isfinite(spreads)
        worths = relevances / np.sqrt(np.maximum(np.where(known, spreads, 1.0), len(chosen)))
        return np.asarray(np.where(known, worths, -np.inf))


# The best feature set by CFS, a ratio, by solving problems with linear objectives.
#
# With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is
# better than q if A^2 - q^2 B > 0. Between l and h the square of A is at most its secant,
#
#     (l + h) A - l h.
#
# With the secant in its place, gains and pair costs decide whether a set above 0 exists. If not, no
# set with an A in l..h is better: that is the proof. If so, it is better, or the range is split at
# its A, where both secants meet the square. The search starts from a fixed point q of Dinkelbach's
# steps: the best set of 2 a A - q^2 B, with a and q of the set before. Each new best set is
# improved by swaps.
#
# A set as good as the best reaches the secant only at the ends of a range. So the ranges are split
# until the best set by the secant has an A at an end, and the lexicographically first of the sets
# that reach it is taken.
#
# No range is wider than from l to 2 l. A better set in it has neither a feature of a relevance
# above h nor a pair for which q^2 times the redundancy is above h^2; so rounding errors are a share
# of the relevant numbers, regardless of others. A set with an A of l or more, and A^2 - q^2 B of at
# most d, therefore has a B of at least (l^2 - d) / q^2, and its quality is at most the root of
# q^2 + d / B.

_ROUNDING = 1e-12  # tolerance of a proof, as a share of A^2
_FOR_SWAPS = 0.05  # seconds after a deadline: for swaps of a set found just before it


def best_cfs_set(
    quality: CFS,
    k: int,
    *,
    limits: Limits,
    constraints: Constraints | None = None,
    deadline: float | None = None,
) -> Found:
    """Return the best set of k features by CFS; arguments as of `best_set`."""
    # scaling by a power of two is exact, and keeps squares finite
    exponent = math.frexp(float(quality.relevance.max()))[1]
    scaled = CFS(np.ldexp(quality.relevance, -exponent), quality.redundancy)
    search = _Search(scaled, k, limits, constraints or Constraints(), deadline)
    bound, is_proven = search.run()
    value = -math.inf if search.best is None else quality.value(search.best)
    return Found(search.best, value, max(value, math.ldexp(bound, exponent)), is_proven)


class _Search:
    """A search for one set; `best` is the best so far, of scaled value `value`."""

    def __init__(
        self,
        quality: CFS,
        k: int,
        limits: Limits,
        constraints: Constraints,
        deadline: float | None,
    ) -> None:
        self.quality, self.k, self.limits, self.constraints = quality, k, limits, constraints
        with np.errstate(over="ignore"):  # overflow means a conflict
            self.pair_costs = quality.redundancy + quality.redundancy.T
        self.swaps = Swaps(quality, self.pair_costs, limits, constraints)
        self.deadline = deadline
        self.end_of_swaps = (
            None if deadline is None else max(deadline, time.monotonic()) + _FOR_SWAPS
        )
        self.best: tuple[int, ...] | None = None
        self.value = -math.inf

    def run(self) -> tuple[float, bool]:
        """Search; return an upper bound, scaled, and whether the best is proven."""
        first = self.best_of(1.0, 0.0, math.inf)
        if first.indices is None or not first.value:  # no set, or none above 0
            self.best = first.indices
            return first.bound / math.sqrt(self.k), first.complete
        self._come_to_rest(first.bound)
        if self.value**2 < sys.float_info.min / sys.float_info.epsilon:
            return first.bound / math.sqrt(self.k), False
        return self._prove(first.bound)

    def best_of(
        self, share: float, squared: float, largest: float, at_least: float = -math.inf
    ) -> Found:
        """Return the best set by share A - q^2 (B - k), of those with an A of at most `largest`.

        It may skip sets worse than q. Sets found on the way replace the best so far if they are
        better, except those begun too late, which more time would not visit.
        """
        too_large = np.flatnonzero(self.quality.relevance > largest).tolist()
        excluded = {*self.constraints.excluded, *too_large}
        if excluded & {*self.constraints.included} or len(self.pair_costs) - len(excluded) < self.k:
            return Found(None, -math.inf, -math.inf, complete=True)
        return best_set(
            Form(share * self.quality.relevance, self._charged(squared, largest)),
            self.k,
            limits=self.limits,
            constraints=replace(self.constraints, must_exclude=tuple(sorted(excluded))),
            at_least=at_least,
            deadline=self.deadline,
            on_better=None if self.best is not None and is_late(self.deadline) else self._take,
        )

    def _take(self, features: tuple[int, ...]) -> None:
        """Improve a set by swaps, and keep it if it is better than the best so far."""
        if self.quality.value(features) > self.value:
            self.best = self.swaps.climb(features, self.end_of_swaps)
            self.value = self.quality.value(self.best)

    def _charged(self, squared: float, largest: float) -> Floats | None:
        """Return q^2 times the pair costs, inf for pairs that are in no better set."""
        if not squared:
            return None
        most = largest**2 * (1 + 4 * sys.float_info.epsilon) / squared
        charged = squared * np.minimum(self.pair_costs, most)
        charged[self.pair_costs > most] = math.inf
        return charged

    def _come_to_rest(self, largest: float) -> None:
        """Take Dinkelbach's steps until they give nothing better."""
        before = -math.inf
        while self.best is not None and self.value > before and not is_late(self.deadline):
            before = self.value
            self.best_of(2 * self.quality.parts(self.best)[0], before**2, largest)

    def _prove(self, largest: float) -> tuple[float, bool]:
        """Search for better sets in all ranges; return a bound, and whether none is better."""
        bound, is_proven = 0.0, True
        equals: list[tuple[int, ...]] = []
        low = self.value * math.sqrt(self.k)  # B is at least k, which bounds A of a better set
        ranges: list[tuple[float, float]] = []
        while low < largest:
            ranges.append((low, min(2 * low, largest)))
            low *= 2
        while ranges:
            low, high = ranges.pop()
            if is_late(self.deadline):
                bound, is_proven = max(bound, high / math.sqrt(self.k)), False
                continue
            value = self.value
            floor, rounding = low * high + value**2 * self.k, _ROUNDING * low * high
            found = self.best_of(low + high, value**2, high, at_least=floor - rounding)
            cut, _ = self.quality.parts(found.indices or ())
            if self.value > value:
                ranges.append((low, high))
            elif found.complete and (cut - low) * (high - cut) > rounding:
                ranges += [(low, cut), (cut, high)]
            else:  # a set at an end of the range is above the floor by rounding alone
                is_proven &= found.complete
                if found.indices is not None:
                    equals.append(found.indices)
                is_open = max(rounding, found.bound - floor)
                spread = max(self.k, (low**2 - is_open) / value**2)
                bound = max(bound, math.sqrt(value**2 + is_open / spread))
        return max(bound, self.value), is_proven and self._is_first_taken(equals)

    def _is_first_taken(self, equals: list[tuple[int, ...]]) -> bool:
        """Take the first of equally good sets; False if a better one was found too late."""
        if self.best is None or any(self.quality.value(one) > self.value for one in equals):
            return False
        least = self.value * (1 - _ROUNDING)
        alike = [one for one in equals if self.quality.value(one) >= least]
        self.best = min([self.best, *alike])
        return True


# Searches with numbers of very different magnitude, where rounding would hide some of them.
#
# A search treats sets as equal if they differ by at most the accumulated rounding error, which is a
# share of the largest numbers in its sums. One number of another magnitude, -1e12 for "never", say,
# would hide all others. So
#
# 1. features and pairs that no relevant set can have are removed: those excluded, those for which
#    constraints or conflicts allow no set, and those that make every set worse than a known one.
#    The best set with a feature is at most its gain and the k - 1 highest others, minus its k - 1
#    smallest pair costs and the smallest of all for each other pair; similarly for pairs;
# 2. if the smallest of the sets counts, a gain is capped where it lifts any set of its feature
#    above the possible smallest;
# 3. if rounding still hides something, the sets are not proven but *feasible*, with a valid bound.
#
# This is done if numbers are uneven, or if more than 1e-9 of the terms of the sets would be hidden;
# usual searches only check their numbers.

_HIDDEN = 1e-9  # as a share of the terms of the sets found
_UNEVEN = 2.0**20  # times what is usual
_EPSILON = float(np.finfo(np.float64).eps)
_PASSES = 20  # removals may make further features hopeless

Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome:
    """Result of a search, as far as needed here."""

    sets: Sequence[Sequence[int]]  # empty, or all sets asked for
    least: float  # only sets of this value can be in anything better; -inf if unknown
    rounding: float  # improvement that rounding may hide although the search is complete
    complete: bool


@dataclass(frozen=True)
class Narrowed(Generic[Result]):
    """A search for sets of k features, restricted to relevant features."""

    form: Form  # removed features have value 0 and are excluded
    k: int
    limits: Limits
    constraints: Constraints
    # form, constraints, deadline -> result
    search: Callable[[Form, Constraints, float | None], Result]
    outcome_of: Callable[[Result], Outcome]  # result -> outcome
    # form, constraints -> a form with the same optimum and smaller numbers
    lowered: Callable[[Form, Constraints], Form] = lambda form, constraints: form
    # sums of absolute terms of the sets -> magnitude to compare rounding with
    counts: Callable[[Sequence[float]], float] = min

    def run(self, deadline: float | None, now: float) -> tuple[Result, bool]:
        """Search; return the result, and whether rounding may hide something better.

        A search that is late from the start still returns a set or two.
        """
        narrowed = self
        if self._is_uneven():
            narrowed = self._without_hopeless(-math.inf)
            if narrowed._is_uneven():
                first = self.outcome_of(self.search(narrowed.form, narrowed.constraints, now))
                narrowed = narrowed._without_hopeless(first.least)
        found = self.search(narrowed.form, narrowed.constraints, deadline)
        while True:
            outcome = self.outcome_of(found)
            if not (outcome.complete and narrowed._hides(outcome)):
                return found, False
            further = narrowed._without_hopeless(outcome.least)
            if further._size() > narrowed._size() / 2 or is_late(deadline):
                return found, True
            again = self.search(further.form, further.constraints, deadline)
            if self.outcome_of(again).least < outcome.least:  # ran out of time
                return found, True
            found, narrowed = again, further

    def _is_open(self) -> Mask:
        is_open = np.ones(len(self.form.gains), dtype=bool)
        is_open[self.constraints.excluded] = False
        return is_open

    def _usual(self) -> float:
        """Return the median absolute gain other than 0, else that of pair costs; or 0.

        Of the two in the middle the smaller: half of the gains must not hide the other half.
        """
        is_open, costs = self._is_open(), self.form.pair_costs
        gains = self.form.gains[is_open]
        if costs is not None and not gains.any():
            gains = costs[np.ix_(is_open, is_open)].ravel()
        sizes = np.abs(gains[(gains != 0) & np.isfinite(gains)])
        middle = (len(sizes) - 1) // 2
        return float(np.partition(sizes, middle)[middle]) if len(sizes) else 0.0

    def _largest(self) -> tuple[float, float]:
        """Return the largest absolute gain and pair cost of features that are not excluded."""
        is_open = self._is_open()
        gain = float(np.abs(self.form.gains[is_open]).max(initial=0.0))
        pairs = self.form.pairs(np.flatnonzero(is_open))
        return gain, 0.0 if pairs is None else pairs.largest

    def _is_uneven(self) -> bool:
        """Return whether a number is of another magnitude than the usual gain.

        Excluded features count too: they are not yet removed.
        """
        largest = float(np.abs(self.form.gains).max())
        pairs = self.form.pairs()
        if pairs is not None:
            largest = max(largest, pairs.largest)
        return largest > _UNEVEN * self._usual()

    def _size(self) -> float:
        gain, cost = self._largest()
        return self.k * gain + math.comb(self.k, 2) * cost

    def _hides(self, outcome: Outcome) -> bool:
        """Return whether rounding hides more than a small share of the terms of the sets."""
        if not outcome.sets:
            return False
        terms = self.counts([_terms(self.form, features) for features in outcome.sets])
        is_large = outcome.rounding > _HIDDEN * max(terms, self._usual())
        return is_large and self._size() > 0

    def _without_hopeless(self, least: float) -> Narrowed[Result]:
        """Remove, repeatedly, features and pairs that no set of value `least` can have."""
        narrowed = self
        for _ in range(_PASSES):
            further = narrowed._without_hopeless_once(least)
            if further is None:
                break
            narrowed = further
        return replace(narrowed, form=self.lowered(narrowed.form, narrowed.constraints))

    def _without_hopeless_once(self, least: float) -> Narrowed[Result] | None:
        """Return None if nothing can be removed, or too little would be left."""
        is_open, form = self._is_open() & self._fits(), self.form
        costs = None
        if form.pair_costs is not None:
            costs = form.pair_costs.copy()
            costs[~is_open], costs[:, ~is_open] = math.inf, math.inf
            np.fill_diagonal(costs, math.inf)
        promises, of_pairs = _promises(form.gains, costs, is_open, self.k)
        is_hopeless = promises < least
        is_hopeless[self.constraints.included] = False
        is_left = is_open & ~is_hopeless
        if costs is not None:
            costs[of_pairs < least] = math.inf
            costs[~is_left], costs[:, ~is_left] = math.inf, math.inf
            np.fill_diagonal(costs, 0.0)
        is_same = bool((is_left == self._is_open()).all() and not form.gains[~is_left].any())
        if costs is not None and form.pair_costs is not None:
            is_same &= np.array_equal(costs, form.pair_costs)
        if is_same:
            return None
        if is_left.sum() < self.k or not is_left[self.constraints.included].all():
            return None  # no set at all: the search reports it
        excluded = tuple(np.flatnonzero(~is_left).tolist())
        return replace(
            self,
            form=Form(np.where(is_left, form.gains, 0.0), costs),
            constraints=replace(self.constraints, must_exclude=excluded),
        )

    def _fits(self) -> Mask:
        """Return which features rows allow with the k - 1 lightest others."""
        rows = self.constraints.rows(len(self.form.gains))
        weights = np.vstack([self.limits.sets, rows.weights])
        caps = np.concatenate([self.limits.at_most, rows.caps])
        lightest = np.sort(weights, axis=1)[:, : self.k - 1].sum(axis=1)
        room = caps - lightest
        room += 8 * self.k * _EPSILON * (np.abs(caps) + np.abs(weights).sum(axis=1))
        return np.asarray((weights <= room[:, np.newaxis]).all(axis=0))


def capped(form: Form, k: int, n_sets: int, most_uses: int, constraints: Constraints) -> Form:
    """Return a form with gains capped without changing the best smallest value.

    Some set lacks the features that cannot be in all sets; so the smallest value is at most the sum
    of the k best others. A gain that lifts any set above that is capped.
    """
    is_open = np.ones(len(form.gains), dtype=bool)
    is_open[constraints.excluded] = False
    gains = np.sort(form.gains[is_open])
    n_without = (n_sets - 1) // most_uses
    if len(gains) - n_without < k:
        return form
    highest, lowest = 0.0, 0.0
    if form.pair_costs is not None:
        costs = form.pair_costs[np.ix_(is_open, is_open)]
        costs = costs[np.isfinite(costs) & ~np.eye(len(costs), dtype=bool)]
        lowest = math.comb(k, 2) * float(costs.min(initial=math.inf)) if len(costs) else 0.0
        highest = math.comb(k, 2) * float(costs.max(initial=-math.inf)) if len(costs) else 0.0
    most = math.fsum(gains[len(gains) - n_without - k : len(gains) - n_without]) - lowest
    worst = math.fsum(gains[: k - 1]) - highest
    cap = most - worst
    cap += 8 * k * k * _EPSILON * (abs(most) + abs(worst) + abs(lowest) + abs(highest))
    return replace(form, gains=np.minimum(form.gains, cap))


def _terms(form: Form, features: Sequence[int]) -> float:
    """Return the sum of the absolute terms of a set's value."""
    chosen = list(features)
    size = float(np.abs(form.gains[chosen]).sum())
    if form.pair_costs is not None:
        size += float(np.abs(form.pair_costs[np.ix_(chosen, chosen)]).sum()) / 2
    return size


def _promises(gains: Floats, costs: Floats | None, is_open: Mask, k: int) -> tuple[Floats, Floats]:
    """Return upper bounds on sets with each feature (n,), and with each pair (n, n).

    `costs` are inf on the diagonal; without them there are no bounds for pairs.
    """
    best = np.sort(gains[is_open])[::-1][:k]
    others, cheapest = math.fsum(best[: k - 1]), 0.0
    sizes = np.abs(gains) + np.abs(best).sum()
    if costs is None or k < 2:
        return gains + others + 8 * k * _EPSILON * sizes, np.empty((0, 0))
    finite = costs[np.isfinite(costs)]
    cheapest = float(finite.min(initial=math.inf)) if len(finite) else 0.0
    nearest = np.partition(costs, k - 2, axis=1)[:, : k - 1].sum(axis=1)
    margin = 8 * k * k * _EPSILON
    known = np.where(np.isfinite(nearest), np.abs(nearest), 0.0)
    rest = math.comb(k - 1, 2) * cheapest
    promises = gains - nearest + others - rest + margin * (sizes + known + abs(rest))
    rest = (math.comb(k, 2) - 1) * cheapest
    both = gains[:, np.newaxis] + gains
    sizes = sizes[:, np.newaxis] + np.abs(gains) + np.abs(np.where(np.isfinite(costs), costs, 0.0))
    of_pairs = both - costs + math.fsum(best[: k - 2]) - rest + margin * (sizes + abs(rest))
    return promises, of_pairs


@dataclass(frozen=True)
class Apart:
    """Required dissimilarity of sets; `tau` is above 0 and at most 1."""

    tau: float
    dissimilarity: Dissimilarity

    def limits(self, sets: Sequence[Sequence[int]], k: int, n_features: int) -> Limits:
        """Return the limits on features that a set of k shares with each of some sets."""
        return _Before(sets, n_features).limits(self, k)


class _Before:
    """Growing list of the sets that the next one must differ from."""

    def __init__(self, sets: Sequence[Sequence[int]], n_features: int) -> None:
        self._members = np.zeros((len(sets), n_features), dtype=bool)
        self._sizes = np.zeros(len(sets), dtype=np.int64)
        self._count = 0
        for one in sets:
            self.add(one)

    def add(self, indices: Sequence[int]) -> None:
        """Add a set of indices."""
        if self._count == len(self._members):  # doubling, so that copies are rare
            room = max(16, self._count)
            more = np.zeros((room, self._members.shape[1]), dtype=bool)
            self._members = np.concatenate([self._members, more])
            self._sizes = np.concatenate([self._sizes, np.zeros(room, dtype=np.int64)])
        self._members[self._count, list(indices)] = True
        self._sizes[self._count] = len(indices)
        self._count += 1

    def limits(self, apart: Apart, k: int) -> Limits:
        """Return the limits on features that a set of k shares with each."""
        sizes, which = np.unique(self._sizes[: self._count], return_inverse=True)
        overlaps = [
            largest_overlap(k, size, apart.tau, apart.dissimilarity) for size in sizes.tolist()
        ]
        return Limits(self._members[: self._count], np.array(overlaps, dtype=np.int64)[which])


def one_by_one(
    quality: Quality,
    sizes: Iterable[int],
    *,
    apart: Apart,
    constraints: Constraints,
    previous: Sequence[Sequence[int]] = (),
    time_limit: float | None = None,
) -> Iterator[FeatureSet]:
    """Yield one set for each size, and stop after a missing one.

    `time_limit`: seconds for all searches together; time between them does not count. Sets that
    take a moment are found a little longer, see `GRACE`; the first in any case.
    """
    before = _Before(previous, quality.n_features)
    used = np.zeros(quality.n_features, dtype=np.int64)
    left = math.inf if time_limit is None else time_limit
    is_first, form, size = True, None, 0
    for k in sizes:
        start = time.monotonic()
        if isinstance(quality, QualityWithForm) and k != size:  # takes long for wide tables
            form, size = quality.form(k), k
        deadline = None if left == math.inf else start + left
        if is_far_too_late(deadline) and not is_first:
            found = Found(None, -math.inf, math.inf, complete=False)
        else:
            rules = _without_worn_out(constraints, used)
            found = _best(quality, form, k, before.limits(apart, k), rules, deadline)
        is_first = False
        seconds = time.monotonic() - start
        left -= seconds
        yield _as_set(quality, found, seconds)
        if found.indices is None:
            return
        before.add(found.indices)
        used[list(found.indices)] += 1


def _best(
    quality: Quality,
    form: Form | None,
    k: int,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None,
) -> Found:
    """Return the best set by the search for this quality."""
    is_worn_out = bool({*constraints.included} & {*constraints.excluded})
    if is_worn_out or quality.n_features - len(constraints.must_exclude) < k:
        return Found(None, -math.inf, -math.inf, complete=True)
    if form is not None:
        return _best_by_form(form, k, limits, constraints, deadline)
    if isinstance(quality, CFS):
        return best_cfs_set(quality, k, limits=limits, constraints=constraints, deadline=deadline)
    if isinstance(quality, Wrapper):
        return quality.climb(k, limits=limits, constraints=constraints, deadline=deadline)
    raise ValueError(
        f"quality must be Univariate, FCBF, MRMR, CFS or a Wrapper but is {type(quality).__name__}"
    )


def _best_by_form(
    form: Form, k: int, limits: Limits, constraints: Constraints, deadline: float | None
) -> Found:
    """Return the best set; not proven if rounding may hide a better one."""

    def search(form: Form, constraints: Constraints, deadline: float | None) -> Found:
        return best_set(form, k, limits=limits, constraints=constraints, deadline=deadline)

    def outcome_of(found: Found) -> Outcome:
        if found.indices is None:
            return Outcome((), -math.inf, 0.0, found.complete)
        return Outcome([found.indices], found.value, found.bound - found.value, found.complete)

    narrowed = Narrowed(form, k, limits, constraints, search, outcome_of)
    found, is_hidden = narrowed.run(deadline, time.monotonic())
    return replace(found, complete=False) if is_hidden else found


def _without_worn_out(
    constraints: Constraints, used: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Constraints:
    """Return constraints that exclude features that have reached the limit of sets."""
    most = constraints.max_sets_per_feature
    if most is None:
        return constraints
    worn_out = np.flatnonzero(used >= most).tolist()
    return replace(constraints, must_exclude=sorted({*constraints.excluded, *worn_out}))


def _as_set(quality: Quality, found: Found, seconds: float) -> FeatureSet:
    indices = found.indices or ()
    status: Status = "optimal" if found.complete else "feasible"
    if found.indices is None:
        status = "infeasible" if found.complete else "not_solved"
    names = quality.names
    features = indices if names is None else tuple(names[index] for index in indices)
    # a complete search has a proof up to rounding
    bound = found.value if found.complete else found.bound
    return FeatureSet(features, indices, found.value, bound, status, seconds)
