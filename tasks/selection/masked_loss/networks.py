"""The masked loss of a network, exactly, without a prediction for each feature.

Masking a feature changes the first layer by a term of rank one (for a category, a row of a
table), so the first layer under the present mask is kept and only the rest is recomputed:
O(n width) a feature with one hidden layer, and a matrix product for each further layer. A linear
model is a network without hidden layers.

Everything goes by blocks of rows of a fixed size, each feature by itself, and `row_sums` adds the
blocks' sums: a loss is the same to the last bit for any number of threads, and of those who share
the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_layers import (
    FirstLayer,
    OutputLoss,
    check_agreement,
)
from chaffinch.tasks.selection.masked_loss.rounding import of_rows
from chaffinch.tasks.selection.masked_loss.row_blocks import Question, RowSums
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.runtime import single_thread

_ROWS_AT_ONCE = 512
_BYTES_AT_ONCE = 1 << 21  # of first layers of several features; larger leaves the cache

_ROUNDINGS = 8  # of a term's size, in a sum of some hundreds and in the subtraction

_Write = Callable[[NDArray[np.int64], int, Floats], None]


def _roundings(
    model: DenseModel, first: FirstLayer, loss: str, weight: Floats, rows_in_block: int
) -> Floats:
    """Return what a first layer's rounding may do to the losses, by block, (n_blocks, d + 1)."""
    # for masking each feature; last for any other mask, whose first layer is recomputed
    reach = np.eye(len(model.biases[0]))
    for of_layer in model.weights[1:]:
        reach = reach @ np.abs(of_layer)
    reach *= _ROUNDINGS * np.finfo(np.float64).eps * abs(model.scale)
    starts = range(0, len(weight), rows_in_block)
    blocks = [slice(start, start + rows_in_block) for start in starts]
    sums = [of_rows(loss, first.greatest_changes(rows, reach)) @ weight[rows] for rows in blocks]
    return np.pad(np.array(sums), ((0, 0), (0, 1)))


_REMOVALS_BEFORE_REFRESH, _SHRINKAGE_BEFORE_REFRESH = 64, 64.0
# Of one unit of one row. A unit near 0 by chance must not count.
_SHRINKAGE_OF_A_ROW = 2.0**20


class Drift:
    """Sizes of the units of every block, shape (n_blocks, width), since they were computed.

    Subtracting a contribution leaves a rounding error of that contribution's size. A block of rows
    is therefore recomputed after 64 removals, once it is far smaller than it has been, or once a
    row of it has shrunk to almost nothing while others have not.
    """

    def __init__(self, sizes: Floats) -> None:
        self._largest = sizes.copy()
        self._removals = 0

    def due(self, sizes: Floats, has_shrunken_row: Mask) -> Mask:
        """Count a removal that led to `sizes`; return the blocks to recompute, (n_blocks,)."""
        # has_shrunken_row: a unit of some row of the block by more than `_SHRINKAGE_OF_A_ROW`
        self._removals += 1
        has_shrunk = np.any(self._largest > _SHRINKAGE_BEFORE_REFRESH * sizes, axis=1)
        is_due: Mask = has_shrunk | has_shrunken_row | (self._removals == _REMOVALS_BEFORE_REFRESH)
        self._removals %= _REMOVALS_BEFORE_REFRESH
        np.maximum(self._largest, sizes, out=self._largest)
        self._largest[is_due] = 0
        return is_due

    def renewed(self, sizes: Floats) -> None:
        np.maximum(self._largest, sizes, out=self._largest)


