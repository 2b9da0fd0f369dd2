"""The best feature set by CFS, a ratio, from best sets of sums.

With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is better
than q where A^2 - q^2 B > 0. Between l and h the square of A is no more than

    (l + h) A - l h,

its secant, and with that in its place it is a matter of gains and pair costs whether there is a
set above 0. If there is none, no set with an A in l..h is better: that is the proof. If there is
one, it is better, or the range is cut at its A, where both secants meet the square. The search
starts from a q at which Dinkelbach's steps come to rest: the best set of 2 a A - q^2 B, with a and
q of the set before.

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
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.tasks.selection.alternatives.branch_and_bound import Found, Limits, best_set
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import CFS, Form
from chaffinch.tasks.selection.vocabulary import Floats

_ROUNDING = 1e-12  # what a proof may leave open, as a share of A^2


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
        See `best_set`. Of equal sets it is always the same one that is returned, if not always the
        first as a word.
    """
    # a power of two changes no digit, and then nothing is too large or too small to be squared
    exponent = math.frexp(float(quality.relevance.max()))[1]
    relevance = np.ldexp(quality.relevance, -exponent)
    with np.errstate(over="ignore"):  # what is too large is in conflict
        pair_costs = quality.redundancy + quality.redundancy.T
    scaled = CFS(relevance, quality.redundancy)
    search = _Search(scaled, pair_costs, k, limits, constraints or Constraints(), deadline)
    first = search.best_of(1.0, 0.0, math.inf)
    best, bound, is_proven = first.indices, first.bound / math.sqrt(k), first.complete
    if best is not None and first.value:
        best = search.at_rest(best, first.bound)
        if scaled.value(best) ** 2 >= sys.float_info.min / sys.float_info.epsilon:
            best, bound, is_proven = search.proven(best, first.bound)
        else:
            is_proven = False
    value = -math.inf if best is None else quality.value(best)
    return Found(best, value, max(value, math.ldexp(bound, exponent)), is_proven)


@dataclass(frozen=True)
class _Search:
    """A search for one set."""

    quality: CFS
    pair_costs: Floats
    k: int
    limits: Limits
    constraints: Constraints
    deadline: float | None

    def best_of(
        self, share: float, squared: float, largest: float, at_least: float = -math.inf
    ) -> Found:
        """Return the best set of share A - q^2 (B - k), of those with an A of `largest` at most.

        Of these it may leave out what is no better than q.
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
        )

    def _charged(self, squared: float, largest: float) -> Floats | None:
        """Return q^2 times the pair costs, inf where a pair is in no better set."""
        if not squared:
            return None
        most = largest**2 * (1 + 4 * sys.float_info.epsilon) / squared
        charged = squared * np.minimum(self.pair_costs, most)
        charged[self.pair_costs > most] = math.inf
        return charged

    def at_rest(self, best: tuple[int, ...], largest: float) -> tuple[int, ...]:
        """Return a set that Dinkelbach's steps do not leave any more."""
        value = self.quality.value(best)
        while not (self.deadline is not None and time.monotonic() >= self.deadline):
            found = self.best_of(2 * self.quality.parts(best)[0], value**2, largest)
            if found.indices is None or self.quality.value(found.indices) <= value:
                break
            best, value = found.indices, self.quality.value(found.indices)
        return best

    def proven(self, best: tuple[int, ...], largest: float) -> tuple[tuple[int, ...], float, bool]:
        """Return the best set, a bound on what sets are worth, and whether they are the same.

        Parameters
        ----------
        best : tuple of int
            The best set so far.
        largest : float
            No A is larger.
        """
        value, bound, is_proven = self.quality.value(best), 0.0, True
        low = value * math.sqrt(self.k)  # B is k at least: of a better set A is no less
        ranges: list[tuple[float, float]] = []
        while low < largest:
            ranges.append((low, min(2 * low, largest)))
            low *= 2
        while ranges:
            low, high = ranges.pop()
            floor, rounding = low * high + value**2 * self.k, _ROUNDING * low * high
            found = self.best_of(low + high, value**2, high, at_least=floor + rounding)
            cut, _ = self.quality.parts(found.indices or ())
            if found.indices is not None and self.quality.value(found.indices) > value:
                best, value = found.indices, self.quality.value(found.indices)
                ranges.append((low, high))
            elif found.indices is not None and found.complete and low < cut < high:
                ranges += [(low, cut), (cut, high)]
            else:  # a set at an end of the range is above the floor by rounding alone
                is_proven &= found.complete
                is_open = max(rounding, found.bound - floor)
                spread = max(self.k, (low**2 - is_open) / value**2)
                bound = max(bound, math.sqrt(value**2 + is_open / spread))
        return best, max(bound, value), is_proven
