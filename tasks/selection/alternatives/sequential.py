"""Alternatives one at a time: each the best there is beside all before it.

Bach, arXiv 2307.11607v3, definitions 2 and 3, eq 9. What is best for one may leave little for the
next: sets that are searched for at once can be worth more in all.
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
    """The swaps that limits and constraints allow.

    Parameters
    ----------
    quality : CFS
        Over n features.
    pair_costs : ndarray, shape (n, n)
        Redundancies of pairs, both ways together; inf for what is too large to be counted.
    limits : Limits
        On what is shared with given sets.
    constraints : Constraints
        Checked, with indices for names.
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
        """Return the set that the best swap leads to, time after time, until there is none.

        Parameters
        ----------
        features : tuple of int
            A set that is allowed; it is worth something.
        deadline : float or None
            On the clock of `time.monotonic`; looked at before each swap.
        """
        value = self._quality.value(features)
        while not is_late(deadline):
            other = self._swapped(np.array(features))
            if other is None or self._quality.value(other) <= value:
                break
            features, value = other, self._quality.value(other)
        return features

    def _swapped(self, chosen: Integers) -> tuple[int, ...] | None:
        """Return a set after its best swap, as far as rounding can tell; None if there is none."""
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
        """Return what a set is worth with one of its features, (l,), swapped for another, (e,)."""
        relevance, costs = self._quality.relevance, self._pair_costs
        met = costs[chosen].sum(axis=0)
        relevances = relevance[chosen].sum() - relevance[leaving, np.newaxis] + relevance[entering]
        with np.errstate(over="ignore", invalid="ignore"):
            spreads = len(chosen) + met[chosen].sum() / 2 - met[leaving, np.newaxis]
            spreads = spreads + met[entering] - costs[np.ix_(leaving, entering)]
        known = np.isfinite(spreads)
        worths = relevances / np.sqrt(np.maximum(np.where(known, spreads, 1.0), len(chosen)))
        return np.asarray(np.where(known, worths, -np.inf))


# The best feature set by CFS, a ratio, from best sets of sums.
#
# With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is
# better than q where A^2 - q^2 B > 0. Between l and h the square of A is no more than
#
#     (l + h) A - l h,
#
# its secant, and with that in its place it is a matter of gains and pair costs whether there is a
# set above 0. If there is none, no set with an A in l..h is better: that is the proof. If there is
# one, it is better, or the range is cut at its A, where both secants meet the square. The search
# starts from a q at which Dinkelbach's steps come to rest: the best set of 2 a A - q^2 B, with a
# and q of the set before. Each set that is better than all before it, wherever it turns up, is made
# better still by swaps.
#
# A set that is worth as much as the best comes up to the secant at the ends of a range alone. So
# the ranges are cut until the best set by the secant has an A at an end, and of the sets that come
# up to it the first as a word is the one that is taken.
#
# No range goes further than from l to 2 l. A better set in it has neither a feature of a relevance
# above h nor a pair of which q^2 times the redundancy is above h^2; so what is left to rounding is
# a share of what counts there, whatever other numbers there are. A set with an A of l or more, of
# which A^2 - q^2 B is no more than d, has by that a B of at least (l^2 - d) / q^2, and is worth no
# more than the root of q^2 + d / B.

_ROUNDING = 1e-12  # what a proof may leave open, as a share of A^2
_FOR_SWAPS = 0.05  # seconds after a deadline: a set met just before it is made better as well


def best_cfs_set(
    quality: CFS,
    k: int,
    *,
    limits: Limits,
    constraints: Constraints | None = None,
    deadline: float | None = None,
) -> Found:
    """Return the best set of k features by CFS.

    Parameters
    ----------
    quality : CFS
    k, limits, constraints, deadline
        See `best_set`.
    """
    # a power of two changes no digit, and then nothing is too large or too small to be squared
    exponent = math.frexp(float(quality.relevance.max()))[1]
    scaled = CFS(np.ldexp(quality.relevance, -exponent), quality.redundancy)
    search = _Search(scaled, k, limits, constraints or Constraints(), deadline)
    bound, is_proven = search.run()
    value = -math.inf if search.best is None else quality.value(search.best)
    return Found(search.best, value, max(value, math.ldexp(bound, exponent)), is_proven)