class NetworkMaskedLoss(RowSums):
    """`MaskedLoss` of a network or a linear model, for a loss that is a mean over rows."""

    _present: Floats  # first layer under the present mask, shape (width, n)
    _greatest: Floats  # its largest sizes since each block was recomputed
    rows_in_block = _ROWS_AT_ONCE

    def __init__(self, evaluator: MaskEvaluator, model: DenseModel, *, threads: int = 1) -> None:
        self._model, self._threads = model, threads
        self._starts = np.arange(0, len(evaluator.rows), _ROWS_AT_ONCE)
        self._n_rows = len(evaluator.rows)
        self._layers = [
            (np.ascontiguousarray(w.T), b[:, np.newaxis])
            for w, b in zip(model.weights[1:], model.biases[1:], strict=True)
        ]
        self._floor = 0.0 if self._layers and model.activation == "relu" else -np.inf
        self._output_loss = OutputLoss(
            model, evaluator.rows, evaluator.model.schema, evaluator.loss
        )
        self._first = FirstLayer(model, evaluator.rows.X, evaluator.baseline)
        weight = float(self._output_loss.weight.sum())
        super().__init__(evaluator.loss.name, self._first.used, weight)
        self._rebuild()
        sample = np.maximum(self._present, self._floor)[np.newaxis]
        check_agreement(evaluator, self._output_loss, self._outputs(sample)[0])

    def block_sums(self, question: Question, masks: Mask | None = None) -> Floats:
        if question == "coarseness":
            weight = self._output_loss.weight
            return _roundings(self._model, self._first, self.name, weight, _ROWS_AT_ONCE)
        if masks is not None:
            return np.hstack([self._sums_of(self._under(mask)) for mask in masks])
        self._make_whole()
        present = self._sums_of(self._present)
        if question == "present":
            return present

        def write(some: NDArray[np.int64], start: int, out: Floats) -> None:
            self._first.write_without(self._present, some, start, self._floor, out)

        features = np.flatnonzero(self._mask & self.relevant)
        return np.hstack((self._sums(features, write), present))

    def _after_removal(self, feature: int) -> None:
        changed = np.empty_like(self._present)[np.newaxis]
        self._first.write_without(self._present, np.array([feature]), 0, -np.inf, changed)
        self._present = changed[0]
        size = np.abs(self._present)
        np.maximum(self._greatest, size, out=self._greatest)
        shrunken = (self._greatest > _SHRINKAGE_OF_A_ROW * size).any(axis=0)
        is_due = self._drift.due(self._sizes(), np.logical_or.reduceat(shrunken, self._starts))
        for start in self._starts[is_due]:
            rows = slice(start, start + _ROWS_AT_ONCE)
            self._present[:, rows] = self._first.present(self._mask, rows)
            self._greatest[:, rows] = np.abs(self._present[:, rows])
        if is_due.any():
            self._drift.renewed(self._sizes())

    def _rebuild(self) -> None:
        self._present = self._under(self._mask)
        self._greatest = np.abs(self._present)
        self._drift = Drift(self._sizes())

    def _under(self, mask: Mask) -> Floats:
        """Return the first layer under a mask, made block by block, shape (width, n)."""
        blocks = [slice(start, start + _ROWS_AT_ONCE) for start in self._starts]
        return np.hstack([self._first.present(mask, rows) for rows in blocks])

    def _sizes(self) -> Floats:
        """Return the largest pre-activation of each block's units, shape (n_blocks, width)."""
        return np.maximum.reduceat(np.abs(self._present), self._starts, axis=1).T

    def _sums_of(self, present: Floats) -> Floats:
        """Return every block's sums for a first layer (width, n), shape (n_blocks, 1)."""

        def write(_: NDArray[np.int64], start: int, out: Floats) -> None:
            np.maximum(present[:, start : start + out.shape[2]], self._floor, out=out[0])

        return self._sums(np.zeros(1, dtype=np.int64), write)

    def _sums(self, features: NDArray[np.int64], write: _Write) -> Floats:
        """Return every block's sums for the m first layers that `write` gives, (n_blocks, m)."""

        def sums_from(start: int) -> Floats:
            return self._block_sums(features, start, write)

        starts = self._starts.tolist()
        with single_thread():
            if self._threads == 1:
                return np.array([sums_from(start) for start in starts])
            with ThreadPoolExecutor(self._threads) as pool:
                return np.array(list(pool.map(sums_from, starts)))

    def _block_sums(self, features: NDArray[np.int64], start: int, write: _Write) -> Floats:
        """Return the losses' sums over the block of rows from `start`, shape (m,)."""
        rows = slice(start, min(start + _ROWS_AT_ONCE, self._n_rows))
        n_rows, width = rows.stop - start, len(self._present)
        at_once = max(1, _BYTES_AT_ONCE // (8 * n_rows * width))
        layer = np.empty((min(at_once, len(features)), width, n_rows))
        sums = np.empty(len(features))
        for i in range(0, len(features), at_once):
            some = features[i : i + at_once]
            out = layer[: len(some)]
            write(some, start, out)
            sums[i : i + at_once] = self._output_loss.sums(self._outputs(out), rows)
        return sums

    def _outputs(self, layer: Floats) -> Floats:
        """Return the outputs of first layers (m, width, rows) after relu; overwrites them."""
        for depth, (weight, bias) in enumerate(self._layers):
            if depth or self._model.activation != "relu":
                self._activate(layer)
            layer = np.matmul(weight, layer)
            layer += bias
        return layer

    def _activate(self, layer: Floats) -> None:
        if self._model.activation == "relu":
            np.maximum(layer, 0, out=layer)
        elif self._model.activation == "tanh":
            np.tanh(layer, out=layer)
        elif self._model.activation == "logistic":
            layer *= 0.5
            np.tanh(layer, out=layer)
            layer += 1
            layer *= 0.5
