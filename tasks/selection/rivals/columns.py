"""A feature as the columns that a filter scores.

A number is one column, its missing values the mean of the others. A category is a column of 0 and 1
for each value that occurs, a missing one counted as a value of its own; the score of the feature is
that of its best column, as for one-hot columns in the pipelines of today.

Columns are standardised, which changes none of the statistics, but keeps their sums of squares
accurate far from zero. They come one at a time, so that memory does not grow with the categories.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema


def columns_of(rows: Rows, schema: Schema, feature: int) -> Iterator[Floats]:
    """Yield the columns of a feature, shape (n,), weighted mean 0 and variance 1.

    A constant column tells nothing and is left out.

    Parameters
    ----------
    rows : Rows
        Training rows.
    schema : Schema
        Says which features are categories.
    feature : int in 0..d-1
    """
    values = rows.X[:, feature]
    if not schema.n_categories[feature]:
        filled = standardised(without_gaps(values, rows.weight), rows.weight)
        if filled is not None:
            yield filled
        return
    codes = codes_of(values)
    for code in np.unique(codes):
        column = standardised((codes == code).astype(np.float64), rows.weight)
        if column is not None:
            yield column


def without_gaps(values: Floats, weight: Floats | None = None) -> Floats:
    """Return numbers, shape (n,), with the weighted mean of those present where one is missing.

    Where none is present all become 0.
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    if missing.all():
        return np.zeros(len(values))
    present = ~missing
    mean = np.average(values[present], weights=None if weight is None else weight[present])
    return np.where(missing, mean, values)


def codes_of(values: Floats) -> NDArray[np.int64]:
    """Return categories as whole numbers, shape (n,), with -1 where one is missing."""
    return np.where(np.isnan(values), -1, values).astype(np.int64)


def standardised(values: Floats, weight: Floats | None = None) -> Floats | None:
    """Return values less their weighted mean in units of their spread; None if they are all equal.

    Parameters
    ----------
    values : ndarray of float64, shape (n,)
        Without gaps.
    weight : ndarray of float64, shape (n,), optional
    """
    if values.min() == values.max():
        return None
    centred = values - np.average(values, weights=weight)
    centred /= np.abs(centred).max()  # or the squares of small numbers are 0
    centred -= np.average(centred, weights=weight)
    return np.asarray(centred / np.sqrt(np.average(centred**2, weights=weight)))
