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
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.selection.models.network_training import adam
from chaffinch.tasks.selection.pefs.sparse_inputs import SparseInputs
from chaffinch.tasks.selection.pefs.step_kernels import log_losses, squared_losses
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch

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

    Its statistics are taken anew over all of `inputs`, layer by layer, with the mask that they
    have: those of training are of other masks.

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
