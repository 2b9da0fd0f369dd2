"""Loss against the number of features on rows that no model was fitted on, and the size to choose.

A size passes if it is shown not to be worse than all features beyond a tolerance: by a one-sided
test at 95 % that knows that the folds share rows. Of the sizes that pass, the smallest is chosen
whose loss is within one standard error of the lowest of them. The tolerance is a share of what all
features explain beyond a constant, so that it means the same on every table. Where they explain
nothing, a size passes if it is shown by the same test to be better than the constant.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.statistics.bootstrap import means_and_errors

_CONFIDENCE = 0.95  # that a size is not worse
_ROUNDING = 1e-9  # of a constant's loss: a model that predicts the constant is not better
_N_NO_BETTER = 2  # sizes in a row


@dataclass(frozen=True)
class SizeCurve:
    """Held-out losses of s sizes, in m rows, or in m folds where a row has no loss of its own."""

    sizes: tuple[int, ...]  # falling; the first has all features
    losses: Floats  # (s, m)
    constant: Floats  # (m,), losses of the best constant
    weight: Floats  # (m,)
    unit: NDArray[np.int64]  # (m,), units that vary independently: rows, groups, blocks of time
    fold: NDArray[np.int64]  # (m,)
    widen: float  # factor of intervals, because the folds share the rows they are fitted on

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

    def choose(self, tolerance: float | None, *, at_most: int) -> int:
        """Return the chosen size: the largest of at most `at_most` where none passes.

        Without a tolerance every size passes.
        """
        passing = self._passing(tolerance, at_most)
        best = self._best(passing)
        above, errors = self._means_and_errors(self.losses - self.losses[best])
        return self.sizes[int(np.flatnonzero(passing & (above <= errors))[-1])]

    def is_settled(self, tolerance: float | None, *, at_most: int) -> bool:
        """Return whether `_N_NO_BETTER` sizes, besides all features, exceed the best that passes.

        Still larger sizes are then not worth a fit.
        """
        best = self._best(self._passing(tolerance, at_most))
        return best > _N_NO_BETTER

    def _passing(self, tolerance: float | None, at_most: int) -> NDArray[np.bool_]:
        allowed = np.array([size <= at_most for size in self.sizes])
        if tolerance is None:
            return allowed
        is_largest = np.arange(len(allowed)) == allowed.argmax()
        return np.asarray(allowed & (self._is_as_good(tolerance) | is_largest))

    def _best(self, among: NDArray[np.bool_]) -> int:
        return int(min(np.flatnonzero(among)[::-1], key=self.means.__getitem__))

    def _is_as_good(self, tolerance: float) -> NDArray[np.bool_]:
        from scipy import stats

        skill = self.constant - self.losses[0]
        explains = np.average(skill, weights=self.weight) > 0
        most = self.losses[0] + tolerance * skill if explains else (1 - _ROUNDING) * self.constant
        excess, errors = self._means_and_errors(self.losses - most)
        reach = self.widen * stats.t.ppf(_CONFIDENCE, max(1, int(self.unit.max())))
        return np.asarray(excess + reach * errors <= 0)

    def _means_and_errors(self, values: Floats) -> tuple[Floats, Floats]:
        n_units = int(self.unit.max()) + 1
        sums = [np.bincount(self.unit, self.weight * row, n_units) for row in values]
        weights = np.bincount(self.unit, self.weight, n_units)
        return means_and_errors(np.array(sums), np.tile(weights, (len(values), 1)))
