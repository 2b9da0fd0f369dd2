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
from chaffinch.tasks.selection.dfs import kernels, sparse_kernels
from chaffinch.tasks.selection.dfs.estimate import (
    DenseTable,
    Table,
    chain_weights,
    check_order,
    dense_z,
    sparse_z,
)
from chaffinch.tasks.selection.dfs.passes import Learned, Sharing, learn
from chaffinch.tasks.selection.dfs.scaling import (
    EXACTLY,
    DenseScale,
    Scale,
    moments_of,
    random_lengths,
    scale_of,
    top_singular_value,
)
from chaffinch.tasks.selection.dfs.sources import (
    Outputs,
    RowSource,
    check_one_target,
    in_words,
    is_source,
    read_rows,
)
from chaffinch.tasks.selection.input_checks import read_floats, read_target


def over_all_rows(
    source: RowSource, learned: Learned, kept: Floats, order: int
) -> tuple[float, Floats]:
    """Return z, the share of the target's variance that is explained, and its gradient (D,).

    A sweep forwards takes the blocks in order, a sweep backwards in the opposite order. What
    a block needs of those before it, or after it, are sums over their rows: k C numbers for each
    column. So a block is read twice; one is in memory at a time.
    """
    alphas, scale = chain_weights(order, source.shape[0]), learned.scale
    chain = (_Dense if isinstance(scale, DenseScale) else _Sparse)(
        source.shape[0], alphas, kept, len(learned.outputs.mean), scale, learned.top
    )

    def read(block: int) -> tuple[Any, Floats]:
        X, y = source.read(block)
        table = scale.table(scale.prepared(read_rows(X)), learned.top)
        return table, learned.outputs.of(y)

    blocks, z = range(len(source.block_rows)), 0.0
    left = [chain.forwards(*read(block)) for block in blocks]
    chain.turn()
    for block in reversed(blocks):
        z += chain.backwards(*read(block), *left[block])
    return z, chain.gradient()


class _Dense:
    """A chain through blocks of dense rows."""

    def __init__(
        self, n_rows: int, alphas: Floats, kept: Floats, n_outputs: int, scale: Any, top: float
    ) -> None:
        self._n_rows, self._alphas, self._n_features = n_rows, alphas, len(kept)
        weight = (kept / n_rows).astype(scale.kind)
        self._room = kernels.room_for(len(kept), n_outputs, len(alphas), weight)

    def forwards(self, table: Any, y: Floats) -> tuple[Any, Any]:
        """Return what `backwards` needs of a block besides its rows."""
        left: tuple[Any, Any] = kernels.dense_forwards(*self._operands(table, y))
        return left

    def turn(self) -> None:
        """Reset the sums before the way back."""
        kernels.clear_sums(self._room, self._n_features)

    def backwards(self, table: Any, y: Floats, grams: Any, duals: Any) -> float:
        """Return what a block adds to z."""
        return float(kernels.dense_backwards(*self._operands(table, y, grams, duals)))

    def gradient(self) -> Floats:
        """Return the gradient, shape (D,)."""
        gradient = np.empty(self._n_features)
        kernels.read_gradient(self._room, self._n_rows, gradient)
        return gradient

    def _operands(self, table: Any, y: Floats, *more: Any) -> tuple[Any, ...]:
        of_table = table.values, np.arange(len(y)), table.origin, table.rest, table.inverse
        return *of_table, y, self._alphas, self._room, *more


