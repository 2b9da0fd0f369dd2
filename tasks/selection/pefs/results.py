"""Results of searches by PEFS: the probability of each feature, and its course."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.models.mlp import NeuralNetwork
from chaffinch.tasks.selection.models.runtime import (
    single_thread,
    single_torch_thread,
    torch_by_default,
)
from chaffinch.tasks.selection.pefs.custom_module import outputs_of, recalibrated
from chaffinch.tasks.selection.pefs.distribution import entropy, jaccard, margin, sample
from chaffinch.tasks.selection.pefs.network import Prepared, encoded, folded

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
    """A search for a penalty or number of features, with a seed."""

    asked: float | int  # the penalty, or the number of features that it was steered to
    seed: int  # the number of the search for that, from 0
    sweeps: tuple[Sweep, ...]  # at least one
    held_out_loss: float | None  # of its network under its last mask; None without a network
    # of its network, as `Training.layers`; None unless it is to be the final model
    parameters: tuple[Floats, ...] | None = None

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
    """Searches for several penalties or numbers of features, each with several seeds."""

    searches: tuple[ProbabilisticSearch, ...]

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.searches[0].probabilities)

    @property
    def asked(self) -> list[float | int]:
        """Penalties or numbers of features, each once, in order."""
        return list(dict.fromkeys(search.asked for search in self.searches))

    def probabilities(self, goal: float | int) -> Floats:
        """Return the mean over the seeds, shape (d,)."""
        return np.asarray(np.mean([search.probabilities for search in self._of_goal(goal)], axis=0))

    def mask(self, goal: float | int) -> Mask:
        """Return the mask of a penalty or number of features, shape (d,).

        Of a penalty it keeps features that are as probable as not, or more so, but at least one.
        """
        if isinstance(goal, int):
            return self.most_probable(goal, goal)
        mask = np.asarray(self.probabilities(goal) >= 0.5)
        return mask if mask.any() else self.most_probable(goal, 1)

    def most_probable(self, goal: float | int, n_features: int) -> Mask:
        """Return the mask of the `n_features` most probable.

        Of features that are equally probable at the end, the more probable before stays.
        """
        return most_probable(self.probabilities(goal), n_features, self._mean_over_sweeps(goal))

    def best_first(self, goal: float | int) -> list[int]:
        """Return all features, the most probable first, as `most_probable` takes them."""
        order: list[int] = _order(self.probabilities(goal), self._mean_over_sweeps(goal)).tolist()
        return order

    def _mean_over_sweeps(self, goal: float | int) -> Floats:
        on_the_way = [
            np.mean([sweep.probabilities for sweep in search.sweeps], axis=0)
            for search in self._of_goal(goal)
        ]
        return np.asarray(np.mean(on_the_way, axis=0))

    def is_made(self, goal: float | int) -> bool:
        """Return whether there was anything to search."""
        return all(search.is_made for search in self._of_goal(goal))

    def share_of_iterations(self, goal: float | int) -> float:
        """Return the share of all iterations made for a penalty or number, in 0..1."""
        n_all = sum(search.sweeps[-1].iteration for search in self.searches)
        return sum(search.sweeps[-1].iteration for search in self._of_goal(goal)) / max(n_all, 1)

    def behind(self, mask: Mask) -> float | int:
        """Return the first penalty or number of features that led to a mask, or closest to it."""
        return min(self.asked, key=lambda goal: int((self.mask(goal) != mask).sum()))

    def _of_goal(self, goal: float | int) -> list[ProbabilisticSearch]:
        return [search for search in self.searches if search.asked == goal]


def most_probable(probabilities: Floats, n_features: int, on_the_way: Floats) -> Mask:
    """Return the mask of the `n_features` features of the highest probability.

    `on_the_way` decides between equals; after it, the lower index.
    """
    mask = np.zeros(len(probabilities), dtype=bool)
    mask[_order(probabilities, on_the_way)[:n_features]] = True
    return mask


def _order(probabilities: Floats, on_the_way: Floats) -> NDArray[np.int64]:
    return np.lexsort((-on_the_way, -probabilities))


def stability(sweeps: Sequence[Sweep]) -> float:
    """Return the least Jaccard index of the last mask with the four before; 0 until then."""
    if len(sweeps) <= _SWEEPS_THE_SAME:
        return 0.0
    *before, last = sweeps[-1 - _SWEEPS_THE_SAME :]
    return min(jaccard(sweep.mask, last.mask) for sweep in before)


def is_settled(sweeps: Sequence[Sweep], fixed: Collection[int] = ()) -> bool:
    """Return whether a search has settled; probabilities of `fixed` features never move.

    It has once the mean entropy is below half a bit and the mask has been stable for four sweeps.
    Below 24 features the margins leave more entropy than that: there, a third of the way up from
    the least that they leave.
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
    """One network for all masks, as a search left it; parameters are `Training.layers`.

    Batch normalisation is recalibrated for each mask, on the rows that it was trained on.
    """

    prepared: Prepared
    parameters: Sequence[Floats]

    def under(self, mask: Mask) -> NeuralNetwork:
        """Return the network under a mask (d,), as a network that uses its features alone."""
        prepared = self.prepared
        first = self.parameters[0] * prepared.columns_of(mask)[:, None]
        origin = prepared.encoding.transform(prepared.baseline[None, :])[0]
        with single_thread():
            weights, biases = folded(
                [first, *self.parameters[1:]],
                prepared.inputs.astype(np.float64),
                None if prepared.weight is None else prepared.weight.astype(np.float64),
            )
            biases[0] = biases[0] - origin @ first
        filling = prepared.baseline
        return NeuralNetwork(
            schema=prepared.schema,
            encoding=prepared.encoding,
            activation="relu",
            # as they are stored, so that a network that is read back predicts the same
            weights=tuple(weight.astype(np.float32).astype(np.float64) for weight in weights),
            biases=tuple(bias.astype(np.float32).astype(np.float64) for bias in biases),
            location=prepared.location,
            scale=prepared.scale,
            filling=None if np.isnan(filling).all() else filling,
        )

    def predict(self, X: Floats, mask: Mask) -> Floats:
        """Predict under a mask (d,): values (n,), or probabilities (n, n_classes).

        A missing value of X (n, d) is the baseline.
        """
        return self.under(mask).predict(X)