class _Search:
    """A search for one set; `best` is the best so far, which is worth `value`, scaled."""

    def __init__(
        self,
        quality: CFS,
        k: int,
        limits: Limits,
        constraints: Constraints,
        deadline: float | None,
    ) -> None:
        self.quality, self.k, self.limits, self.constraints = quality, k, limits, constraints
        with np.errstate(over="ignore"):  # what is too large is in conflict
            self.pair_costs = quality.redundancy + quality.redundancy.T
        self.swaps = Swaps(quality, self.pair_costs, limits, constraints)
        self.deadline = deadline
        self.end_of_swaps = (
            None if deadline is None else max(deadline, time.monotonic()) + _FOR_SWAPS
        )
        self.best: tuple[int, ...] | None = None
        self.value = -math.inf

    def run(self) -> tuple[float, bool]:
        """Search; return a bound on what sets are worth, scaled, and whether it is proven."""
        first = self.best_of(1.0, 0.0, math.inf)
        if first.indices is None or not first.value:  # none, or none is worth more than 0
            self.best = first.indices
            return first.bound / math.sqrt(self.k), first.complete
        self._come_to_rest(first.bound)
        if self.value**2 < sys.float_info.min / sys.float_info.epsilon:
            return first.bound / math.sqrt(self.k), False
        return self._prove(first.bound)

    def best_of(
        self, share: float, squared: float, largest: float, at_least: float = -math.inf
    ) -> Found:
        """Return the best set of share A - q^2 (B - k), of those with an A of `largest` at most.

        Of these it may leave out what is worse than q. What is met on the way is taken for the best
        so far if it is better, but for what is begun too late: with more time it would not be met.
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
        """Take a set for the best so far if it is better, as good as swaps make it."""
        if self.quality.value(features) > self.value:
            self.best = self.swaps.climb(features, self.end_of_swaps)
            self.value = self.quality.value(self.best)

    def _charged(self, squared: float, largest: float) -> Floats | None:
        """Return q^2 times the pair costs, inf where a pair is in no better set."""
        if not squared:
            return None
        most = largest**2 * (1 + 4 * sys.float_info.epsilon) / squared
        charged = squared * np.minimum(self.pair_costs, most)
        charged[self.pair_costs > most] = math.inf
        return charged

    def _come_to_rest(self, largest: float) -> None:
        """Take Dinkelbach's steps until they lead to nothing better."""
        before = -math.inf
        while self.best is not None and self.value > before and not is_late(self.deadline):
            before = self.value
            self.best_of(2 * self.quality.parts(self.best)[0], before**2, largest)

    def _prove(self, largest: float) -> tuple[float, bool]:
        """Look for better sets in all ranges; return a bound, and whether none is better.

        Parameters
        ----------
        largest : float
            No A is larger.
        """
        bound, is_proven = 0.0, True
        equals: list[tuple[int, ...]] = []
        low = self.value * math.sqrt(self.k)  # B is k at least: of a better set A is no less
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
        """Take the first as a word of sets that are worth the same; False if one is better.

        One that was met too late to be taken.
        """
        if self.best is None or any(self.quality.value(one) > self.value for one in equals):
            return False
        least = self.value * (1 - _ROUNDING)
        alike = [one for one in equals if self.quality.value(one) >= least]
        self.best = min([self.best, *alike])
        return True


# Searches whose numbers differ so much in size that rounding would hide some of them.
#
# A search takes sets to be worth the same if they differ by no more than rounding can add up to,
# which is a share of the largest numbers that it adds up. One number of another order of magnitude,
# -1e12 for "never", say, would so hide what all others are. So
#
# 1. what no set that counts can have is left out: what is excluded, what constraints or conflicts
#    leave no set for, and what would bring any set below one that is known. The best set with a
#    feature is worth no more than its gain and the k - 1 highest others, less its k - 1 smallest
#    pair costs and the smallest of all for each other pair; so for a pair of features;
# 2. where the smallest of the sets counts, a gain counts for no more than lifts any set of its
#    feature above what the smallest can be;
# 3. what is still hidden then is not proven: the sets are *feasible*, with a bound that holds.
#
# This is done where numbers are uneven, or where more would be hidden than a billionth of what the
# terms of the sets come to; the usual search pays for a look at its numbers.

_HIDDEN = 1e-9  # as a share of the terms of the sets that were found
_UNEVEN = 2.0**20  # times what is usual
_EPSILON = float(np.finfo(np.float64).eps)
_PASSES = 20  # what is left out may make more of what is left hopeless

