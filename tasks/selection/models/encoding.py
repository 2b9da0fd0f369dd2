"""Features as columns of numbers, for models that need numbers alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats


@dataclass(frozen=True, eq=False)
class Encoding:
    """How the d features become the columns of an input, in the features' order.

    A numeric feature is a column, (x - mean) / scale, and 0 where x is missing, so that a missing
    value is the training mean. A categorical feature is a column for each category, 1 in that
    that applies; none applies where the value is missing or out of range.
    """

    n_categories: tuple[int, ...]
    mean: Floats  # (d,), of the numeric features' training rows; 0 for categories
    scale: Floats  # (d,); 1 for categories and constants

    @classmethod
    def fit(cls, X: Floats, n_categories: tuple[int, ...]) -> Self:
        mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        for feature, size in enumerate(n_categories):
            values = X[:, feature]
            values = values[~np.isnan(values)]
            if size or not len(values):
                continue
            is_constant = values.min() == values.max()
            # the mean of equal numbers is not always that number, and their deviation not 0
            mean[feature] = values[0] if is_constant else values.mean()
            scale[feature] = 1.0 if is_constant else values.std()
        return cls(n_categories, mean, scale)

    @property
    def feature_of_column(self) -> NDArray[np.int64]:
        """The feature each column comes from, shape (width,)."""
        widths = [max(size, 1) for size in self.n_categories]
        return np.repeat(np.arange(len(widths)), widths)

    def transform(self, X: Floats) -> Floats:
        feature_of_column = self.feature_of_column
        first_column = np.searchsorted(feature_of_column, np.arange(X.shape[1]))
        numeric = np.flatnonzero(np.array(self.n_categories) == 0)
        encoded = np.zeros((len(X), len(feature_of_column)))
        values = (X[:, numeric] - self.mean[numeric]) / self.scale[numeric]
        values[np.isnan(values)] = 0
        encoded[:, first_column[numeric]] = values
        for feature in np.flatnonzero(self.n_categories):
            codes = X[:, feature]
            known = np.flatnonzero((codes >= 0) & (codes < self.n_categories[feature]))
            encoded[known, first_column[feature] + codes[known].astype(np.int64)] = 1
        return encoded
