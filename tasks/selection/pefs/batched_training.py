"""Networks of one shape, trained at the same time on one of torch's devices, such as a GPU.

Each is trained as `network.Training` trains it, by the same formulas; what differs is the rounding
of products and sums. The parameters of S networks are one matrix, (S, P), so that Adam is a few
operations on it, however many layers there are, and a layer one `torch.baddbmm` over its slices,
(S, fan_in, fan_out).

Hidden units lie before masks and rows, (S, units, masks, rows): so each unit of each network under
each mask is a channel of one batch normalisation, with statistics of its own.

Nothing here waits for the device, so that a CUDA graph can hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from chaffinch.tasks.selection.models.network_training import BETAS, EPSILON
from chaffinch.tasks.selection.pefs.network import DECAY, LEAST_VARIANCE, RATE, Training

if TYPE_CHECKING:
    import torch

# From so many inputs on a GPU takes the product of the first layer in bfloat16: autocast was
# measured to bring a step on wide inputs to .55 of its time. Where wide begins is a guess between
# the tables of the paper, of 256 inputs and of 3,289; no GPU was at hand to measure it.
WIDE = 1024
_STEP = 64  # to a multiple of which the parameters of a network are filled up, for aligned products


def number_type(device: torch.device, width: int) -> torch.dtype:
    """Return in what the product of the first layer, of `width` inputs, is taken on a device."""
    import torch

    return torch.bfloat16 if device.type == "cuda" and width >= WIDE else torch.float32


class BatchedTraining:
    """S networks on their way; they begin where those that they are made of are.

    Parameters
    ----------
    trainings : sequence of Training, length S
        Of one shape.
    device : torch.device
    first : torch.dtype
        In what the product of the first layer is taken; parameters are float32 whatever it is.
    """

    def __init__(
        self, trainings: Sequence[Training], device: torch.device, first: torch.dtype
    ) -> None:
        import torch

        self._first = first
        self._shapes = [one.shape for one in trainings[0].parameters]
        sizes = [shape.numel() for shape in self._shapes]
        self._n_spare = -sum(sizes) % _STEP

        def stacked(of_each: list[list[torch.Tensor]]) -> torch.Tensor:
            rows = [torch.cat([one.detach().reshape(-1) for one in ones]) for ones in of_each]
            return torch.nn.functional.pad(torch.stack(rows), (0, self._n_spare)).to(device)

        self._parameters = stacked([one.parameters for one in trainings])
        self._means = stacked([one.means for one in trainings])
        self._squares = stacked([one.squares for one in trainings])
        self._steps = torch.tensor(
            [[one.step] for one in trainings], dtype=torch.float64, device=device
        )
        decay = [torch.full(one, DECAY if len(one) == 2 else 0.0) for one in self._shapes]
        self._decay = stacked([decay])
        self._spare = self._parameters.new_zeros(len(trainings), self._n_spare)

    def train(
        self,
        inputs: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        masks: torch.Tensor,
    ) -> torch.Tensor:
        """Take one step of each network, and return the losses under each mask, shape (S, m).

        Parameters
        ----------
        inputs : tensor of the type of the first product, shape (S, n, width)
            A mini-batch for each network; a masked column is 0.
        target : tensor, shape (S, n)
            Class indices (int64), or values (float32).
        weight : float32 tensor, shape (S, n), or None
            Sample weights, of mean 1 over all rows.
        masks : tensor of the type of `inputs`, shape (S, m, width)
            1 where a column is kept.
        """
        import torch

        leaves = [one.detach().requires_grad_() for one in self._in_parts(self._parameters)]
        losses = self._losses(leaves, inputs[:, None] * masks[:, :, None], target)
        if weight is not None:
            losses = losses * weight[:, None]
        of_each = losses.mean(dim=2)
        gradients = torch.autograd.grad(of_each.mean(dim=1).sum(), leaves)
        with torch.no_grad():
            flat = [one.reshape(len(inputs), -1) for one in gradients]
            self._move(torch.cat([*flat, self._spare], dim=1))
        return of_each.detach()

    def write_to(self, training: Training, number: int) -> None:
        """Copy one of the networks to where it came from; the device is waited for."""
        import torch

        with torch.no_grad():
            for ours, theirs in (
                (self._parameters, training.parameters),
                (self._means, training.means),
                (self._squares, training.squares),
            ):
                row = ours[number : number + 1].cpu()
                for part, one in zip(self._in_parts(row), theirs, strict=True):
                    one.copy_(part[0])

    def _losses(
        self, leaves: Sequence[torch.Tensor], masked: torch.Tensor, target: torch.Tensor
    ) -> torch.Tensor:
        """Return the loss of each row under each mask, (S, m, n), of masked inputs (S, m, n, w)."""
        import torch

        n_networks, n_masks, n_rows, width = masked.shape
        hidden = masked.reshape(n_networks, n_masks * n_rows, width).transpose(1, 2)
        for first in range(0, len(leaves) - 2, 4):
            weight, bias, gain, shift = leaves[first : first + 4]
            units = torch.relu(_linear(weight, bias, hidden))
            gain, shift = (
                one[:, :, None].expand(-1, -1, n_masks).reshape(-1) for one in (gain, shift)
            )
            channels = units.view(1, -1, n_rows)
            normal = torch.batch_norm(
                channels, gain, shift, None, None, True, 0.0, LEAST_VARIANCE, False
            )
            hidden = normal.view(units.shape)
        outputs = _linear(leaves[-2], leaves[-1], hidden)
        outputs = outputs.view(n_networks, -1, n_masks, n_rows)
        if target.is_floating_point():
            return 0.5 * (outputs[:, 0] - target[:, None]).square()
        # by comparison and no index, whose gradient is added up in an order by chance; and by
        # `masked_fill` and no `where`, which would send its number to the device, and wait
        classes = torch.arange(outputs.shape[1], device=outputs.device)
        is_other = target[:, None, None, :] != classes[:, None, None]
        return -torch.log_softmax(outputs, dim=1).masked_fill(is_other, 0.0).sum(dim=1)

    def _move(self, gradient: torch.Tensor) -> None:
        """Take the step of `network_training.adam`, with weight decay, each network its own."""
        import torch

        first, second = BETAS
        gradient.addcmul_(self._parameters, self._decay)
        self._steps.add_(1)
        size = RATE * (1 - second**self._steps).sqrt() / (1 - first**self._steps)
        self._means.lerp_(gradient, 1 - first)
        self._squares.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        moves = self._squares.sqrt().add_(EPSILON)
        torch.div(self._means, moves, out=moves)
        self._parameters.addcmul_(moves, size.to(moves.dtype), value=-1)

    def _in_parts(self, flat: torch.Tensor) -> list[torch.Tensor]:
        """Return views of a matrix (S, P): of each parameter, (S, *shape)."""
        import torch

        parts = torch.split(flat, [*(one.numel() for one in self._shapes), self._n_spare], dim=1)
        return [
            part.view(len(flat), *shape)
            for part, shape in zip(parts[:-1], self._shapes, strict=True)
        ]


def _linear(weight: torch.Tensor, bias: torch.Tensor, hidden: torch.Tensor) -> torch.Tensor:
    """Return S layers of S inputs: (S, fan_in, fan_out), (S, fan_out) and (S, fan_in, rows).

    The product is of the type of the inputs; what comes back is of the type of the weights.
    """
    import torch

    kind = hidden.dtype
    product = torch.baddbmm(bias[:, :, None].to(kind), weight.transpose(1, 2).to(kind), hidden)
    return product.to(weight.dtype)
