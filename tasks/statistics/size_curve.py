"""Loss against the number of features on rows that no model was fitted on, and the size to choose.

A size passes if it is shown to lose no more than the tolerance, a share of what all features
explain beyond a constant, so that it means the same on every table: by a one-sided test at 95 % of
the rows. Of the sizes that pass, the smallest is chosen whose loss exceeds the lowest of them by at
most one standard error of the difference, or half the tolerance. All features shut out none: they
are kept only where no smaller size passes.

Two fits differ by chance, so that on few rows no test shows anything. So a size also passes,
without being shown, if the features that leave are of no use to the models of all features: by the
same test, what they take off the loss (`selection.attribution`) is no more than the tolerance, and
the refits lose no more on average. Such a size may exceed the lowest loss by half the tolerance
alone.

A larger tolerance never chooses a larger size. Each size has a least tolerance at which it passes,
and is compared only with sizes that need no greater one: a larger tolerance lets more sizes pass
and allows each more, but gives none a new rival.

Where all features explain nothing, a size passes if it is shown by the same test to be better than
the constant. If none is, the smallest is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.statistics.bootstrap import Interval, means_and_errors

Index = NDArray[np.int64]

_CONFIDENCE = 0.95  # that a size is not worse
_ROUNDING = 1e-9  # of a constant's loss: a model that predicts the constant is not better
_N_NO_BETTER = 2  # sizes in a row


@dataclass(frozen=True)
class Leaving:
    """What the features that leave with each of s sizes take off the loss of all features.

    Attributes
    ----------
    taken_off : ndarray of shape (s, b)
        Sums over the rows of b blocks, weighted.
    weight : ndarray of shape (b,)
        Sums of the weights.
    fold : ndarray of shape (b,)
    """

    taken_off: Floats
    weight: Floats
    fold: NDArray[np.int64]

    def without(self, fold: int) -> Leaving:
        is_in = self.fold != fold
        return Leaving(self.taken_off[:, is_in], self.weight[is_in], self.fold[is_in])

    def upper_bounds(self) -> Floats:
        """Return the one-sided bound at 95 % of each size's mean, (s,)."""
        from scipy import stats

        weights = np.tile(self.weight, (len(self.taken_off), 1))
        means, errors = means_and_errors(self.taken_off, weights)
        quantile = stats.t.ppf(_CONFIDENCE, max(1, len(self.weight) - 1))
        return np.asarray(means + quantile * errors)


