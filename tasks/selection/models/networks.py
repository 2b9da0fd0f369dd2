"""The multilayer perceptron.

Parameters go by the names and defaults of scikit-learn's MLPClassifier and MLPRegressor, but one
hidden layer of 20. Three things differ: the loss that says when to stop has no penalty in it; a
regression target is standardised while training; and columns that are constant in the training
rows take no part, so that a feature without information cannot disturb a prediction.

Training is in float32. A prediction is computed in float64 from the float32 weights and in numpy:
two masks are then compared to 1e-15 rather than to the 1e-6 of a float32 sum, which is as large
as the differences a search looks for; and a worker that only predicts need not load torch.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from chaffinch.tasks.selection.models.checks import check_matrix, check_width, native_file
from chaffinch.tasks.selection.models.encoding import Encoding
from chaffinch.tasks.selection.models.network_training import train
from chaffinch.tasks.selection.models.parameters import (
    FROM_TARGET,
    JSON,
    ONE_THREAD,
    QUIET,
    SEEDED,
    Limit,
    Parameters,
    check_parameters,
    choice,
    combinations,
    real,
    whole,
)
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.models.torch_defaults import torch_by_default
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows, Schema

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
_LAYER = whole(1, 65536)
_ACTIVATION = choice("relu", "logistic")
_KNOWN = {
    "hidden_layer_sizes": Limit(
        f"a list of at least one layer's size, each {_LAYER.words}",
        lambda value: (
            isinstance(value, list | tuple)
            and len(value) > 0
            and all(_LAYER.accepts(size) for size in value)
        ),
    ),
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


def check(parameters: Parameters) -> None:
    """Raise ValueError unless the network takes these parameters."""
    check_parameters("mlp", parameters, _KNOWN, _REFUSED)


def grid(preset: str) -> list[dict[str, JSON]]:
    """Return the candidates of the preset "small" or "paper"."""
    if preset == "paper":
        return combinations(
            hidden_layer_sizes=([20], [40], [10], [20, 10]),
            activation=("relu", "logistic"),
            alpha=(0.0001, 0.001, 0.01),
            learning_rate_init=(0.001, 0.01),
        )
    return combinations(hidden_layer_sizes=([20], [50]), alpha=(0.0001, 0.01))


@torch_by_default()
def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int) -> NeuralNetwork:
    """Train; see the registry's `fit`."""
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
class NeuralNetwork:
    """A trained multilayer perceptron.

    Attributes
    ----------
    schema : Schema
        The features it was trained on.
    encoding : Encoding
        How features become inputs.
    activation : "relu" or "logistic"
        Of the hidden layers. The last one is linear, followed by softmax for classes.
    weights, biases : tuple of ndarray of float64, shapes (fan_in, fan_out) and (fan_out,)
        Layer by layer; their values are float32.
    location, scale : float
        A regression's prediction is location + scale x output; 0 and 1 for classes.
    """

    schema: Schema
    encoding: Encoding
    activation: str
    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    location: float
    scale: float

    @property
    def kind(self) -> str:
        """Name of the family."""
        return "mlp"

    def predict(self, X: Floats) -> Floats:
        """Predict every row of X (n, d): values (n,), or probabilities (n, n_classes)."""
        check_matrix(X, self.schema)
        outputs = np.empty((len(X), self.schema.n_classes or 1))
        with single_thread():
            for block in _blocks(len(X)):
                outputs[block] = self._outputs(self.encoding.transform(X[block]))
        if not self.schema.n_classes:
            return np.asarray(self.location + self.scale * outputs[:, 0])
        outputs -= outputs.max(axis=1, keepdims=True)
        np.exp(outputs, out=outputs)
        return np.asarray(outputs / outputs.sum(axis=1, keepdims=True))

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
        """Features with a weight that is not 0 in the first layer, shape (d,)."""
        used = np.zeros(len(self.schema.features), dtype=bool)
        used[self.encoding.feature_of_column[self.weights[0].any(axis=1)]] = True
        return used

    def to_files(self) -> dict[str, bytes]:
        """Return the arrays as safetensors and the rest as JSON."""
        from safetensors.numpy import save

        tensors = {"mean": self.encoding.mean, "scale": self.encoding.scale}
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
        """Rebuild from `to_files`; ValueError if the files are damaged."""
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
            )
            check_width(len(tensors["mean"]), schema)
            with np.errstate(all="ignore"):
                example = network.predict(np.zeros((1, len(schema.features))))
        except (SafetensorError, ValueError, LookupError, TypeError, RecursionError) as error:
            raise ValueError(f"{_DAMAGED} ({error!r}); {_AS_WRITTEN}") from error
        numbers: list[Any] = [*tensors.values(), example, network.location, network.scale]
        if not all(np.isfinite(values).all() for values in numbers):
            raise ValueError(f"{_DAMAGED} (a number is not finite); {_AS_WRITTEN}")
        if not (network.encoding.scale > 0).all() or not _ACTIVATION.accepts(network.activation):
            raise ValueError(f"{_DAMAGED} (a scale or the activation is none); {_AS_WRITTEN}")
        return network
