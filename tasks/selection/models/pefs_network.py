"""The network of PEFS: three layers of 200 units with batch normalisation.

Saito, Shirakawa and Akimoto, GECCO '18 Companion (2018), section 3.1. In a run of PEFS the network
that its search has trained is the final model on the chosen features. What is here trains the same
network without a search, on all features: what the paper compares with.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Rows, Schema
from chaffinch.tasks.selection.models.base import (
    JSON,
    LAYER_SIZES,
    Parameters,
    check_parameters,
    whole,
)
from chaffinch.tasks.selection.models.runtime import single_torch_thread, torch_by_default

if TYPE_CHECKING:
    from chaffinch.tasks.selection.models.mlp import NeuralNetwork

NAME = "pefs-network"
_STEPS, _ROWS_OF_A_STEP = 1000, 256  # as many rows as the two masks of PEFS see
_KNOWN = {"steps": whole(1), "hidden_layer_sizes": LAYER_SIZES}


def check(parameters: Parameters, *_: object) -> None:
    check_parameters(NAME, parameters, _KNOWN, {})


def grid(preset: str, *_: object) -> list[dict[str, JSON]]:
    return [{}] if preset == "small" else []


@torch_by_default()
def fit(rows: Rows, schema: Schema, parameters: Parameters, seed: int, *_: object) -> NeuralNetwork:
    import torch

    # they import this package
    from chaffinch.tasks.selection.pefs.network import Prepared, Training
    from chaffinch.tasks.selection.pefs.results import SharedNetwork

    settings: dict[str, Any] = {"steps": _STEPS, "hidden_layer_sizes": (200, 200, 200)}
    settings |= parameters
    missing = np.full(len(schema.features), np.nan)  # the encoding has 0 for it
    prepared, n_rows = Prepared.of(rows, schema, missing), min(_ROWS_OF_A_STEP, len(rows))
    varying = prepared.varying
    sizes = (prepared.inputs.shape[1], *settings["hidden_layer_sizes"], schema.n_classes or 1)
    generator = torch.Generator().manual_seed(seed)
    training = Training.begin(sizes, generator)
    masks = torch.from_numpy(prepared.columns_of(varying).astype(np.float32)[None, :])
    order = torch.arange(0)
    with single_torch_thread():
        inputs, target, weight = prepared.tensors()
        for step in range(settings["steps"]):
            if len(order) < n_rows:
                order = torch.randperm(len(rows), generator=generator)
            batch, order = order[:n_rows], order[n_rows:]
            of_batch = None if weight is None else weight[batch]
            losses = training.train(inputs[batch], target[batch], of_batch, masks)
            if not np.isfinite(losses).all():
                raise InputError(
                    f"the training of {NAME} diverged after {step} steps; clip the largest values "
                    "of the table, or take another model"
                )
    return SharedNetwork(prepared, training.layers()).under(varying)
