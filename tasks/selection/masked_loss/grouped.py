"""Masked losses of groups of features that are masked together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask, MaskedLoss
from chaffinch.tasks.selection.masked_loss.trees.engine import TreeEngine


class GroupedMaskedLoss:
    """`MaskedLoss` in which masking a feature of a group masks the whole group.

    The other features of the group have to be removed next, at the same loss. So a search that
    removes features in turn removes groups, and its path still names every feature. A group costs
    an evaluation of its own at each step, but for trees, of which it is a single feature.
    """

    def __init__(self, engine: MaskedLoss, groups: Sequence[NDArray[np.int64]]) -> None:
        # `engine` must be new; `groups` do not overlap
        self._whole, self._groups = engine, groups
        self._is_joined = isinstance(engine, TreeEngine)
        self._engine = engine.joined(groups) if isinstance(engine, TreeEngine) else engine
        self._group_of = {int(j): group for group in groups for j in group}
        self._mask = engine.mask

    @property
    def mask(self) -> Mask:
        """Features that were not removed, shape (d,), a copy."""
        return self._mask.copy()

    @property
    def loss(self) -> float:
        """Loss under the present mask, without the groups of which a feature was removed."""
        return self._engine.loss

    def without_each(self) -> Floats:
        """Losses of masking another feature with its group, shape (d,); inf where not possible."""
        present = self._engine.mask
        begun = self._mask & ~present
        if begun.any():
            return np.where(begun, self.loss, np.inf)
        losses = self._engine.without_each()
        groups = [group for group in self._groups if present[group].any()]
        if self._is_joined:
            for group in groups:
                losses[group] = losses[group.min()]
            return losses
        masks = np.repeat(present[np.newaxis], len(groups), axis=0)
        for mask, group in zip(masks, groups, strict=True):
            mask[group] = False
        for group, loss in zip(groups, self._engine(masks), strict=True):
            losses[group] = loss
        return losses

    def remove(self, feature: int) -> None:
        """Mask another feature for good, and its group with it."""
        present = self._engine.mask
        for j in self._group_of.get(feature, np.array([feature])):
            if present[j]:
                self._engine.remove(int(j))
        self._mask[feature] = False

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        return self._whole(masks)


def grouped(engine: MaskedLoss, groups: Sequence[NDArray[np.int64]]) -> MaskedLoss:
    """Return an engine that masks each group at once; the same engine without groups."""
    return GroupedMaskedLoss(engine, groups) if groups else engine
