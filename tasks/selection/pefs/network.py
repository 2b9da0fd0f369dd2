"""The paper's network, trained on several masked copies of one mini-batch at a time.

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

from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.mlp import Encoding, adam
from chaffinch.tasks.selection.pefs.distribution import log_losses, squared_losses

if TYPE_CHECKING:
    import torch


# Inputs of which most are the commonest value of their column, as counts of words are.
#
# Under a mask a row's first layer is that of a row of commonest values, which all rows of the mask
# share, and what the few other values of the row add to it. So it costs what these cost, and not
# what the width does.

# As measured on one thread with 200 units: at 3,289 columns of which 1.5 % differ the first layer
# takes .3 of its time, and with fewer columns the rest of an iteration outweighs it.
LEAST_WIDTH, MOST_DENSE = 512, 0.05
_COLUMNS_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class SparseInputs:
    """What the inputs of some rows differ from the commonest of their column in.

    Attributes
    ----------
    common : float32 tensor, shape (width,)
        The commonest value of each column, among all rows.
    starts : int64 tensor, shape (n + 1,)
        Where each row's part of `columns` and `excess` begins, and where the last one's ends.
    columns : int64 tensor, shape (k,)
        Row by row, the columns in which it has another value.
    excess : float32 tensor, shape (k,)
        Those values, less the commonest.
    """

    common: torch.Tensor
    starts: torch.Tensor
    columns: torch.Tensor
    excess: torch.Tensor

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
            # a value that most rows have is the middle one of them all
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

        Parameters
        ----------
        weight, bias : float32 tensor, shapes (width, units) and (units,)
        masks : float32 tensor, shape (m, width)
            1 where a column is kept.
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

    Attributes
    ----------
    parameters : list of float32 tensor
        Of each hidden layer weight (fan_in, fan_out), bias, gain and shift (fan_out,); then weight
        and bias of the last layer.
    means, squares : list of float32 tensor
        Adam's, in the same order.
    step : int
        How many were taken.
    """

    parameters: list[torch.Tensor]
    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    step: int = 0
    _masked: torch.Tensor | None = None  # room for a masked batch, to be used again

    @classmethod
    def begin(cls, sizes: Sequence[int], generator: torch.Generator) -> Training:
        """Draw the weights as He et al. (2015) do: normal, of variance 2 / fan_in.

        Parameters
        ----------
        sizes : sequence of int
            Inputs, hidden layers, outputs.
        generator : torch.Generator
            The only source of randomness.
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
        means, squares = ([torch.zeros_like(one) for one in parameters] for _ in range(2))
        return cls([one.requires_grad_() for one in parameters], means, squares)

    def train(
        self,
        inputs: torch.Tensor | SparseInputs,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        masks: torch.Tensor,
    ) -> Floats:
        """Take one step on the mean loss of all masks, and return the loss of each, (m,).

        Parameters
        ----------
        inputs : float32 tensor, shape (n, width), or SparseInputs of n rows
            A mini-batch; a masked column is 0.
        target : tensor, shape (n,)
            Class indices (int64), or values (float32).
        weight : float32 tensor, shape (n,), or None
            Sample weights, of mean 1 over all rows.
        masks : float32 tensor, shape (m, width)
            1 where a column is kept.
        """
        import torch

        # a gain and a shift for each mask, as leaves: cheaper than to go back through a repetition
        leaves = [
            torch.cat([one.detach()] * len(masks)).requires_grad_() if is_normal else one
            for one, is_normal in zip(self.parameters, self._are_normal, strict=True)
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
            for one, gradient in zip(self.parameters, gradients, strict=True):
                if one.dim() == 2:
                    gradient.add_(one, alpha=DECAY)
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
        return {f"{name}_{i}": one for name, ones in of_each.items() for i, one in enumerate(ones)}

    @property
    def _are_normal(self) -> list[bool]:
        """Which parameters are the gain or the shift of a batch normalisation."""
        n_hidden = (len(self.parameters) - 2) // 4
        return [False, False, True, True] * n_hidden + [False, False]

    def layers(self) -> list[Floats]:
        """Return the parameters as float64 arrays of numpy, in their order."""
        return [one.detach().numpy().astype(np.float64) for one in self.parameters]


def folded(
    parameters: Sequence[Floats], inputs: Floats, weight: Floats | None
) -> tuple[list[Floats], list[Floats]]:
    """Return a plain ReLU network in which batch normalisation has been taken up.

    Its statistics are recomputed over all of `inputs`, layer by layer, with their mask: those of
    training are of other masks.

    Parameters
    ----------
    parameters : sequence of ndarray
        As `Training.layers` has them.
    inputs : ndarray of float64, shape (n, width)
        Training rows; masked columns are 0.
    weight : ndarray of float64, shape (n,), or None
        Sample weights.

    Returns
    -------
    weights, biases : list of ndarray, shapes (fan_in, fan_out) and (fan_out,)
        Layer by layer.
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

    `first` is what the first layer's units take, (n, m, units). Gains and shifts have one part for
    each mask.
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
    """Return the loss of each mask, (m,), and the gradient of their mean by `outputs`.

    The loss is the log loss, or half the squared error.
    """
    import torch

    values, truth = outputs.numpy(), target.numpy()
    shares = None if weight is None else weight.numpy()
    if target.is_floating_point():
        losses, slopes = squared_losses(values, truth, shares)
    else:
        scores = values.reshape(len(values) * n_masks, -1)
        losses, slopes = log_losses(scores, truth, shares, n_masks)
    return losses, torch.from_numpy(slopes).view(outputs.shape)


