"""The paper's network, trained on several masked copies of a mini-batch at a time.

Hidden layers are linear, ReLU, batch normalisation, in this order; the last layer is linear. The
rows of a batch lie next to each other mask by mask, (rows, masks, units), so that each mask has
batch statistics of its own without a copy: the loss of a mask does not depend on the others.
Training is in float32 on one thread; a prediction folds batch normalisation into the next layer and
is computed in float64.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.encoding import Encoding
from chaffinch.tasks.selection.models.mlp import adam
from chaffinch.tasks.selection.pefs.distribution import log_losses, squared_losses

if TYPE_CHECKING:
    import torch


# Inputs of which most are the commonest value of their column, as counts of words are. Under a mask
# the first layer of a row is that of a row of commonest values, which all rows of the mask share,
# plus what the few other values of the row add: it costs what these cost, and not the width.
#
# As measured on one thread with 200 units: at 3,289 columns of which 1.5 % differ the first layer
# takes .3 of its time, and with fewer columns the rest of an iteration outweighs it.
LEAST_WIDTH, MOST_DENSE = 512, 0.05
_COLUMNS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class SparseInputs:
    """What the inputs of some rows differ in from the commonest value of their column.

    Row i has other values in columns[starts[i] : starts[i + 1]]: the commonest plus `excess`.
    """

    common: torch.Tensor  # (width,), float32
    starts: torch.Tensor  # (n + 1,), int64
    columns: torch.Tensor  # (k,), int64
    excess: torch.Tensor  # (k,), float32

    @classmethod
    def of(cls, inputs: NDArray[np.float32]) -> SparseInputs | None:
        """Return inputs (n, width) in this form, or None where it does not pay."""
        import torch

        n, width = inputs.shape
        if width < LEAST_WIDTH:
            return None
        common = np.empty(width, dtype=np.float32)
        for start in range(0, width, _COLUMNS_AT_ONCE):
            block = slice(start, start + _COLUMNS_AT_ONCE)
            # a value that most rows have is the median of them all
            common[block] = np.partition(inputs[:, block], n // 2, axis=0)[n // 2]
        n_of_each = np.array([np.count_nonzero(row != common) for row in inputs])
        if n_of_each.sum() > MOST_DENSE * inputs.size:
            return None
        columns = np.concatenate([np.flatnonzero(row != common) for row in inputs])
        rows = np.repeat(np.arange(n), n_of_each)
        return cls(
            torch.from_numpy(common),
            torch.from_numpy(np.concatenate([[0], np.cumsum(n_of_each)])),
            torch.from_numpy(columns),
            torch.from_numpy(inputs[rows, columns] - common[columns]),
        )

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: torch.Tensor) -> SparseInputs:
        """Return some rows, by their numbers."""
        import torch

        n_of_each = self.starts[rows + 1] - self.starts[rows]
        starts = torch.zeros(len(rows) + 1, dtype=torch.int64)
        torch.cumsum(n_of_each, 0, out=starts[1:])
        shift = torch.repeat_interleave(self.starts[rows] - starts[:-1], n_of_each)
        places = torch.arange(len(shift)) + shift
        return SparseInputs(self.common, starts, self.columns[places], self.excess[places])

    def linear(self, weight: torch.Tensor, bias: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Return a layer's outputs of each row under each mask, (n, m, units); for autograd too.

        The weight has shape (width, units), the masks (m, width).
        """
        import torch

        n_masks, n_values = len(masks), len(self.columns)
        starts = [self.starts[:-1] + nth * n_values for nth in range(n_masks)]
        differing = torch.nn.functional.embedding_bag(
            self.columns.repeat(n_masks),
            weight,
            torch.cat(starts),
            mode="sum",
            per_sample_weights=(self.excess * masks[:, self.columns]).view(-1),
        )
        of_each = differing.view(n_masks, len(self), -1).transpose(0, 1).contiguous()
        return of_each + torch.addmm(bias, masks * self.common, weight)


RATE, DECAY = 0.001, 1e-4  # Adam's default, and the paper's weight decay
LEAST_VARIANCE = 1e-5  # added in batch normalisation, as published