@dataclass(frozen=True, eq=False)
class SharedModule:
    """One module for all masks, as `SharedNetwork`."""

    prepared: Prepared
    module: torch.nn.Module

    @torch_by_default()  # for what a module makes of its own as it predicts
    def predict(self, X: Floats, mask: Mask) -> Floats:
        """Predict as `SharedNetwork` does, in float32; InputError if an output is not finite."""
        import torch

        prepared = self.prepared
        kept = torch.from_numpy(prepared.columns_of(mask).astype(np.float32))
        with single_torch_thread():
            module = recalibrated(self.module, torch.from_numpy(prepared.inputs) * kept)
            with np.errstate(over="ignore"):  # overflow shows in the outputs
                inputs = encoded(X, prepared.encoding, prepared.baseline)
            rows = torch.from_numpy(inputs) * kept
            outputs = torch.cat(
                [outputs_of(module, some) for some in torch.split(rows, _ROWS_AT_ONCE)]
            )
            outputs = outputs.double().reshape(len(X), prepared.schema.n_classes or 1)
            wrong = (~outputs.isfinite()).any(dim=1).nonzero()
            if len(wrong):
                raise InputError(
                    "the network must return finite numbers but does not for row "
                    f"{int(wrong[0]) + 1}; clip the largest numbers of that row"
                )
            if prepared.schema.n_classes:
                return outputs.softmax(dim=1).numpy()
            return prepared.location + prepared.scale * outputs.reshape(-1).numpy()


def predict_averaged(
    network: SharedNetwork | SharedModule,
    X: Floats,
    probabilities: Floats,
    n_samples: int,
    seed: int,
) -> Floats:
    """Predict on the mean over masks that are drawn; each takes a recalibration."""
    masks = sample(probabilities, n_samples, np.random.default_rng(seed))
    return np.asarray(np.mean([network.predict(X, mask) for mask in masks], axis=0))
