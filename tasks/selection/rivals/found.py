"""Whole masks that a search found, each with the loss that was measured of it.

A search that adds features, or moves whole masks about, has no order in which features leave.
What it has is this: masks and losses, in the order in which it found them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from chaffinch.tasks.selection.vocabulary import Mask

# The one question of a search that refits: masks (m, d) -> losses (m,) of models fitted anew.
RefitLoss = Callable[[Sequence[Mask]], Sequence[float]]


@dataclass(frozen=True)
class FoundMasks:
    """Masks in the order in which they were found.

    Attributes
    ----------
    masks : tuple of ndarray of bool, shape (d,)
        At least one.
    losses : tuple of float
        `losses[i]` is that of a model fitted on the features of `masks[i]`.
    """

    masks: tuple[Mask, ...]
    losses: tuple[float, ...]

    @property
    def n_features(self) -> int:
        """d, the number of features."""
        return len(self.masks[0])

    def of_size(self, n_features: int) -> Mask:
        """Return the last mask found of exactly `n_features` features.

        Raises
        ------
        ValueError
            If none was found.
        """
        for mask in reversed(self.masks):
            if mask.sum() == n_features:
                return mask
        sizes = ", ".join(map(str, sorted({int(mask.sum()) for mask in self.masks})))
        raise ValueError(f"n_features must be one of the sizes found ({sizes}) but is {n_features}")
