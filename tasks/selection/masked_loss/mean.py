"""The mean of masked losses of several models, each on rows of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss


class MeanLoss:
    """`MaskedLoss` that is the weighted mean of others over the same features, all new."""

    def __init__(self, engines: Sequence[MaskedLoss], weights: Sequence[float]) -> None:
        self._engines, self._shares = engines, np.array(weights) / np.sum(weights)

    @property
    def mask(self) -> Mask:
        """The present mask, shape (d,), a copy."""
        return self._engines[0].mask

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        return float(self._shares @ [engine.loss for engine in self._engines])

    def without_each(self) -> Floats:
        """Losses of masking another feature each, shape (d,); inf where already masked."""
        return np.asarray(self._shares @ [engine.without_each() for engine in self._engines])

    def remove(self, feature: int) -> None:
        """Mask another feature for good."""
        for engine in self._engines:
            engine.remove(feature)

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        return np.asarray(self._shares @ [engine(masks) for engine in self._engines])
