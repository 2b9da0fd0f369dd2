"""Results of searches by PEFS: the probability of each feature, and its course."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.models.mlp import NeuralNetwork
from chaffinch.tasks.selection.models.runtime import (
    single_thread,
    single_torch_thread,
    torch_by_default,
)
from chaffinch.tasks.selection.pefs.custom_module import outputs_of, recalibrated
from chaffinch.tasks.selection.pefs.distribution import Masks, entropy, jaccard, margin, sample
from chaffinch.tasks.selection.pefs.network import Prepared, folded

if TYPE_CHECKING:
    import torch


_SETTLED, _STABLE, _SWEEPS_THE_SAME = 0.5, 0.95, 4


@dataclass(frozen=True, eq=False)
class Sweep:
    """Where a search was after a sweep, which is about as many iterations as there are features.

    Attributes
    ----------
    iteration : int
        How many there were from the start.
    loss : float
        Mean over the sweep of the mini-batch losses of all samples; of a regression, half the
        squared error in deviations of the target.
    penalty : float
        epsilon at its end.
    probabilities : ndarray of float64, shape (d,)
        theta at its end.
    """

    iteration: int
    loss: float
    penalty: float
    probabilities: Floats

    @property
    def mask(self) -> Mask:
        """Features that are as probable as not, or more so, shape (d,)."""
        return np.asarray(self.probabilities >= 0.5)

    @property
    def entropy(self) -> float:
        """Mean over the features, in bits."""
        return entropy(self.probabilities)


@dataclass(frozen=True, eq=False)
class ProbabilisticSearch:
    """One search: for one penalty or number of features, with one seed.

    Attributes
    ----------
    asked : float or int
        The penalty (float) that it kept to, or the number of features (int) that it was steered to.
    seed : int
        Which of the searches for that it was, from 0.
    sweeps : tuple of Sweep
        At least one.
    held_out_loss : float or None
        Of its own network under the mask of its last sweep, batch normalisation recalibrated, on
        rows held out; None where there was nothing to search, and no network.
    """

    asked: float | int
    seed: int
    sweeps: tuple[Sweep, ...]
    held_out_loss: float | None

    @property
    def probabilities(self) -> Floats:
        """Those of the last sweep, shape (d,)."""
        return self.sweeps[-1].probabilities

    @property
    def is_made(self) -> bool:
        """Whether there was anything to search; its probabilities are 0 and 1 if not."""
        return self.sweeps[-1].iteration > 0


@dataclass(frozen=True, eq=False)
class ProbabilisticSearches:
    """Searches for several penalties or numbers of features, each with several seeds.

    Attributes
    ----------
    searches : tuple of ProbabilisticSearch
        At least one.
    """

    searches: tuple[ProbabilisticSearch, ...]

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.searches[0].probabilities)

    @property
    def asked(self) -> list[float | int]:
        """What was asked for, each once, in order."""
        return list(dict.fromkeys(one.asked for one in self.searches))

    def probabilities(self, asked: float | int) -> Floats:
        """Return the mean over the seeds, shape (d,)."""
        return np.asarray(np.mean([one.probabilities for one in self._of(asked)], axis=0))

    def mask(self, asked: float | int) -> Mask:
        """Return the mask that was asked for, shape (d,).

        Of a number of features the most probable ones; of a penalty those that are as probable as
        not, or more so, but one at least.
        """
        if isinstance(asked, int):
            return self.most_probable(asked, asked)
        mask = np.asarray(self.probabilities(asked) >= 0.5)
        return mask if mask.any() else self.most_probable(asked, 1)

    def most_probable(self, asked: float | int, n_features: int) -> Mask:
        """Return the mask of the `n_features` most probable.

        Of features that are equally probable at the end, the one that was more so on the way stays.
        """
        on_the_way = np.mean(
            [np.mean([at.probabilities for at in one.sweeps], axis=0) for one in self._of(asked)],
            axis=0,
        )
        return most_probable(self.probabilities(asked), n_features, on_the_way)

    def is_made(self, asked: float | int) -> bool:
        """Return whether there was anything to search."""
        return all(one.is_made for one in self._of(asked))

    def share_of_iterations(self, asked: float | int) -> float:
        """Return which share of all iterations was made for one penalty or number, in 0..1."""
        n_all = sum(one.sweeps[-1].iteration for one in self.searches)
        return sum(one.sweeps[-1].iteration for one in self._of(asked)) / max(n_all, 1)

    def behind(self, mask: Mask) -> float | int:
        """Return what was asked for first that led to a mask.

        Raises
        ------
        ValueError
            If nothing did.
        """
        for asked in self.asked:
            if (self.mask(asked) == mask).all():
                return asked
        raise ValueError("the mask must be one that a search led to but is not")

    def _of(self, asked: float | int) -> list[ProbabilisticSearch]:
        return [one for one in self.searches if one.asked == asked]


def most_probable(probabilities: Floats, n_features: int, on_the_way: Floats) -> Mask:
    """Return the mask of the `n_features` features of the highest probability.

    Parameters
    ----------
    probabilities : ndarray of float64, shape (d,)
    n_features : int in 1..d
    on_the_way : ndarray of float64, shape (d,)
        Decides between equals; after it, the lower index.
    """
    order = np.lexsort((-on_the_way, -probabilities))
    mask = np.zeros(len(probabilities), dtype=bool)
    mask[order[:n_features]] = True
    return mask


def stability(sweeps: Sequence[Sweep]) -> float:
    """Return the least Jaccard index of the last mask with each of the four before; 0 until then.

    Parameters
    ----------
    sweeps : sequence of Sweep
        Up to the one of interest.
    """
    if len(sweeps) <= _SWEEPS_THE_SAME:
        return 0.0
    *before, last = sweeps[-1 - _SWEEPS_THE_SAME :]
    return min(jaccard(one.mask, last.mask) for one in before)


def is_settled(sweeps: Sequence[Sweep], fixed: Collection[int] = ()) -> bool:
    """Return whether a search has come to rest.

    It has once the mean entropy is below half a bit and the mask has been stable for four sweeps.
    Below 24 features the margins leave more entropy than that: there, a third of the way up from
    the least that they leave.

    Parameters
    ----------
    sweeps : sequence of Sweep
        All so far.
    fixed : collection of int
        Features whose probability never moves, and has no entropy.
    """
    last = sweeps[-1].probabilities
    n_free = len(last) - len(fixed)
    if not n_free:
        return True
    least = entropy(np.array([margin(len(last))]))
    highest = max(_SETTLED, least + (1 - least) / 3)
    bits = entropy(last) * len(last) / n_free
    return bits < highest and stability(sweeps) >= _STABLE


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
            with np.errstate(over="ignore"):  # overflow shows in the outputs
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
