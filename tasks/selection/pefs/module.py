"""A torch module of someone's own in place of the paper's network.

Each mask has a forward pass, and batch statistics, of its own. Training begins from the module's
weights as they are, in float32, and is what it is for the paper's network: Adam on the mean loss of
all masks, weight decay on tensors of two or more dimensions. What the module draws, as dropout
does, it draws from torch's own generator, which is seeded anew for each pass and then given back.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.selection.errors import UnusableError
from chaffinch.tasks.selection.models.network_training import adam
from chaffinch.tasks.selection.pefs.network import DECAY, RATE
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch


@dataclass
class ModuleTraining:
    """A copy of a module on its way, with what Adam keeps of each parameter.

    Attributes
    ----------
    module : torch.nn.Module
        In float32, on the CPU.
    began_with : dict of torch.nn.Parameter by str
        The parameters that are trained, by name; these and no others, from the first step on.
    means, squares : list of float32 tensor
        Adam's, of each of them.
    seed : int
        Of what the module itself draws.
    step : int
        How many were taken.
    """

    module: torch.nn.Module
    began_with: dict[str, torch.nn.Parameter]
    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    seed: int
    step: int = 0

    @classmethod
    def begin(cls, module: torch.nn.Module, seed: int) -> ModuleTraining:
        """Copy a module, which is not changed; ValueError if it cannot be copied or trained."""
        import torch

        own = copied(module)
        trained = _trained(own)
        if not trained:
            raise ValueError(
                "network must have parameters that require gradients but has none; give a module "
                "that can be trained"
            )
        means, squares = ([torch.zeros_like(one) for one in trained.values()] for _ in range(2))
        return cls(own, trained, means, squares, seed)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """All that changes from step to step, by name."""
        of_each: dict[str, Sequence[torch.Tensor]] = {
            "parameters": list(_trained(self.module).values()),
            "means": self.means,
            "squares": self.squares,
            "buffers": list(self.module.buffers()),
        }
        return {f"{name}_{i}": one for name, ones in of_each.items() for i, one in enumerate(ones)}

    def train(
        self,
        inputs: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        masks: torch.Tensor,
    ) -> Floats:
        """Take one step on the mean loss of all masks, and return the loss of each, (m,).

        See `network.Training.train`.

        Raises
        ------
        UnusableError
            If a pass of the module raises, or changes which parameters are trained, or no gradient
            can be taken of what it returns; with the number of the step, from 1.
        """
        import torch

        self.module.train()
        self.step += 1
        of_each = []
        for number, mask in enumerate(masks):
            with drawing_from(self.seed, self.step, number):
                losses = self._losses(inputs * mask, target)
            of_each.append((losses if weight is None else losses * weight).mean())
        losses = torch.stack(of_each)
        self._check_trained()
        trained = list(self.began_with.values())
        gradients = self._gradients(losses.mean(), trained)
        # a gradient may share its memory with another's, so decay makes a new one
        gradients = tuple(
            gradient.add(one.detach(), alpha=DECAY) if one.dim() >= 2 else gradient
            for one, gradient in zip(trained, gradients, strict=True)
        )
        with torch.no_grad():
            adam(trained, gradients, self.means, self.squares, RATE, self.step)
        return losses.detach().numpy().astype(np.float64)

    def _check_trained(self) -> None:
        """Refuse a module that trains other parameters than it began with; UnusableError."""
        before, now = self.began_with, _trained(self.module)
        name = next(
            (name for name in {**now, **before} if now.get(name) is not before.get(name)), None
        )
        if name is None:
            return
        there = dict(self.module.named_parameters()).get(name)
        what, remedy = f"parameter {name!r}", "set requires_grad before the search"
        if there is None:
            said, remedy = f"removes {what}", "let it stay"
        elif there is before.get(name):
            said = f"stops training {what}"
        else:
            said, remedy = (
                f"gives {what} a gradient, or makes it anew",
                f"make it before, and {remedy}",
            )
        raise UnusableError(
            "network must train the same parameters from the first step to the last, but "
            f"{said} at iteration {self.step}; {remedy}"
        )

    def _losses(self, rows: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Return the loss of each row, (n,): log loss, or half squared error."""
        import torch

        try:
            outputs: torch.Tensor = self.module(rows)
            if target.is_floating_point():
                return 0.5 * (outputs.reshape(target.shape) - target).square()
            return torch.nn.functional.cross_entropy(outputs, target, reduction="none")
        except Exception as error:
            raise self._of_its_own(error) from error

    def _gradients(
        self, loss: torch.Tensor, trained: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        import torch

        if not loss.requires_grad:
            raise UnusableError(
                "network must return what depends on its parameters, but no gradient leads back to "
                f"them at iteration {self.step}; leave out what detaches it"
            )
        try:
            return torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True)
        except RuntimeError as error:
            raise UnusableError(
                "network must let each step take its gradients, but keeps or changes what they go "
                f"through at iteration {self.step} ({first_sentence(error)}); what it keeps or "
                "changes on its way must be a new tensor, detached"
            ) from error
        except Exception as error:  # as of a backward pass that is written by hand
            raise self._of_its_own(error) from error

    def _of_its_own(self, error: Exception) -> UnusableError:
        return UnusableError(
            f"network ends in an error of its own at iteration {self.step} "
            f"({first_sentence(error)}); give one that takes any number of mini-batches"
        )


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy in float32 on the CPU; ValueError if there can be none."""
    try:
        own = copy.deepcopy(module).to("cpu").float()
    except Exception as error:
        raise ValueError(
            f"network cannot be copied ({first_line(error)}); give one that copy.deepcopy takes"
        ) from error
    if any(each.is_complex() for each in (*own.parameters(), *own.buffers())):
        raise ValueError("network must have real weights but has complex ones; give others")
    return own


def outputs_of(module: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return what a module in evaluation makes of rows, detached.

    Drawing, it draws the same again.

    Raises
    ------
    UnusableError
        If it raises.
    """
    import torch

    try:
        with torch.no_grad(), drawing_from(0):
            outputs: torch.Tensor = module(rows).detach()
    except Exception as error:
        raise UnusableError(
            f"network ends in an error of its own as it predicts ({first_sentence(error)}); give "
            "one that takes any number of rows in evaluation"
        ) from error
    return outputs


