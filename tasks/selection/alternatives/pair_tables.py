"""What is known of all pair costs at once: each such look reads the whole table, and is kept."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.array_kernels import largest_size
from chaffinch.tasks.selection.alternatives.nearest_kernels import half_sums, nearest_of
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.vocabulary import Floats

_NEIGHBOURS = 64  # that are looked through for those that are left, and then all that are


class Nearest(NamedTuple):
    """The smallest pair costs of each feature.

    Attributes
    ----------
    neighbours : ndarray of int64, shape (n, l)
        The others of the smallest pair costs with each, the smallest first.
    halves : ndarray, shape (n, k)
        Half the sum of the t smallest.
    """

    neighbours: Integers
    halves: Floats


class PairTable:
    """Pair costs of some features.

    Attributes
    ----------
    costs : ndarray, shape (n, n)
        Symmetric with a zero diagonal, row by row in memory; inf for a conflict.
    """

    def __init__(self, costs: Floats) -> None:
        self.costs = np.ascontiguousarray(costs)
        self._nearest: Nearest | None = None

    @cached_property
    def largest(self) -> float:
        """The largest finite one in absolute value, 0 of none."""
        if self.has_conflicts:
            return largest_size(self.costs)
        return max(self._highest, -float(self.costs.min(initial=0.0)))

    @property
    def has_conflicts(self) -> bool:
        """Whether some are infinite."""
        return self._highest == math.inf

    @cached_property
    def _highest(self) -> float:
        return float(self.costs.max(initial=0.0))

    @cached_property
    def least(self) -> float:
        """The smallest of two features, inf of none."""
        n = len(self.costs)
        if n < 2:
            return math.inf
        flat = self.costs.reshape(-1)[:-1]
        off_diagonal = flat.reshape(n - 1, n + 1)[:, 1:]  # n after each number of the diagonal
        return float(off_diagonal.min())

    def nearest(self, k: int) -> Nearest:
        """Return the smallest ones of each feature, as many as sets of k ask for."""
        if self._nearest is None or self._nearest.halves.shape[1] != k:
            self._nearest = None  # before there are two
            n_neighbours = min(len(self.costs) - 1, k + _NEIGHBOURS) if k > 1 else 0
            neighbours = nearest_of(self.costs, n_neighbours)
            self._nearest = Nearest(neighbours, half_sums(self.costs, neighbours, k))
        return self._nearest

    def roughly(self, k: int) -> Nearest:
        """Return the same if it is known, or sums that are no larger, and no neighbours.

        For these the table is looked at once: that much time there is, however late it may be.
        """
        if self._nearest is not None and self._nearest.halves.shape[1] == k:
            return self._nearest
        least = self.least if math.isfinite(self.least) else 0.0
        n = len(self.costs)
        halves = np.broadcast_to(np.arange(k) * (least / 2), (n, k)).copy()
        return Nearest(np.zeros((n, 0), dtype=np.int64), halves)


class PairTables:
    """The table of all features, and that of those which were asked for last."""

    def __init__(self) -> None:
        self._of: Floats | None = None
        self._whole: PairTable | None = None
        self._part: PairTable | None = None
        self._features = np.empty(0, dtype=np.int64)

    def whole(self, costs: Floats) -> PairTable:
        """Return the table of pair costs, shape (n, n), which is kept while these are the same."""
        if self._whole is None or self._of is not costs:
            self._of, self._whole, self._part = costs, PairTable(costs), None
        return self._whole

    def among(self, costs: Floats, features: Integers) -> PairTable:
        """Return the table of some features, in order."""
        whole = self.whole(costs)
        if len(features) == len(costs):
            return whole
        if self._part is None or not np.array_equal(features, self._features):
            self._part = None  # before there are two
            self._part = PairTable(whole.costs[np.ix_(features, features)])
            self._features = features
        return self._part
