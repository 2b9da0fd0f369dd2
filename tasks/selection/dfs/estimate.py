"""The estimate z of a batch of rows, and its gradient.

Kong and Valiant, "Estimating learnability in the sublinear data regime", arXiv 1805.01626,
proposition 8, for the polynomials that stand for h(x) = x: of a_0 x^2 + ... + a_{k-1} x^{k+1} that
err on [0, 1] by no more than twice the least error e* = tan(pi / (4 (k + 1))) / (k + 1), that
with the least sum_j 2^(j+1) |a_j|, which is what the variance of the estimate grows with.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.kernels import dense_sweeps
from chaffinch.tasks.selection.dfs.sparse_kernels import gather, sparse_sweeps
from chaffinch.tasks.selection.limits import HIGHEST_ORDER, check_order_is_known

COEFFICIENTS: dict[int, tuple[float, ...]] = {
    1: (0.60355,),
    2: (1.52705, -0.34842),
    3: (2.90254, -1.87217, 0.0),
    4: (4.63446, -5.19936, 0.0, 1.50392),
    5: (6.92948, -14.12216, 9.4475, 0.0, -1.21094),
    6: (9.54431, -28.09415, 31.84704, -11.18764, -1.14175, 0.0),
    7: (12.54505, -49.64892, 79.78828, -46.72251, 0.0, 0.0, 5.02974),
    8: (16.0355, -84.28618, 196.86079, -215.36747, 92.63961, 0.0, 0.0, -4.86281),
}


def check_order(order: int, n_rows: int) -> None:
    """Raise InputError if the order is not in 1..8, or has too few rows in a batch."""
    if isinstance(order, bool) or not isinstance(order, Integral):
        raise InputError(f"order must be a whole number in 1..{HIGHEST_ORDER} but is {order!r}")
    check_order_is_known(int(order))
    if n_rows <= order:
        raise InputError(
            f"order {order} needs at least {order + 1} rows, since it looks at so many at once, "
            f"but there are {n_rows}; give more rows or a lower order"
        )


def first_maximum(order: int) -> float:
    """Return where in (0, 1] an uncorrelated column seems to explain most, in units of s / top^2.

    The estimate of what it explains is p(x) / x = a_0 x + a_1 x^2 + ..., which ripples about 1.
    """
    slope = [(i + 1) * a for i, a in enumerate(COEFFICIENTS[order])]
    roots = np.roots(slope[::-1])
    is_inside = (np.abs(roots.imag) < 1e-9) & (roots.real > 0) & (roots.real < 1)
    return float(min(roots.real[is_inside], default=1.0))


def chain_weights(order: int, n_rows: int) -> Floats:
    """Return alpha_i, shape (order,): the weight of y' A^(i+1) y.

    alpha_i = a_i (i + 2)! / N prod_{j=1..i+1} N / (N - j): the mean is over the N over i + 2 chains
    of rows. Multiplied out singly, since the logarithms of factorials lose digits.
    """
    weights, factor = np.empty(order), 1.0 / n_rows
    for i, coefficient in enumerate(COEFFICIENTS[order]):
        factor *= (i + 2) * n_rows / (n_rows - i - 1)
        weights[i] = coefficient * factor
    return weights


_Values = NDArray[Any]  # float32 or float64


@dataclass(frozen=True)
class DenseTable:
    """Values (N, D), not copied: x~ = (x - origin) inverse - rest, with origin etc. (D,).

    x~_nd = (x_nd - mu_d) / c_d with c_d = sd_d sigma, where sigma is the top singular value of the
    standardised table over sqrt(N), taken slightly high: above 1 the polynomial leaves h(x) = x.

    The inverse is 0 for a constant column. The rest is what rounding took from the mean.
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
    """Compressed rows, the columns of each sorted and unique: x~ = values - shift (D,)."""

    starts: NDArray[Any]
    indices: NDArray[Any]
    values: _Values
    shift: Floats

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        return len(self.starts) - 1, len(self.shift)


Table = DenseTable | SparseTable


def dense_z(
    table: DenseTable,
    rows: NDArray[np.int64],
    kept: NDArray[Any],
    outputs: Floats,
    alphas: Floats,
) -> tuple[float, NDArray[Any]]:
    """Return z of the batch `rows` (n,) and its gradient, shape (D,), of the type of the table.

    `kept` (D,) is s, and `outputs` (n, C) are y of these rows, centred.
    """
    gradient = np.empty(table.shape[1], table.values.dtype)
    weight = (kept / len(rows)).astype(table.values.dtype)
    z = dense_sweeps(
        table.values, rows, table.origin, table.rest, table.inverse,
        weight, outputs, alphas, gradient,
    )  # fmt: skip
    return z, gradient


def sparse_z(
    table: SparseTable,
    rows: NDArray[np.int64],
    kept: NDArray[Any],
    outputs: Floats,
    alphas: Floats,
    everywhere: float,
    number: NDArray[np.int32],
) -> tuple[float, float, NDArray[np.int32], Floats]:
    """Return z of a batch, and its gradient as in `Estimate`: for_all, touched, slopes.

    Arguments are as in `dense_z`; `everywhere` is sum_d s_d shift_d^2 / n over all columns, and
    `number` (D,) is work space: -1 everywhere, before and after.
    """
    most = int((table.starts[rows + 1] - table.starts[rows]).sum())
    ends, local = np.empty(len(rows) + 1, np.int64), np.empty(most, np.int32)
    stored, touched = np.empty(most, table.values.dtype), np.empty(most, np.int32)
    batch = (ends, local, stored)
    n_met = gather(table.starts, table.indices, table.values, rows, number, *batch, touched)
    touched = touched[:n_met]
    number[touched] = -1
    weight = kept[touched].astype(np.float64) / len(rows)
    gradient = np.zeros(n_met)
    z, for_all = sparse_sweeps(
        *batch, weight, table.shift[touched], everywhere, outputs, alphas, gradient
    )
    return z, for_all, touched, gradient


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimate from a batch.

    Column d has dz/ds = slopes + for_all squares, where `Scale.squares`, shape (D,), are 0 for a
    dense table. The slopes are those of the touched columns, shape (u,); of None all, (D,).
    """

    z: float
    for_all: float
    touched: NDArray[np.int32] | None
    slopes: NDArray[Any]


class Estimator:
    """Estimates from batches of a table, whose outputs have shape (N, C)."""

    def __init__(self, table: Table, outputs: Floats, order: int) -> None:
        self._table, self._outputs, self._order = table, outputs, order
        n_columns = 0 if isinstance(table, DenseTable) else table.shape[1]
        self._number = np.full(n_columns, -1, np.int32)

    def estimate(self, rows: NDArray[np.int64], kept: NDArray[Any], everywhere: float) -> Estimate:
        """Return the estimate from the batch `rows` (n,).

        `kept` (D,) is s, and `everywhere` the sum of s times `Scale.squares`.
        """
        alphas, y = chain_weights(self._order, len(rows)), self._outputs[rows]
        if isinstance(self._table, DenseTable):
            z, slopes = dense_z(self._table, rows, kept, y, alphas)
            return Estimate(z, 0.0, None, slopes)
        everywhere /= len(rows)
        return Estimate(*sparse_z(self._table, rows, kept, y, alphas, everywhere, self._number))
