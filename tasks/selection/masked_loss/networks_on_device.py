"""The masked loss of a network on one of torch's devices, such as a GPU.

The mathematics is that of `networks`, in float64: values, weights and the first layer under the
present mask are kept on the device, and only sums over blocks of rows come back.

Bits differ between devices by rounding. On one of them a loss is the same to the last bit however
many first layers are computed together, and thus whatever memory is free: element by element
nothing depends on what else is in a batch, sums have an order of their own, and a matrix product
is always that of one first layer and one *run*, as many blocks as the model's widths allow.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.coarseness import of_network
from chaffinch.tasks.selection.masked_loss.dense_models import DenseModel, read_dense
from chaffinch.tasks.selection.masked_loss.devices import usable_memory
from chaffinch.tasks.selection.masked_loss.drift import SHRINKAGE_OF_A_ROW, Drift
from chaffinch.tasks.selection.masked_loss.first_layer import FirstLayer
from chaffinch.tasks.selection.masked_loss.losses_on_device import LossOnDevice
from chaffinch.tasks.selection.masked_loss.networks import NetworkMaskedLoss
from chaffinch.tasks.selection.masked_loss.not_covered import NotCovered
from chaffinch.tasks.selection.masked_loss.outputs import OutputLoss, check_agreement
from chaffinch.tasks.selection.masked_loss.row_sums import Question, RowSums
from chaffinch.tasks.selection.models.threads import single_torch_thread
from chaffinch.tasks.selection.vocabulary import Floats, Mask, MaskedLoss, Predictor, Rows

if TYPE_CHECKING:
    import torch

logger = logging.getLogger(__name__)

_BYTES_OF_A_RUN = 1 << 25  # of the widest layer
_MOST_BYTES_AT_ONCE = 1 << 30  # of the layers of several features; the rest is left to others
_BYTES = np.dtype(np.float64).itemsize

_Write = Callable[[int, slice, "torch.Tensor"], None]


def network_on_device(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, device: torch.device
) -> MaskedLoss:
    """Return the masked loss of a network or a linear model on a device; see `masked_loss`.

    Raises
    ------
    NotCovered
        If the model is neither, prepares its columns in a way that is not known here, or the
        loss is no mean over rows.
    ValueError
        If the rows do not fit into the device's memory.
    """
    if not loss.is_mean_over_rows:
        raise NotCovered(f"{loss.name} is no mean over rows")
    evaluator = MaskEvaluator(model, rows, loss, baseline)
    engine = NetworkMaskedLossOnDevice(evaluator, read_dense(model), device)
    logger.info("masked losses of the %s model on %s", model.kind, device)
    return engine


class NetworkMaskedLossOnDevice(RowSums):
    """`MaskedLoss` of a network or a linear model, for a loss that is a mean over rows.

    Parameters
    ----------
    evaluator : MaskEvaluator
        Model, rows, loss and baseline.
    model : DenseModel
        The evaluator's model as layers.
    device : torch.device
        Where to compute.
    memory : int, optional
        How many bytes may be used there, by default most of what is free; changes no number.

    Attributes
    ----------
    layers_at_once : int
        How many first layers of a run are computed together.

    Raises
    ------
    NotCovered
        If the layers do not give the model's own predictions.
    ValueError
        If the rows do not fit into the memory.
    """

    rows_in_block = NetworkMaskedLoss.rows_in_block

    def __init__(
        self,
        evaluator: MaskEvaluator,
        model: DenseModel,
        device: torch.device,
        *,
        memory: int | None = None,
    ) -> None:
        rows = evaluator.rows
        output_loss = OutputLoss(model, rows, evaluator.model.schema, evaluator.loss)
        first = FirstLayer(model, rows.X, evaluator.baseline)
        super().__init__(evaluator.loss.name, first.used, float(output_loss.weight.sum()))
        self._model, self._device = model, device
        self._widths = [len(bias) for bias in model.biases]
        self._divide(len(rows))
        self._coarseness = of_network(
            model, first, self.name, output_loss.weight, self.rows_in_block
        )
        usable = usable_memory(device) if memory is None else memory
        self.layers_at_once = self._layers_within(usable, len(rows), first)
        with single_torch_thread():
            self._send(first)
            self._loss_of = LossOnDevice(model, rows, evaluator.loss, output_loss, self._by_run)
            self._present = self._empty(self._n_runs, self._widths[0], self._rows_in_run)
            self._greatest = self._empty(*self._present.shape)
            self._start_anew()
            layer = self._empty(1, *self._present.shape[1:])
            self._write_present(0, slice(0, 1), layer)
            sample = self._outputs(layer)[0, :, : len(rows)].cpu().numpy()
        check_agreement(evaluator, output_loss, sample)

    def block_sums(self, question: Question, masks: Mask | None = None) -> Floats:
        """See `RowSums.block_sums`."""
        if question == "coarseness":
            return self._coarseness
        with single_torch_thread():
            if masks is not None:
                return self._sums(len(masks), partial(self._write_under, masks))
            self._make_whole()
            present = self._sums(1, self._write_present)
            if question == "present":
                return present
            features = np.flatnonzero(self._mask & self.relevant)
            without = self._sums(len(features), partial(self._change, features))
        return np.hstack((without, present))

    def _divide(self, n_rows: int) -> None:
        """Divide the rows into runs of equally many blocks; the last row fills up the last one."""
        n_blocks = -(-n_rows // self.rows_in_block)
        most = max(1, _BYTES_OF_A_RUN // (_BYTES * self.rows_in_block * max(self._widths)))
        self._n_blocks, self._n_runs = n_blocks, -(-n_blocks // most)
        self._blocks_in_run = -(-n_blocks // self._n_runs)
        self._rows_in_run = self._blocks_in_run * self.rows_in_block

    def _layers_within(self, memory: int, n_rows: int, first: FirstLayer) -> int:
        """Return how many first layers fit beside what is kept; ValueError if none does."""
        widths, d = self._widths, len(self._mask)
        column = _BYTES * self._rows_in_run
        kept = first.table.nbytes + first.at_baseline.nbytes
        kept += sum(weight.nbytes for weight in self._model.weights[1:])
        kept += column * self._n_runs * (d + 2 * widths[0] + 3)  # values, layers, what a loss needs
        kept += column * 2 * (widths[0] + 1)  # to make one layer, however many there are
        pairs = zip(widths, [*widths[1:], widths[-1]], strict=True)
        of_each = column * (widths[0] + max(map(sum, pairs)) + widths[-1] + 4)
        if kept + of_each > memory:
            raise ValueError(
                f"{n_rows} rows of {d} features and {widths[0]} units take "
                f"{(kept + of_each) / 1e9:.4g} GB on {self._device} but it has "
                f"{memory / 1e9:.4g} GB for them; give fewer rows or use device='cpu'"
            )
        return max(1, min(memory - kept, _MOST_BYTES_AT_ONCE) // of_each)

    def _send(self, first: FirstLayer) -> None:
        """Bring values and weights to the device."""
        d = len(self._mask)
        self._tabulated, self._first_row = first.tabulated, first.first_row
        self._weights = self._tensor(first.table[:d])
        self._table = self._tensor(first.table[d:].T)
        self._bias, self._at_baseline = self._tensor(first.bias), self._tensor(first.at_baseline)
        self._value_at_baseline = self._tensor(first.value_at_baseline)
        self._values = self._by_run(first.values)
        self._layers = [
            (self._tensor(w.T), self._tensor(b)[:, None])
            for w, b in zip(self._model.weights[1:], self._model.biases[1:], strict=True)
        ]

    def _tensor(self, array: NDArray[Any]) -> torch.Tensor:
        import torch

        return torch.tensor(np.ascontiguousarray(array), device=self._device)

    def _empty(self, *shape: int) -> torch.Tensor:
        import torch

        return torch.empty(shape, dtype=torch.float64, device=self._device)

    def _by_run(self, array: NDArray[Any]) -> torch.Tensor:
        """Return an array (..., n) on the device as (n_runs, ..., rows), the last row repeated."""
        import torch

        places = np.arange(self._n_runs * self._rows_in_run).reshape(self._n_runs, -1)
        shape = (self._n_runs, *array.shape[:-1], self._rows_in_run)
        runs = torch.empty(shape, dtype=self._tensor(array[..., :0]).dtype, device=self._device)
        for run, rows in zip(runs, places, strict=True):
            run.copy_(torch.from_numpy(array.take(rows, axis=-1, mode="clip")))
        return runs

    def _after_removal(self, feature: int) -> None:
        with single_torch_thread():
            changed = self._empty(1, *self._present.shape[1:])
            for run in range(self._n_runs):
                self._change(np.array([feature]), run, slice(1), changed)
                self._present[run] = changed[0]
            shrunken = np.concatenate([self._shrunken(run) for run in range(self._n_runs)])
            is_due = self._drift.due(self._sizes(), shrunken).reshape(self._n_runs, -1)
            for run in np.flatnonzero(is_due.any(axis=1)).tolist():
                rows = self._tensor(is_due[run].repeat(self.rows_in_block))
                anew = self._under(self._mask, run)
                self._present[run] = anew.where(rows, self._present[run])
                self._greatest[run] = anew.abs().where(rows, self._greatest[run])
            if is_due.any():
                self._drift.renewed(self._sizes())

    def _start_anew(self) -> None:
        with single_torch_thread():
            for run in range(self._n_runs):
                self._present[run] = self._under(self._mask, run)
                self._greatest[run] = self._present[run].abs()
            self._drift = Drift(self._sizes())

    def _shrunken(self, run: int) -> Mask:
        """Return which blocks of a run have a row that has shrunk, and take note of its sizes."""
        size, greatest = self._present[run].abs(), self._greatest[run]
        greatest.copy_(greatest.maximum(size))
        by_block = (greatest > SHRINKAGE_OF_A_ROW * size).any(dim=0).view(self._blocks_in_run, -1)
        return np.asarray(by_block.any(dim=1).cpu().numpy())

    def _sizes(self) -> Floats:
        """Return the largest pre-activation of each block's units, shape (n_blocks, width)."""
        by_block = (self._widths[0], self._blocks_in_run, self.rows_in_block)
        sizes = [run.abs().view(by_block).amax(dim=2).T.cpu().numpy() for run in self._present]
        return np.concatenate(sizes)

    def _sums(self, n_layers: int, write: _Write) -> Floats:
        """Return every block's sums for the first layers that `write` gives, (n_blocks, m)."""
        sums = self._empty(n_layers, self._n_runs, self._blocks_in_run)
        for run in range(self._n_runs):
            for start in range(0, n_layers, self.layers_at_once):
                which = slice(start, min(start + self.layers_at_once, n_layers))
                layer = self._empty(which.stop - start, *self._present.shape[1:])
                write(run, which, layer)
                outputs = self._outputs(layer)
                sums[which, run] = self._loss_of.sums(outputs, run, self.rows_in_block)
        of_blocks = sums.flatten(1)[:, : self._n_blocks]
        return np.asarray(of_blocks.cpu().numpy().T, dtype=np.float64)

    def _write_present(self, run: int, which: slice, out: torch.Tensor) -> None:
        out[:] = self._present[run]

    def _write_under(self, masks: Mask, run: int, which: slice, out: torch.Tensor) -> None:
        for mask, layer in zip(masks[which], out, strict=True):
            layer[:] = self._under(mask, run)

    def _under(self, mask: Mask, run: int) -> torch.Tensor:
        """Return the first layer of a run under a mask, shape (width, rows)."""
        kept = self._tensor(mask)
        total = (self._weights * kept[:, None]).T @ self._values[run]
        total += (self._bias + self._at_baseline[~kept].sum(dim=0))[:, None]
        for feature in np.flatnonzero(mask & self._tabulated):
            total += self._contribution(feature, run)
        return total

    def _change(
        self, features: NDArray[np.int64], run: int, which: slice, out: torch.Tensor
    ) -> None:
        """Write a run's first layer without each of some features, shape (m, width, rows)."""
        import torch

        features = features[which]
        present, index = self._present[run], self._tensor(features)
        changes = self._values[run, index] - self._value_at_baseline[index, None]
        torch.mul(changes[:, None], self._weights[index, :, None], out=out)
        torch.sub(present, out, out=out)
        for place in np.flatnonzero(self._tabulated[features]):
            feature = features[place]
            change = self._contribution(feature, run).sub_(self._at_baseline[feature, :, None])
            torch.sub(present, change, out=out[place])

    def _contribution(self, feature: np.int64, run: int) -> torch.Tensor:
        """Return what a tabulated feature contributes to a run, shape (width, rows)."""
        first_row = int(self._first_row[feature]) - len(self._mask)
        return self._table[:, self._values[run, feature].long() + first_row]

    def _outputs(self, layer: torch.Tensor) -> torch.Tensor:
        """Return the last layer's outputs of first layers (m, width, rows), which it overwrites."""
        import torch

        for weight, bias in self._layers:
            self._activate(layer)
            outputs = self._empty(len(layer), len(weight), self._rows_in_run)
            for of_one, output in zip(layer, outputs, strict=True):
                torch.mm(weight, of_one, out=output)
            layer = outputs.add_(bias)
        return layer

    def _activate(self, layer: torch.Tensor) -> None:
        if self._model.activation == "relu":
            layer.relu_()
        elif self._model.activation == "tanh":
            layer.tanh_()
        elif self._model.activation == "logistic":
            layer.mul_(0.5).tanh_().add_(1).mul_(0.5)
