"""The estimate of the variance that a linear model on some of the features would leave.

With x~ as in `standardised.py`, G_d = triud(x~_d x~_d') and A = sum_d s_d G_d / N,

    f(s) = y'y / N - z,   z = sum_i alpha_i y' A^(i+1) y.

The gradient is that of two sweeps. With r_0 = l_0 = y, r_{i+1} = A r_i, l_{i+1} = A' l_i and
lambda_q = sum_{p < k-q} alpha_{p+q} l_p, it is dz/ds_d = 1/N sum_{q < k} lambda_q' G_d r_q. A is
strictly triangular, so that what a row needs of all orders is known from the rows met before: one
sweep forwards finds every lambda, one backwards every r, the value and the whole gradient.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from chaffinch.tasks.selection.dfs.all_rows import over_all_rows
from chaffinch.tasks.selection.dfs.batches import dense_z, sparse_z
from chaffinch.tasks.selection.dfs.coefficients import chain_weights, check_order
from chaffinch.tasks.selection.dfs.gram import TableOnDevice, check_fits, check_takes
from chaffinch.tasks.selection.dfs.learning import learn
from chaffinch.tasks.selection.dfs.parts import Sharing
from chaffinch.tasks.selection.dfs.scaling import Scale
from chaffinch.tasks.selection.dfs.sources import (
    RowSource,
    check_one_target,
    is_source,
    read_rows,
)
from chaffinch.tasks.selection.dfs.standardised import DenseTable
from chaffinch.tasks.selection.dfs.strongest import EXACTLY
from chaffinch.tasks.selection.dfs.table import read_table
from chaffinch.tasks.selection.dfs.target import Outputs, in_words
from chaffinch.tasks.selection.given_arrays import (
    check_no_mask,
    check_target,
    target_array,
)
from chaffinch.tasks.selection.masked_loss.devices import device_named
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch

_TOO_LARGE = "y must hold numbers whose squares are finite but has larger ones; divide it"


def residual_variance(
    X: Any, y: ArrayLike | None, s: ArrayLike, order: int = 4, *, device: str = "cpu"
) -> tuple[float, Floats]:
    """Estimate the variance of y that the best linear model on chosen features leaves.

    It fits no model, and needs far fewer rows than a fit would: of the order of sqrt(D).

    Parameters
    ----------
    X : array (N, D), scipy sparse matrix, or source of rows
        Any scale; columns are standardised, and a constant one counts for nothing. float32 is
        computed in float32 where that is faster. Of a source, such as `chaffinch.open_shuffled`
        returns, one block is in memory at a time.
    y : array of numbers, shape (N,) or (N, C)
        Any scale; columns are centred. Of several outputs the sum. None where X is a source, which
        has a target of its own: more than two classes are an output each, 0 and 1, two classes are
        one such output, of the later one, which is half of the sum over both.
    s : array, shape (D,)
        How much of each feature is kept, 0..1.
    order : int in 1..8
        Highest power of the correlations that is looked at. A higher one errs less on average and
        varies more.
    device : "cpu", "cuda" or "cuda:1", "cuda:2", ...
        Where to compute: on the CPU, or on a GPU through a torch that sees it. A GPU takes dense
        tables in memory, and holds two matrices of N x N beside the table. It costs O(N^2 D) there,
        which pays for some thousand rows, not for many more. What it finds is that of the CPU but
        for rounding.

    Returns
    -------
    value : float
        In squared units of y. An estimate: it may be below 0.
    gradient : ndarray of float64, shape (D,)
        Of the value, with respect to s.

    Raises
    ------
    ValueError
        If the order is not in 1..8, there are not more rows than it, or X, y and s do not fit; or
        the device is not there, does not take X, or has too little memory for it.

    Notes
    -----
    Sheth and Fusi, "Differentiable feature selection by discrete relaxation", AISTATS 2020, eq 1.
    The estimate is a mean over ordered chains of rows, so that the order of rows matters: shuffle
    rows that are sorted by their target. How they are cut into blocks does not matter, nor does
    their order if k is 1: the top singular value of the columns, by which all are divided, is
    found to a relative residual of 1e-6.

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
    return residual_variance_on(device_named(device), X, y, s, order)


def residual_variance_on(
    device: torch.device | None, X: Any, y: ArrayLike | None, s: ArrayLike, order: int = 4
) -> tuple[float, Floats]:
    """Do what `residual_variance` does, on one of torch's devices; None is the CPU's kernels."""
    check_one_target(X, y)
    if is_source(X):
        if device is not None:
            check_takes(device, X)
        return _of_source(X, s, order)
    given = read_rows(X)
    n_rows, n_features = given.shape
    check_order(order, n_rows)
    outputs = _read_outputs(y, n_rows)
    kept = _read_kept(s, n_features)
    if device is not None:
        check_takes(device, given)
        check_fits(device, given, n_rows, order * outputs.shape[1])
    table = read_table(given)
    alphas, rows = chain_weights(order, n_rows), np.arange(n_rows)
    gradient = np.zeros(n_features)
    if isinstance(table, DenseTable):
        held = table if device is None else TableOnDevice(table, device)
        z, gradient[:] = dense_z(held, rows, kept, outputs, alphas)
    else:
        everywhere = float(np.sum(kept * table.shift**2)) / n_rows
        z, for_all, touched, part = sparse_z(table, rows, kept, outputs, alphas, everywhere)
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
        raise ValueError(_TOO_LARGE)


def _variance(outputs: Outputs) -> float:
    """Return the variance of outputs in their own units; inf where it is no number."""
    with np.errstate(over="ignore"):
        return float(outputs.variance * np.square(np.float64(outputs.largest)))


def _read_outputs(y: ArrayLike | None, n_rows: int) -> Floats:
    """Return the outputs, centred, shape (N, C)."""
    given = target_array(y)
    check_target(given)
    if given.dtype.kind not in "biuf":
        raise ValueError(
            f"y must hold numbers but holds {in_words(given.dtype)}; of two classes give one "
            "column of 0 and 1, of more one for each, or use differentiable_selection"
        )
    if given.ndim not in (1, 2) or len(given) != n_rows or not given.size:
        raise ValueError(
            f"y must have shape ({n_rows},) or ({n_rows}, C), as X has rows, but has {given.shape}"
        )
    outputs = given.reshape(n_rows, -1).astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
        outputs -= outputs.mean(axis=0)
        sum_of_squares = np.sum(outputs**2)
    if not np.isfinite(sum_of_squares):
        raise ValueError(_TOO_LARGE)
    return np.ascontiguousarray(outputs)


def _read_kept(s: ArrayLike, n_features: int) -> Floats:
    check_no_mask("s", s, "give a number for each column, as by s.filled(0.0)")
    try:
        if np.iscomplexobj(s):
            raise TypeError("they are complex")
        kept = np.asarray(s, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"s must hold numbers but does not ({error}); give them in 0..1"
        ) from error
    if kept.shape != (n_features,):
        raise ValueError(
            f"s must have shape ({n_features},), as X has columns, but has {kept.shape}"
        )
    if not ((kept >= 0) & (kept <= 1)).all():
        wrong = kept[~((kept >= 0) & (kept <= 1))][0]
        raise ValueError(f"s must be in 0..1 but holds {wrong}; it says how much is kept")
    return kept
