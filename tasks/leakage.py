"""Features too good to be true: those which alone tell the target.

Such a feature is often the target under another name, or known only after it. A number tells a
class when its values lie all above or all below those of the other classes (its rank AUC of that
class against the rest is 1); a category when each of its values occurs with one class alone; and
either tells a target of numbers when it is correlated with it almost perfectly.
"""

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Floats

Index = NDArray[np.int64]

SUSPICIOUS_CORRELATION = 0.999
# rows looked at first; a feature they clear is cleared
_SCREENED_ROWS = 10_000
# fewer rows than this correlate perfectly by chance, and so do categories with fewer rows each
_LEAST_ROWS = 10
_LEAST_ROWS_PER_CATEGORY = 5


class PerfectPredictors:
    """Says of one feature after another whether it alone tells the target.

    Parameters
    ----------
    y : ndarray, shape (n,)
        float64 values, or int64 class indices 0..n_classes-1, each of which occurs.
    """

    def __init__(self, y: Floats | Index) -> None:
        self._y = y
        self._by_class = bool(np.issubdtype(y.dtype, np.integer))
        labels = y.astype(np.int64) if self._by_class else np.zeros(len(y), dtype=np.int64)
        self._all = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels)
        share = max(2, _SCREENED_ROWS // len(sizes))
        starts = np.cumsum(sizes) - sizes
        self._sample = np.concatenate(
            [
                self._all[start + np.unique(np.linspace(0, size - 1, share).astype(np.int64))]
                for start, size in zip(starts, sizes, strict=True)
            ]
        )

    def tells(self, values: Floats, n_categories: int) -> bool:
        """Return whether a feature alone tells the target, or one of its classes.

        Parameters
        ----------
        values : ndarray of float64, shape (n,)
            Numbers or category codes; NaN where missing, which counts as a value of its own.
        n_categories : int
            0 for a number.
        """
        if n_categories * _LEAST_ROWS_PER_CATEGORY > len(values):
            return False
        return all(
            self._tells(values[rows], self._y[rows], n_categories)
            for rows in (self._sample, self._all)
        )

    def _tells(self, values: Floats, y: Floats | Index, n_categories: int) -> bool:
        if not self._by_class:
            if n_categories:
                values = _means(np.nan_to_num(values, nan=n_categories).astype(np.int64), y)
            return abs(_correlation(values, y)) > SUSPICIOUS_CORRELATION
        if n_categories:
            codes = np.nan_to_num(values, nan=n_categories).astype(np.int64)
            class_of = np.zeros(n_categories + 1, dtype=np.int64)
            class_of[codes] = y
            return bool((class_of[codes] == y).all())
        starts = np.flatnonzero(np.diff(y, prepend=-1))
        # a missing value may lie below all others or above them
        fills = (-np.inf, np.inf) if np.isnan(values).any() else (0.0,)
        return any(_sets_a_class_apart(np.nan_to_num(values, nan=fill), starts) for fill in fills)


def _sets_a_class_apart(values: Floats, starts: Index) -> bool:
    """Return whether one run of values lies all above or all below the others."""
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    lowest, highest = np.sort(lows), np.sort(highs)
    top, bottom = np.argmax(highs), np.argmin(lows)
    return bool(lows[top] > highest[-2] or highs[bottom] < lowest[1])


def _means(codes: Index, y: Floats | Index) -> Floats:
    """Return for each row the mean target of its category."""
    counts = np.bincount(codes)
    return np.asarray((np.bincount(codes, weights=y) / counts.clip(min=1))[codes])


def _correlation(values: Floats, y: Floats | Index) -> float:
    """Return Pearson's correlation over the rows with a value; 0 where there is none."""
    present = ~np.isnan(values)
    if present.sum() < _LEAST_ROWS:
        return 0.0
    values, y = values[present], y[present]
    # scaled first, so that squares of large values stay finite
    values = values / max(np.abs(values).max(), np.finfo(float).tiny)
    y = y / max(np.abs(y).max(), np.finfo(float).tiny)
    values, y = values - values.mean(), y - y.mean()
    spread = np.sqrt((values @ values) * (y @ y))
    return float(values @ y / spread) if spread > 0 else 0.0