@dataclass
class Training:
    """Parameters of a network on their way, with what Adam keeps of each.

    Parameters are of each hidden layer weight (fan_in, fan_out), bias, gain and shift (fan_out,);
    then weight and bias of the last layer.
    """

    parameters: list[torch.Tensor]
    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    step: int = 0
    _masked: torch.Tensor | None = None  # room for a masked batch, to be used again

    @classmethod
    def begin(cls, sizes: Sequence[int], generator: torch.Generator) -> Training:
        """Draw the weights as He et al. (2015) do: normal, of variance 2 / fan_in.

        `sizes` are inputs, hidden layers and outputs.
        """
        import torch

        parameters = []
        for layer, (fan_in, fan_out) in enumerate(itertools.pairwise(sizes), 1):
            weight = torch.empty(fan_in, fan_out, dtype=torch.float32)
            parameters.append(weight.normal_(0, (2 / fan_in) ** 0.5, generator=generator))
            zeros = torch.zeros(fan_out, dtype=torch.float32)
            parameters.append(zeros)
            if layer < len(sizes) - 1:
                parameters += [torch.ones_like(zeros), torch.zeros_like(zeros)]
        means, squares = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
        return cls([parameter.requires_grad_() for parameter in parameters], means, squares)

    def train(
        self,
        inputs: torch.Tensor | SparseInputs,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        masks: torch.Tensor,
    ) -> Floats:
        """Take a step on the mean loss of all masks (m, width), and return the loss of each, (m,).

        Inputs (n, width) are a mini-batch, 0 in a masked column; the target (n,) holds class
        indices (int64) or values (float32), the weight has mean 1 over all rows.
        """
        import torch

        # a gain and a shift for each mask, as leaves: cheaper than to go back through a repetition
        leaves = [
            torch.cat([p.detach()] * len(masks)).requires_grad_() if is_normal else p
            for p, is_normal in zip(self.parameters, self._are_normal, strict=True)
        ]
        outputs = _outputs(leaves, self._first_layer(inputs, masks))
        of_each, slopes = _losses(outputs.detach(), target, weight, len(masks))
        gradients = [
            gradient.view(len(masks), -1).sum(dim=0) if is_normal else gradient
            for gradient, is_normal in zip(
                torch.autograd.grad(outputs, leaves, slopes), self._are_normal, strict=True
            )
        ]
        self.step += 1
        with torch.no_grad():
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                if parameter.dim() == 2:
                    gradient.add_(parameter, alpha=DECAY)
            adam(self.parameters, gradients, self.means, self.squares, RATE, self.step)
        return of_each

    def _first_layer(
        self, inputs: torch.Tensor | SparseInputs, masks: torch.Tensor
    ) -> torch.Tensor:
        """Return the sums that the first layer's units take, (n, m, units)."""
        import torch

        weight, bias = self.parameters[:2]
        if isinstance(inputs, SparseInputs):
            return inputs.linear(weight, bias, masks)
        shape = (len(inputs), *masks.shape)
        if self._masked is None or self._masked.shape != shape:
            self._masked = torch.empty(shape, dtype=torch.float32)
        torch.mul(inputs[:, None, :], masks, out=self._masked)
        flat = self._masked.view(-1, shape[-1])
        return torch.addmm(bias, flat, weight).view(*shape[:2], -1)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """All that changes from step to step, by name."""
        of_each = {"parameters": self.parameters, "means": self.means, "squares": self.squares}
        return {f"{name}_{i}": t for name, ts in of_each.items() for i, t in enumerate(ts)}

    @property
    def _are_normal(self) -> list[bool]:
        """Which parameters are the gain or the shift of a batch normalisation."""
        n_hidden = (len(self.parameters) - 2) // 4
        return [False, False, True, True] * n_hidden + [False, False]

    def layers(self) -> list[Floats]:
        """Return the parameters as float64 arrays of numpy, in their order."""
        return [parameter.detach().numpy().astype(np.float64) for parameter in self.parameters]


def folded(
    parameters: Sequence[Floats], inputs: Floats, weight: Floats | None
) -> tuple[list[Floats], list[Floats]]:
    """Return weights and biases of a plain ReLU network that includes batch normalisation.

    Its statistics are recomputed over all of `inputs` (n, width), layer by layer, with their mask:
    those of training are of other masks. Parameters are those of `Training.layers`.
    """
    weights, biases = [parameters[0]], [parameters[1]]
    hidden = inputs
    for position in range(0, len(parameters) - 2, 4):
        hidden = np.maximum(hidden @ weights[-1] + biases[-1], 0)
        mean = np.average(hidden, axis=0, weights=weight)
        variance = np.average((hidden - mean) ** 2, axis=0, weights=weight)
        gain, shift = parameters[position + 2 : position + 4]
        scale = gain / np.sqrt(variance + LEAST_VARIANCE)
        following, bias = parameters[position + 4 : position + 6]
        weights.append(scale[:, None] * following)
        biases.append(bias + (shift - mean * scale) @ following)
    return weights, biases


def _outputs(parameters: Sequence[torch.Tensor], first: torch.Tensor) -> torch.Tensor:
    """Return the network's outputs of each row under each mask, (n, m n_outputs).

    `first` are the inputs of the first layer's units, (n, m, units). Gains and shifts have a part
    for each mask.
    """
    import torch

    n_rows, n_masks, _ = first.shape
    taken = first.view(n_rows, -1)
    for place in range(2, len(parameters) - 2, 4):
        gain, shift, weight, bias = parameters[place : place + 4]
        units = torch.relu(taken)
        normal = torch.batch_norm(units, gain, shift, None, None, True, 0.0, LEAST_VARIANCE, False)
        taken = torch.addmm(bias, normal.view(n_rows * n_masks, -1), weight).view(n_rows, -1)
    return taken


def _losses(
    outputs: torch.Tensor, target: torch.Tensor, weight: torch.Tensor | None, n_masks: int
) -> tuple[Floats, torch.Tensor]:
    """Return the log loss or half squared error of each mask, and the slopes of their mean."""
    import torch

    values, truth = outputs.numpy(), target.numpy()
    shares = None if weight is None else weight.numpy()
    if target.is_floating_point():
        losses, slopes = squared_losses(values, truth, shares)
    else:
        scores = values.reshape(len(values) * n_masks, -1)
        losses, slopes = log_losses(scores, truth, shares, n_masks)
    return losses, torch.from_numpy(slopes).view(outputs.shape)


