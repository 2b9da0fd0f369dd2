"""A torch module as predictions in float64, and its layers where it is a plain perceptron.

The meaning of a module's outputs is a convention. Two or more outputs per row are classes:
probabilities after a last Softmax, else scores for a softmax. One output per row is a value under
squared and absolute error; under other losses it is the probability of the second of two classes
after a last Sigmoid, and under log loss else its log odds. Layers that change nothing do not count
as last. If the last layer is unknown, as in a user's own module, outputs that look like
probabilities are refused: a softmax of a softmax would be a wrong number.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from chaffinch.errors import InputError, NotCovered
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.models.base import replaced_methods
from chaffinch.tasks.selection.models.dense import Activation
from chaffinch.tasks.selection.models.runtime import made_on_the_cpu, single_torch_thread

_HIDDEN: dict[str, Activation] = {"ReLU": "relu", "Sigmoid": "logistic", "Tanh": "tanh"}
_WITHOUT_EFFECT = frozenset({"AlphaDropout", "Dropout", "Dropout1d", "Flatten", "Identity"})
_LAST = frozenset({"LogSoftmax", "Sigmoid", "Softmax"})
_OF_NUMBERS = ("squared_error", "absolute_error")


def frozen(module: Any) -> Any:
    """Return a copy in float64 and evaluation mode; InputError if it is lazy or has no copy."""
    from torch.nn.parameter import UninitializedParameter

    if any(isinstance(parameter, UninitializedParameter) for parameter in module.parameters()):
        raise InputError("the torch module has lazy layers without weights; run and train it first")
    try:
        return copy.deepcopy(module).to("cpu").double().eval()
    except RuntimeError as error:
        raise InputError(
            f"the torch module cannot be copied ({str(error).splitlines()[0]}); give a function "
            "from X to its predictions"
        ) from error


def predict(module: Any, X: Floats, loss: Any) -> Floats:
    """Return a frozen module's values (n,) or class probabilities (n, n_classes)."""
    import torch

    with single_torch_thread(), torch.no_grad(), made_on_the_cpu():
        outputs = _outputs(module, torch.from_numpy(np.array(X, dtype=np.float64)))
        last = _last(module)
        several = outputs.ndim == 2 and outputs.shape[1] > 1
        if last not in (*_LAST, "Linear", *_HIDDEN) or (several and last == "Sigmoid"):
            _check_no_probabilities(outputs, loss, several=several)
        if several:
            if last == "LogSoftmax":
                outputs = outputs.exp()
            elif last != "Softmax":
                outputs = outputs.softmax(dim=1)
        else:
            outputs = outputs.reshape(len(X))
            if last != "Sigmoid" and loss == "log_loss":
                outputs = outputs.sigmoid()
            if (last == "Sigmoid" and loss not in _OF_NUMBERS) or loss == "log_loss":
                outputs = torch.stack((1 - outputs, outputs), dim=1)
    return np.asarray(outputs.numpy(), dtype=np.float64)


def _outputs(module: Any, rows: Any) -> Any:
    """Return what a module makes of rows, a tensor of shape (n,), (n, 1) or (n, n_outputs)."""
    import torch

    n, d = rows.shape
    try:
        outputs = module(rows)
    except RuntimeError as error:
        raise InputError(
            f"the torch module must take rows of {d} features, in float64 as its weights are here, "
            f"but does not: {str(error).splitlines()[0]}"
        ) from error
    if not isinstance(outputs, torch.Tensor):
        raise InputError(
            f"the torch module must return one tensor but returns a {type(outputs).__name__}; "
            "wrap it in one that returns the predictions alone"
        )
    if len(outputs) != n or (outputs.ndim > 2 and outputs.numel() != n):
        raise InputError(
            f"the torch module must return one row of outputs for each of {n} rows but returns a "
            f"tensor of shape {tuple(outputs.shape)}; flatten it"
        )
    return outputs


def _last(module: Any) -> str:
    names = [_own_name(layer) for layer in _flattened(module)]
    return next((name for name in reversed(names) if name not in _WITHOUT_EFFECT), "")


def _check_no_probabilities(outputs: Any, loss: Any, *, several: bool) -> None:
    """Raise InputError for outputs that would be made into probabilities but seem to be some."""
    within = bool(((outputs >= 0) & (outputs <= 1)).all())
    if within and (several or loss == "log_loss"):
        raise InputError(
            "the torch module's outputs look like probabilities but would be taken for scores, as "
            "it is no torch.nn.Sequential that ends in Softmax, or in Sigmoid with one output; "
            "give a function from X to the class probabilities"
        )


def layers(module: Any) -> tuple[tuple[Floats, ...], tuple[Floats, ...], Activation]:
    """Return weights (fan_in, fan_out), biases and activation; NotCovered if no perceptron."""
    import torch

    if not isinstance(module, torch.nn.Sequential):
        raise NotCovered(f"{type(module).__name__} is no torch.nn.Sequential")
    _check_nothing_between(module)
    chain = [layer for layer in _flattened(module) if _own_name(layer) not in _WITHOUT_EFFECT]
    if chain and _own_name(chain[-1]) in _LAST:
        chain = chain[:-1]
    names = [_own_name(layer) for layer in chain]
    between = next((name for name in names if name != "Linear"), "")
    hidden = ["Linear", between] if between else ["Linear"]
    if names != [*hidden * (names.count("Linear") - 1), "Linear"]:
        raise NotCovered("its layers are not linear ones with one kind of activation between them")
    if between and between not in _HIDDEN:
        raise NotCovered(f"its activation {between} is not known here")
    linear = [layer for layer in chain if _own_name(layer) == "Linear"]
    weights = tuple(_array(layer.weight).T for layer in linear)
    biases = tuple(
        np.zeros(layer.out_features) if layer.bias is None else _array(layer.bias)
        for layer in linear
    )
    return weights, biases, _HIDDEN[between] if between else "identity"


def _flattened(module: Any) -> list[Any]:
    import torch

    if type(module) is not torch.nn.Sequential:
        return [module]
    return [layer for child in module for layer in _flattened(child)]


def _check_nothing_between(module: Any) -> None:
    """Raise NotCovered if a forward pass calls a user's function on its way."""
    from torch.nn.modules import module as of_all

    hooks: list[Any] = [of_all._global_forward_hooks, of_all._global_forward_pre_hooks]
    for part in module.modules():
        hooks += [part._forward_hooks, part._forward_pre_hooks]
        if replaced := replaced_methods(part):
            raise NotCovered(f"the {type(part).__name__}'s own {replaced[0]} was replaced")
    if any(hooks):
        raise NotCovered("it has forward hooks")


def _own_name(layer: Any) -> str:
    """Return the class name of a layer of torch's own, "" for any other."""
    return type(layer).__name__ if type(layer).__module__.startswith("torch.nn.") else ""


def _array(parameter: Any) -> Floats:
    return np.asarray(parameter.detach().numpy(), dtype=np.float64)