def recalibrated(module: torch.nn.Module, rows: torch.Tensor) -> torch.nn.Module:
    """Return a copy in evaluation, with the statistics of batch normalisation over `rows`.

    Parameters
    ----------
    module : torch.nn.Module
        It is not changed.
    rows : float32 tensor, shape (n, width)
        All training rows under one mask; each counts alike.
    """
    own = copy.deepcopy(module).eval()
    normal = normalisations(own).values()
    hooks = [one.register_forward_pre_hook(_take_statistics, with_kwargs=True) for one in normal]
    if normal:
        outputs_of(own, rows)
    for hook in hooks:
        hook.remove()
    return own


def _take_statistics(
    normal: Any, given: tuple[torch.Tensor, ...], named: dict[str, torch.Tensor]
) -> None:
    """Let a batch normalisation have the mean and variance of each channel that it is given."""
    (rows,) = (one.detach() for one in (*given, *named.values()))
    others = [axis for axis in range(rows.dim()) if axis != 1]
    normal.running_mean = rows.mean(dim=others)
    normal.running_var = rows.var(dim=others, correction=0)


def normalisations(module: torch.nn.Module) -> dict[str, Any]:
    """Return the layers of batch normalisation of a module, by name."""
    import torch

    kind = torch.nn.modules.batchnorm._BatchNorm
    return {name: one for name, one in module.named_modules() if isinstance(one, kind)}


def _trained(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: one for name, one in module.named_parameters() if one.requires_grad}


@contextmanager
def drawing_from(*seed: int) -> Iterator[None]:
    """Let torch's own generator start from a seed; the state that it had comes back."""
    import torch

    (number,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(number) >> 1)
        yield


def first_line(error: Exception) -> str:
    """Return what is said of an error in one line: the first of its own, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def first_sentence(error: Exception) -> str:
    """Return the type of an error, and the first sentence of its own; torch's may be many."""
    said = next(iter(str(error).splitlines()), "").partition(". ")[0].removesuffix(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
