"""The polynomials that stand for h(x) = x, and the weight of a chain of rows.

Kong and Valiant, "Estimating learnability in the sublinear data regime", arXiv 1805.01626,
proposition 8: of the polynomials a_0 x^2 + ... + a_{k-1} x^{k+1} that err on [0, 1] by no more than
twice the least error e* = tan(pi / (4 (k + 1))) / (k + 1), the one with the least
sum_j 2^(j+1) |a_j|, which is what the variance of the estimate grows with.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.limits import HIGHEST_ORDER, check_order_is_known

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
    """Refuse an order that there is no polynomial for, or not rows enough.

    Parameters
    ----------
    order : int
        k.
    n_rows : int
        N, of a batch.

    Raises
    ------
    ValueError
        If the order is not a whole number in 1..8, or there are fewer than order + 1 rows.
    """
    if isinstance(order, bool) or not isinstance(order, Integral):
        raise ValueError(f"order must be a whole number in 1..{HIGHEST_ORDER} but is {order!r}")
    check_order_is_known(int(order))
    if n_rows <= order:
        raise ValueError(
            f"order {order} needs at least {order + 1} rows, since it looks at so many at once, "
            f"but there are {n_rows}; give more rows or a lower order"
        )


def chain_weights(order: int, n_rows: int) -> Floats:
    """Return alpha_i, shape (order,): what y' A^(i+1) y counts for.

    alpha_i = a_i (i + 2)! / N prod_{j=1..i+1} N / (N - j): of the N over i + 2 chains of rows the
    mean is taken. Multiplied out one by one, since the logarithms of factorials lose digits.

    Parameters
    ----------
    order : int in 1..8
        k.
    n_rows : int, above `order`
        N.
    """
    weights, factor = np.empty(order), 1.0 / n_rows
    for i, coefficient in enumerate(COEFFICIENTS[order]):
        factor *= (i + 2) * n_rows / (n_rows - i - 1)
        weights[i] = coefficient * factor
    return weights


# A table as the estimate wants it: every column centred, and in units that fit the polynomial.
#
# x~_nd = (x_nd - mu_d) / c_d with c_d = sd_d sigma, where sigma is the top singular value of the
# standardised table over sqrt(N), taken slightly high: above 1 the polynomial leaves h(x) = x.
# `scaling.py` makes it so.

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
