"""Sets made better by swaps of one feature for another, where what they are worth is CFS."""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.quality import CFS
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.alternatives.searching import Limits
from chaffinch.tasks.selection.vocabulary import Floats


class Swaps:
    """The swaps that limits and constraints allow.

    Parameters
    ----------
    quality : CFS
        Over n features.
    pair_costs : ndarray, shape (n, n)
        Redundancies of pairs, both ways together; inf for what is too large to be counted.
    limits : Limits
        On what is shared with given sets.
    constraints : Constraints
        Checked, with indices for names.
    """

    def __init__(
        self, quality: CFS, pair_costs: Floats, limits: Limits, constraints: Constraints
    ) -> None:
        rows = constraints.rows(quality.n_features)
        self._quality, self._pair_costs = quality, pair_costs
        self._weights = np.vstack([limits.sets, rows.weights])
        self._caps = np.concatenate([limits.at_most, rows.caps])
        self._may_leave = np.ones(quality.n_features, dtype=bool)
        self._may_leave[constraints.included] = False
        self._may_enter = np.ones(quality.n_features, dtype=bool)
        self._may_enter[constraints.excluded] = False

    def climb(self, features: tuple[int, ...], deadline: float | None) -> tuple[int, ...]:
        """Return the set that the best swap leads to, time after time, until there is none.

        Parameters
        ----------
        features : tuple of int
            A set that is allowed; it is worth something.
        deadline : float or None
            On the clock of `time.monotonic`; looked at before each swap.
        """
        value = self._quality.value(features)
        while not is_late(deadline):
            other = self._swapped(np.array(features))
            if other is None or self._quality.value(other) <= value:
                break
            features, value = other, self._quality.value(other)
        return features

    def _swapped(self, chosen: Integers) -> tuple[int, ...] | None:
        """Return a set after its best swap, as far as rounding can tell; None if there is none."""
        leaving = chosen[self._may_leave[chosen]]
        may_enter = self._may_enter.copy()
        may_enter[chosen] = False
        entering = np.flatnonzero(may_enter)
        if not len(leaving) or not len(entering):
            return None
        worths = self._worths(chosen, leaving, entering)
        for row, cap in zip(self._weights, self._caps, strict=True):
            loads = row[chosen].sum() - row[leaving, np.newaxis] + row[entering]
            worths[loads > cap] = -np.inf
        place, by = np.unravel_index(np.argmax(worths), worths.shape)
        if worths[place, by] == -np.inf:
            return None
        kept = chosen[chosen != leaving[place]].tolist()
        return tuple(sorted([*kept, int(entering[by])]))

    def _worths(self, chosen: Integers, leaving: Integers, entering: Integers) -> Floats:
        """Return what a set is worth with one of its features, (l,), swapped for another, (e,)."""
        relevance, costs = self._quality.relevance, self._pair_costs
        met = costs[chosen].sum(axis=0)
        relevances = relevance[chosen].sum() - relevance[leaving, np.newaxis] + relevance[entering]
        with np.errstate(over="ignore", invalid="ignore"):
            spreads = len(chosen) + met[chosen].sum() / 2 - met[leaving, np.newaxis]
            spreads = spreads + met[entering] - costs[np.ix_(leaving, entering)]
        known = np.isfinite(spreads)
        worths = relevances / np.sqrt(np.maximum(np.where(known, spreads, 1.0), len(chosen)))
        return np.asarray(np.where(known, worths, -np.inf))
