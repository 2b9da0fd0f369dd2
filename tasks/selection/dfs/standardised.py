"""A table as the estimate wants it: every column centred, and in units that fit the polynomial.

x~_nd = (x_nd - mu_d) / c_d with c_d = sd_d sigma, where sigma is the top singular value of the
standardised table over sqrt(N), taken slightly high: above 1 the polynomial leaves h(x) = x.
`scaling.py` makes it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Floats

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
