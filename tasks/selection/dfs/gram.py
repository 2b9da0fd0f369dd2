"""The estimate of a batch in its Gram form, on one of torch's devices, such as a GPU.

With X the batch, (n, D), in units of its columns, w = s / n, and lambda_q and r_q as in
`residual_variance.py`,

    A = triu(X diag(w) X'),    M = triu(sum_q lambda_q r_q'),    dz/ds = colsum(X o (M X)) / n,

where triu leaves the diagonal out. A cell of X takes part in 2 n products, where the kernels of the
CPU make of the order of k; but these are products of large matrices, which is what a GPU is for.
The table is brought to the device once; after that a step sends row numbers, s and the target
there, and z and its gradient back.

X is taken in tiles of columns, whose width depends on D alone. What they add to A is summed in
float64, as all but products with X is computed, so that float32 keeps its digits where D is large.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs.standardised import DenseTable
from chaffinch.tasks.selection.masked_loss.devices import usable_memory, whole_float32
from chaffinch.tasks.selection.models.threads import single_torch_thread
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch

_WIDEST, _STEP = 2048, 128  # of a tile; whole steps, so that no column is at a ragged end
_TILES = 4  # at most in memory: the last one, one gathered, the same padded, and one to spare
_CHAINS = 8  # of all orders: r and l, twice each while they are put together, lambda, what is added
_BYTES = np.dtype(np.float64).itemsize


class TableOnDevice:
    """A dense table, held on a device.

    Parameters
    ----------
    table : DenseTable
        N rows of D features.
    device : torch.device
        Where to hold it, and to compute; `check_fits` says whether it can.
    """

    def __init__(self, table: DenseTable, device: torch.device) -> None:
        import torch

        self.shape, self._kind = table.shape, table.values.dtype
        self._device = device
        self._values = self._tensor(table.values)
        self._width, n_tiles = _tiling(self.shape[1])
        columns = np.zeros((4, n_tiles * self._width), self._kind)
        columns[:3, : self.shape[1]] = table.origin, table.inverse, table.rest
        self._origin, self._inverse, self._rest, self._weight = self._tensor(columns)
        self._gradient = torch.empty(columns.shape[1], dtype=torch.float64, device=device)

    def z(
        self, rows: NDArray[np.int64], kept: NDArray[Any], outputs: Floats, alphas: Floats
    ) -> tuple[float, NDArray[Any]]:
        """Return z of a batch and its gradient, as `batches.dense_z` does but for rounding."""
        with single_torch_thread(), whole_float32():
            batch, y = self._tensor(rows), self._tensor(outputs)
            weight = (kept / len(rows)).astype(self._kind)
            self._weight[: len(weight)] = self._tensor(weight)
            z, powers, duals = _chains(self._gram(batch), y, alphas)
            self._write_gradient(batch, (duals @ powers.T).triu_(1).to(self._values.dtype))
            gradient = self._gradient[: len(weight)].cpu().numpy() / len(rows)
            return float(z), gradient.astype(self._kind)

    def _gram(self, batch: torch.Tensor) -> torch.Tensor:
        """Return A, shape (n, n), of float64."""
        import torch

        gram = torch.zeros((len(batch), len(batch)), dtype=torch.float64, device=self._device)
        for columns in self._tiles():
            tile = self._standardised(batch, columns)
            gram += (tile * self._weight[columns]) @ tile.T
        return gram.triu_(1)

    def _write_gradient(self, batch: torch.Tensor, matrix: torch.Tensor) -> None:
        """Write the column sums of X o (M X), with M (n, n) of the type of the table."""
        import torch

        for columns in self._tiles():
            tile = self._standardised(batch, columns)
            tile *= matrix @ tile
            self._gradient[columns] = tile.sum(dim=0, dtype=torch.float64)

    def _tiles(self) -> Iterator[slice]:
        for first in range(0, len(self._weight), self._width):
            yield slice(first, first + self._width)

    def _standardised(self, batch: torch.Tensor, columns: slice) -> torch.Tensor:
        """Return a tile of x~, shape (n, width); columns that are not there are 0."""
        import torch

        tile = self._values[:, columns].index_select(0, batch)
        tile = torch.nn.functional.pad(tile, (0, self._width - tile.shape[1]))
        tile -= self._origin[columns]
        tile *= self._inverse[columns]
        tile -= self._rest[columns]
        return tile

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.tensor(array, device=self._device)


def check_takes(device: torch.device, rows: Any) -> None:
    """Refuse what a device does not take: all but dense tables in memory.

    Parameters
    ----------
    device : torch.device
    rows : ndarray or sparse matrix, or source of rows

    Raises
    ------
    ValueError
        If so.
    """
    if isinstance(rows, np.ndarray):
        return
    what = "a sparse table" if scipy.sparse.issparse(rows) else "a source of rows"
    raise ValueError(
        f"{what} cannot be computed on {device}: it takes dense tables in memory; use device='cpu'"
    )


def check_fits(
    device: torch.device,
    rows: NDArray[Any],
    batch_rows: int,
    n_channels: int,
    memory: int | None = None,
) -> None:
    """Refuse a table that does not fit into a device's memory together with a batch's matrices.

    Parameters
    ----------
    device : torch.device
    rows : ndarray of float32 or float64, shape (N, D)
        The table; only its shape and its type are looked at.
    batch_rows : int
        n, of the largest batch. Two matrices of n x n are held, one of them of float64.
    n_channels : int
        Orders times outputs.
    memory : int, optional
        How many bytes may be used there, by default most of what is free.

    Raises
    ------
    ValueError
        If so.
    """
    (n_rows, n_features), size = rows.shape, rows.dtype.itemsize
    usable = usable_memory(device) if memory is None else memory
    width, n_tiles = _tiling(n_features)
    needed = rows.nbytes + 6 * _BYTES * width * n_tiles
    needed += (_BYTES + size) * batch_rows**2 + _TILES * size * batch_rows * width
    needed += _CHAINS * _BYTES * batch_rows * n_channels
    if needed > usable:
        raise ValueError(
            f"{n_rows} rows of {n_features} features, and the products of {batch_rows} rows with "
            f"each other, take {needed / 1e9:.4g} GB on {device} but it has {usable / 1e9:.4g} GB "
            "for them; give fewer rows or use device='cpu'"
        )


def _tiling(n_features: int) -> tuple[int, int]:
    """Return how wide a tile is, and how many there are."""
    n_tiles = -(-n_features // _WIDEST)
    return -(-n_features // (n_tiles * _STEP)) * _STEP, n_tiles


def _chains(
    gram: torch.Tensor, y: torch.Tensor, alphas: Floats
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return z, and r_q and lambda_q of all orders and outputs, each shape (n, k C).

    Parameters
    ----------
    gram : tensor of float64, shape (n, n)
        A.
    y : tensor of float64, shape (n, C)
    alphas : ndarray of float64, shape (k,)
    """
    import torch

    order, right, left = len(alphas), [y], [y]
    z, shares = torch.zeros((), dtype=y.dtype, device=y.device), np.zeros((order, order))
    for i, alpha in enumerate(alphas.tolist()):
        right.append(gram @ right[-1])
        left.append(gram.T @ left[-1])
        z += alpha * (y * right[-1]).sum()
        shares[i, : order - i] = alphas[i:]
    duals = torch.tensor(shares, device=y.device) @ torch.stack(left[:-1], 1)
    return z, torch.stack(right[:-1], 1).flatten(1), duals.flatten(1)
