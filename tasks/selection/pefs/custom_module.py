"""Test on a mini-batch whether a torch module can replace the paper's network.

A module behaves in the search as in the test. All of its state must be in parameters and buffers of
constant names and shapes: a checkpoint stores these, and no others.
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

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.errors import UnusableError
from chaffinch.tasks.selection.models.mlp import adam
from chaffinch.tasks.selection.models.runtime import single_torch_thread, torch_by_default
from chaffinch.tasks.selection.pefs.network import DECAY, RATE, Prepared

if TYPE_CHECKING:
    import torch


# A user's torch module in place of the paper's network.
#
# Each mask has its own forward pass and batch statistics. Training starts from the module's
# weights, in float32, and is otherwise that of the paper's network: Adam on the mean loss of all
# masks, weight decay on tensors of two or more dimensions. Random numbers of the module, as for
# dropout, come from torch's own generator, which is seeded for each pass and then restored.


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
            problem, remedy = f"removes {what}", "let it stay"
        elif there is before.get(name):
            problem = f"stops training {what}"
        else:
            problem, remedy = (
                f"gives {what} a gradient, or makes it again",
                f"make it before, and {remedy}",
            )
        raise UnusableError(
            "network must train the same parameters from the first step to the last, but "
            f"{problem} at iteration {self.step}; {remedy}"
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
    """Return the first line of an error's message, or its type."""
    return next(iter(str(error).splitlines()), type(error).__name__)


def first_sentence(error: Exception) -> str:
    """Return the type of an error, and the first sentence of its message."""
    problem = next(iter(str(error).splitlines()), "").partition(". ")[0].removesuffix(".")
    return f"{type(error).__name__}: {problem}" if problem else type(error).__name__


_AS_A_WHOLE = 1e-4  # how near to 1 probabilities add up

# of a parameter or buffer by its name: its shape, its type, and whether it takes gradients
_State = dict[str, tuple[tuple[int, ...], "torch.dtype", bool]]


@torch_by_default()
def checked(module: Any, prepared: Prepared, n_rows: int) -> str:
    """Try a module on a mini-batch, and return a digest that identifies it.

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
        A digest of its layers, weights and buffers, and of its outputs for the mini-batch: layers
        alone do not show what happens between them.

    Raises
    ------
    ValueError
        If it is no module, cannot be trained, does not take such rows, returns anything but one
        finite number a row, or a score for each class, uses a batch normalisation twice, cannot
        take two steps or be copied after them, or has other parameters or buffers after a step, or
        one of another shape or type.
    """
    import torch

    if not isinstance(module, torch.nn.Module):
        raise ValueError(
            f"network must be a torch.nn.Module but is {module!r:.60}; leave it out for the paper's"
        )
    if isinstance(module, torch.jit.ScriptModule):
        raise ValueError(
            "network must be a module of Python but is one of TorchScript, whose gradients torch "
            "keeps to itself; give the module that it was made of"
        )
    _check_has_weights(module, prepared.inputs.shape[1])
    training = ModuleTraining.begin(module, 0)
    own = training.module
    digest, state = _digest_of_state(own), _state_of(own)
    rows = torch.from_numpy(prepared.inputs[:n_rows].copy())
    with single_torch_thread():
        for is_training in (True, False):
            with _each_normal_once(own):
                outputs = _tried(own.train(is_training), rows, prepared.schema.n_classes)
            if is_training:
                _check_kept(state, own)
            if is_training and not outputs.requires_grad:
                raise ValueError(
                    "network must return what depends on its parameters, but no gradient leads "
                    "back to them; leave out what detaches it"
                )
            digest.update(outputs.detach().contiguous().numpy().tobytes())
        _try_one_row(own, rows[:1], prepared.schema.n_classes)
        _try_steps(training, rows, torch.from_numpy(prepared.target[:n_rows]))
        _check_kept(state, own)
    return str(digest.hexdigest())


def _check_has_weights(module: torch.nn.Module, width: int) -> None:
    """Refuse lazy layers that were never run, and the meta device; ValueError."""
    from torch.nn.parameter import is_lazy

    tensors = [*module.parameters(), *module.buffers()]
    if any(each.is_meta for each in tensors):
        raise ValueError(
            "network must have weights but was made on torch's meta device, which holds none; make "
            "it on the CPU, as within torch.device('cpu')"
        )
    if any(is_lazy(each) for each in tensors):
        raise ValueError(
            "network has lazy layers without weights; run it once on a row of zeros in evaluation, "
            f"as network.eval()(torch.zeros(1, {width})) does"
        )