@dataclass(frozen=True)
class SizeCurve:
    """Held-out losses of s sizes, in m rows, or in m folds where a row has no loss of its own."""

    sizes: tuple[int, ...]  # falling; the first has all features
    losses: Floats  # (s, m)
    constant: Floats  # (m,), losses of the best constant
    weight: Floats  # (m,)
    unit: NDArray[np.int64]  # (m,), units that vary independently: rows, groups, blocks of time
    fold: NDArray[np.int64]  # (m,)
    leaving: Leaving | None = None

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
            leaving=None if self.leaving is None else self.leaving.without(fold),
        )

    def over_all_features(self) -> tuple[Floats, Floats]:
        """Return the mean loss of each size less that of all features, and its standard error."""
        return self._means_and_errors(self.losses - self.losses[0])

    @property
    def means(self) -> Floats:
        """Mean loss of each size, shape (s,)."""
        return np.asarray(np.average(self.losses, axis=1, weights=self.weight))

    def choose(self, tolerance: float | None, *, at_most: int) -> int:
        """Return the chosen size, of at most `at_most`; without a tolerance every size passes."""
        passing, rivals, is_shown = self._passing(tolerance, at_most)
        if not len(passing):
            allowed = [size for size in self.sizes if size <= at_most]
            return allowed[0 if self._skill > 0 else -1]
        above, errors = self._means_and_errors(self.losses[passing] - self.losses[rivals])
        slack = 0.0 if tolerance is None else tolerance / 2 * max(self._skill, 0.0)
        is_near = above <= np.maximum(np.where(is_shown, errors, 0), slack)
        return self.sizes[int(passing[is_near][-1])]

    def is_settled(self, tolerance: float | None, *, at_most: int) -> bool:
        """Return whether a size that passes has none better among `_N_NO_BETTER` larger ones.

        Still larger sizes are then not worth a fit. A larger tolerance settles no later.
        """
        passing, rivals, _ = self._passing(tolerance, at_most)
        return bool(((passing == rivals) & (passing > _N_NO_BETTER)).any())

    @property
    def _skill(self) -> float:
        """What all features explain beyond the constant."""
        return float(np.average(self.constant - self.losses[0], weights=self.weight))

    def _passing(
        self, tolerance: float | None, at_most: int
    ) -> tuple[Index, Index, NDArray[np.bool_]]:
        """Return the sizes that pass, and whether each is shown to be within the tolerance.

        Between them, for each of these sizes, the best that needs no greater tolerance.
        """
        needed = shown = np.zeros(len(self.sizes))
        if tolerance is not None:
            shown = self._least_tolerances()
            needed = np.minimum(shown, self._least_tolerances_of_leaving())
            needed[0] = np.inf  # all features shut out no other size
        needed[[size > at_most for size in self.sizes]] = np.inf
        most = (tolerance or 0.0) * (1 + _ROUNDING)
        passing = np.flatnonzero(needed <= most)
        rivals = [self._best(needed <= needed[place]) for place in passing]
        return passing, np.array(rivals, dtype=np.int64), shown[passing] <= most

    def _least_tolerances_of_leaving(self) -> Floats:
        """Return the least tolerance at which what leaves is shown to be of no use, (s,)."""
        skill = self._skill
        if self.leaving is None or skill <= 0:
            return np.full(len(self.sizes), np.inf)
        lost = np.maximum(self.leaving.upper_bounds(), self.means - self.means[0])
        return np.asarray(np.maximum(lost, 0) / skill)

    def _best(self, among: NDArray[np.bool_]) -> int:
        return int(min(np.flatnonzero(among)[::-1], key=self.means.__getitem__))

    def intervals(self, widen: float, n_bounds: int = 1) -> list[Interval]:
        """Return Student's interval, at 95 %, of each mean loss less that of all features.

        `widen`, at least 1, multiplies its width. Any `n_bounds` of them hold together with 95 %
        confidence (Bonferroni).
        """
        from scipy import stats

        level = 1 - (1 - _CONFIDENCE) / (2 * n_bounds)
        reach = widen * float(stats.t.ppf(level, max(1, int(self.unit.max()))))
        means, errors = self.over_all_features()
        return [(m - reach * e, m + reach * e) for m, e in zip(means, errors, strict=True)]

    def shares_lost(
        self, widen: float, n_bounds: int = 1
    ) -> list[tuple[float | None, float | None]]:
        """Return the share of what all features explain that each size loses, and its upper bound.

        The bound, at least 0, is one-sided at 95 %; `widen` multiplies its distance, and any
        `n_bounds` hold together (Bonferroni). Both are None where all features are not shown to
        explain anything.
        """
        bounds = self._least_tolerances(widen, n_bounds)
        if self._skill <= 0 or not np.isfinite(bounds).all():
            return [(None, None)] * len(self.sizes)
        lost = (self.means - self.means[0]) / self._skill
        return list(zip(lost.tolist(), bounds.tolist(), strict=True))

    def _least_tolerances(self, widen: float = 1.0, n_bounds: int = 1) -> Floats:
        """Return the least tolerance at which each size passes, (s,); inf where none does.

        Size s passes at t if the upper bound of the mean of L_s - L_all - t (L_constant - L_all) is
        at most 0, of a mean whose variance is quadratic in t: Fieller's bound of a ratio of means.
        """
        from scipy import stats

        level = 1 - (1 - _CONFIDENCE) / n_bounds
        quantile = widen * stats.t.ppf(level, max(1, int(self.unit.max())))
        skill = self._skill
        if skill <= 0:
            excess, errors = self._means_and_errors(self.losses - (1 - _ROUNDING) * self.constant)
            needed = np.where(excess + quantile * errors <= 0, 0.0, np.inf)
        else:
            lost = (self.losses - self.losses[0]) / skill
            explained = (self.constant - self.losses[:1]) / skill  # on average 1
            means, errors = self._means_and_errors(np.vstack([lost, lost - explained, explained]))
            n, variances = len(lost), np.square(quantile * errors)
            lost, of_lost, of_explained = means[:n], variances[:n], variances[-1]
            covariances = (of_lost + of_explained - variances[n:-1]) / 2
            half = lost - covariances
            discriminant = half**2 - (1 - of_explained) * (lost**2 - of_lost)
            needed = np.full(n, np.inf)
            if of_explained < 1:  # else a share of what all features explain is no amount
                needed = (half + np.sqrt(np.maximum(discriminant, 0))) / (1 - of_explained)
            needed[lost + np.sqrt(of_lost) <= 0] = 0
        return needed

    def _means_and_errors(self, values: Floats) -> tuple[Floats, Floats]:
        n_units = int(self.unit.max()) + 1
        sums = [np.bincount(self.unit, self.weight * row, n_units) for row in values]
        weights = np.bincount(self.unit, self.weight, n_units)
        return means_and_errors(np.array(sums), np.tile(weights, (len(values), 1)))
