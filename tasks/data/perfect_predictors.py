"""Perfect predictors: features that alone determine the target.

Such a feature is often the target under another name, or known only after it. A numeric feature
determines a class if its values for the class lie all above or all below the others (a rank AUC
of 1 against the rest). A categorical feature determines the class if each category occurs with a
single class. Either determines a numeric target if the two, or their ranks, correlate almost
perfectly, as its logarithm does.
A numeric feature determines the whole target if it does so for every class: the classes are
in order along its values. A feature that determines some of the classes is worth a warning, but is
no leak: the petals of a flower may well separate a species from two others.
Where at most a tenth of the values are missing, the others decide as well.
"""

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats

Index = NDArray[np.int64]

SUSPICIOUS_CORRELATION = 0.999
# rows of the first check; a feature that is no perfect predictor in them is not checked further
_SCREENED_ROWS = 10_000
# fewer rows, or fewer rows per category, correlate perfectly by chance
_LEAST_ROWS = 10
_LEAST_ROWS_PER_CATEGORY = 5
# share of rows with a value, from which on the others count for nothing
_LEAST_PRESENT = 0.9


class PerfectPredictors:
    """Detector of features that alone determine the target y, shape (n,).

    y holds float64 values, or class indices, each of which occurs.
    """

    def __init__(self, y: Floats | Index) -> None:
        self._y = y
        self._by_class = bool(np.issubdtype(y.dtype, np.integer))
        labels = y.astype(np.int64) if self._by_class else np.zeros(len(y), dtype=np.int64)
        by_class = np.argsort(labels, kind="stable")
        sizes = np.bincount(labels)
        share = max(2, _SCREENED_ROWS // len(sizes))
        starts = np.cumsum(sizes) - sizes
        self._sample = np.concatenate(
            [
                by_class[start + np.unique(np.linspace(0, size - 1, share).astype(np.int64))]
                for start, size in zip(starts, sizes, strict=True)
            ]
        )

    def predicts(self, values: Floats, n_categories: int, *, whole: bool = False) -> bool:
        """Return whether a feature alone determines the target or, unless `whole`, a class."""
        if n_categories * _LEAST_ROWS_PER_CATEGORY > len(values):
            return False
        y = self._y[self._sample]
        if not self._predicts_in(values[self._sample], y, n_categories, whole):
            return False
        rows = np.argsort(self._y, kind="stable") if self._by_class else slice(None)
        return self._predicts_in(values[rows], self._y[rows], n_categories, whole)

    def _predicts_in(
        self, values: Floats, y: Floats | Index, n_categories: int, whole: bool
    ) -> bool:
        if not self._by_class:
            if n_categories:
                values = _means(np.nan_to_num(values, nan=n_categories).astype(np.int64), y)
            return max(_correlation(values, y), _rank_correlation(values, y)) > (
                SUSPICIOUS_CORRELATION
            )
        present = ~np.isnan(values)
        if (
            _LEAST_PRESENT <= present.mean() < 1
            and len(np.unique(y[present])) == len(np.unique(y))
            and self._predicts_in(values[present], y[present], n_categories, whole)
        ):
            return True
        if n_categories:
            codes = np.nan_to_num(values, nan=n_categories).astype(np.int64)
            class_of = np.zeros(n_categories + 1, dtype=np.int64)
            class_of[codes] = y
            return bool((class_of[codes] == y).all())
        starts = np.flatnonzero(np.diff(y, prepend=-1))
        # missing values count as below or above all others
        fills = (-np.inf, np.inf) if np.isnan(values).any() else (0.0,)
        separates = _separates_classes if whole else _separates_a_class
        return any(separates(np.nan_to_num(values, nan=fill), starts) for fill in fills)


def _separates_a_class(values: Floats, starts: Index) -> bool:
    """Return whether the values of a class lie all above or all below the others."""
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    lowest, highest = np.sort(lows), np.sort(highs)
    top, bottom = np.argmax(highs), np.argmin(lows)
    return bool(lows[top] > highest[-2] or highs[bottom] < lowest[1])


def _separates_classes(values: Floats, starts: Index) -> bool:
    """Return whether the values of no two classes overlap."""
    lows, highs = np.minimum.reduceat(values, starts), np.maximum.reduceat(values, starts)
    order = np.argsort(lows)
    return bool((highs[order][:-1] < lows[order][1:]).all())


def _means(codes: Index, y: Floats | Index) -> Floats:
    """Return the mean target of each row's category."""
    counts = np.bincount(codes)
    return np.asarray((np.bincount(codes, weights=y) / counts.clip(min=1))[codes])


def _correlation(values: Floats, y: Floats | Index) -> float:
    """Return the size of Pearson's correlation over rows with a value; 0 if it is undefined."""
    present = ~np.isnan(values)
    if present.sum() < _LEAST_ROWS:
        return 0.0
    values, y = values[present], y[present]
    # scaled first, so that squares of large values stay finite
    values = values / max(np.abs(values).max(), np.finfo(float).tiny)
    y = y / max(np.abs(y).max(), np.finfo(float).tiny)
    values, y = values - values.mean(), y - y.mean()
    spread = np.sqrt((values @ values) * (y @ y))
    return float(abs(values @ y) / spread) if spread > 0 else 0.0


def _rank_correlation(values: Floats, y: Floats | Index) -> float:
    """Return the size of Spearman's correlation over rows with a value; 0 if it is undefined."""
    from scipy.stats import rankdata

    present = ~np.isnan(values)
    return _correlation(rankdata(values[present]), rankdata(y[present])) if present.any() else 0.0