@contextmanager
def _each_normal_once(module: torch.nn.Module) -> Iterator[None]:
    """Refuse a module that uses a batch normalisation twice in the pass within; ValueError.

    As it predicts it has one mean and variance, and so would have those of one call for all.
    """
    calls: Counter[str] = Counter()
    hooks = [
        one.register_forward_pre_hook(lambda *_, name=name: calls.update([name]))
        for name, one in normalisations(module).items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
    name, n_calls = calls.most_common(1)[0] if calls else ("", 0)
    if n_calls > 1:
        raise ValueError(
            f"network must use each batch normalisation once in a pass but uses {name!r} {n_calls} "
            "times, and its statistics would be those of one call alone; make one for each place"
        )


def _try_one_row(module: torch.nn.Module, row: torch.Tensor, n_classes: int) -> None:
    """Try one row in evaluation, as it may come alone; ValueError if that cannot be."""
    without = [name for name, one in normalisations(module).items() if one.running_mean is None]
    try:
        _tried(module, row, n_classes)
    except ValueError as error:
        if not without:
            raise
        raise ValueError(
            f"network must take one row alone in evaluation, but its batch normalisation "
            f"{without[0]!r} keeps no statistics for that; make it with track_running_stats=True"
        ) from error


def _try_steps(training: ModuleTraining, rows: torch.Tensor, target: torch.Tensor) -> None:
    """Take two steps under two masks, each with a pass of its own; ValueError if that cannot be.

    What a network keeps of the first is there in the second, and in the copy that predicts.
    """
    import torch

    for _ in range(2):
        training.train(rows, target, None, torch.ones_like(rows[:2]))
    try:
        copy.deepcopy(training.module)
    except Exception as error:
        raise ValueError(
            f"network cannot be copied after a training step ({first_sentence(error)}); what it "
            "keeps of a pass must be detached, as by outputs.detach()"
        ) from error


def _state_of(module: torch.nn.Module) -> _State:
    parameters = module.named_parameters(remove_duplicate=False)
    buffers = module.named_buffers(remove_duplicate=False)
    return {
        name: (tuple(one.shape), one.dtype, one.requires_grad)
        for name, one in itertools.chain(parameters, buffers)
    }


def _check_kept(before: _State, module: torch.nn.Module) -> None:
    """Refuse a module whose parameters and buffers are others than before a step; ValueError."""
    after = _state_of(module)
    changed = [name for name in {**after, **before} if before.get(name) != after.get(name)]
    if not changed:
        return
    name, is_parameter = changed[0], changed[0] in dict(module.named_parameters())
    was, now = before.get(name), after.get(name)
    what = f"{'parameter' if is_parameter else 'buffer'} {name!r}"
    if now is None:
        problem, remedy = f"removes {name!r}", "let it stay"
    elif was is not None and was[:2] == now[:2]:
        problem = f"gives {what} a gradient" if now[2] else f"stops training {what}"
        remedy = "set requires_grad before the search" if is_parameter else "store it detached"
    else:
        problem = f"makes {what}, {_written(now)}, {f'of {_written(was)}' if was else 'again'}"
        of_type = "" if now[1].is_floating_point else f", dtype={now[1]}"
        zeros = f"register_buffer({name.rpartition('.')[2]!r}, torch.zeros({now[0]}{of_type}))"
        if is_parameter:
            remedy = "make it in __init__"
        elif was is not None and was[0] == now[0]:
            remedy = f"store it in {str(was[1]).removeprefix('torch.')}"
        else:
            remedy = f"give it that from the start, as by {zeros}"
    raise ValueError(
        "network must keep the names, shapes and types of its parameters and buffers, but a "
        f"training step {problem}; {remedy}"
    )


def _written(state: tuple[tuple[int, ...], torch.dtype, bool]) -> str:
    return f"{state[0]} in {str(state[1]).removeprefix('torch.')}"


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
        with drawing_from(0):
            outputs = module(rows)
    except Exception as error:
        raise ValueError(
            f"network must take rows of {width} inputs, a tensor ({n}, {width}) in float32, but "
            f"does not: {first_line(error)}"
        ) from error
    shapes = [(n, n_classes)] if n_classes else [(n,), (n, 1)]
    if not isinstance(outputs, torch.Tensor) or tuple(outputs.shape) not in shapes:
        what = "a score for each class" if n_classes else "one value a row"
        remedy = f"give its last layer {n_classes} outputs"
        if not n_classes:
            remedy = (
                "give its last layer 1 output, or ask for the task classification if y holds labels"
            )
        if isinstance(outputs, torch.Tensor):
            got = str(tuple(outputs.shape))
        else:
            got, remedy = type(outputs).__name__, "return the tensor alone"
        raise ValueError(
            f"network must return {what}, a tensor {shapes[-1]}, but returns {got}; {remedy}"
        )
    if outputs.layout != torch.strided:
        raise ValueError(
            "network must return a dense tensor but returns a sparse one; let it return "
            "outputs.to_dense()"
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
