"""What a feature set is worth."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.vocabulary import Floats


@dataclass(frozen=True)
class Form:
    """A quality with the size of sets fixed: sum of gains less sum of pair costs.

    Attributes
    ----------
    gains : ndarray of float64, shape (n,)
        Finite.
    pair_costs : ndarray of float64, shape (n, n), or None
        Symmetric with a zero diagonal; inf where two features must not be together.
    """

    gains: Floats
    pair_costs: Floats | None = None

    def value(self, features: Collection[int]) -> float:
        """Return what a set of indices is worth; -inf if two of them must not be together."""
        chosen = sorted(features)
        terms = self.gains[chosen].tolist()
        if self.pair_costs is not None:
            among = self.pair_costs[np.ix_(chosen, chosen)]
            terms += (-among[np.tril_indices(len(chosen), -1)]).tolist()
        return math.fsum(terms)
