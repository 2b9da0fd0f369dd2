"""The best feature set by CFS, a ratio, from best sets of sums.

With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). A set is better
than q where A^2 - q^2 B > 0. Between l and h the square of A is no more than

    (l + h) A - l h,

its secant, and with that in its place it is a matter of gains and pair costs whether there is a
set above 0. If there is none, no set with an A in l..h is better: that is the proof. If there is
one, it is better, or the range is cut at its A, where both secants meet the square. The search
starts from a q at which Dinkelbach's steps come to rest: the best set of 2 a A - q^2 B, with a and
q of the set before.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

from chaffinch.tasks.selection.alternatives.branch_and_bound import Found, Limits, best_set
from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import CFS, Form

_ROUNDING = 1e-11  # what a proof may leave open, as a share of A^2


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
    search = _Search(quality, k, limits, constraints, deadline)
    first = search.best_of(1.0, 0.0)
    if first.indices is None or not first.value:  # B is k at least
        bound = first.bound / math.sqrt(k) if first.bound > -math.inf else -math.inf
        return Found(first.indices, first.value, bound, first.complete)
    best = search.at_rest(first.indices)
    best, is_open = search.proven(best, largest=first.bound)
    value = quality.value(best)
    bound = max(value, math.sqrt(value**2 + is_open / k))
    return Found(best, value, bound, is_open <= _ROUNDING * first.bound**2)


@dataclass(frozen=True)
class _Search:
    """A search for one set."""

    quality: CFS
    k: int
    limits: Limits
    constraints: Constraints | None
    deadline: float | None

    def best_of(self, share: float, squared: float, at_least: float = -math.inf) -> Found:
        """Return the best set of share A - q^2 (B - k)."""
        pair_costs = self.quality.redundancy + self.quality.redundancy.T
        return best_set(
            Form(share * self.quality.relevance, squared * pair_costs if squared else None),
            self.k,
            limits=self.limits,
            constraints=self.constraints,
            at_least=at_least,
            deadline=self.deadline,
        )

    def at_rest(self, best: tuple[int, ...]) -> tuple[int, ...]:
        """Return a set that Dinkelbach's steps do not leave any more."""
        value = self.quality.value(best)
        while not (self.deadline is not None and time.monotonic() >= self.deadline):
            found = self.best_of(2 * self.quality.parts(best)[0], value**2)
            if found.indices is None or self.quality.value(found.indices) <= value:
                break
            best, value = found.indices, self.quality.value(found.indices)
        return best

    def proven(self, best: tuple[int, ...], *, largest: float) -> tuple[tuple[int, ...], float]:
        """Return the best set, and how far A^2 - q^2 B may still be above 0.

        Parameters
        ----------
        best : tuple of int
            The best set so far.
        largest : float
            No A is larger.
        """
        value, rounding = self.quality.value(best), _ROUNDING * largest**2 / 2
        smallest = value * math.sqrt(self.k)  # B is k at least: of a better set A is no less
        ranges, left_open = [(smallest, largest)] if smallest < largest else [], rounding
        while ranges:
            low, high = ranges.pop()
            floor = low * high + value**2 * self.k
            found = self.best_of(low + high, value**2, at_least=floor + rounding)
            cut, _ = self.quality.parts(found.indices or ())
            if found.indices is not None and self.quality.value(found.indices) > value:
                best, value = found.indices, self.quality.value(found.indices)
                ranges.append((low, high))
            elif found.complete and found.value >= floor + rounding and low < cut < high:
                ranges += [(low, cut), (cut, high)]
            else:
                left_open = max(left_open, found.bound - floor)
        return best, left_open
