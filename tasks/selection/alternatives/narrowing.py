"""Searches whose numbers differ so much in size that rounding would hide some of them.

A search takes sets to be worth the same if they differ by no more than rounding can add up to,
which is a share of the largest numbers that it adds up. One number of another order of magnitude,
-1e12 for "never", say, would so hide what all others are. So

1. what no set that counts can have is left out: what is excluded, what constraints or conflicts
   leave no set for, and what would bring any set below one that is known. The best set with a
   feature is worth no more than its gain and the k - 1 highest others, less its k - 1 smallest pair
   costs and the smallest of all for each other pair; so for a pair of features;
2. where the smallest of the sets counts, a gain counts for no more than lifts any set of its
   feature above what the smallest can be;
3. what is still hidden then is not proven: the sets are *feasible*, with a bound that holds.

This is done where numbers are uneven, or where more would be hidden than a billionth of what the
terms of the sets come to; the usual search pays for a look at its numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import Limits
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.vocabulary import Floats, Mask

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
