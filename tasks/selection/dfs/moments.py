"""Means and variances of all columns, of one block of rows or of many that are never together.

Those of two lots of rows together follow from those of each, by the differences of their means
(Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
variances", 1979): no sum of squares is ever taken far from the mean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs import column_kernels as columns
from chaffinch.tasks.selection.vocabulary import Floats

NameColumn = Callable[[int], str]  # position from 0 -> how a person finds the column


@dataclass(frozen=True, eq=False)
class Moments:
    """What is known of the columns of some rows; 41 bytes a column, of a dense table 33.

    Attributes
    ----------
    n_rows : int
        n.
    mean, rest : ndarray of float64, shape (D,)
        The mean is mean + rest: the second is what the first has lost by rounding.
    variance : ndarray of float64, shape (D,)
        Sums of squares over n.
    varies : ndarray of bool, shape (D,)
        Whether a column has two values that differ.
    example : ndarray of float64, shape (D,)
        Some value of each column: its only one, unless it varies.
    stored : ndarray of int64, shape (D,), or None
        How many values of each column are stored; None for a dense table.
    kind : str
        Of the table: "float32" or "float64".
    """

    n_rows: int
    mean: Floats
    rest: Floats
    variance: Floats
    varies: NDArray[np.bool_]
    example: Floats
    stored: NDArray[np.int64] | None
    kind: str

    @property
    def form(self) -> str:
        """What the table is, as "sparse float32"."""
        return f"{'dense' if self.stored is None else 'sparse'} {self.kind}"


def moments_of(rows: Any, name_column: NameColumn = str) -> Moments:
    """Return the moments of a table, or of a block of one.

    Parameters
    ----------
    rows : ndarray or sparse matrix
        As `read_rows` returns it.
    name_column : callable
        Says which column is meant; by default its position.

    Raises
    ------
    ValueError
        If a number is not finite, or too large to be squared.
    """
    n_rows, n_features = rows.shape
    mean, rest, variance = np.zeros((3, n_features))
    varies = np.zeros(n_features, dtype=bool)
    if isinstance(rows, np.ndarray):
        columns.dense_columns(rows, mean, rest, variance, varies)
        _check_finite(variance, lambda d: not np.isfinite(rows[:, d]).all(), name_column)
        example = rows[0].astype(np.float64)
        return Moments(n_rows, mean, rest, variance, varies, example, None, str(rows.dtype))
    given, indices = rows.data, rows.indices
    stored = np.zeros(n_features, np.int64)
    columns.sparse_columns(indices, given, n_rows, mean, rest, variance, varies, stored)
    _check_finite(variance, lambda d: not np.isfinite(given[indices == d]).all(), name_column)
    example = np.zeros(n_features)
    example[indices] = given
    return Moments(n_rows, mean, rest, variance, varies, example, stored, str(given.dtype))


def merged(one: Moments, other: Moments, name_column: NameColumn = str) -> Moments:
    """Return the moments of the rows of both; see `moments_of`.

    Raises
    ------
    ValueError
        If a column's squares are too large together.
    """
    n_rows = one.n_rows + other.n_rows
    share = other.n_rows / n_rows
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
        off = other.mean - one.mean
        off += other.rest - one.rest
        variance = one.variance * (one.n_rows / n_rows)
        variance += other.variance * share
        variance += off * off * (one.n_rows / n_rows * share)
    _check_finite(variance, lambda d: False, name_column)
    varies = one.varies | other.varies
    varies |= one.example != other.example
    off *= share
    off += one.rest
    mean = one.mean + off
    rest = off - (mean - one.mean)
    stored = None
    if one.stored is not None and other.stored is not None:
        stored = one.stored + other.stored
    return Moments(n_rows, mean, rest, variance, varies, one.example, stored, one.kind)


def _check_finite(variance: Floats, has_infinite: Any, name_column: NameColumn) -> None:
    """Refuse a column whose sums are no numbers."""
    wrong = np.flatnonzero(~np.isfinite(variance))
    if not len(wrong):
        return
    name = name_column(int(wrong[0]))
    if has_infinite(wrong[0]):
        raise ValueError(
            f"X must be finite but column {name} is not; fill what is missing, as with the mean"
        )
    raise ValueError(
        f"X must hold numbers whose squares are finite but column {name} has larger ones; divide it"
    )
