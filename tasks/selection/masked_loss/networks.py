"""The masked loss of a network, exactly, without a prediction for each feature.

Masking a feature changes the first layer by a term of rank one (for a category, a row of a
table), so the first layer under the present mask is kept and only the rest is computed anew:
O(n width) a feature with one hidden layer, and a matrix product for each further one. A linear
model is a network without hidden layers.

Everything goes by blocks of rows of one fixed size, each feature by itself, and the blocks' sums
are added in their order: a loss is the same to the last bit for any number of threads.

Subtracting a contribution leaves a rounding error of that contribution's size. The first layer is
therefore computed anew after 64 removals, or once it is far smaller than it has been.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_models import DenseModel
from chaffinch.tasks.selection.masked_loss.first_layer import FirstLayer
from chaffinch.tasks.selection.masked_loss.outputs import OutputLoss, check_agreement
from chaffinch.tasks.selection.masked_loss.state import MaskState, check_finite
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_ROWS_AT_ONCE = 512
_BYTES_AT_ONCE = 1 << 21  # of first layers of several features; larger leaves the cache
_REMOVALS_BEFORE_ANEW, _SHRINKAGE_BEFORE_ANEW = 64, 64.0

_Write = Callable[[NDArray[np.int64], int, Floats], None]


class NetworkMaskedLoss(MaskState):
    """`MaskedLoss` of a network or a linear model, for a loss that is a mean over rows.

    Parameters
    ----------
    evaluator : MaskEvaluator
        Model, rows, loss and baseline.
    model : DenseModel
        The evaluator's model as layers.
    threads : int, at least 1
        How many blocks of rows are computed at once; changes no number.

    Raises
    ------
    NotCovered
        If the layers do not give the model's own predictions.
    """

    _present: Floats  # first layer under the present mask, shape (width, n)
    _largest: Floats  # of each unit since it was computed anew, shape (width,)
    _removals: int  # since then

    def __init__(self, evaluator: MaskEvaluator, model: DenseModel, *, threads: int = 1) -> None:
        super().__init__(evaluator.rows.X.shape[1])
        self._evaluator, self._model, self._threads = evaluator, model, threads
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
        self._start_anew()
        sample = np.maximum(self._present, self._floor)[np.newaxis]
        check_agreement(evaluator, self._output_loss, self._outputs(sample)[0])

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        return float(self._checked(self._losses_of(self._present), self._mask.sum())[0])

    def without_each(self) -> Floats:
        """Losses of masking one more feature each, shape (d,); inf where already masked."""
        losses = np.full(len(self._mask), np.inf)
        losses[self._mask] = self.loss
        features = np.flatnonzero(self._mask & self._first.used)

        def write(some: NDArray[np.int64], start: int, out: Floats) -> None:
            self._first.write_without(self._present, some, start, self._floor, out)

        losses[features] = self._checked(self._losses(features, write), self._mask.sum() - 1)
        return losses

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), whatever the present mask is."""
        rows = self._as_masks(masks)
        losses = np.empty(len(rows))
        for i, mask in enumerate(rows):
            losses[i] = self._checked(self._losses_of(self._first.present(mask)), mask.sum())[0]
        return losses

    def _after_removal(self, feature: int) -> None:
        changed = np.empty_like(self._present)[np.newaxis]
        self._first.write_without(self._present, np.array([feature]), 0, -np.inf, changed)
        self._present = changed[0]
        self._removals += 1
        size = np.abs(self._present).max(axis=1)
        has_shrunk = (self._largest > _SHRINKAGE_BEFORE_ANEW * size).any()
        if has_shrunk or self._removals == _REMOVALS_BEFORE_ANEW:
            self._start_anew()
        else:
            np.maximum(self._largest, size, out=self._largest)

    def _start_anew(self) -> None:
        """Compute the first layer from the mask alone."""
        self._present = self._first.present(self._mask)
        self._largest = np.abs(self._present).max(axis=1)
        self._removals = 0

    def _losses_of(self, present: Floats) -> Floats:
        """Return the loss of one first layer (width, n), shape (1,)."""

        def write(_: NDArray[np.int64], start: int, out: Floats) -> None:
            np.maximum(present[:, start : start + out.shape[2]], self._floor, out=out[0])

        return self._losses(np.zeros(1, dtype=np.int64), write)

    def _losses(self, features: NDArray[np.int64], write: _Write) -> Floats:
        """Return losses, shape (m,), of the m first layers that `write` gives block by block."""
        starts = range(0, self._n_rows, _ROWS_AT_ONCE)

        def sums_from(start: int) -> Floats:
            return self._block_sums(features, start, write)

        with single_thread():
            if self._threads == 1:
                sums = [sums_from(start) for start in starts]
            else:
                with ThreadPoolExecutor(self._threads) as pool:
                    sums = list(pool.map(sums_from, starts))
        return np.asarray(np.sum(sums, axis=0) / self._output_loss.weight.sum())

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
        """Return the last layer's outputs of first layers (m, width, rows), which it overwrites.

        The first layer comes with its relu already applied.
        """
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

    def _checked(self, losses: Floats, n_kept: int) -> Floats:
        check_finite(self._evaluator.loss.name, losses, n_kept, len(self._mask))
        return losses