Result = TypeVar("Result")


@dataclass(frozen=True)
class Outcome:
    """What a search has found, as far as it matters here.

    Attributes
    ----------
    sets : sequence of sequences of int
        None, or all that were asked for.
    least : float
        Only sets that are worth this can be in anything better; -inf if that is not known.
    rounding : float
        By how much something better may be hidden, although the search is complete.
    complete : bool
    """

    sets: Sequence[Sequence[int]]
    least: float
    rounding: float
    complete: bool


@dataclass(frozen=True)
class Narrowed(Generic[Result]):
    """A search for sets of k features among those that can matter.

    Attributes
    ----------
    form : Form
        Over n features; those that are left out are worth 0 and excluded.
    k : int
    limits : Limits
    constraints : Constraints
        Checked, with indices for names.
    search : function
        From a form, constraints and a deadline to what is found.
    outcome_of : function
        From what is found to its outcome.
    lowered : function
        From a form and constraints to a form by which as much can be reached.
    counts : function
        From what the terms of each set are in all to what rounding is to be compared with.
    """

    form: Form
    k: int
    limits: Limits
    constraints: Constraints
    search: Callable[[Form, Constraints, float | None], Result]
    outcome_of: Callable[[Result], Outcome]
    lowered: Callable[[Form, Constraints], Form] = lambda form, constraints: form
    counts: Callable[[Sequence[float]], float] = min

    def run(self, deadline: float | None, now: float) -> tuple[Result, bool]:
        """Search; return what is found, and whether rounding may hide what is better.

        Parameters
        ----------
        deadline : float or None
            On the clock of `time.monotonic`.
        now : float
            On the same clock: a search that is late from the start knows a set or two.
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
            if self.outcome_of(again).least < outcome.least:  # for want of time
                return found, True
            found, narrowed = again, further

    def _is_open(self) -> Mask:
        is_open = np.ones(len(self.form.gains), dtype=bool)
        is_open[self.constraints.excluded] = False
        return is_open

    def _usual(self) -> float:
        """Return the median size of the gains that are not 0, or else of pair costs; or 0.

        Of two in the middle it is the smaller: half of the gains must not hide the other half.
        """
        is_open, costs = self._is_open(), self.form.pair_costs
        gains = self.form.gains[is_open]
        if costs is not None and not gains.any():
            gains = costs[np.ix_(is_open, is_open)].ravel()
        sizes = np.abs(gains[(gains != 0) & np.isfinite(gains)])
        middle = (len(sizes) - 1) // 2
        return float(np.partition(sizes, middle)[middle]) if len(sizes) else 0.0

    def _largest(self) -> tuple[float, float]:
        """Return the largest gain and pair cost of what is not excluded, in absolute value."""
        is_open = self._is_open()
        gain = float(np.abs(self.form.gains[is_open]).max(initial=0.0))
        pairs = self.form.pairs(np.flatnonzero(is_open))
        return gain, 0.0 if pairs is None else pairs.largest

    def _is_uneven(self) -> bool:
        """Return whether a number is of another order of magnitude than gains usually are.

        What is excluded counts as well: it is not yet left out.
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
        """Return whether rounding hides more than a small share of what sets are made of."""
        if not outcome.sets:
            return False
        terms = self.counts([_terms(self.form, features) for features in outcome.sets])
        is_large = outcome.rounding > _HIDDEN * max(terms, self._usual())
        return is_large and self._size() > 0

    def _without_hopeless(self, least: float) -> Narrowed[Result]:
        """Leave out what no set that is worth `least` can have, again and again."""
        narrowed = self
        for _ in range(_PASSES):
            further = narrowed._without_hopeless_once(least)
            if further is None:
                break
            narrowed = further
        return replace(narrowed, form=self.lowered(narrowed.form, narrowed.constraints))

    def _without_hopeless_once(self, least: float) -> Narrowed[Result] | None:
        """Return None if all that is open may be in such a set, or too little would be left."""
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
            return None  # no set at all: the search says so
        excluded = tuple(np.flatnonzero(~is_left).tolist())
        return replace(
            self,
            form=Form(np.where(is_left, form.gains, 0.0), costs),
            constraints=replace(self.constraints, must_exclude=excluded),
        )

    def _fits(self) -> Mask:
        """Return which features rows allow with the k - 1 others of least weight."""
        rows = self.constraints.rows(len(self.form.gains))
        weights = np.vstack([self.limits.sets, rows.weights])
        caps = np.concatenate([self.limits.at_most, rows.caps])
        lightest = np.sort(weights, axis=1)[:, : self.k - 1].sum(axis=1)
        room = caps - lightest
        room += 8 * self.k * _EPSILON * (np.abs(caps) + np.abs(weights).sum(axis=1))
        return np.asarray((weights <= room[:, np.newaxis]).all(axis=0))


