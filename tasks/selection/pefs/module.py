"""A torch module of someone's own in place of the paper's network.

Each mask has a forward pass, and batch statistics, of its own. Training begins from the module's
weights as they are, in float32, and is what it is for the paper's network: Adam on the mean loss of
all masks, weight decay on tensors of two or more dimensions. What the module draws, as dropout
does, it draws from torch's own generator, which is seeded anew for each pass and then given back.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.tasks.selection.models.network_training import adam
from chaffinch.tasks.selection.models.threads import single_torch_thread
from chaffinch.tasks.selection.pefs.network import DECAY, RATE
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.vocabulary import Floats

if TYPE_CHECKING:
    import torch

_AS_A_WHOLE = 1e-4  # how near to 1 probabilities add up


@dataclass
class ModuleTraining:
    """A copy of a module on its way, with what Adam keeps of each parameter.

    Attributes
    ----------
    module : torch.nn.Module
        In float32, on the CPU.
    means, squares : list of float32 tensor
        Adam's, of each parameter that is trained.
    seed : int
        Of what the module itself draws.
    step : int
        How many were taken.
    """

    module: torch.nn.Module
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
        means, squares = ([torch.zeros_like(one) for one in trained] for _ in range(2))
        return cls(own, means, squares, seed)

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """All that changes from step to step, by name."""
        of_each: dict[str, Sequence[torch.Tensor]] = {
            "parameters": _trained(self.module),
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
        """
        import torch

        self.module.train()
        self.step += 1
        of_each = []
        for number, mask in enumerate(masks):
            with _drawing_from(self.seed, self.step, number):
                losses = _losses(self.module(inputs * mask), target)
            of_each.append((losses if weight is None else losses * weight).mean())
        losses = torch.stack(of_each)
        trained = _trained(self.module)
        gradients = torch.autograd.grad(
            losses.mean(), trained, allow_unused=True, materialize_grads=True
        )
        # a gradient may share its memory with another's, so decay makes a new one
        gradients = tuple(
            gradient.add(one.detach(), alpha=DECAY) if one.dim() >= 2 else gradient
            for one, gradient in zip(trained, gradients, strict=True)
        )
        with torch.no_grad():
            adam(trained, gradients, self.means, self.squares, RATE, self.step)
        return losses.detach().numpy().astype(np.float64)


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy in float32 on the CPU; ValueError if there can be none."""
    from torch.nn.parameter import is_lazy

    if any(is_lazy(each) for each in (*module.parameters(), *module.buffers())):
        raise ValueError("network has lazy layers without weights; run it once on a row of zeros")
    try:
        own = copy.deepcopy(module).to("cpu").float()
    except Exception as error:
        raise ValueError(
            f"network cannot be copied ({_first_line(error)}); give one that copy.deepcopy takes"
        ) from error
    if any(each.is_complex() for each in (*own.parameters(), *own.buffers())):
        raise ValueError("network must have real weights but has complex ones; give others")
    return own


def checked(module: Any, prepared: Prepared, n_rows: int) -> str:
    """Try a module on a mini-batch, and return what tells it from another one.

    Parameters
    ----------
    module : torch.nn.Module
        It is not changed.
    prepared : Prepared
        Training rows, of which the first `n_rows` are the mini-batch.
    n_rows : int

    Returns
    -------
    str
        A digest of its layers, weights and buffers, and of what it makes of the mini-batch: layers
        alone do not tell what happens between them.

    Raises
    ------
    ValueError
        If it is no module, cannot be trained, does not take such rows, or returns anything but one
        finite number a row, or a score for each class.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            f"network must be a torch.nn.Module but is {module!r:.60}; leave it out for the paper's"
        )
    own = ModuleTraining.begin(module, 0).module
    digest = _digest_of_state(own)
    rows = torch.from_numpy(prepared.inputs[:n_rows].copy())
    with single_torch_thread():
        for is_training in (True, False):
            outputs = _tried(own.train(is_training), rows, prepared.schema.n_classes)
            if is_training and not outputs.requires_grad:
                raise ValueError(
                    "network must return what depends on its parameters, but no gradient leads "
                    "back to them; leave out what detaches it"
                )
            digest.update(outputs.detach().contiguous().numpy().tobytes())
    return str(digest.hexdigest())


def outputs_of(module: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return what a module in evaluation makes of rows; drawing, it draws the same again."""
    import torch

    with torch.no_grad(), _drawing_from(0):
        outputs: torch.Tensor = module(rows)
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
    import torch

    own = copy.deepcopy(module).eval()
    normal = [
        one for one in own.modules() if isinstance(one, torch.nn.modules.batchnorm._BatchNorm)
    ]
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
    (rows,) = (*given, *named.values())
    others = [axis for axis in range(rows.dim()) if axis != 1]
    normal.running_mean = rows.mean(dim=others)
    normal.running_var = rows.var(dim=others, correction=0)


def _trained(module: torch.nn.Module) -> list[torch.nn.Parameter]:
    return [one for one in module.parameters() if one.requires_grad]


def _losses(outputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Return the loss of each row, (n,): log loss, or half squared error."""
    import torch

    if target.is_floating_point():
        return 0.5 * (outputs.reshape(-1) - target).square()
    return torch.nn.functional.cross_entropy(outputs, target, reduction="none")


@contextmanager
def _drawing_from(*seed: int) -> Iterator[None]:
    """Let torch's own generator start from a seed; the state that it had comes back."""
    import torch

    (number,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(number) >> 1)
        yield


def _digest_of_state(module: torch.nn.Module) -> Any:
    digest = hashlib.sha256(repr(module).encode())
    for name, part in module.named_modules():
        digest.update(f"{name} {type(part).__module__}.{type(part).__qualname__}".encode())
    named = [*module.named_parameters(remove_duplicate=False)]
    for name, tensor in [*named, *module.named_buffers(remove_duplicate=False)]:
        digest.update(
            f"{name} {tensor.dtype} {tuple(tensor.shape)} {tensor.requires_grad}".encode()
        )
        digest.update(tensor.detach().contiguous().numpy().tobytes())
    return digest


def _tried(module: torch.nn.Module, rows: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Return what a module makes of a mini-batch; ValueError if that is not what is needed."""
    import torch

    n, width = rows.shape
    try:
        with _drawing_from(0):
            outputs = module(rows)
    except Exception as error:
        raise ValueError(
            f"network must take rows of {width} inputs, a tensor ({n}, {width}) in float32, but "
            f"does not: {_first_line(error)}"
        ) from error
    shapes = [(n, n_classes)] if n_classes else [(n,), (n, 1)]
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) not in shapes:
        what = "a score for each class" if n_classes else "one value a row"
        got = tuple(outputs.shape) if isinstance(outputs, torch.Tensor) else type(outputs).__name__
        raise ValueError(
            f"network must return {what}, a tensor {shapes[-1]}, but returns {got}; give its last "
            f"layer {n_classes or 1} outputs"
        )
    if outputs.dtype != torch.float32:
        raise ValueError(f"network must compute in float32 but returns {outputs.dtype}; cast it")
    if not bool(outputs.isfinite().all()):
        raise ValueError("network must return finite numbers but does not; give other weights")
    sums = outputs.detach().sum(dim=1) if n_classes else None
    if sums is not None and bool((outputs >= 0).all() & ((sums - 1).abs() < _AS_A_WHOLE).all()):
        raise ValueError(
            "network must return scores, of which a softmax makes probabilities, but returns what "
            "looks like probabilities; leave out its last softmax"
        )
    return outputs


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
