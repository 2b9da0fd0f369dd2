"""Centring and scaling of rows for the estimate.

A scale is computed from the moments of all rows so far. Dense tables are centred as they are read.
A sparse table keeps its zeros: stored values are divided, and the kernels account for the shift. A
column that is stored in every row is shifted itself; in one with a zero mu_d^2 / sd_d^2 is below N,
so that few digits are lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs import kernels
from chaffinch.tasks.selection.dfs.estimate import DenseTable, SparseTable

NameColumn = Callable[[int], str]  # position from 0 -> how a person finds the column


@dataclass(frozen=True, eq=False)
class Moments:
    """Statistics of the columns of some rows; 41 bytes a column, of a dense table 33.

    Those of two lots of rows together follow from those of each, by the differences of their means
    (Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing sample
    variances", 1979): no sum of squares is ever taken far from the mean.

    Arrays have shape (D,). The mean is mean + rest: the second is what the first has lost by
    rounding.
    """

    n_rows: int
    mean: Floats
    rest: Floats
    variance: Floats
    varies: NDArray[np.bool_]  # whether two values differ
    example: Floats  # some value of each column
    stored: NDArray[np.int64] | None  # number of stored values; None for a dense table
    kind: str  # "float32" or "float64"

    @property
    def form(self) -> str:
        """Such as "sparse float32"."""
        return f"{'dense' if self.stored is None else 'sparse'} {self.kind}"

    def weakened(self, share: float) -> Moments:
        """Return the same moments as of a share of the rows."""
        n_rows, stored = math.ceil(share * self.n_rows), self.stored
        if stored is not None:  # a column with a zero has one still, or its mean would be shifted
            some = np.minimum((share * stored).astype(np.int64), n_rows - 1)
            stored = np.where(stored == self.n_rows, n_rows, some)
        return replace(self, n_rows=n_rows, stored=stored)


def moments_of(rows: Any, name_column: NameColumn = str) -> Moments:
    """Return the moments of rows as `read_rows` returns them.

    InputError if a number is not finite, or too large to be squared.
    """
    n_rows, n_features = rows.shape
    mean, rest, variance = np.zeros((3, n_features))
    varies = np.zeros(n_features, dtype=bool)
    if isinstance(rows, np.ndarray):
        kernels.dense_columns(rows, mean, rest, variance, varies)
        _check_finite(variance, lambda d: not np.isfinite(rows[:, d]).all(), name_column)
        example = rows[0].astype(np.float64)
        return Moments(n_rows, mean, rest, variance, varies, example, None, str(rows.dtype))
    values, indices = rows.data, rows.indices
    stored = np.zeros(n_features, np.int64)
    kernels.sparse_columns(indices, values, n_rows, mean, rest, variance, varies, stored)
    _check_finite(variance, lambda d: not np.isfinite(values[indices == d]).all(), name_column)
    example = np.zeros(n_features)
    example[indices] = values
    return Moments(n_rows, mean, rest, variance, varies, example, stored, str(values.dtype))


def merged(first: Moments, second: Moments, name_column: NameColumn = str) -> Moments:
    """Return the moments of the rows of both; InputError if squares are too large together."""
    n_rows = first.n_rows + second.n_rows
    share = second.n_rows / n_rows
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
        off = second.mean - first.mean
        off += second.rest - first.rest
        variance = first.variance * (first.n_rows / n_rows)
        variance += second.variance * share
        variance += off * off * (first.n_rows / n_rows * share)
    _check_finite(variance, lambda d: False, name_column)
    varies = first.varies | second.varies
    varies |= first.example != second.example
    off *= share
    off += first.rest
    mean = first.mean + off
    rest = off - (mean - first.mean)
    stored = None
    if first.stored is not None and second.stored is not None:
        stored = first.stored + second.stored
    return Moments(n_rows, mean, rest, variance, varies, first.example, stored, first.kind)


def _check_finite(variance: Floats, has_infinite: Any, name_column: NameColumn) -> None:
    """Refuse a column whose sums are no numbers."""
    wrong = np.flatnonzero(~np.isfinite(variance))
    if not len(wrong):
        return
    name = name_column(int(wrong[0]))
    if has_infinite(wrong[0]):
        raise InputError(
            f"X must be finite but column {name} is not; fill what is missing, as with the mean"
        )
    raise InputError(
        f"X must hold numbers whose squares are finite but column {name} has larger ones; divide it"
    )


# first arguments of a kernel: standardised rows
_Dense = tuple[Any, Any, Any]
_Sparse = tuple[Any, Any, Any, Any]


@dataclass(frozen=True, eq=False)
class DenseScale:
    """Of a dense table: x~ = (x - mean - rest) inverse / top; arrays have shape (D,).

    The inverse is 1 / sd, and 0 for a constant column; see `scale_of`.
    """

    mean: Floats
    rest: Floats
    inverse: Floats
    kind: str

    def prepared(self, rows: NDArray[Any]) -> Any:
        """Return rows in units of their columns' spread, U."""
        return rows, self.mean, self.inverse

    def lengths(self, operands: _Dense, direction: Floats) -> Floats:
        """Return U direction / n, shape (n,), of what was prepared."""
        lengths = np.empty(len(operands[0]))
        kernels.dense_lengths(*operands, direction, lengths)
        return lengths

    def image(self, operands: _Dense, lengths: Floats) -> Floats:
        """Return U' lengths, shape (D,)."""
        image = np.zeros(len(self.mean))
        kernels.dense_combination(*operands, lengths, image)
        return image

    def table(self, operands: _Dense, top: float) -> DenseTable:
        """Return what was prepared as a table, divided by the top singular value."""
        inverse = self.inverse / top
        origin = self.mean.astype(self.kind)
        lost = ((self.mean - origin + self.rest) * inverse).astype(self.kind)
        return DenseTable(operands[0], origin, lost, inverse.astype(self.kind))

    def squares(self, top: float) -> NDArray[Any]:
        """Return zeros, shape (D,): columns without a value add nothing to a slope."""
        return np.zeros(len(self.mean), self.kind)


@dataclass(frozen=True, eq=False)
class SparseScale:
    """Of a sparse table: x~ = ((x - origin) inverse - shift) / top, where x is stored.

    The origin, shape (D,), is 0 but for columns that are stored in every row.
    """

    origin: Floats
    inverse: Floats
    shift: Floats
    kind: str

    def prepared(self, rows: Any) -> Any:
        values = np.empty_like(rows.data)
        kernels.scaled_values(rows.indices, rows.data, self.origin, self.inverse, values)
        return rows.indptr, rows.indices, values, self.shift

    def lengths(self, operands: _Sparse, direction: Floats) -> Floats:
        lengths = np.empty(len(operands[0]) - 1)
        kernels.sparse_lengths(*operands, direction, lengths)
        return lengths

    def image(self, operands: _Sparse, lengths: Floats) -> Floats:
        image = np.zeros(len(self.shift))
        kernels.sparse_combination(*operands, lengths, image)
        return image

    def table(self, operands: _Sparse, top: float) -> SparseTable:
        """See `DenseScale.table`; the operands are used up."""
        starts, indices, values, shift = operands
        values /= np.asarray(top, values.dtype)
        return SparseTable(starts, indices, values, shift / top)

    def squares(self, top: float) -> NDArray[Any]:
        """Return the squares of the shifts, shape (D,), in the table's type."""
        return ((self.shift / top) ** 2).astype(self.kind)


Scale = DenseScale | SparseScale


def scale_of(moments: Moments) -> Scale:
    """Return the scale that gives every column that varies mean 0 and spread 1.

    A column is taken to be constant where its variance, or the inverse of its spread, is beyond the
    numbers of the table's type: below a spread of 2e-162 in float64, of 3e-39 in float32.
    InputError if no column varies.
    """
    mean, rest, inverse = moments.mean, moments.rest, _inverse_spread(moments)
    if moments.stored is None:
        return DenseScale(mean, rest, inverse, moments.kind)
    origin = np.where(moments.stored == moments.n_rows, mean, 0.0)
    return SparseScale(origin, inverse, (mean - origin + rest) * inverse, moments.kind)


def _inverse_spread(moments: Moments) -> Floats:
    """Return 1 / sd, shape (D,); 0 for a column that is constant but for rounding."""
    spread = np.sqrt(np.abs(moments.variance))
    least = 1 / float(np.finfo(moments.kind).max)
    used = moments.varies & (moments.variance > 0) & (spread > least)
    if not used.any():
        raise InputError(
            f"X must have a column that varies but all {len(used)} are constant, or vary by less "
            f"than {moments.kind} can tell; give others"
        )
    return np.divide(1.0, spread, out=np.zeros(len(spread)), where=used)


class Effort(NamedTuple):
    """Most iterations, and the relative residual at which they end earlier."""

    most_iterations: int
    settled: float


EXACTLY = Effort(300, 1e-6)  # two orders of the rows differ by that much at most
NEARLY = Effort(20, 1e-4)  # high by one per cent at most


def top_singular_value(scale: Scale, operands: Any, n_rows: int, effort: Effort) -> float:
    """Return the top singular value of U over sqrt(N), slightly high, by Lanczos' iterations.

    The squares of singular values are eigenvalues, and one of them is no farther from the computed
    value than the residual is long, which is added. None is above the number of columns that vary.
    The operands are U, as `Scale.prepared` returns them. The start is a sum of rows times random
    numbers, not of columns, whose order must not matter.
    """
    n_used = int(np.count_nonzero(scale.inverse))
    direction = scale.image(operands, np.random.default_rng(0).random(n_rows) - 0.5)
    diagonal: list[float] = []
    off_diagonal, before = [float(np.linalg.norm(direction))], np.zeros(len(direction))
    for _ in range(min(effort.most_iterations, n_used)):
        direction = direction / off_diagonal[-1]
        image = -(off_diagonal[-1] if diagonal else 0.0) * before
        image += scale.image(operands, scale.lengths(operands, direction))
        diagonal.append(float(np.sum(direction * image)))
        image -= diagonal[-1] * direction
        off_diagonal.append(float(np.linalg.norm(image)))
        values, vectors = eigh_tridiagonal(diagonal, off_diagonal[1:-1])
        top, residual = float(values[-1]), off_diagonal[-1] * abs(float(vectors[-1, -1]))
        if residual <= effort.settled * top:
            break
        before, direction = direction, image
    return float(np.sqrt(min(top + residual, n_used)))
