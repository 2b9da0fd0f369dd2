"""Several sets at once by CFS, a ratio, which is no sum of gains and pair costs.

Bach, arXiv 2307.11607v3, definition 5, with eq 20 as the quality. The way is our own. With q the
quality of the best set, and V what a known design of m sets is worth,

- by sum, a set of a better design is worth more than V - (m - 1) q;
- by the smallest, each is worth more than V.

Such sets are listed, and the best design among them is chosen by CP-SAT. Of too many sets only the
better ones are listed, which may lead to a higher V, and so to fewer sets.

With A the relevances of a set and B its size and redundancies, CFS is A / sqrt(B). Sets of t or
more with an A in l..h are among those where the secant of A^2 is at least t^2 B,

    (l + h) A - l h >= t^2 B,

which gains and pair costs decide. They are listed for narrow ranges of A by branch and bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets, Solved
from chaffinch.tasks.selection.alternatives.exact.best_sets import best_sets, is_late
from chaffinch.tasks.selection.alternatives.exact.packing import pack_by_solver
from chaffinch.tasks.selection.alternatives.quality import CFS, Form
from chaffinch.tasks.selection.core import Floats

_MOST = 20_000  # sets listed
_RANGE = 1.25  # the wider the ranges, the more sets that are worth less are listed
_ROUNDING = 1e-12  # relative
_CLOSE = 0.01  # as a share of the best set's quality


def best_cfs_design(
    quality: CFS, designs: Designs, start: Sets, highest: float, deadline: float | None
) -> Solved:
    """Return the best design; with a bound if it is not proven in time.

    The form of the designs has the gains alone. `start` (m', k) are sets that go together, and
    `highest` is a bound on any set.
    """
    search = _Search(quality, designs, highest, deadline)
    if len(start) == designs.n_sets:
        search.take(start)
    return search.run()


class _Search:
    """State of a search: the best design so far, and a bound on all others."""

    def __init__(
        self, quality: CFS, designs: Designs, highest: float, deadline: float | None
    ) -> None:
        # scaling by a power of two is exact, and keeps squares finite
        self.scale = -math.frexp(float(quality.relevance.max()))[1]
        self.quality = CFS(np.ldexp(quality.relevance, self.scale), quality.redundancy)
        with np.errstate(over="ignore"):
            self.pair_costs = quality.redundancy + quality.redundancy.T
        self.designs, self.deadline = designs, deadline
        self.highest, self.is_min = math.ldexp(highest, self.scale), designs.aggregate == "min"
        self.best: Sets | None = None
        self.value = -math.inf
        self.bound = self._worth_at_most(self.highest)

    def take(self, sets: Sets) -> None:
        """Keep a design if it is better."""
        sets = np.sort(sets, axis=1)
        values = self._values(sets)
        value = float(values.min()) if self.is_min else math.fsum(values.tolist())
        if value > self.value:
            order = np.lexsort((*sets.T[::-1], -values))
            self.best, self.value = sets[order], value

    def run(self) -> Solved:
        """List the sets that a better design has, and choose among them, until none is better."""
        low, too_low = self._least(), -math.inf
        is_proven = False
        while not is_proven and not is_late(self.deadline):
            sets, is_whole = self._list(low)
            is_settled = self._choose(sets)
            if not is_whole:
                too_low, low = low, (low + self.highest) / 2
            elif not is_settled:
                break
            else:
                self.bound = min(self.bound, max(self.value, self._worth_at_most(low)))
                is_proven = low <= self._least()
                low = (low + too_low) / 2
            low = max(low, self._least())
            if too_low > -math.inf and low - too_low <= _CLOSE * self.highest:
                break
        bound = self.value if is_proven else max(self.value, self.bound)
        value, bound = (math.ldexp(number, -self.scale) for number in (self.value, bound))
        rounding = 0.0 if self.best is None else _ROUNDING * abs(bound)
        return Solved(self.best, value, bound, is_proven, rounding)

    def _least(self) -> float:
        """Return what every set of a better design is worth."""
        if self.is_min:
            return max(0.0, self.value)
        return max(0.0, self.value - (self.designs.n_sets - 1) * self.highest)

    def _worth_at_most(self, value: float) -> float:
        """Return what a design is worth at most of which one set is worth this."""
        return value if self.is_min else value + (self.designs.n_sets - 1) * self.highest

    def _values(self, sets: Sets) -> Floats:
        return np.array([self.quality.value(indices) for indices in sets.tolist()])

    def _list(self, low: float) -> tuple[Sets, bool]:
        """Return sets that are worth this or more, and whether these are all."""
        found = [np.empty((0, self.designs.k), dtype=np.int32)]
        n_found, is_whole = 0, True
        for form, least in self._forms(low):
            listed = best_sets(
                form,
                self.designs.k,
                least,
                limits=self.designs.limits,
                constraints=self.designs.constraints,
                most=_MOST + 1,
                deadline=self.deadline,
            )
            is_whole &= listed.complete and len(listed.sets) <= _MOST
            found.append(listed.sets)
            n_found += len(listed.sets)
            if not is_whole or n_found > _MOST:
                break
        sets = np.unique(np.concatenate(found), axis=0)
        worth = self._values(sets) >= low * (1 - _ROUNDING)
        return sets[worth], is_whole and n_found <= _MOST

    def _forms(self, low: float) -> Iterator[tuple[Form, float]]:
        """Yield forms, and what they are worth at least for sets that are worth `low` by CFS."""
        relevance, k = self.quality.relevance, self.designs.k
        most = float(np.sort(relevance)[-k:].sum()) * (1 + _ROUNDING)
        if low <= 0:
            yield Form(relevance), 0.0
            return
        start = low * math.sqrt(k)  # B is at least k
        while start <= most:
            end = min(start * _RANGE, most)
            form = Form((start + end) * relevance, low**2 * self.pair_costs)
            yield form, (start * end + low**2 * k) * (1 - _ROUNDING)
            if end == most:
                return
            start = end

    def _choose(self, sets: Sets) -> bool:
        """Look for a better design among sets; return whether there is none left."""
        sets = sets[np.argsort(-self._values(sets), kind="stable")]
        if not self.is_min:
            return len(sets) < self.designs.n_sets or self._pack(sets)
        values = self._values(sets)
        n_tried = self.designs.n_sets - 1  # so many of the best sets hold no better design
        while (n_better := int((values > self.value).sum())) > n_tried:
            before, n_next = self.value, (n_tried + n_better + 1) // 2
            is_settled = self._pack(sets[:n_next])
            if self.value == before:
                if not is_settled:
                    return False
                n_tried = n_next
        return True

    def _pack(self, sets: Sets) -> bool:
        """Take a design of these sets if it is better; return whether that is settled."""
        merits = self._values(sets)
        packed, is_best = pack_by_solver(
            self.designs, sets, merits, self.value, self.deadline, math.inf
        )
        if packed is not None:
            self.take(packed)
        return is_best
