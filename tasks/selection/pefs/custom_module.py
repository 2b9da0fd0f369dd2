"""A user's torch module in place of the paper's network.

Each mask has its own forward pass and batch statistics. Training starts from the module's weights,
in float32, and is otherwise that of the paper's network: Adam on the mean loss of all masks, weight
decay on tensors of two or more dimensions. Random numbers of the module, as for dropout, come from
torch's own generator, which is seeded for each pass and then restored.

`checked` tests on a mini-batch whether a module can do so. All of its state must be in parameters
and buffers of constant names and shapes: a checkpoint stores these, and no others.
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.mlp import adam
from chaffinch.tasks.selection.models.runtime import single_torch_thread, torch_by_default
from chaffinch.tasks.selection.pefs.network import DECAY, RATE, Prepared

if TYPE_CHECKING:
    import torch


@dataclass
class ModuleTraining:
    """A copy of a module on its way, with what Adam keeps of each trained parameter.

    `seed` is of what the module itself draws; `step` steps were taken.
    """

    module: torch.nn.Module
    began_with: dict[str, torch.nn.Parameter]
    means: list[torch.Tensor]
    squares: list[torch.Tensor]
    seed: int
    step: int = 0

    @classmethod
    def begin(cls, module: torch.nn.Module, seed: int) -> ModuleTraining:
        """Copy a module, which is not changed; InputError if it cannot be copied or trained."""
        import torch

        own = copied(module)
        trained = _trained(own)
        if not trained:
            raise InputError(
                "network must have parameters that require gradients but has none; give a module "
                "that can be trained"
            )
        means, squares = ([torch.zeros_like(p) for p in trained.values()] for _ in range(2))
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
        return {f"{name}_{i}": t for name, ts in of_each.items() for i, t in enumerate(ts)}

    def train(
        self,
        inputs: torch.Tensor,
        target: torch.Tensor,
        weight: torch.Tensor | None,
        masks: torch.Tensor,
    ) -> Floats:
        """Take a step on the mean loss of all masks, and return the loss of each, (m,).

        See `network.Training.train`. InputError, with the number of the step, if a pass raises
        or changes which parameters are trained, or no gradient can be taken.
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
        # a gradient may share its memory with another's, so decay makes a new tensor
        gradients = tuple(
            gradient.add(parameter.detach(), alpha=DECAY) if parameter.dim() >= 2 else gradient
            for parameter, gradient in zip(trained, gradients, strict=True)
        )
        with torch.no_grad():
            adam(trained, gradients, self.means, self.squares, RATE, self.step)
        return losses.detach().numpy().astype(np.float64)

    def _check_trained(self) -> None:
        """Refuse a module that trains other parameters than it began with; InputError."""
        before, now = self.began_with, _trained(self.module)
        for name in {**now, **before}:
            if now.get(name) is not before.get(name):
                raise InputError(
                    "network must train the same parameters from the first step to the last, but "
                    f"adds, removes, replaces, freezes or unfreezes {name!r} at iteration "
                    f"{self.step}; make it, and set requires_grad, before the search"
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
            raise self._training_error(error) from error

    def _gradients(
        self, loss: torch.Tensor, trained: Sequence[torch.Tensor]
    ) -> tuple[torch.Tensor, ...]:
        import torch

        if not loss.requires_grad:
            raise InputError(
                "network must return what depends on its parameters, but no gradient leads back to "
                f"them at iteration {self.step}; leave out what detaches it"
            )
        try:
            return torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True)
        except RuntimeError as error:
            raise InputError(
                "network must let each step take its gradients, but keeps or changes what they go "
                f"through at iteration {self.step} ({first_sentence(error)}); what it keeps or "
                "changes on its way must be a new tensor, detached"
            ) from error
        except Exception as error:  # as of a backward pass that is written by hand
            raise self._training_error(error) from error

    def _training_error(self, error: Exception) -> InputError:
        return InputError(
            f"network ends in an error of its own at iteration {self.step} "
            f"({first_sentence(error)}); give one that takes any number of mini-batches"
        )


def copied(module: torch.nn.Module) -> torch.nn.Module:
    """Return a copy in float32 on the CPU; InputError if there can be none."""
    try:
        own = copy.deepcopy(module).to("cpu").float()
    except Exception as error:
        raise InputError(
            f"network cannot be copied ({first_line(error)}); give one that copy.deepcopy takes"
        ) from error
    if any(tensor.is_complex() for tensor in (*own.parameters(), *own.buffers())):
        raise InputError("network must have real weights but has complex ones; give others")
    return own


