"""What the network of a search predicts: under one mask, or on the mean of masks drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.selection.models.networks import NeuralNetwork
from chaffinch.tasks.selection.models.threads import single_thread, single_torch_thread
from chaffinch.tasks.selection.models.torch_defaults import torch_by_default
from chaffinch.tasks.selection.pefs.distribution import Masks, sample
from chaffinch.tasks.selection.pefs.module import outputs_of, recalibrated
from chaffinch.tasks.selection.pefs.network import folded
from chaffinch.tasks.selection.pefs.rows import Prepared
from chaffinch.tasks.selection.vocabulary import Floats, Mask

if TYPE_CHECKING:
    import torch

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class SharedNetwork:
    """One network for all masks, as a search left it.

    Attributes
    ----------
    prepared : Prepared
        The rows that it was trained on; batch normalisation is recalibrated on them for each mask.
    parameters : sequence of ndarray of float64
        As `Training.layers` has them.
    """

    prepared: Prepared
    parameters: Sequence[Floats]

    def under(self, mask: Mask) -> NeuralNetwork:
        """Return the network under a mask (d,), as one that uses its features alone.

        Raises
        ------
        ValueError
            If the mask, or the network, is not of as many features as the rows.
        """
        prepared, reading = self.prepared, self.prepared.reading
        d, width = len(prepared.schema.features), len(reading.feature_of_column)
        if mask.shape != (d,):
            raise ValueError(f"mask must have shape ({d},) but has {mask.shape}")
        if len(self.parameters[0]) != width:
            raise ValueError(
                f"the network must have {width} inputs, as the rows have, but has "
                f"{len(self.parameters[0])}; give the rows that it was trained on"
            )
        is_kept = mask[reading.feature_of_column]
        first = self.parameters[0] * is_kept[:, None]
        with single_thread():
            weights, biases = folded(
                [first, *self.parameters[1:]],
                prepared.inputs.astype(np.float64),
                None if prepared.weight is None else prepared.weight.astype(np.float64),
            )
            biases[0] = biases[0] - reading.origin @ first
        return NeuralNetwork(
            schema=prepared.schema,
            encoding=reading.encoding,
            activation="relu",
            weights=tuple(weights),
            biases=tuple(biases),
            location=prepared.location,
            scale=prepared.scale,
        )

    def predict(self, X: Floats, mask: Mask) -> Floats:
        """Predict under one mask (d,): values (n,), or probabilities (n, n_classes).

        Parameters
        ----------
        X : ndarray of float64, shape (n, d)
            A missing value is the baseline.
        mask : ndarray of bool, shape (d,)
        """
        return self.under(mask).predict(self.prepared.reading.filled(X))

    def predict_averaged(
        self, X: Floats, probabilities: Floats, n_samples: int, seed: int
    ) -> Floats:
        """Predict on the mean over masks that are drawn; it may use all features.

        Parameters
        ----------
        X : ndarray of float64, shape (n, d)
        probabilities : ndarray of float64, shape (d,)
            theta.
        n_samples : int, at least 1
            How many masks to draw; each takes a recalibration.
        seed : int
            The only source of randomness.

        Raises
        ------
        ValueError
            If there is no mask to draw.
        """
        return _averaged(self.predict, X, probabilities, n_samples, seed)


@dataclass(frozen=True, eq=False)
class SharedModule:
    """One module for all masks, as a search left it.

    Attributes
    ----------
    prepared : Prepared
        The rows that it was trained on; batch normalisation is recalibrated on them for each mask.
    module : torch.nn.Module
        In float32.
    """

    prepared: Prepared
    module: torch.nn.Module

    @torch_by_default()  # for what a module makes of its own as it predicts
    def predict(self, X: Floats, mask: Mask) -> Floats:
        """See `SharedNetwork.predict`; the outputs are computed in float32.

        Raises
        ------
        ValueError
            If one of them is not finite.
        """
        import torch

        prepared = self.prepared
        kept = torch.from_numpy(mask[prepared.reading.feature_of_column].astype(np.float32))
        with single_torch_thread():
            module = recalibrated(self.module, torch.from_numpy(prepared.inputs) * kept)
            with np.errstate(over="ignore"):  # of what float32 cannot hold the outputs tell
                rows = torch.from_numpy(prepared.reading.inputs(X)) * kept
            outputs = torch.cat(
                [outputs_of(module, some) for some in torch.split(rows, _ROWS_AT_ONCE)]
            )
            outputs = outputs.double().reshape(len(X), prepared.schema.n_classes or 1)
            wrong = (~outputs.isfinite()).any(dim=1).nonzero()
            if len(wrong):
                raise ValueError(
                    "the network must return finite numbers but does not for row "
                    f"{int(wrong[0]) + 1}; clip the largest numbers of that row"
                )
            if prepared.schema.n_classes:
                return outputs.softmax(dim=1).numpy()
            return prepared.location + prepared.scale * outputs.reshape(-1).numpy()

    def predict_averaged(
        self, X: Floats, probabilities: Floats, n_samples: int, seed: int
    ) -> Floats:
        """See `SharedNetwork.predict_averaged`."""
        return _averaged(self.predict, X, probabilities, n_samples, seed)


def _averaged(
    predict: Callable[[Floats, Mask], Floats],
    X: Floats,
    probabilities: Floats,
    n_samples: int,
    seed: int,
) -> Floats:
    if n_samples < 1:
        raise ValueError(f"n_samples must be at least 1 but is {n_samples}")
    masks: Masks = sample(probabilities, n_samples, np.random.default_rng(seed))
    return np.asarray(np.mean([predict(X, mask) for mask in masks], axis=0))
