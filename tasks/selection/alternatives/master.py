"""The linear program over known sets, whose dual values are prices (column generation).

    maximise    sum of (what S counts for) x_S
    subject to  sum of x_S = m,
                c_R = sum of x_S over the sets S that have R, for each feature, some pairs, ...
                sum of c_R (c_R - 1) / 2 over R of one size r <= what designs may share.

The left side of the last line is taken as linear between whole numbers: c_R is a sum of pieces
u_R1 + u_R2 + ..., each at most 1, of which the t-th costs t - 1. A use beyond the last piece has a
*penalty*, so that the program always has a solution.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.prices import Layer, Prices, Subsets
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_LEAST_SECONDS = 1e-3
_LEAST_UNIT = 1e-6
_ABOVE = 1e-6  # a subset that more than one set has by less is not worth a price


@dataclass(frozen=True)
class Solution:
    """What the linear program says.

    Attributes
    ----------
    prices : Prices
        Its dual values, those below 0 by rounding set to 0.
    value : float
        What it is worth, penalties taken off.
    beyond : float
        Uses beyond what designs may have.
    sets : ndarray of int32, shape (N, k)
        Those that were known.
    shares, lacks : ndarray, shape (N,)
        x of each, and how much more it would have to count for to be worth a share.
    """

    prices: Prices
    value: float
    beyond: float
    sets: Sets
    shares: Floats
    lacks: Floats


class Master:
    """The linear program over the sets that are known so far.

    Parameters
    ----------
    designs : Designs
    penalty : float
        Of a use beyond what designs may have, in the unit of what sets are worth.
    deadline : float, optional
        On the clock of `time.monotonic`; what is not solved by then is given up.
    """

    def __init__(self, designs: Designs, penalty: float, deadline: float | None) -> None:
        self.designs, self.penalty, self.deadline = designs, penalty, deadline
        self.sets: Sets = np.empty((0, designs.k), dtype=np.int32)
        self.counts: Floats = np.empty(0)
        self.priced: list[Subsets] = []  # pairs, then larger ones
        self._known: set[bytes] = set()

    def add(self, sets: Sets) -> int:
        """Add sets, each sorted; return how many of them are new."""
        new = [features for features in sets if features.tobytes() not in self._known]
        if new:
            self._known.update(features.tobytes() for features in new)
            self.sets = np.concatenate((self.sets, new))
            self.counts = np.concatenate((self.counts, self.designs.counts(np.array(new))))
        return len(new)

    def cap(self, cap: float) -> None:
        """Let no set count for more than a cap."""
        self.designs = replace(self.designs, cap=cap)
        self.counts = self.designs.counts(self.sets)

    def keep(self, is_kept: Mask) -> None:
        """Forget the sets that are not kept."""
        self.sets, self.counts = self.sets[is_kept], self.counts[is_kept]
        self._known = {features.tobytes() for features in self.sets}

    def price_subsets(self, solution: Solution, size: int) -> int:
        """Price the subsets of which a solution has more than one set; return how many."""
        while len(self.priced) < size - 1:
            self.priced.append(np.empty((0, len(self.priced) + 2), dtype=np.int64))
        uses: dict[tuple[int, ...], float] = {}
        for place in np.flatnonzero(solution.shares > _ABOVE):
            for subset in combinations(solution.sets[place].tolist(), size):
                uses[subset] = uses.get(subset, 0.0) + float(solution.shares[place])
        known = {*map(tuple, self.priced[size - 2].tolist())}
        new = sorted(
            subset for subset, use in uses.items() if use > 1 + _ABOVE and subset not in known
        )
        if new:
            self.priced[size - 2] = np.concatenate((self.priced[size - 2], new))
        return len(new)

    def solve(self) -> Solution | None:
        """Solve it; None if the solver cannot, for want of precision or time."""
        designs, n_known = self.designs, len(self.sets)
        features: list[NDArray[np.integer]] = [self.sets.ravel()]
        features += [of_size.ravel() for of_size in self.priced]
        active = np.unique(np.concatenate(features))
        subsets = [active[:, None].astype(np.int64), *self.priced]
        counts = [len(of_size) for of_size in subsets]
        sizes = range(1, len(subsets) + 1)
        layer = np.repeat(np.arange(len(subsets)), counts)  # of each item
        pieces = np.repeat([designs.most_uses(size) for size in sizes], counts)
        n_items, n_pieces = len(pieces), int(pieces.sum())
        limits = designs.n_pairs_of_sets * np.array([designs.shared(size) for size in sizes])
        magnitude = designs.magnitude  # sets may count for next to nothing of it
        largest = float(np.abs(self.counts).max()) or magnitude
        unit = max(largest, _LEAST_UNIT * magnitude)  # the solver's tolerances are absolute
        penalties = np.full(n_items, self.penalty / unit)
        counted = np.repeat([[1.0, 0.0]], [n_known, n_pieces + n_items], axis=1)
        found = linprog(  # type: ignore[call-overload]  # it takes sparse matrices as well
            np.concatenate((-self.counts / unit, np.zeros(n_pieces), penalties)),
            A_ub=_constraints(self._uses(subsets), pieces, layer, len(subsets)),
            b_ub=np.concatenate((np.zeros(n_items), limits)),
            A_eq=sparse.csr_array(counted),
            b_eq=[designs.n_sets],
            bounds=np.repeat(
                [[0, np.inf], [0, 1], [0, np.inf]], [n_known, n_pieces, n_items], axis=0
            ),
            method="highs-ds",
            options=self._within_time(),
        )
        if found.status != 0:
            return None
        dual = np.maximum(-found.ineqlin.marginals, 0.0) * unit
        of_features = np.zeros(designs.n_features)
        of_features[active] = dual[: len(active)]
        others = np.split(dual[len(active) : n_items], np.cumsum(counts[1:-1]))[: len(self.priced)]
        everything = np.arange(designs.n_features)[:, None]
        layers = [
            Layer(of_size, prices, float(of_sharing))
            for of_size, prices, of_sharing in zip(
                [everything, *self.priced], [of_features, *others], dual[n_items:], strict=True
            )
        ]
        return Solution(
            Prices(tuple(layers)),
            value=-float(found.fun) * unit,
            beyond=float(found.x[n_known + n_pieces :].sum()),
            sets=self.sets,
            shares=found.x[:n_known],
            lacks=found.lower.marginals[:n_known],
        )

    def _within_time(self) -> dict[str, float]:
        if self.deadline is None:
            return {}
        return {"time_limit": max(_LEAST_SECONDS, self.deadline - time.monotonic())}

    def _uses(self, subsets: list[Subsets]) -> sparse.csr_array:
        """Return which of the subsets each known set has, shape (i, N)."""
        active = subsets[0][:, 0]
        has = np.zeros((len(active), len(self.sets)), dtype=bool)
        has[np.searchsorted(active, self.sets), np.arange(len(self.sets))[:, None]] = True
        rows = [has[np.searchsorted(active, of_size)].all(axis=1) for of_size in subsets]
        return sparse.csr_array(np.concatenate(rows).astype(np.float64))


def _constraints(
    uses: sparse.csr_array, pieces: Integers, layer: Integers, n_layers: int
) -> sparse.csc_array:
    """Return the rows of uses, less pieces and what is beyond, and those of what is shared."""
    n_items, n_known = uses.shape
    item = np.repeat(np.arange(n_items), pieces)
    place = np.arange(len(item))
    costs = place - np.repeat(np.cumsum(pieces) - pieces, pieces)
    piece_of = sparse.csr_array((np.ones(len(item)), (item, place)), (n_items, len(item)))
    shape = (n_layers, n_known + len(item) + n_items)
    shared = sparse.csr_array((costs.astype(np.float64), (layer[item], n_known + place)), shape)
    above = sparse.hstack([uses, -piece_of, -sparse.eye_array(n_items)])
    return sparse.csc_array(sparse.vstack([above, shared]))
