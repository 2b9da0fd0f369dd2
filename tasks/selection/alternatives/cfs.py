"""The best feature set by CFS, a ratio, by solving problems with linear objectives.

With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is better
than q if A^2 - q^2 B > 0. Between l and h the square of A is at most its secant,

    (l + h) A - l h.

With the secant in its place, gains and pair costs decide whether a set above 0 exists. If not, no
set with an A in l..h is better: that is the proof. If so, it is better, or the range is split at
its A, where both secants meet the square. The search starts from a fixed point q of Dinkelbach's
steps: the best set of 2 a A - q^2 B, with a and q of the set before.

A set as good as the best reaches the secant only at the ends of a range. So the ranges are split
until the best set by the secant has an A at an end, and the lexicographically first of the sets
that reach it is taken.

No range is wider than from l to 2 l. A better set in it has neither a feature of a relevance above
h nor a pair for which q^2 times the redundancy is above h^2; so rounding errors are a share of the
relevant numbers, regardless of others. A set with an A of l or more, and A^2 - q^2 B of at most d,
therefore has a B of at least (l^2 - d) / q^2, and its quality is at most the root of q^2 + d / B.
"""

from __future__ import annotations

import math
import sys
from dataclasses import replace

import numpy as np

from chaffinch.tasks.selection.alternatives.exact.best_sets import (
    BestSet,
    Limits,
    best_set,
    is_late,
)
from chaffinch.tasks.selection.alternatives.quality import CFS, Form
from chaffinch.tasks.selection.constraints import Constraints
from chaffinch.tasks.selection.core import Floats

_ROUNDING = 1e-12  # tolerance of a proof, as a share of A^2


def best_cfs_set(
    quality: CFS,
    k: int,
    *,
    limits: Limits,
    constraints: Constraints,
    deadline: float | None = None,
) -> BestSet:
    """Return the best set of k features by CFS; arguments as of `best_set`."""
    # scaling by a power of two is exact, and keeps squares finite
    exponent = math.frexp(float(quality.relevance.max()))[1]
    scaled = CFS(np.ldexp(quality.relevance, -exponent), quality.redundancy)
    search = _Search(scaled, k, limits, constraints, deadline)
    bound, is_proven = search.run()
    value = -math.inf if search.best is None else quality.value(search.best)
    return BestSet(search.best, value, max(value, math.ldexp(bound, exponent)), is_proven)


class _Search:
    """A search for the best set; `best` is the best so far, of scaled value `value`."""

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
        self.deadline = deadline
        self.best: tuple[int, ...] | None = None
        self.value = -math.inf

    def run(self) -> tuple[float, bool]:
        """Search; return an upper bound, scaled, and whether the best is proven."""
        first = self._best_of(1.0, 0.0, math.inf)
        if first.indices is None or not first.value:  # no set, or none above 0
            return first.bound / math.sqrt(self.k), first.complete
        before = -math.inf
        while self.best is not None and self.value > before and not is_late(self.deadline):
            before = self.value  # Dinkelbach's steps
            self._best_of(2 * self.quality.parts(self.best)[0], before**2, first.bound)
        if self.value**2 < sys.float_info.min / sys.float_info.epsilon:
            return first.bound / math.sqrt(self.k), False
        return self._prove(first.bound)

    def _best_of(
        self, share: float, squared: float, largest: float, at_least: float = -math.inf
    ) -> BestSet:
        """Return the best set by share A - q^2 (B - k), of those with an A of at most `largest`.

        It may skip sets worse than q, and replaces the best so far if it is better.
        """
        too_large = np.flatnonzero(self.quality.relevance > largest).tolist()
        excluded = {*self.constraints.excluded, *too_large}
        if excluded & {*self.constraints.included} or len(self.pair_costs) - len(excluded) < self.k:
            return BestSet(None, -math.inf, -math.inf, complete=True)
        best = best_set(
            Form(share * self.quality.relevance, self._charged(squared, largest)),
            self.k,
            limits=self.limits,
            constraints=replace(self.constraints, must_exclude=tuple(sorted(excluded))),
            at_least=at_least,
            deadline=self.deadline,
        )
        if best.indices is not None and self.quality.value(best.indices) > self.value:
            self.best, self.value = best.indices, self.quality.value(best.indices)
        return best

    def _charged(self, squared: float, largest: float) -> Floats | None:
        """Return q^2 times the pair costs, inf for pairs that are in no better set."""
        if not squared:
            return None
        most = largest**2 * (1 + 4 * sys.float_info.epsilon) / squared
        charged = squared * np.minimum(self.pair_costs, most)
        charged[self.pair_costs > most] = math.inf
        return charged

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
            best = self._best_of(low + high, value**2, high, at_least=floor - rounding)
            cut, _ = self.quality.parts(best.indices or ())
            if self.value > value:
                ranges.append((low, high))
            elif best.complete and (cut - low) * (high - cut) > rounding:
                ranges += [(low, cut), (cut, high)]
            else:  # a set at an end of the range is above the floor by rounding alone
                is_proven &= best.complete
                if best.indices is not None:
                    equals.append(best.indices)
                is_open = max(rounding, best.bound - floor)
                spread = max(self.k, (low**2 - is_open) / value**2)
                bound = max(bound, math.sqrt(value**2 + is_open / spread))
        return max(bound, self.value), is_proven and self._is_first_taken(equals)

    def _is_first_taken(self, equals: list[tuple[int, ...]]) -> bool:
        """Take the first of equally good sets; False if a better set came too late."""
        if self.best is None or any(self.quality.value(indices) > self.value for indices in equals):
            return False
        least = self.value * (1 - _ROUNDING)
        alike = [indices for indices in equals if self.quality.value(indices) >= least]
        self.best = min([self.best, *alike])
        return True
