"""Masks that differ from given sets: each mask that is drawn is repaired until it does.

A feature that a mask shares with a given set leaves the mask, until the mask is far enough from
every set. Which one is drawn, by how improbable it is that the distribution itself would have kept
it. A final mask is made in the same way, but the least probable leaves.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.dissimilarity import Dissimilarity, largest_overlap
from chaffinch.tasks.selection.pefs.distribution import Masks
from chaffinch.tasks.selection.vocabulary import Floats, Mask


class Repair:
    """Takes masks to masks that are at least `tau` from every given set.

    Parameters
    ----------
    n_features : int
        d.
    previous : sequence of collection of int
        The given sets, of features in 0..d-1; none is empty.
    tau : float in 0..1
        The least dissimilarity.
    kind : "dice" or "jaccard"
        Which dissimilarity.

    Raises
    ------
    ValueError
        If a set is empty or has no such feature, `tau` is out of range, or all sets together leave
        no feature, so that not every mask could be repaired.
    """

    def __init__(
        self,
        n_features: int,
        previous: Sequence[Collection[int]],
        tau: float,
        kind: Dissimilarity = "dice",
    ) -> None:
        largest_overlap(1, 1, tau, kind)  # refuses what is no tau, and no dissimilarity
        self._sets = np.zeros((len(previous), n_features), dtype=bool)
        for position, features in enumerate(previous):
            if not features:
                raise ValueError(f"previous set {position + 1} is empty; leave it out")
            if any(not 0 <= j < n_features for j in features):
                raise ValueError(
                    f"previous sets must be of features in 0..{n_features - 1} but set "
                    f"{position + 1} is {sorted(features)}"
                )
            self._sets[position, list(features)] = True
        self._outside = ~self._sets.any(axis=0)
        if tau > 0 and not self._outside.any():
            raise ValueError(
                f"the {len(previous)} previous sets together must leave a feature out but have "
                f"all {n_features}; give fewer of them, or tau 0"
            )
        self._tau, self._kind = tau, kind

    def __call__(self, masks: Masks, probabilities: Floats, random: np.random.Generator) -> Masks:
        """Repair masks (m, d) that were drawn by probabilities (d,); they are not changed."""
        repaired = masks.copy()
        for mask in repaired:
            # the larger the exponential time, scaled by the rate, the later a feature leaves
            rates = np.maximum(1 - probabilities, np.finfo(np.float64).tiny)
            self._reduce(mask, random.exponential(size=len(mask)) / rates)
            if not mask.any():
                mask[self._best_outside(probabilities)] = True
        return repaired

    def final(self, mask: Mask, probabilities: Floats) -> Mask:
        """Return a mask (d,) repaired by dropping what is least probable by probabilities (d,)."""
        repaired = mask.copy()
        self._reduce(repaired, probabilities)
        if not repaired.any():
            repaired[self._best_outside(probabilities)] = True
        return repaired

    def most_probable(self, probabilities: Floats, n_features: int) -> Mask:
        """Return the mask of `n_features` features that takes the most probable it may, in turn.

        Parameters
        ----------
        probabilities : ndarray of float64, shape (d,)
        n_features : int in 1..d

        Raises
        ------
        ValueError
            If too few features are left.
        """
        most = [
            largest_overlap(n_features, int(one.sum()), self._tau, self._kind) for one in self._sets
        ]
        mask = np.zeros(len(probabilities), dtype=bool)
        shared = np.zeros(len(self._sets), dtype=np.int64)
        for j in np.argsort(-probabilities, kind="stable"):
            if mask.sum() == n_features:
                break
            if (shared + self._sets[:, j] <= most).all():
                mask[j] = True
                shared += self._sets[:, j]
        if mask.sum() < n_features:
            raise ValueError(
                f"n_features must be at most {int(mask.sum())}, of the most probable features that "
                f"differ by tau {self._tau:g} from all previous sets, but is {n_features}; lower "
                "one of them"
            )
        return mask

    def is_far(self, mask: Mask) -> bool:
        """Return whether a mask (d,) is far enough from every given set."""
        return not self._violated(mask).any()

    def _violated(self, mask: Mask) -> NDArray[np.bool_]:
        size = int(mask.sum())
        most = [largest_overlap(size, int(one.sum()), self._tau, self._kind) for one in self._sets]
        return np.asarray((self._sets & mask).sum(axis=1) > most)

    def _reduce(self, mask: Mask, when: Floats) -> None:
        """Drop features that are shared with a set too near, the earliest first, in place."""
        while (violated := self._violated(mask)).any():
            shared = np.flatnonzero(mask & self._sets[violated].any(axis=0))
            mask[shared[np.argmin(when[shared])]] = False

    def _best_outside(self, probabilities: Floats) -> int:
        return int(np.argmax(np.where(self._outside, probabilities, -1.0)))
