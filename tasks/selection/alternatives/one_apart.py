"""Sets that differ from known ones in one feature, where these are worth more at some prices.

Column generation needs sets that are worth more, charged, than a linear program knows; that there
are none has to be proven once only, at the end. Where it takes long to find the best set, one that
is good enough is as a rule next to a set that the program has a share of.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.graph import Known
from chaffinch.tasks.selection.alternatives.prices import Prices
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_MOST_SWAPS = 400_000  # that are looked at
_AS_MANY = 4  # times what is asked for are looked at once more: some are not allowed


class OneApart:
    """Sets that are one swap away from given ones.

    Parameters
    ----------
    designs : Designs
        What sets are worth, and what each has to obey.
    """

    def __init__(self, designs: Designs) -> None:
        self.designs = designs
        constraints, n = designs.constraints, designs.n_features
        self._costs: Floats | None = None
        if designs.form.pair_costs is not None:  # more than all gains, for a conflict
            costs, never = designs.form.pair_costs, 4 * designs.magnitude
            self._costs = np.where(np.isfinite(costs), costs, never)
        self._stays, self._may_come = np.zeros(n, dtype=bool), np.ones(n, dtype=bool)
        self._stays[constraints.included] = True
        self._may_come[constraints.excluded] = False

    def better(self, prices: Prices, known: Sets, least: float, most: int) -> Sets:
        """Return charged sets that count for more than `least`, up to `most`, the best first.

        Parameters
        ----------
        prices : Prices
        known : ndarray of int32, shape (N, k)
            Those that are worth most, charged, are where it begins.
        least : float
        most : int
        """
        designs = self.designs
        n, k = designs.n_features, designs.k
        charged = Known(designs, known).charged(prices)
        n_bases = max(1, _MOST_SWAPS // (k * n))
        bases = known[np.argsort(-charged, kind="stable")[:n_bases]]
        counts = np.stack([self._swapped(base, prices) for base in bases])
        is_better = counts > least
        if is_better.sum() > _AS_MANY * most:
            is_better &= counts >= -np.partition(-counts.ravel(), _AS_MANY * most)[_AS_MANY * most]
        base, place, added = np.nonzero(is_better)
        sets = bases[base]
        sets[np.arange(len(sets)), place] = added
        sets = np.unique(np.sort(sets, axis=1), axis=0)
        sets = sets[self._are_allowed(sets)]
        charged = Known(designs, sets).charged(prices)
        best = np.argsort(-charged, kind="stable")[:most]
        return sets[best[charged[best] > least]]

    def _swapped(self, base: Integers, prices: Prices) -> Floats:
        """Return what a set with one feature for another counts for at most, shape (k, n)."""
        form, cap = self.designs.form, self.designs.cap
        of_features = prices.layers[0].prices
        worth = _after_swaps(form.gains, self._costs, base)
        charges = of_features[base].sum() - of_features[base][:, None] + of_features
        counts: Floats = np.minimum(worth, cap) - charges
        counts[:, base] = -np.inf
        counts[:, ~self._may_come] = -np.inf
        counts[self._stays[base]] = -np.inf
        return counts

    def _are_allowed(self, sets: Sets) -> Mask:
        limits, rows = self.designs.limits, self.designs.constraints.rows(self.designs.n_features)
        is_allowed = np.ones(len(sets), dtype=bool)
        for row, most in zip(limits.sets, limits.at_most, strict=True):
            is_allowed &= row[sets].sum(axis=1) <= most
        for weights, most in zip(rows.weights, rows.caps, strict=True):
            is_allowed &= weights[sets].sum(axis=1) <= most
        return is_allowed


def _after_swaps(gains: Floats, costs: Floats | None, base: Integers) -> Floats:
    """Return what a set is worth with one feature, down, for another, across; shape (k, n)."""
    of_pairs = np.zeros((len(base), len(gains))) if costs is None else costs[base]
    adds = gains - of_pairs.sum(axis=0)
    worth = float(gains[base].sum() - of_pairs[:, base].sum() / 2)
    swapped: Floats = worth - adds[base][:, None] + adds + of_pairs
    return swapped