def outputs_of(module: torch.nn.Module, rows: torch.Tensor) -> torch.Tensor:
    """Return the outputs of a module in evaluation, detached; InputError if it raises.

    It draws the same random numbers each time.
    """
    import torch

    try:
        with torch.no_grad(), drawing_from(0):
            outputs: torch.Tensor = module(rows).detach()
    except Exception as error:
        raise InputError(
            f"network ends in an error of its own as it predicts ({first_sentence(error)}); give "
            "one that takes any number of rows in evaluation"
        ) from error
    return outputs


def recalibrated(module: torch.nn.Module, rows: torch.Tensor) -> torch.nn.Module:
    """Return a copy in evaluation, with the statistics of batch normalisation over `rows`.

    Rows (n, width) are all training rows under a mask; each counts alike.
    """
    own = copy.deepcopy(module).eval()
    normal = normalisations(own).values()
    hooks = [norm.register_forward_pre_hook(_take_statistics, with_kwargs=True) for norm in normal]
    if normal:
        outputs_of(own, rows)
    for hook in hooks:
        hook.remove()
    return own


def _take_statistics(
    normal: Any, positional: tuple[torch.Tensor, ...], named: dict[str, torch.Tensor]
) -> None:
    """Set a batch normalisation's statistics to those of its input."""
    (rows,) = (tensor.detach() for tensor in (*positional, *named.values()))
    others = [axis for axis in range(rows.dim()) if axis != 1]
    normal.running_mean = rows.mean(dim=others)
    normal.running_var = rows.var(dim=others, correction=0)


def normalisations(module: torch.nn.Module) -> dict[str, Any]:
    """Return the layers of batch normalisation of a module, by name."""
    import torch

    kind = torch.nn.modules.batchnorm._BatchNorm
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, kind)}


def _trained(module: torch.nn.Module) -> dict[str, torch.nn.Parameter]:
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


@contextmanager
def drawing_from(*seed: int) -> Iterator[None]:
    """Let torch's own generator start from a seed; the state that it had comes back."""
    import torch

    (number,) = np.random.SeedSequence(seed).generate_state(1, np.uint64)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(int(number) >> 1)
        yield


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def first_sentence(error: Exception) -> str:
    """Return the type of an error, and the first sentence of its message."""
    problem = next(iter(str(error).splitlines()), "").partition(". ")[0].removesuffix(".")
    return f"{type(error).__name__}: {problem}" if problem else type(error).__name__


_SUM_TOLERANCE = 1e-4  # of probabilities

# of a parameter or buffer by its name: its shape, its type, and whether it takes gradients
_State = dict[str, tuple[tuple[int, ...], "torch.dtype", bool]]


@torch_by_default()
def checked(module: Any, prepared: Prepared, n_rows: int) -> str:
    """Try a module on the first `n_rows` rows, and return a digest that identifies it.

    The digest is of its layers, weights and buffers, and of its outputs: layers alone do not show
    what happens between them. InputError if the module cannot be trained, copied, or used under
    masks.
    """
    import torch
    from torch.nn.parameter import is_lazy

    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"network must be a torch.nn.Module but is {module!r:.60}; leave it out for the paper's"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise InputError(
            "network must be a module of Python but is one of TorchScript, whose gradients torch "
            "keeps to itself; give the module that it was made of"
        )
    if any(is_lazy(tensor) for tensor in (*module.parameters(), *module.buffers())):
        raise InputError(
            "network has lazy layers without weights; run it once on a row of zeros in evaluation, "
            f"as network.eval()(torch.zeros(1, {prepared.inputs.shape[1]})) does"
        )
    training = ModuleTraining.begin(module, 0)
    own = training.module
    digest, state = _digest_of_state(own), _state_of(own)
    rows = torch.from_numpy(prepared.inputs[:n_rows].copy())
    with single_torch_thread():
        for is_training in (True, False):
            with _refuse_repeated_normalisation(own):
                outputs = _try_outputs(own.train(is_training), rows, prepared.schema.n_classes)
            if is_training:
                _check_kept(state, own)
            if is_training and not outputs.requires_grad:
                raise InputError(
                    "network must return what depends on its parameters, but no gradient leads "
                    "back to them; leave out what detaches it"
                )
            digest.update(outputs.detach().contiguous().numpy().tobytes())
        _try_outputs(own, rows[:1], prepared.schema.n_classes)  # as it may come alone
        _try_steps(training, rows, torch.from_numpy(prepared.target[:n_rows]))
        _check_kept(state, own)
    return str(digest.hexdigest())


