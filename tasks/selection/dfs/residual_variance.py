"""The estimate of the variance that a linear model on some of the features would leave.

With x~ as in `estimate.py`, G_d = triud(x~_d x~_d') and A = sum_d s_d G_d / N,

    f(s) = y'y / N - z,   z = sum_i alpha_i y' A^(i+1) y.

The gradient is that of two sweeps. With r_0 = l_0 = y, r_{i+1} = A r_i, l_{i+1} = A' l_i and
lambda_q = sum_{p < k-q} alpha_{p+q} l_p, it is dz/ds_d = 1/N sum_{q < k} lambda_q' G_d r_q. A is
strictly triangular, so that what a row needs of all orders is known from the rows met before: a
sweep forwards finds every lambda, a sweep backwards every r, the value and the whole gradient.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.estimate import (
    DenseTable,
    Table,
    chain_weights,
    check_order,
    dense_z,
    sparse_z,
)
from chaffinch.tasks.selection.dfs.observations import read_rows
from chaffinch.tasks.selection.dfs.outputs import in_words
from chaffinch.tasks.selection.dfs.scaling import (
    EXACTLY,
    moments_of,
    scale_of,
    top_singular_value,
)
from chaffinch.tasks.selection.input_checks import check_same_order, read_floats, read_target


def read_table(X: Any) -> Table:
    """Read a table, as of `Observations`, without changing it; InputError if it cannot be used."""
    rows = read_rows(X)
    scale = scale_of(moments_of(rows))
    operands = scale.prepared(rows)
    return scale.table(operands, top_singular_value(scale, operands, rows.shape[0], EXACTLY))


def residual_variance(X: Any, y: ArrayLike, s: ArrayLike, order: int = 4) -> tuple[float, Floats]:
    """Estimate the variance of y that the best linear model on chosen features leaves.

    It fits no model, and needs far fewer rows than a fit would: of the order of sqrt(D).

    Parameters
    ----------
    X : array (N, D), frame or scipy sparse matrix
        Any scale; columns are standardised, and a constant column counts for nothing. float32 is
        computed in float32 where that is faster.
    y : array of numbers, shape (N,) or (N, C)
        Any scale; columns are centred. Of several outputs the sum.
    s : array, shape (D,)
        How much of each feature is kept, 0..1.
    order : int in 1..8
        Highest power of the correlations that is looked at. A higher power errs less on average and
        varies more.

    Returns
    -------
    value : float
        In squared units of y. An estimate: it may be below 0.
    gradient : ndarray of float64, shape (D,)
        Of the value, with respect to s.

    Raises
    ------
    InputError
        If the order is not in 1..8, there are not more rows than it, or X, y and s do not fit.

    Notes
    -----
    Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020, eq 1.
    The estimate is a mean over ordered chains of rows, so that the order of rows matters: shuffle
    rows that are sorted by their target. Their order does not matter if k is 1: the top singular
    value of the columns, by which all are divided, is computed to a relative residual of 1e-6.

    Costs two readings of X and no copy of it, O(k N D), or O(k (nnz + N) + D) where X is sparse;
    and one, without the k, for each of the iterations that find the singular value: 20 to 30 where
    columns go together, 80 on columns of noise, 300 at most.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> value, gradient = residual_variance(X, 2 * X[:, 0] + X[:, 1], [0, 1, 1])
    >>> round(value), int(np.argmin(gradient))
    (4, 0)
    """
    check_same_order(X, y)
    data = read_rows(X)
    n_rows, n_features = data.shape
    check_order(order, n_rows)
    outputs = _read_outputs(y, n_rows)
    kept = _read_kept(s, n_features)
    table = read_table(data)
    alphas, rows = chain_weights(order, n_rows), np.arange(n_rows)
    gradient = np.zeros(n_features)
    if isinstance(table, DenseTable):
        z, gradient[:] = dense_z(table, rows, kept, outputs, alphas)
    else:
        everywhere = float(np.sum(kept * table.shift**2)) / n_rows
        number = np.full(n_features, -1, np.int32)
        z, for_all, touched, part = sparse_z(table, rows, kept, outputs, alphas, everywhere, number)
        gradient += table.shift**2 * for_all
        gradient[touched] += part
    return float(np.sum(outputs**2) / n_rows - z), -gradient


def _read_outputs(y: ArrayLike, n_rows: int) -> Floats:
    """Return the outputs, centred, shape (N, C)."""
    target = read_target(y, n_rows, multi_output=True)
    if target.dtype.kind not in "biuf":
        raise InputError(
            f"y must hold numbers but holds {in_words(target.dtype)}; of two classes give one "
            "column of 0 and 1, of more one for each, or use differentiable_selection"
        )
    outputs = target.reshape(n_rows, -1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
        outputs -= outputs.mean(axis=0)
        sum_of_squares = np.sum(outputs**2)
    if not np.isfinite(sum_of_squares):
        raise InputError(
            "y must hold numbers whose squares are finite but has larger ones; divide it"
        )
    return np.ascontiguousarray(outputs)


def _read_kept(s: ArrayLike, n_features: int) -> Floats:
    kept = read_floats(s, "s", "give a number in 0..1 for each column")
    if kept.shape != (n_features,):
        raise InputError(
            f"s must have shape ({n_features},), as X has columns, but has {kept.shape}"
        )
    if not ((kept >= 0) & (kept <= 1)).all():
        wrong = kept[~((kept >= 0) & (kept <= 1))][0]
        raise InputError(f"s must be in 0..1 but holds {wrong}; it is the share that is kept")
    return kept
