"""The estimate over all rows of a source at once: one chain through every block, none left out.

A sweep forwards takes the blocks one after the other, one backwards in the opposite order. What a
block needs of those before it, or after it, are sums over their rows: k C numbers for each column.
So a block is read twice, and one at a time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.dfs import dense_kernels, sparse_kernels
from chaffinch.tasks.selection.dfs.coefficients import chain_weights
from chaffinch.tasks.selection.dfs.learning import Learned
from chaffinch.tasks.selection.dfs.scaling import DenseScale, SparseScale
from chaffinch.tasks.selection.dfs.sources import RowSource, read_rows
from chaffinch.tasks.selection.vocabulary import Floats


def over_all_rows(
    source: RowSource, learned: Learned, kept: Floats, order: int
) -> tuple[float, Floats]:
    """Return z, the share of the target's variance that is explained, and its gradient.

    Parameters
    ----------
    source : RowSource
        N rows, more than `order`.
    learned : Learned
        What is known of them.
    kept : ndarray of float64, shape (D,)
        s.
    order : int in 1..8
        k.

    Returns
    -------
    z : float
    gradient : ndarray of float64, shape (D,)
    """
    alphas, scale = chain_weights(order, source.shape[0]), learned.scale
    n_outputs = len(learned.outputs.mean)
    chain: _Dense | _Sparse = (
        _Dense(scale, kept, source.shape[0], alphas, n_outputs)
        if isinstance(scale, DenseScale)
        else _Sparse(scale, learned.top, kept, source.shape[0], alphas, n_outputs)
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
        self, scale: DenseScale, kept: Floats, n_rows: int, alphas: Floats, n_outputs: int
    ) -> None:
        self._n_rows, self._alphas, self._n_features = n_rows, alphas, len(kept)
        weight = (kept / n_rows).astype(scale.kind)
        self._room = dense_kernels.room_for(len(kept), n_outputs, len(alphas), weight)

    def forwards(self, table: Any, y: Floats) -> tuple[Any, Any]:
        """Return what `backwards` needs of a block beside its rows."""
        left: tuple[Any, Any] = dense_kernels.dense_forwards(*self._operands(table, y))
        return left

    def turn(self) -> None:
        """Forget the sums: the way back begins."""
        dense_kernels.clear_sums(self._room, self._n_features)

    def backwards(self, table: Any, y: Floats, grams: Any, duals: Any) -> float:
        """Return what a block adds to z."""
        return float(dense_kernels.dense_backwards(*self._operands(table, y, grams, duals)))

    def gradient(self) -> Floats:
        """Return the gradient, shape (D,)."""
        found = np.empty(self._n_features)
        dense_kernels.read_gradient(self._room, self._n_rows, found)
        return found

    def _operands(self, table: Any, y: Floats, *more: Any) -> tuple[Any, ...]:
        of_table = table.values, np.arange(len(y)), table.origin, table.rest, table.inverse
        return *of_table, y, self._alphas, self._room, *more


class _Sparse:
    """A chain through blocks of sparse rows."""

    def __init__(
        self,
        scale: SparseScale,
        top: float,
        kept: Floats,
        n_rows: int,
        alphas: Floats,
        n_outputs: int,
    ) -> None:
        self._n_rows, self._alphas = n_rows, alphas
        self._n_channels = n_outputs * len(alphas)
        self._weight, self._shift = kept / n_rows, scale.shift / top
        self._everywhere = float(np.sum(self._weight * self._shift**2))
        self._sums = np.zeros((len(kept), self._n_channels))
        self._totals = np.zeros((3, self._n_channels))
        self._slopes, self._for_all = np.zeros(len(kept)), 0.0

    def forwards(self, table: Any, y: Floats) -> tuple[Any, Any]:
        """See `_Dense`."""
        off, duals = np.zeros(len(y)), np.zeros((len(y), self._n_channels))
        sparse_kernels.sparse_forwards(*self._operands(table, y, off, duals))
        return off, duals

    def turn(self) -> None:
        """See `_Dense`; the sum of lambda over all rows stays, as the way back takes it down."""
        self._sums[:], self._totals[:2] = 0.0, 0.0

    def backwards(self, table: Any, y: Floats, off: Any, duals: Any) -> float:
        """See `_Dense`."""
        operands = self._operands(table, y, off, duals, self._slopes)
        z, for_all = sparse_kernels.sparse_backwards(*operands)
        self._for_all += for_all
        return float(z)

    def gradient(self) -> Floats:
        """See `_Dense`."""
        found: Floats = (self._slopes + self._shift**2 * self._for_all) / self._n_rows
        return found

    def _operands(self, table: Any, y: Floats, *more: Any) -> tuple[Any, ...]:
        rows = table.starts.astype(np.int64), table.indices.astype(np.int32), table.values
        known = self._weight, self._shift, self._everywhere
        return *rows, *known, y, self._alphas, self._sums, self._totals, *more