class _Sparse:
    """A chain through blocks of sparse rows; the methods are those of `_Dense`."""

    def __init__(
        self, n_rows: int, alphas: Floats, kept: Floats, n_outputs: int, scale: Any, top: float
    ) -> None:
        self._n_rows, self._alphas = n_rows, alphas
        self._n_channels = n_outputs * len(alphas)
        self._weight, self._shift = kept / n_rows, scale.shift / top
        self._everywhere = float(np.sum(self._weight * self._shift**2))
        self._sums = np.zeros((len(kept), self._n_channels))
        self._totals = np.zeros((3, self._n_channels))
        self._slopes, self._for_all = np.zeros(len(kept)), 0.0

    def forwards(self, table: Any, y: Floats) -> tuple[Any, Any]:
        off, duals = np.zeros(len(y)), np.zeros((len(y), self._n_channels))
        sparse_kernels.sparse_forwards(*self._operands(table, y, off, duals))
        return off, duals

    def turn(self) -> None:
        self._sums[:], self._totals[:2] = 0.0, 0.0  # the way back reduces the sum of lambda

    def backwards(self, table: Any, y: Floats, off: Any, duals: Any) -> float:
        operands = self._operands(table, y, off, duals, self._slopes)
        z, for_all = sparse_kernels.sparse_backwards(*operands)
        self._for_all += for_all
        return float(z)

    def gradient(self) -> Floats:
        gradient: Floats = (self._slopes + self._shift**2 * self._for_all) / self._n_rows
        return gradient

    def _operands(self, table: Any, y: Floats, *more: Any) -> tuple[Any, ...]:
        rows = table.starts.astype(np.int64), table.indices.astype(np.int32), table.values
        known = self._weight, self._shift, self._everywhere
        return *rows, *known, y, self._alphas, self._sums, self._totals, *more


def read_table(X: Any) -> Table:
    """Read a table, as of `InMemory`, without changing it; InputError if it cannot be used."""
    rows = read_rows(X)
    scale = scale_of(moments_of(rows))
    operands, n_rows = scale.prepared(rows), rows.shape[0]
    top = top_singular_value(
        scale.image(operands, random_lengths(0, n_rows)),
        lambda direction: scale.image(operands, scale.lengths(operands, direction)),
        int(np.count_nonzero(scale.inverse)),
        EXACTLY,
    )
    return scale.table(operands, top)


_TOO_LARGE = "y must hold numbers whose squares are finite but has larger ones; divide it"


def residual_variance(
    X: Any, y: ArrayLike | None, s: ArrayLike, order: int = 4
) -> tuple[float, Floats]:
    """Estimate the variance of y that the best linear model on chosen features leaves.

    It fits no model, and needs far fewer rows than a fit would: of the order of sqrt(D).

    Parameters
    ----------
    X : array (N, D), scipy sparse matrix, or source of rows
        Any scale; columns are standardised, and a constant column counts for nothing. float32 is
        computed in float32 where that is faster. Of a source, such as `chaffinch.open_shuffled`
        returns, a single block is in memory at a time.
    y : array of numbers, shape (N,) or (N, C)
        Any scale; columns are centred. Of several outputs the sum. None where X is a source, which
        has a target of its own: more than two classes are an output each, 0 and 1, two classes are
        one such output, of the later class, which is half of the sum over both.
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
    rows that are sorted by their target. How they are cut into blocks does not matter, nor does
    their order if k is 1: the top singular value of the columns, by which all are divided, is
    computed to a relative residual of 1e-6.

    Costs two readings of X and no copy of it, O(k N D), or O(k (nnz + N) + D) where X is sparse;
    and one, without the k, for each of the iterations that find the singular value: 20 to 30 where
    columns go together, 80 on columns of noise, 300 at most. A source is read as often, and four
    times more; besides a block there are k numbers for each column and each row in memory, for
    each output.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> value, gradient = residual_variance(X, 2 * X[:, 0] + X[:, 1], [0, 1, 1])
    >>> round(value), int(np.argmin(gradient))
    (4, 0)
    """
    check_one_target(X, y)
    if is_source(X):
        return _of_source(X, s, order)
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


def _of_source(source: RowSource, s: ArrayLike, order: int) -> tuple[float, Floats]:
    n_rows, n_features = source.shape
    check_order(order, n_rows)
    kept = _read_kept(s, n_features)
    learned = learn(source, None, Sharing(), check=_check_outputs, effort=EXACTLY)
    z, gradient = over_all_rows(source, learned, kept, order)
    variance = _variance(learned.outputs)
    return (1 - z) * variance, -gradient * variance


def _check_outputs(_scale: Scale, outputs: Outputs) -> None:
    if not np.isfinite(_variance(outputs)):
        raise InputError(_TOO_LARGE)


def _variance(outputs: Outputs) -> float:
    """Return the variance of outputs in their own units; inf if it overflows."""
    with np.errstate(over="ignore"):
        return float(outputs.variance * np.square(np.float64(outputs.largest)))


def _read_outputs(y: ArrayLike | None, n_rows: int) -> Floats:
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
        raise InputError(_TOO_LARGE)
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