def capped(form: Form, k: int, n_sets: int, most_uses: int, constraints: Constraints) -> Form:
    """Return a form by which the best smallest of some sets is worth the same.

    Some set has none of the features that sets with them cannot all have; so the smallest is worth
    no more than the k best others. A gain that lifts any set above that counts for just as much.

    Parameters
    ----------
    form : Form
    k, n_sets : int
    most_uses : int
        In how many of the sets a feature can be.
    constraints : Constraints
        Checked, with indices for names.
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
    """Return what the terms of a set's worth are in all, in absolute value."""
    chosen = list(features)
    size = float(np.abs(form.gains[chosen]).sum())
    if form.pair_costs is not None:
        size += float(np.abs(form.pair_costs[np.ix_(chosen, chosen)]).sum()) / 2
    return size


def _promises(gains: Floats, costs: Floats | None, is_open: Mask, k: int) -> tuple[Floats, Floats]:
    """Return what no set with a feature (n,), or with a pair (n, n), can exceed.

    `costs` are inf on the diagonal; without them there is nothing to say of pairs.
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
    """How different sets are to be.

    Attributes
    ----------
    tau : float
        The least dissimilarity, above 0 and at most 1.
    dissimilarity : "dice" or "jaccard"
    """

    tau: float
    dissimilarity: Dissimilarity

    def limits(self, sets: Sequence[Sequence[int]], k: int, n_features: int) -> Limits:
        """Return how many features a set of k may share with each of some sets of indices."""
        return _Before(sets, n_features).limits(self, k)


class _Before:
    """The sets that a further one is to differ from, to which one is added at little cost."""

    def __init__(self, sets: Sequence[Sequence[int]], n_features: int) -> None:
        self._members = np.zeros((len(sets), n_features), dtype=bool)
        self._sizes = np.zeros(len(sets), dtype=np.int64)
        self._count = 0
        for one in sets:
            self.add(one)

    def add(self, indices: Sequence[int]) -> None:
        """Add a set of indices."""
        if self._count == len(self._members):  # twice the room, so that copies are few
            room = max(16, self._count)
            more = np.zeros((room, self._members.shape[1]), dtype=bool)
            self._members = np.concatenate([self._members, more])
            self._sizes = np.concatenate([self._sizes, np.zeros(room, dtype=np.int64)])
        self._members[self._count, list(indices)] = True
        self._sizes[self._count] = len(indices)
        self._count += 1

    def limits(self, apart: Apart, k: int) -> Limits:
        """Return how many features a set of k may share with each."""
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
    """Yield one set for each size, and stop after one that is not there.

    Parameters
    ----------
    quality : Quality
        Over n features.
    sizes : iterable of int in 1..n
        Of the sets.
    apart : Apart
        How different each is to be from all before it.
    constraints : Constraints
        Checked, with indices for names.
    previous : sequence of sequences of int
        Sets of indices that all are to be different from.
    time_limit : float, optional
        Seconds for all searches together; what happens between them does not count. Sets that
        take a moment are found a little longer, see `GRACE`; the first in any case.
    """
    before = _Before(previous, quality.n_features)
    used = np.zeros(quality.n_features, dtype=np.int64)
    left = math.inf if time_limit is None else time_limit
    is_first, form, size = True, None, 0
    for k in sizes:
        start = time.monotonic()
        if isinstance(quality, QualityWithForm) and k != size:  # of wide tables it takes long
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
    """Return the best set by whatever suits the quality."""
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
    """Return the best set; it is not proven where rounding may hide a better one."""

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
    """Return constraints that exclude features which are in as many sets as they may be."""
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
    # a search that is complete has proven as much as rounding allows
    bound = found.value if found.complete else found.bound
    return FeatureSet(features, indices, found.value, bound, status, seconds)
