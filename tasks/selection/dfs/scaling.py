"""From a block of rows to a table as the estimate wants it: centred, in units of the columns.

A scale is made of the moments of all rows, and prepares one block after the other. Dense tables are
centred as they are read. A sparse one keeps its zeros: what is stored is divided, and the kernels
take the shift into account. A column that is stored in every row is shifted itself; in one with a
zero mu_d^2 / sd_d^2 is below N, so that few digits are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs import column_kernels as columns
from chaffinch.tasks.selection.dfs.moments import Moments
from chaffinch.tasks.selection.dfs.standardised import DenseTable, SparseTable
from chaffinch.tasks.selection.vocabulary import Floats

_Operands = tuple[Any, ...]  # first arguments of a kernel: a block of standardised rows


@dataclass(frozen=True, eq=False)
class DenseScale:
    """Of a dense table: x~ = (x - mean - rest) inverse / top.

    Attributes
    ----------
    mean, rest, inverse : ndarray of float64, shape (D,)
        The inverse is 1 / sd, and 0 for a constant column; see `scale_of`.
    kind : str
        The type of the table.
    """

    mean: Floats
    rest: Floats
    inverse: Floats
    kind: str

    def prepared(self, rows: NDArray[Any]) -> _Operands:
        """Return rows in units of their columns' spread, U."""
        return rows, self.mean, self.inverse

    def lengths(self, operands: _Operands, direction: Floats) -> Floats:
        """Return U direction / n, shape (n,), of what was prepared."""
        X, mean, inverse = operands
        lengths = np.empty(len(X))
        columns.dense_lengths(X, mean, inverse, direction, lengths)
        return lengths

    def image(self, operands: _Operands, lengths: Floats) -> Floats:
        """Return U' lengths, shape (D,)."""
        X, mean, inverse = operands
        image = np.zeros(len(mean))
        columns.dense_combination(X, mean, inverse, lengths, image)
        return image

    def table(self, operands: _Operands, top: float) -> DenseTable:
        """Return what was prepared as a table, divided by the top singular value."""
        inverse = self.inverse / top
        origin = self.mean.astype(self.kind)
        lost = ((self.mean - origin + self.rest) * inverse).astype(self.kind)
        return DenseTable(operands[0], origin, lost, inverse.astype(self.kind))

    def squares(self, top: float) -> NDArray[Any]:
        """Return zeros, shape (D,): nothing of a slope is left to columns without a value."""
        return np.zeros(len(self.mean), self.kind)


@dataclass(frozen=True, eq=False)
class SparseScale:
    """Of a sparse table: x~ = ((x - origin) inverse - shift) / top, where x is stored.

    Attributes
    ----------
    origin, inverse, shift : ndarray of float64, shape (D,)
        The origin is 0 but for columns that are stored in every row.
    kind : str
        The type of the table.
    """

    origin: Floats
    inverse: Floats
    shift: Floats
    kind: str

    def prepared(self, rows: Any) -> _Operands:
        """See `DenseScale.prepared`."""
        values = np.empty_like(rows.data)
        columns.scaled_values(rows.indices, rows.data, self.origin, self.inverse, values)
        return rows.indptr, rows.indices, values, self.shift

    def lengths(self, operands: _Operands, direction: Floats) -> Floats:
        """See `DenseScale.lengths`."""
        starts, indices, values, shift = operands
        lengths = np.empty(len(starts) - 1)
        columns.sparse_lengths(starts, indices, values, shift, direction, lengths)
        return lengths

    def image(self, operands: _Operands, lengths: Floats) -> Floats:
        """See `DenseScale.image`."""
        starts, indices, values, shift = operands
        image = np.zeros(len(shift))
        columns.sparse_combination(starts, indices, values, shift, lengths, image)
        return image

    def table(self, operands: _Operands, top: float) -> SparseTable:
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

    Raises
    ------
    ValueError
        If no column varies.
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
        raise ValueError(
            f"X must have a column that varies but all {len(used)} are constant, or vary by less "
            f"than {moments.kind} can tell; give others"
        )
    return np.divide(1.0, spread, out=np.zeros(len(spread)), where=used)
