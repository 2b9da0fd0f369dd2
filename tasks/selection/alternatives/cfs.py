"""The best feature set by CFS, a ratio, from best sets of sums.

With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is better
than q where A^2 - q^2 B > 0. Between l and h the square of A is no more than

    (l + h) A - l h,

its secant, and with that in its place it is a matter of gains and pair costs whether there is a
set above 0. If there is none, no set with an A in l..h is better: that is the proof. If there is
one, it is better, or the range is cut at its A, where both secants meet the square. The search
starts from a q at which Dinkelbach's steps come to rest: the best set of 2 a A - q^2 B, with a and
q of the set before. Each set that is better than all before it, wherever it turns up, is made
better still by swaps.

A set that is worth as much as the best comes up to the secant at the ends of a range alone. So the
ranges are cut until the best set by the secant has an A at an end, and of the sets that come up to
it the first as a word is the one that is taken.

No range goes further than from l to 2 l. A better set in it has neither a feature of a relevance
above h nor a pair of which q^2 times the redundancy is above h^2; so what is left to rounding is a
share of what counts there, whatever other numbers there are. A set with an A of l or more, of which
A^2 - q^2 B is no more than d, has by that a B of at least (l^2 - d) / q^2, and is worth no more
than the root of q^2 + d / B.
"""

from __future__ import annotations

import math
import sys
import time
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import Found, Limits, best_set
from chaffinch.tasks.selection.alternatives.cfs_swaps import Swaps
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.quality import CFS, Form
from chaffinch.tasks.selection.vocabulary import Floats

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
