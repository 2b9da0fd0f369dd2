"""The estimate z of a batch of rows, and its gradient: Python interface of the kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.dfs.kernels import dense_sweeps, gather, sparse_sweeps
from chaffinch.tasks.selection.dfs.tables import DenseTable, SparseTable

_Index = NDArray[np.int64]


def dense_z(
    table: DenseTable,
    rows: _Index,
    kept: NDArray[Any],
    outputs: Floats,
    alphas: Floats,
) -> tuple[float, NDArray[Any]]:
    """Return z of a batch and its gradient, shape (D,), of the type of the table.

    Parameters
    ----------
    table : DenseTable
    rows : ndarray of int64, shape (n,)
        The batch, in the order that counts.
    kept : ndarray, shape (D,)
        s.
    outputs : ndarray of float64, shape (n, C)
        y of these rows, centred.
    alphas : ndarray of float64, shape (k,)
        See `chain_weights`.
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
        The remaining part of their gradient.
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


# The rows of each step: blocks in random order, shuffled for every round, and rows within them.
#
# A table in memory is one block, so that all of its rows are shuffled for each round.

FEWEST_ROWS = 1_000

Batch = tuple[int, NDArray[np.int64]]  # a block, and rows of it in the order that counts


@dataclass(frozen=True)
class Draws:
    """All batches of a descent, one step after the other.

    Attributes
    ----------
    block_rows : tuple of int
        Rows of each block.
    batch_rows : int
        Rows of a batch, at least; those of a block that are over wait for the next round.
    blocks_per_step : int
        A step takes a batch of as many blocks; blocks that are over wait for the next round.
    seed : int
        Draws the order.
    """

    block_rows: tuple[int, ...]
    batch_rows: int
    blocks_per_step: int
    seed: int

    def steps(self) -> Iterator[list[Batch]]:
        """Yield, without end, the batches of each step; every block serves some steps in turn."""
        random, at_a_time = np.random.default_rng(self.seed), self.blocks_per_step
        while True:
            order = random.permutation(len(self.block_rows)).tolist()
            for first in range(0, len(order) - at_a_time + 1, at_a_time):
                shuffled = [
                    (block, random.permutation(self.block_rows[block]))
                    for block in order[first : first + at_a_time]
                ]
                counts = [len(rows) // self.batch_rows for _, rows in shuffled]
                for step in range(min(counts)):
                    yield [
                        (block, _share(rows, step, len(rows) // count))
                        for (block, rows), count in zip(shuffled, counts, strict=True)
                    ]


def _share(rows: NDArray[np.int64], step: int, size: int) -> NDArray[np.int64]:
    return rows[step * size : (step + 1) * size]


def batch_size(n_rows: int, batch_rows: int | None = None) -> int:
    """Return how many rows a batch has at least.

    Parameters
    ----------
    n_rows : int
        Of the smallest block.
    batch_rows : int, optional
        What is asked for.

    Raises
    ------
    ValueError
        If fewer than 1,000 are asked for, and not all there are.
    """
    fewest = min(n_rows, FEWEST_ROWS)
    if batch_rows is None:
        return fewest
    if not isinstance(batch_rows, Integral) or not fewest <= int(batch_rows) <= n_rows:
        raise ValueError(
            f"batch_rows must be in {fewest}..{n_rows} but is {batch_rows}: of fewer rows the "
            "estimate varies too much, and more there are not"
        )
    return int(batch_rows)


def check_blocks(block_rows: tuple[int, ...], blocks_per_step: int, *, in_memory: bool) -> None:
    """Refuse blocks that are too small, and steps of more blocks than there are.

    Raises
    ------
    ValueError
        If so.
    """
    smallest = min(block_rows)
    if len(block_rows) > 1 and smallest < FEWEST_ROWS:
        raise ValueError(
            f"blocks must have {FEWEST_ROWS} rows at least, as the estimate of fewer varies too "
            f"much, but one has {smallest}; make them larger"
        )
    if isinstance(blocks_per_step, bool) or not isinstance(blocks_per_step, Integral):
        raise ValueError(f"blocks_per_step must be a whole number but is {blocks_per_step!r}")
    n_blocks = len(block_rows)
    if not 1 <= blocks_per_step <= n_blocks:
        remedy = "leave it out" if n_blocks == 1 or blocks_per_step < 1 else "take fewer"
        if n_blocks < blocks_per_step <= sum(block_rows) // FEWEST_ROWS:
            remedy += ", or make blocks smaller"
        raise ValueError(
            f"blocks_per_step must be in 1..{n_blocks}, as there are blocks, but is "
            f"{blocks_per_step}; {'a table in memory is one block' if in_memory else remedy}"
        )
