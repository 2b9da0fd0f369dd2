"""The training of the multilayer perceptron: Adam in torch, stopped as scikit-learn's is.

Training is in float32, which is what makes it fast, on one thread, and its randomness comes from
a generator of its own: neither torch's seed nor its number of threads is changed for others.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.selection.models.threads import single_torch_thread
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch

BETAS, EPSILON = (0.9, 0.999), 1e-8  # Adam's, as published


def train(
    inputs: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    sizes: Sequence[int],
    settings: Mapping[str, Any],
    seed: int,
) -> list[Floats]:
    """Train a network.

    Parameters
    ----------
    inputs : float32 tensor, shape (n, sizes[0])
        Encoded rows.
    target : tensor, shape (n,)
        Class indices (int64), or values (float32).
    weight : float32 tensor, shape (n,), or None
        Sample weights with mean 1.
    sizes : sequence of int
        Inputs, hidden layers, outputs.
    settings : mapping
        Every parameter of the network by its name.
    seed : int
        Of the first weights and the order of the rows.

    Returns
    -------
    list of ndarray of float64
        Weights and biases in turn, layer by layer; their values are float32.

    Raises
    ------
    ValueError
        If the training loss is no longer finite.
    """
    import torch

    with single_torch_thread():
        return _train(inputs, target, weight, sizes, settings, torch.Generator().manual_seed(seed))


def _train(
    inputs: torch.Tensor,
    target: torch.Tensor,
    weight: torch.Tensor | None,
    sizes: Sequence[int],
    settings: Mapping[str, Any],
    generator: torch.Generator,
) -> list[Floats]:
    import torch

    layers = _initial_layers(sizes, settings["activation"], generator)
    means, squares = ([torch.zeros_like(layer) for layer in layers] for _ in range(2))
    best, stale, step = float("inf"), 0, 0
    for _ in range(settings["max_iter"]):
        total = 0.0
        order = torch.randperm(len(inputs), generator=generator)
        for batch in torch.split(order, settings["batch_size"]):
            outputs = _outputs(inputs.index_select(0, batch), layers, settings["activation"])
            losses = _losses(outputs, target.index_select(0, batch))
            if weight is not None:
                losses = losses * weight.index_select(0, batch)
            loss = losses.mean()
            gradients = torch.autograd.grad(loss, layers)
            step += 1
            with torch.no_grad():
                for w, g in zip(layers[::2], gradients[::2], strict=True):
                    g.add_(w, alpha=settings["alpha"] / len(batch))
                adam(layers, gradients, means, squares, settings["learning_rate_init"], step)
            total += loss.item() * len(batch)
        mean_loss = total / len(inputs)
        if not np.isfinite(mean_loss):
            raise ValueError(
                "the training of the mlp diverged; lower learning_rate_init "
                f"(it is {settings['learning_rate_init']:g})"
            )
        stale = stale + 1 if mean_loss > best - settings["tol"] else 0
        best = min(best, mean_loss)
        if stale > settings["n_iter_no_change"]:
            break
    return [layer.detach().numpy().astype(np.float64) for layer in layers]


def _initial_layers(
    sizes: Sequence[int], activation: str, generator: torch.Generator
) -> list[torch.Tensor]:
    """Draw weights and biases as Glorot and Bengio (2010) and scikit-learn do."""
    import torch

    layers = []
    for fan_in, fan_out in itertools.pairwise(sizes):
        bound = ((2 if activation == "logistic" else 6) / (fan_in + fan_out)) ** 0.5
        for shape in ((fan_in, fan_out), (fan_out,)):
            layer = torch.empty(shape, dtype=torch.float32)
            layers.append(layer.uniform_(-bound, bound, generator=generator))
    return [layer.requires_grad_() for layer in layers]


def _outputs(hidden: torch.Tensor, layers: Sequence[torch.Tensor], activation: str) -> torch.Tensor:
    import torch

    activate = torch.relu if activation == "relu" else torch.sigmoid
    for w, b in zip(layers[:-2:2], layers[1:-2:2], strict=True):
        hidden = activate(torch.addmm(b, hidden, w))
    return torch.addmm(layers[-1], hidden, layers[-2])


def _losses(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return each row's log loss for classes, half its squared error for values."""
    import torch

    if target.is_floating_point():
        return 0.5 * (outputs.squeeze(1) - target).square()
    return torch.nn.functional.cross_entropy(outputs, target, reduction="none")


def adam(
    layers: Sequence[torch.Tensor],
    gradients: Sequence[torch.Tensor],
    means: Sequence[torch.Tensor],
    squares: Sequence[torch.Tensor],
    rate: float,
    step: int,
) -> None:
    """Take one step of Adam (Kingma and Ba, 2015) in place.

    In the order of formulas that the paper calls more efficient (end of its section 2): the epsilon
    is added before the second mean is corrected for its bias, where torch.optim adds it after. To
    import torch.optim takes each worker 1.2 s and 70 MB.

    Parameters
    ----------
    layers, gradients : sequence of tensor
        What is trained, and its gradients.
    means, squares : sequence of tensor
        Running means of the gradients and of their squares, at first 0.
    rate : float
        The size of a step.
    step : int
        From 1.
    """
    first, second = BETAS
    size = rate * (1 - second**step) ** 0.5 / (1 - first**step)
    for layer, gradient, mean, square in zip(layers, gradients, means, squares, strict=True):
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        layer.addcdiv_(mean, square.sqrt().add_(EPSILON), value=-size)