@contextmanager
def _refuse_repeated_normalisation(module: torch.nn.Module) -> Iterator[None]:
    """Refuse a module that uses a batch normalisation twice in the pass within; InputError.

    Its mean and variance, recalibrated, would be those of a single call for all.
    """
    calls: Counter[str] = Counter()
    hooks = [
        layer.register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
        for name, layer in normalisations(module).items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    name, n_calls = calls.most_common(1)[0] if calls else ("", 0)
    if n_calls > 1:
        raise InputError(
            f"network must use each batch normalisation once in a pass but uses {name!r} {n_calls} "
            "times, and its statistics would be those of one call alone; make one for each place"
        )


def _try_steps(training: ModuleTraining, rows: torch.Tensor, target: torch.Tensor) -> None:
    """Take two steps under two masks, each with a pass of its own; InputError if that fails.

    What a network keeps of the first is there in the second, and in the copy that predicts.
    """
    import torch

    for _ in range(2):
        training.train(rows, target, None, torch.ones_like(rows[:2]))
    try:
        copy.deepcopy(training.module)
    except Exception as error:
        raise InputError(
            f"network cannot be copied after a training step ({first_sentence(error)}); what it "
            "keeps of a pass must be detached, as by outputs.detach()"
        ) from error


def _state_of(module: torch.nn.Module) -> _State:
    parameters = module.named_parameters(remove_duplicate=False)
    buffers = module.named_buffers(remove_duplicate=False)
    return {
        name: (tuple(tensor.shape), tensor.dtype, tensor.requires_grad)
        for name, tensor in itertools.chain(parameters, buffers)
    }


def _check_kept(before: _State, module: torch.nn.Module) -> None:
    """Refuse a module whose parameters and buffers are others than before a step; InputError."""
    after = _state_of(module)
    changed = [name for name in {**after, **before} if before.get(name) != after.get(name)]
    if not changed:
        return
    name = changed[0]
    was, now = (_describe(state[name]) if name in state else "none" for state in (before, after))
    raise InputError(
        "network must keep the names, shapes and types of its parameters and buffers, but a "
        f"training step makes {name!r} {now} where it was {was}; make it in __init__, a buffer by "
        "register_buffer, in the shape and type that it keeps, and store in it what is detached"
    )


def _describe(state: tuple[tuple[int, ...], torch.dtype, bool]) -> str:
    shape, dtype, takes_gradients = state
    what = "with" if takes_gradients else "without"
    return f"{shape} in {str(dtype).removeprefix('torch.')} {what} gradients"


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


def _try_outputs(module: torch.nn.Module, rows: torch.Tensor, n_classes: int) -> Any:
    """Return what a module makes of a mini-batch; InputError if that is not what is needed."""
    import torch

    n, width = rows.shape
    try:
        with drawing_from(0):
            outputs = module(rows)
    except Exception as error:
        raise InputError(
            f"network must take rows of {width} inputs, a tensor ({n}, {width}) in float32, but "
            f"does not: {first_line(error)}"
        ) from error
    shapes = [(n, n_classes)] if n_classes else [(n,), (n, 1)]
    is_dense = isinstance(outputs, torch.Tensor) and outputs.layout == torch.strided
    if not is_dense or tuple(outputs.shape) not in shapes:
        what = "a score for each class" if n_classes else "one value a row"
        got = tuple(outputs.shape) if is_dense else type(outputs).__name__
        remedy = f"give its last layer {n_classes or 1} outputs, and return the dense tensor alone"
        if not n_classes:
            remedy += ", or ask for the task classification if y holds labels"
        raise InputError(
            f"network must return {what}, a tensor {shapes[-1]}, but returns {got}; {remedy}"
        )
    if outputs.dtype != torch.float32:
        raise InputError(f"network must compute in float32 but returns {outputs.dtype}; cast it")
    if not bool(outputs.isfinite().all()):
        raise InputError("network must return finite numbers but does not; give other weights")
    sums = outputs.detach().sum(dim=1) if n_classes else None
    if sums is not None and bool((outputs >= 0).all() & ((sums - 1).abs() < _SUM_TOLERANCE).all()):
        raise InputError(
            "network must return scores, of which a softmax makes probabilities, but returns what "
            "looks like probabilities; leave out its last softmax"
        )
    return outputs
