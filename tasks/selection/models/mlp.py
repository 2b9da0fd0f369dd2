"""The multilayer perceptron.

Parameters have the names and defaults of scikit-learn's MLPClassifier and MLPRegressor, except for
one hidden layer of 20. Three things differ: the loss for early stopping has no penalty in it; a
regression target is standardised while training; and columns that are constant in the training
rows take no part, so that a feature without information cannot disturb a prediction.

Training is in float32. A prediction is computed in float64 from the float32 weights and in numpy:
two masks are then compared to 1e-15 rather than to the 1e-6 of a float32 sum, which is as large
as the differences a search looks for; and a worker that only predicts need not load torch.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.models.base import (
    FROM_TARGET,
    JSON,
    LAYER_SIZES,
    ONE_THREAD,
    QUIET,
    SEEDED,
    Parameters,
    check_matrix,
    check_parameters,
    check_width,
    choice,
    combinations,
    native_file,
    real,
    whole,
)
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.encoding import Encoding
from chaffinch.tasks.selection.models.runtime import (
    single_thread,
    single_torch_thread,
    torch_by_default,
)

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
    """Train a network; return weights and biases in turn, layer by layer, of float32 values.

    Training is in float32, which is what makes it fast, on one thread, and its randomness comes
    from a generator of its own: neither torch's seed nor its number of threads is changed for
    others.
    """
    # inputs (n, sizes[0]) and values are float32, class indices int64; weight has mean 1
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
            raise InputError(
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
    """Take a step of Adam (Kingma and Ba, 2015) in place; `step` counts from 1."""
    # In the order of formulas that the paper calls more efficient (end of its section 2): the
    # epsilon is added before the second mean is corrected for its bias, where torch.optim adds it
    # after. To import torch.optim takes each worker 1.2 s and 70 MB.
    first, second = BETAS
    size = rate * (1 - second**step) ** 0.5 / (1 - first**step)
    for layer, gradient, mean, square in zip(layers, gradients, means, squares, strict=True):
        mean.lerp_(gradient, 1 - first)
        square.mul_(second).addcmul_(gradient, gradient, value=1 - second)
        layer.addcdiv_(mean, square.sqrt().add_(EPSILON), value=-size)


_TENSORS, _CONFIGURATION = "model.safetensors", "config.json"
_DAMAGED, _AS_WRITTEN = "the model's files are damaged", "give them as they were written"
_ROWS_AT_ONCE = 4096
_DEFAULTS: dict[str, Any] = {
    "hidden_layer_sizes": (20,),
    "activation": "relu",
    "alpha": 1e-4,
    "learning_rate_init": 0.001,
    "max_iter": 200,
    "tol": 1e-4,
    "n_iter_no_change": 10,
}
_ACTIVATION = choice("relu", "logistic")
_KNOWN = {
    "hidden_layer_sizes": LAYER_SIZES,
    "activation": _ACTIVATION,
    "alpha": real(0, 1e30),
    "learning_rate_init": real(0, 1e30, above_low=True),
    "batch_size": whole(1),
    "max_iter": whole(1),
    "tol": real(0),
    "n_iter_no_change": whole(1),
}
_REFUSED = {
    **dict.fromkeys(("num_threads", "n_jobs"), ONE_THREAD),
    **dict.fromkeys(("seed", "random_state"), SEEDED),
    **dict.fromkeys(("objective", "loss", "out_activation"), FROM_TARGET),
    **dict.fromkeys(("verbosity", "verbose"), QUIET),
    "solver": "is fixed at 'adam'; leave it out",
}


def check(parameters: Parameters, *_: object) -> None:
    check_parameters("mlp", parameters, _KNOWN, _REFUSED)


def grid(preset: str, *_: object) -> list[dict[str, JSON]]:
    if preset in ("paper:bmo", "paper:afs-bm"):
        return combinations(
            hidden_layer_sizes=([20], [40], [10], [20, 10]),
            activation=("relu", "logistic"),
            alpha=(0.0001, 0.001, 0.01),
            learning_rate_init=(0.001, 0.01),
        )
    return combinations(hidden_layer_sizes=([20], [50]), alpha=(0.0001, 0.01))


@torch_by_default()
def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int, *_: object) -> NeuralNetwork:
    import torch

    settings = _DEFAULTS | dict(parameters)
    settings.setdefault("batch_size", 200)
    encoding = Encoding.fit(rows.X, schema.n_categories)
    encoded = np.empty((len(rows), len(encoding.feature_of_column)), dtype=np.float32)
    for block in _blocks(len(rows)):  # in float64, all rows would take twice their memory besides
        encoded[block] = encoding.transform(rows.X[block])
    varies = encoded.min(axis=0) != encoded.max(axis=0)
    inputs = torch.from_numpy(encoded if varies.all() else encoded[:, varies])
    weight = None
    if rows.weight is not None:
        weight = torch.from_numpy((rows.weight / rows.weight.mean()).astype(np.float32))
    location, scale = 0.0, 1.0
    if schema.n_classes:
        target = torch.from_numpy(rows.y.astype(np.int64))
    else:
        location = float(np.average(rows.y, weights=rows.weight))
        scale = float(np.sqrt(np.average((rows.y - location) ** 2, weights=rows.weight))) or 1.0
        target = torch.from_numpy(((rows.y - location) / scale).astype(np.float32))
    sizes = (inputs.shape[1], *settings["hidden_layer_sizes"], schema.n_classes or 1)
    layers = train(inputs, target, weight, sizes, settings, seed)
    first = np.zeros((len(varies), sizes[1]))
    first[varies] = layers[0]
    return NeuralNetwork(
        schema=schema,
        encoding=encoding,
        activation=settings["activation"],
        weights=(first, *layers[2::2]),
        biases=tuple(layers[1::2]),
        location=location,
        scale=scale,
    )


def _blocks(n_rows: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS_AT_ONCE) for start in range(0, n_rows, _ROWS_AT_ONCE))


@dataclass(frozen=True, eq=False)
class NeuralNetwork(FittedModel):
    """A trained multilayer perceptron; its last layer is linear, then softmax for classes."""

    schema: Schema
    encoding: Encoding
    activation: str  # of the hidden layers
    weights: tuple[Floats, ...]  # (fan_in, fan_out), of float32 values
    biases: tuple[Floats, ...]
    location: float  # a regression's prediction is location + scale x output
    scale: float
    # (d,), what missing values count as; None: the encoding has 0 for them
    filling: Floats | None = None

    kind = "mlp"

    def predict(self, X: Floats) -> Floats:
        check_matrix(X, self.schema)
        outputs = np.empty((len(X), self.schema.n_classes or 1))
        with single_thread():
            for block in _blocks(len(X)):
                outputs[block] = self._outputs(self._encode(X[block]))
        if not self.schema.n_classes:
            return np.asarray(self.location + self.scale * outputs[:, 0])
        outputs -= outputs.max(axis=1, keepdims=True)
        np.exp(outputs, out=outputs)
        return np.asarray(outputs / outputs.sum(axis=1, keepdims=True))

    def on(self, mask: Mask) -> NeuralNetwork:
        """Return the same network of the features of a mask (d,), where it uses no others."""
        encoding = self.encoding
        kept = mask[encoding.feature_of_column]
        sizes = tuple(np.array(encoding.n_categories)[mask].tolist())
        return replace(
            self,
            schema=self.schema.select(mask),
            encoding=Encoding(sizes, encoding.mean[mask], encoding.scale[mask]),
            weights=(self.weights[0][kept], *self.weights[1:]),
            filling=None if self.filling is None else self.filling[mask],
        )

    def _encode(self, X: Floats) -> Floats:
        if self.filling is not None:
            X = np.where(np.isnan(X), self.filling, X)
        return self.encoding.transform(X)

    def _outputs(self, hidden: Floats) -> Floats:
        for w, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            hidden = hidden @ w + b
            if self.activation == "relu":
                np.maximum(hidden, 0, out=hidden)
            else:  # the logistic function, in a form that cannot overflow
                hidden = 0.5 + 0.5 * np.tanh(0.5 * hidden)
        return np.asarray(hidden @ self.weights[-1] + self.biases[-1])

    @property
    def used_features(self) -> Mask:
        used = np.zeros(len(self.schema.features), dtype=bool)
        used[self.encoding.feature_of_column[self.weights[0].any(axis=1)]] = True
        return used

    def dense(self) -> DenseModel:
        n_classes = self.schema.n_classes
        return DenseModel(
            encode=self._encode,
            feature_of_column=self.encoding.feature_of_column,
            weights=self.weights,
            biases=self.biases,
            activation="relu" if self.activation == "relu" else "logistic",
            link="softmax" if n_classes else "identity",
            location=self.location,
            scale=self.scale,
            classes=np.arange(n_classes),
        )

    def to_files(self) -> dict[str, bytes]:
        from safetensors.numpy import save

        tensors = {"mean": self.encoding.mean, "scale": self.encoding.scale}
        if self.filling is not None:
            tensors["filling"] = self.filling
        for layer, (w, b) in enumerate(zip(self.weights, self.biases, strict=True)):
            tensors[f"weight_{layer}"] = w.astype(np.float32)
            tensors[f"bias_{layer}"] = b.astype(np.float32)
        configuration = {
            "activation": self.activation,
            "layers": len(self.weights),
            "location": self.location,
            "scale": self.scale,
        }
        return {_TENSORS: save(tensors), _CONFIGURATION: json.dumps(configuration).encode()}

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], schema: Schema) -> Self:
        from safetensors import SafetensorError
        from safetensors.numpy import load

        tensors_file, words = native_file(files, _TENSORS), native_file(files, _CONFIGURATION)
        try:
            tensors, configuration = load(tensors_file), json.loads(words)
            layers = range(configuration["layers"])
            network = cls(
                schema=schema,
                encoding=Encoding(schema.n_categories, tensors["mean"], tensors["scale"]),
                activation=configuration["activation"],
                weights=tuple(tensors[f"weight_{i}"].astype(np.float64) for i in layers),
                biases=tuple(tensors[f"bias_{i}"].astype(np.float64) for i in layers),
                location=float(configuration["location"]),
                scale=float(configuration["scale"]),
                filling=tensors.get("filling"),
            )
            for name in ("mean", "filling"):
                check_width(len(tensors.get(name, tensors["mean"])), schema)
            with np.errstate(all="ignore"):
                example = network.predict(np.zeros((1, len(schema.features))))
        except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise InputError(f"{_DAMAGED} ({error!r}); {_AS_WRITTEN}") from error
        numbers: list[Any] = [*tensors.values(), example, network.location, network.scale]
        if not all(np.isfinite(values).all() for values in numbers):
            raise InputError(f"{_DAMAGED} (a number is not finite); {_AS_WRITTEN}")
        if not (network.encoding.scale > 0).all() or not _ACTIVATION.accepts(network.activation):
            raise InputError(f"{_DAMAGED} (a scale or the activation is none); {_AS_WRITTEN}")
        return network
