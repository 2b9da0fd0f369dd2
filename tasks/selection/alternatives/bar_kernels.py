"""What a set may not take beside the features that it has, compiled: conflicts, and linear rows.

For searches that give each feature to its sets before the next one: `multiplicity_kernels.py` and
`balance_kernels.py`. A row of weights w and a cap b says that the weights of a set's features come
to no more than b; given sets, groups and a budget are such rows. A weight may be below 0, as where
at least so many features of a group are asked for, so that a set is barred from a feature only if
nothing that it can still take makes up for that.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats, Mask


class Bars(NamedTuple):
    """What does not go together, over p features in the order in which they are given.

    Attributes
    ----------
    conflicts : ndarray of bool, shape (p, p) or (0, 0)
        Which two no set may have; empty without any.
    weights : ndarray, shape (r, p)
    caps : ndarray, shape (r,)
    least : ndarray, shape (r, p + 1, k + 1)
        What t of the features from one on weigh at least; inf where there are fewer.
    """

    conflicts: Mask
    weights: Floats
    caps: Floats
    least: Floats

    @classmethod
    def none(cls) -> Bars:
        """Return that any features go together."""
        empty = np.zeros((0, 0))
        return cls(np.zeros((0, 0), dtype=np.bool_), empty, np.zeros(0), np.zeros((0, 0, 0)))

    @classmethod
    def of(cls, conflicts: Mask, weights: Floats, caps: Floats, k: int) -> Bars:
        """Return what does not go together in sets of k features."""
        weights = np.ascontiguousarray(weights)  # one layout, so that kernels are compiled once
        least = np.full((len(weights), weights.shape[1] + 1, k + 1), np.inf)
        _weigh(weights, least)
        return cls(conflicts if conflicts.any() else conflicts[:0, :0], weights, caps, least)

    @property
    def is_none(self) -> bool:
        """Whether any features go together."""
        return not len(self.conflicts) and not len(self.weights)

    def allow(self, sets: Integers) -> Mask:
        """Return which sets, shape (N, k), are barred from none of their features."""
        if self.is_none:
            return np.ones(len(sets), dtype=bool)
        is_allowed = (self.weights[:, sets].sum(axis=2) <= self.caps[:, np.newaxis]).all(axis=0)
        if len(self.conflicts):
            pairs = self.conflicts[sets[:, :, np.newaxis], sets[:, np.newaxis, :]]
            is_allowed &= ~pairs.any(axis=(1, 2))
        return np.asarray(is_allowed)


@compiled
def _weigh(weights: Floats, least: Floats) -> None:
    """Fill in what t features from one on weigh at least, the last ones first."""
    k = least.shape[2] - 1
    for row in range(len(weights)):
        lightest = np.full(k + 1, np.inf)
        for j in range(weights.shape[1], -1, -1):
            if j < weights.shape[1]:
                place = k
                while place > 0 and lightest[place - 1] > weights[row, j]:
                    lightest[place] = lightest[place - 1]
                    place -= 1
                lightest[place] = weights[row, j]
            least[row, j, 0] = 0.0
            for t in range(k):
                least[row, j, t + 1] = least[row, j, t] + lightest[t]


@compiled
def is_barred(bars: Any, members: Any, n_members: int, j: int, n_open: int) -> bool:
    """Return whether a set, with room for so many, may not take feature j, all before it given.

    Parameters
    ----------
    bars : Bars
    members : ndarray of int64, shape (k,)
        The features of the set come first.
    n_members, j, n_open : int
    """
    if bars.conflicts.shape[0]:
        for i in range(n_members):
            if bars.conflicts[j, members[i]]:
                return True
    for row in range(len(bars.caps)):
        weight = bars.weights[row, j] + bars.least[row, j + 1, n_open - 1]
        for i in range(n_members):
            weight += bars.weights[row, members[i]]
        if weight > bars.caps[row]:
            return True
    return False
