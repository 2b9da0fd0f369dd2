"""A feature as the columns that a filter scores.

A number is one column, its missing values the mean of the others. A category is a column of 0 and 1
for each value that occurs, a missing one counted as a value of its own; the score of the feature is
that of its best column, as for one-hot columns in the pipelines of today.

Columns are standardised, which changes none of the statistics, but keeps their sums of squares
accurate far from zero. They come one at a time, so that memory does not grow with the categories.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, hstack, issparse

from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

_LARGE, _SMALLER = 2.0**900, 2.0**-200  # sums of 2**100 rows fit
_FULL = 0.2  # below this share of numbers other than 0 a table is quicker as a sparse one


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


def one_table(rows: Rows, schema: Schema) -> tuple[Any, NDArray[np.int64]]:
    """Return all columns of all features side by side, for methods that look at them at once.

    Parameters
    ----------
    rows : Rows
        Training rows.
    schema : Schema
        Says which features are categories.

    Returns
    -------
    table : ndarray of float64 (n, c), or csr_array where most of it is 0
        Numbers without gaps, categories as 0 and 1; not standardised. Constant columns are left
        out.
    feature : ndarray of int64, shape (c,)
        Which feature each column is of, ascending.
    """
    parts, feature = [], []
    for j, n_categories in enumerate(schema.n_categories):
        values = rows.X[:, j]
        columns = [without_gaps(values)]
        if n_categories:
            codes = codes_of(values)
            columns = [(codes == code).astype(np.float64) for code in np.unique(codes)]
        for column in columns:
            if column.min() < column.max():
                parts.append(csc_array(column[:, np.newaxis]) if n_categories else column)
                feature.append(j)
    owner = np.array(feature, dtype=np.int64)
    full = sum(part.nnz if issparse(part) else np.count_nonzero(part) for part in parts)
    if parts and full < _FULL * len(rows) * len(parts):
        sparse = [p if issparse(p) else csc_array(p[:, np.newaxis]) for p in parts]
        return hstack(sparse, format="csr"), owner
    dense = np.empty((len(rows), len(parts)))
    for place, part in enumerate(parts):
        dense[:, place] = part.toarray()[:, 0] if issparse(part) else part
    return dense, owner


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
    scale = _scale(values[present])
    of_present = None if weight is None else weight[present]
    mean = np.average(scale * values[present], weights=of_present) / scale
    return np.where(missing, mean, values)


def _scale(values: Floats) -> float:
    """Return a power of two, which changes no digit, at which sums of the values are finite."""
    return _SMALLER if max(-values.min(), values.max()) > _LARGE else 1.0


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
    if (scale := _scale(values)) < 1:
        values = scale * values
    centred = values - np.average(values, weights=weight)
    centred /= np.abs(centred).max()  # or the squares of small numbers are 0
    centred -= np.average(centred, weights=weight)
    return np.asarray(centred / np.sqrt(np.average(centred**2, weights=weight)))
