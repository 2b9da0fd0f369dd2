"""Loss against the number of features on rows that no model was fitted on, and the size to choose.

A size passes if it is not worse than all features beyond a tolerance: its mean loss, less the
tolerated one, is below zero by a standard error. Of the sizes that pass, the smallest is chosen
whose loss is within half a standard error of the lowest. The tolerance is a share of what all
features explain beyond a constant, so that it means the same on every table.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.statistics.bootstrap import means_and_errors

_NEAR = 0.5  # standard errors of a difference that count as equal


@dataclass(frozen=True)
class SizeCurve:
    """Held-out losses of s sizes, in m rows, or in m folds where a row has no loss of its own."""

    sizes: tuple[int, ...]  # falling; the first has all features
    losses: Floats  # (s, m)
    constant: Floats  # (m,), losses of the best constant
    weight: Floats  # (m,)
    unit: NDArray[np.int64]  # (m,), what varies independently: rows, groups, blocks of time
    fold: NDArray[np.int64]  # (m,)

    def without(self, fold: int) -> SizeCurve:
        """Return the curve of the other folds."""
        is_in = self.fold != fold
        return replace(
            self,
            losses=self.losses[:, is_in],
            constant=self.constant[is_in],
            weight=self.weight[is_in],
            unit=np.unique(self.unit[is_in], return_inverse=True)[1],
            fold=self.fold[is_in],
        )

    def over_all_features(self) -> tuple[Floats, Floats]:
        """Return the mean loss of each size less that of all features, and its standard error."""
        return self._means_and_errors(self.losses - self.losses[0])

    @property
    def means(self) -> Floats:
        """Mean loss of each size, shape (s,)."""
        return np.asarray(np.average(self.losses, axis=1, weights=self.weight))

    def choose(
        self,
        tolerance: float,
        *,
        at_most: int,
        within_one_standard_error: bool = False,
    ) -> int:
        """Return the chosen size: the largest of at most `at_most` where none passes.

        With `within_one_standard_error`, the smallest size whose loss exceeds the lowest by no more
        than the standard error of the difference.
        """
        allowed = np.array([size <= at_most for size in self.sizes])
        first = int(np.argmax(allowed))
        every, means = self.losses[0], self.means
        if not within_one_standard_error:
            skill = np.average(self.constant - every, weights=self.weight)
            tolerated = tolerance * (self.constant - every) if skill > 0 else np.zeros_like(every)
            excess, errors = self._means_and_errors(self.losses - every - tolerated)
            allowed &= (excess + errors <= 0) | (np.arange(len(allowed)) == first)
        best = int(min(np.flatnonzero(allowed), key=means.__getitem__))
        above, errors = self._means_and_errors(self.losses - self.losses[best])
        near = 1.0 if within_one_standard_error else _NEAR
        best = int(np.flatnonzero(allowed & (above <= near * errors))[-1])
        return self.sizes[best]

    def _means_and_errors(self, values: Floats) -> tuple[Floats, Floats]:
        n_units = int(self.unit.max()) + 1
        sums = [np.bincount(self.unit, self.weight * each, n_units) for each in values]
        weights = np.bincount(self.unit, self.weight, n_units)
        return means_and_errors(np.array(sums), np.tile(weights, (len(values), 1)))
