"""The first layer of a network or a linear model, feature by feature.

A pre-activation is a bias plus one contribution for each feature. A feature of one encoded column
contributes value x weights; a feature of several (a one-hot category) has as many contributions
as distinct values, and these are tabulated. Masking replaces a contribution by the baseline's.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.dense_models import DenseModel
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_ROWS_AT_ONCE = 1024
_EVERY_ROW = slice(None)


class FirstLayer:
    """What n rows and the baseline contribute to the `width` units of a first layer.

    Parameters
    ----------
    model : DenseModel
        Its first layer.
    X : ndarray of float64, shape (n, d)
        Features.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.

    Attributes
    ----------
    values : ndarray of float64, shape (d, n)
        Encoded value, or for a tabulated feature the position in its part of the table.
    value_at_baseline : ndarray of float64, shape (d,)
        The encoded baseline; 0 for a tabulated feature.
    tabulated, used : ndarray of bool, shape (d,)
        Whether a feature is tabulated, and whether it has any weight.
    first_row : ndarray of int64, shape (d,)
        Where the feature's part of the table starts.
    table : ndarray of float64, shape (rows, width)
        Row j < d: weights of feature j, zeros if it is tabulated; from row d on, contribution by
        distinct value of the tabulated ones.
    at_baseline : ndarray of float64, shape (d, width)
        Contribution of the masked feature.
    bias : ndarray of float64, shape (width,)
        What every row has.

    Raises
    ------
    NotCovered
        If an encoded value is not finite.
    """

    def __init__(self, model: DenseModel, X: Floats, baseline: Floats) -> None:
        n, d = X.shape
        weights = model.weights[0]
        n_columns = np.bincount(model.feature_of_column, minlength=d)
        column = np.full(d, -1)
        column[model.feature_of_column] = np.arange(len(model.feature_of_column))
        single = np.flatnonzero(n_columns == 1)
        encoded_baseline = model.encode(baseline[np.newaxis])[0]

        self.bias = model.biases[0]
        self.tabulated: Mask = n_columns > 1
        self.value_at_baseline = np.zeros(d)
        self.value_at_baseline[single] = encoded_baseline[column[single]]
        self.values = np.zeros((d, n))
        for rows, encoded in _encoded(model, X):
            self.values[single, rows] = encoded[:, column[single]].T

        self._weights = np.zeros((d, weights.shape[1]))
        self._weights[single] = weights[column[single]]
        self.at_baseline = self.value_at_baseline[:, np.newaxis] * self._weights
        self.first_row = np.arange(d)
        parts, n_table_rows = [self._weights], d
        for feature in np.flatnonzero(self.tabulated):
            columns = np.flatnonzero(model.feature_of_column == feature)
            distinct, self.values[feature] = np.unique(X[:, feature], return_inverse=True)
            parts.append(_contributions(model, baseline, feature, distinct, columns))
            self.at_baseline[feature] = encoded_baseline[columns] @ weights[columns]
            self.first_row[feature] = n_table_rows
            n_table_rows += len(distinct)
        self.table = np.concatenate(parts)
        self.used = np.zeros(d, dtype=bool)
        self.used[model.feature_of_column[weights.any(axis=1)]] = True
        if not (np.isfinite(encoded_baseline).all() and np.isfinite(self.values).all()):
            raise NotCovered("an encoded value is not finite")

    def present(self, mask: Mask, rows: slice = _EVERY_ROW) -> Floats:
        """Return the pre-activations of some rows under a mask (d,), shape (width, n)."""
        kept = mask & ~self.tabulated
        values = self.values[:, rows]
        with single_thread():
            total = (self._weights * kept[:, np.newaxis]).T @ values
        total += (self.bias + self.at_baseline[~mask].sum(axis=0))[:, np.newaxis]
        for feature in np.flatnonzero(mask & self.tabulated):
            total += self.table[self.first_row[feature] + values[feature].astype(np.int64)].T
        return np.asarray(total)

    def greatest_changes(self, rows: slice, reach: Floats) -> Floats:
        """Return how far masking each feature moves an output of the network at most, (d, n).

        Parameters
        ----------
        rows : slice
            Which rows.
        reach : ndarray of float64, shape (width, n_outputs)
            How far each unit moves each output, per unit of its own.
        """
        by_weight = (np.abs(self._weights) @ reach).max(axis=1)
        moved = np.abs(self.values[:, rows] - self.value_at_baseline[:, np.newaxis])
        moved *= by_weight[:, np.newaxis]
        for feature in np.flatnonzero(self.tabulated):
            places = self.first_row[feature] + self.values[feature, rows].astype(np.int64)
            change = np.abs(self.table[places] - self.at_baseline[feature])
            moved[feature] = (change @ reach).max(axis=1)
        return moved

    def into_changes(self) -> Floats:
        """Return what masking each feature takes from a layer of one unit, shape (d, n).

        The array is `values` itself, overwritten: the layer is of no use afterwards.
        """
        for feature in np.flatnonzero(self.tabulated):
            rows = self.first_row[feature] + self.values[feature].astype(np.int64)
            self.values[feature] = self.table[rows, 0] - self.at_baseline[feature, 0]
        single = ~self.tabulated
        self.values -= self.value_at_baseline[:, np.newaxis]
        self.values *= np.where(single, self._weights[:, 0], 1)[:, np.newaxis]
        return self.values

    def write_without(
        self,
        present: Floats,
        features: NDArray[np.int64],
        start: int,
        floor: float,
        out: Floats,
    ) -> None:
        """Write `present` (width, n) without each of some features; see `without_features`."""
        from chaffinch.tasks.selection.masked_loss.dense_kernels import without_features

        without_features(
            present,
            features,
            start,
            self.values,
            self.value_at_baseline,
            self.tabulated,
            self.first_row,
            self.table,
            self.at_baseline,
            floor,
            out,
        )


def _encoded(model: DenseModel, X: Floats) -> Iterator[tuple[slice, Floats]]:
    """Encode a few rows at a time, so that no second table of one-hot columns is held."""
    for start in range(0, len(X), _ROWS_AT_ONCE):
        rows = slice(start, min(start + _ROWS_AT_ONCE, len(X)))
        yield rows, model.encode(X[rows])


def _contributions(
    model: DenseModel,
    baseline: Floats,
    feature: np.int64,
    distinct: Floats,
    columns: NDArray[np.int64],
) -> Floats:
    """Return what each distinct value of a feature contributes, shape (len(distinct), width)."""
    probes = np.repeat(baseline[np.newaxis], len(distinct), axis=0)
    probes[:, feature] = distinct
    parts = [encoded[:, columns] for _, encoded in _encoded(model, probes)]
    weights = model.weights[0][columns]
    total = np.zeros((len(distinct), weights.shape[1]))
    # not a product of matrices, whose rounding may depend on how many values there are
    for values, of_column in zip(np.concatenate(parts).T, weights, strict=True):
        total += values[:, np.newaxis] * of_column
    return total
