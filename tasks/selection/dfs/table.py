"""A table as the estimate wants it: every column centred, and in units that fit the polynomial.

x~_nd = (x_nd - mu_d) / c_d with c_d = sd_d sigma, where sigma is the top singular value of the
standardised table over sqrt(N), taken slightly high: above 1 the polynomial leaves h(x) = x.

Dense tables are centred as they are read. A sparse one keeps its zeros: what is stored is divided
by c_d, and the kernels take the shift mu_d / c_d into account. A column that is stored in every row
is shifted itself; in one with a zero mu_d^2 / sd_d^2 is below N, so that few digits are lost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal

from chaffinch.tasks.selection.dfs import column_kernels as columns
from chaffinch.tasks.selection.vocabulary import Floats

_MOST_ITERATIONS, _SETTLED = 20, 1e-4
_Values = NDArray[Any]  # float32 or float64


@dataclass(frozen=True)
class DenseTable:
    """N rows of D columns, of which none is copied.

    Attributes
    ----------
    values : ndarray of float32 or float64, shape (N, D)
    origin, rest, inverse : ndarray of the same type, shape (D,)
        x~ = (x - origin) inverse - rest; the inverse is 0 for a constant column. The rest is what
        rounding took from the mean.
    """

    values: _Values
    origin: _Values
    rest: _Values
    inverse: _Values

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return self.values.shape[0], self.values.shape[1]


@dataclass(frozen=True)
class SparseTable:
    """The same in compressed rows, the columns of each sorted and none twice.

    Attributes
    ----------
    starts : ndarray of int, shape (N + 1,)
    indices : ndarray of int, shape (nnz,)
    values : ndarray of float32 or float64, shape (nnz,)
    shift : ndarray of float64, shape (D,)
        x~ = values - shift, in every row.
    """

    starts: NDArray[Any]
    indices: NDArray[Any]
    values: _Values
    shift: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return len(self.starts) - 1, len(self.shift)


Table = DenseTable | SparseTable


def read_table(X: Any) -> Table:
    """Read a table without changing it.

    Parameters
    ----------
    X : array (N, D) or scipy sparse matrix
        float32 stays float32, any other number becomes float64. Sparse indices may come in any
        order; of an entry that comes twice the sum counts, as in scipy.

    Raises
    ------
    ValueError
        If X is no table of finite numbers, is too large to be squared, or no column varies.
    """
    if scipy.sparse.issparse(X):
        return _read_sparse(X)
    given = np.asarray(X)
    _check_numbers(given.dtype, given.shape)
    values = np.ascontiguousarray(given, dtype=_type_of(given.dtype))
    mean, rest, variance = np.zeros((3, values.shape[1]))
    varies = np.zeros(values.shape[1], dtype=bool)
    columns.dense_columns(values, mean, rest, variance, varies)
    _check_finite(variance, lambda d: not np.isfinite(values[:, d]).all())
    inverse = _inverse_spread(variance, varies)

    inverse /= _top_singular_value(
        columns.dense_combination,
        columns.dense_lengths,
        (values, mean, inverse),
        len(values),
        int(np.count_nonzero(inverse)),
    )
    origin = mean.astype(values.dtype)
    lost = ((mean - origin + rest) * inverse).astype(values.dtype)
    return DenseTable(values, origin, lost, inverse.astype(values.dtype))


def _read_sparse(X: Any) -> SparseTable:
    _check_numbers(X.dtype, X.shape)
    rows = X.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    n_rows, n_features = rows.shape
    given = rows.data.astype(_type_of(rows.dtype), copy=False)
    mean, rest, variance = np.zeros((3, n_features))
    varies, stored = np.zeros(n_features, dtype=bool), np.zeros(n_features, np.int64)
    columns.sparse_columns(rows.indices, given, n_rows, mean, rest, variance, varies, stored)
    _check_finite(variance, lambda d: not np.isfinite(given[rows.indices == d]).all())
    inverse, origin = _inverse_spread(variance, varies), np.where(stored == n_rows, mean, 0.0)
    values = np.empty_like(given)
    columns.scaled_values(rows.indices, given, origin, inverse, values)
    shift = (mean - origin + rest) * inverse

    standardised = (rows.indptr, rows.indices, values, shift)
    sigma = _top_singular_value(
        columns.sparse_combination,
        columns.sparse_lengths,
        standardised,
        n_rows,
        int(np.count_nonzero(inverse)),
    )
    values /= np.asarray(sigma, values.dtype)
    return SparseTable(rows.indptr, rows.indices, values, shift / sigma)


def _type_of(given: Any) -> Any:
    return np.float32 if given == np.float32 else np.float64


def _check_numbers(kind: Any, shape: tuple[int, ...]) -> None:
    if kind.kind not in "biuf":
        raise ValueError(f"X must hold real numbers but holds {kind}; give numbers, as float64")
    if len(shape) != 2 or 0 in shape:
        raise ValueError(f"X must have rows and features, (N, D), but has shape {shape}")


def _check_finite(variance: Floats, has_infinite: Any) -> None:
    """Refuse a column whose sums are no numbers."""
    wrong = np.flatnonzero(~np.isfinite(variance))
    if len(wrong) and has_infinite(wrong[0]):
        raise ValueError(
            f"X must be finite but column {wrong[0]} is not; fill what is missing, as with the mean"
        )
    if len(wrong):
        raise ValueError(
            f"X must hold numbers whose squares are finite but column {wrong[0]} has larger ones; "
            "divide it"
        )


def _inverse_spread(variance: Floats, varies: NDArray[np.bool_]) -> Floats:
    """Return 1 / sd, shape (D,); 0 for a column that is constant but for rounding."""
    used = varies & (variance > 0)
    if not used.any():
        raise ValueError(
            f"X must have a column that varies but all {len(varies)} are constant; give others"
        )
    return np.divide(1.0, np.sqrt(np.abs(variance)), out=np.zeros(len(variance)), where=used)


def _top_singular_value(
    combine: Any, measure: Any, table: tuple[Any, ...], n_rows: int, n_used: int
) -> float:
    """Return the top singular value of a standardised table over sqrt(N), slightly high.

    By Lanczos' iterations. The squares of singular values are eigenvalues, and one of them is no
    farther from the value found than the residual is long, which is added. None is above the number
    of columns that vary. It starts from a sum of rows, not of columns, whose order must not matter.

    Parameters
    ----------
    combine, measure : callable
        Kernels for U' lengths and U direction / N.
    table : tuple
        Their first arguments, the shape (D,) of the last of which is that of a direction.
    n_rows, n_used : int
        N, and how many columns vary.
    """
    lengths = np.random.default_rng(0).standard_normal(n_rows)
    direction = np.zeros(len(table[-1]))
    combine(*table, lengths, direction)
    diagonal: list[float] = []
    beside, before = [float(np.linalg.norm(direction))], np.zeros(len(direction))
    for _ in range(min(_MOST_ITERATIONS, n_used)):
        direction /= beside[-1]
        image = -(beside[-1] if diagonal else 0.0) * before
        part = np.zeros(len(direction))
        measure(*table, direction, lengths)
        combine(*table, lengths, part)
        image += part
        diagonal.append(float(np.sum(direction * image)))
        image -= diagonal[-1] * direction
        beside.append(float(np.linalg.norm(image)))
        values, vectors = eigh_tridiagonal(diagonal, beside[1:-1])
        top, residual = float(values[-1]), beside[-1] * abs(float(vectors[-1, -1]))
        if residual <= _SETTLED * top:
            break
        before, direction = direction, image
    return float(np.sqrt(min(top + residual, n_used)))
