"""What a batch of rows says of z, and its gradient: the kernels, as Python calls them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs.dense_kernels import dense_sweeps
from chaffinch.tasks.selection.dfs.gram import TableOnDevice
from chaffinch.tasks.selection.dfs.sparse_kernels import gather, sparse_sweeps
from chaffinch.tasks.selection.dfs.standardised import DenseTable, SparseTable
from chaffinch.tasks.selection.vocabulary import Floats

_Index = NDArray[np.int64]


def dense_z(
    table: DenseTable | TableOnDevice,
    rows: _Index,
    kept: NDArray[Any],
    outputs: Floats,
    alphas: Floats,
) -> tuple[float, NDArray[Any]]:
    """Return z of a batch and its gradient, shape (D,), of the type of the table.

    Parameters
    ----------
    table : DenseTable or TableOnDevice
    rows : ndarray of int64, shape (n,)
        The batch, in the order that counts.
    kept : ndarray, shape (D,)
        s.
    outputs : ndarray of float64, shape (n, C)
        y of these rows, centred.
    alphas : ndarray of float64, shape (k,)
        See `chain_weights`.
    """
    if isinstance(table, TableOnDevice):
        return table.z(rows, kept, outputs, alphas)
    gradient = np.empty(table.shape[1], table.values.dtype)
    weight = (kept / len(rows)).astype(table.values.dtype)
    z = dense_sweeps(
        table.values, rows, table.origin, table.rest, table.inverse,
        weight, outputs, alphas, gradient,
    )  # fmt: skip
    return z, gradient


def sparse_z(
    table: SparseTable,
    rows: _Index,
    kept: NDArray[Any],
    outputs: Floats,
    alphas: Floats,
    everywhere: float,
    number: NDArray[np.int32] | None = None,
) -> tuple[float, float, NDArray[np.int32], Floats]:
    """Return z of a batch, and its gradient in two parts.

    Parameters
    ----------
    table, rows, kept, outputs, alphas
        See `dense_z`.
    everywhere : float
        sum_d s_d shift_d^2 / n, over all columns.
    number : ndarray of int32, shape (D,), optional
        All -1, before and after: room that is used again in each batch.

    Returns
    -------
    z : float
    for_all : float
        Times shift_d^2, what every column's gradient has.
    touched : ndarray of int32, shape (u,)
        The columns with a value in the batch.
    gradient : ndarray of float64, shape (u,)
        What theirs has beside it.
    """
    if number is None:
        number = np.full(table.shape[1], -1, np.int32)
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