_STACKS = 4  # parameters, their gradients, and what Adam keeps of each
_PASSES = 4  # copies of a layer's units, there and back
_BYTES = 4  # of a number in float32


def bytes_to_train(sizes: Sequence[int], n_rows: int) -> tuple[int, int]:
    """Return about how many bytes training takes: of the paper's network, and of a mini-batch.

    `sizes` are inputs, hidden layers and outputs; `n_rows` those under all masks together.
    """
    of_layers = [fan_in * fan_out for fan_in, fan_out in itertools.pairwise(sizes)]
    n_units = sizes[0] + _PASSES * sum(sizes[1:])
    # Adam takes the root of a layer's squares at a time
    return _BYTES * (_STACKS * sum(of_layers) + max(of_layers)), _BYTES * n_rows * n_units


def check_memory(sizes: Sequence[int], n_rows: int, memory: int | None = None) -> None:
    """Raise InputError if a network does not fit into `memory`, by default what is free."""
    import psutil

    usable = psutil.virtual_memory().available if memory is None else memory
    of_network, of_batch = bytes_to_train(sizes, n_rows)
    if of_network + of_batch > usable:
        remedy = "smaller hidden_layer_sizes"
        if of_network <= of_batch:
            remedy = "fewer samples, or a smaller batch_size"
        raise InputError(
            f"the training of pefs may take {usable / 1e9:.3g} GB, the memory that is free, but "
            f"hidden layers of {', '.join(map(str, sizes[1:-1]))} units take "
            f"{of_network / 1e9:.3g} GB, and {n_rows} rows (batch_size x samples) "
            f"{of_batch / 1e9:.3g} GB; give {remedy}"
        )


_ROWS_AT_ONCE = 4096


def encoded(X: Floats, encoding: Encoding, baseline: Floats) -> NDArray[np.float32]:
    """Return features (n, d) as inputs (n, width), of which the baseline has 0."""
    origin = encoding.transform(baseline[None, :])[0]
    inputs = np.empty((len(X), len(encoding.feature_of_column)), dtype=np.float32)
    for start in range(0, len(X), _ROWS_AT_ONCE):
        block = slice(start, start + _ROWS_AT_ONCE)
        inputs[block] = encoding.transform(filled(X[block], baseline)) - origin
    return inputs


def filled(X: Floats, baseline: Floats) -> Floats:
    """Return X (n, d) with the baseline (d,) in place of each missing value."""
    return np.where(np.isnan(X), baseline, X)


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows, read once for any number of searches."""

    schema: Schema
    encoding: Encoding  # numbers standardised, categories one-hot
    baseline: Floats  # (d,), what a masked feature is set to
    inputs: NDArray[np.float32]  # (n, width)
    target: NDArray[np.int64] | NDArray[np.float32]  # classes, or values of mean 0, deviation 1
    weight: NDArray[np.float32] | None  # of mean 1
    location: float  # a regression's prediction is location + scale x output
    scale: float

    @classmethod
    def of(cls, rows: Rows, schema: Schema, baseline: Floats) -> Prepared:
        """Read training rows, without changing them."""
        encoding = Encoding.fit(rows.X, schema.n_categories)
        location, scale = 0.0, 1.0
        target: NDArray[np.int64] | NDArray[np.float32]
        if schema.n_classes:
            target = rows.y.astype(np.int64)
        else:
            location = float(np.average(rows.y, weights=rows.weight))
            scale = float(np.sqrt(np.average((rows.y - location) ** 2, weights=rows.weight))) or 1.0
            target = ((rows.y - location) / scale).astype(np.float32)
        weight = None
        if rows.weight is not None:
            weight = (rows.weight / rows.weight.mean()).astype(np.float32)
        inputs = encoded(rows.X, encoding, baseline)
        return cls(schema, encoding, baseline, inputs, target, weight, location, scale)

    def __len__(self) -> int:
        return len(self.target)

    def columns_of(self, mask: Mask) -> Mask:
        """Return the columns of the inputs that a mask (d,) keeps, shape (width,)."""
        return np.asarray(mask[self.encoding.feature_of_column])

    @property
    def varying(self) -> Mask:
        """Features that are not the same in all rows, shape (d,)."""
        columns = self.inputs.min(axis=0) != self.inputs.max(axis=0)
        varying = np.zeros(len(self.schema.features), dtype=bool)
        varying[self.encoding.feature_of_column[columns]] = True
        return varying

    @cached_property
    def sparse(self) -> SparseInputs | None:
        """The inputs in a form that is quicker to learn from, where that pays."""
        return SparseInputs.of(self.inputs)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return inputs, target and weight as tensors that share their memory."""
        import torch

        weight = None if self.weight is None else torch.from_numpy(self.weight)
        return torch.from_numpy(self.inputs), torch.from_numpy(self.target), weight