_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Reading:
    """How features become inputs: encoded, less what the baseline is when encoded.

    So a feature at its baseline is 0 in all of its columns. A missing value is the baseline.

    Attributes
    ----------
    encoding : Encoding
        Numbers standardised, categories one-hot.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.
    """

    encoding: Encoding
    baseline: Floats

    @classmethod
    def fit(cls, rows: Rows, schema: Schema, baseline: Floats) -> Reading:
        """Take mean and scale of each number from training rows."""
        return cls(Encoding.fit(rows.X, schema.n_categories), baseline)

    @property
    def feature_of_column(self) -> NDArray[np.int64]:
        """The feature each input comes from, shape (width,)."""
        return self.encoding.feature_of_column

    @property
    def origin(self) -> Floats:
        """The baseline when encoded, shape (width,)."""
        return np.asarray(self.encoding.transform(self.baseline[None, :])[0])

    def filled(self, X: Floats) -> Floats:
        """Return X (n, d) with its baseline in place of each missing value."""
        return np.where(np.isnan(X), self.baseline, X)

    def inputs(self, X: Floats) -> NDArray[np.float32]:
        """Return X (n, d) as inputs (n, width)."""
        inputs = np.empty((len(X), len(self.feature_of_column)), dtype=np.float32)
        for start in range(0, len(X), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            inputs[block] = self.encoding.transform(self.filled(X[block])) - self.origin
        return inputs


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows, read once for any number of searches.

    Attributes
    ----------
    schema : Schema
        What the d features mean.
    reading : Reading
        How they became inputs.
    inputs : ndarray of float32, shape (n, width)
    target : ndarray, shape (n,)
        Class indices (int64), or values of mean 0 and deviation 1 (float32).
    weight : ndarray of float32, shape (n,), or None
        Sample weights of mean 1.
    location, scale : float
        A regression's prediction is location + scale x output; 0 and 1 for classes.
    """

    schema: Schema
    reading: Reading
    inputs: NDArray[np.float32]
    target: NDArray[np.int64] | NDArray[np.float32]
    weight: NDArray[np.float32] | None
    location: float
    scale: float

    @classmethod
    def of(cls, rows: Rows, schema: Schema, baseline: Floats) -> Prepared:
        """Read training rows; they are not changed.

        Raises
        ------
        ValueError
            If the baseline is not of as many features as the rows.
        """
        if baseline.shape != (rows.X.shape[1],):
            raise ValueError(
                f"baseline must have shape ({rows.X.shape[1]},) but has {baseline.shape}"
            )
        reading = Reading.fit(rows, schema, baseline)
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
        return cls(schema, reading, reading.inputs(rows.X), target, weight, location, scale)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def varying(self) -> Mask:
        """Features that are not the same in all rows, shape (d,)."""
        columns = self.inputs.min(axis=0) != self.inputs.max(axis=0)
        varying = np.zeros(len(self.schema.features), dtype=bool)
        varying[self.reading.feature_of_column[columns]] = True
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
