"""The masked loss of any model that can predict: one `predict` per mask.

Masking replaces a whole column by the feature's baseline value, missing values included, so that
nothing of the column is left for the model to read (`x * mask` would leave a NaN in place).

Two exact savings, whatever the model: masks that differ only in features the model does not use
share one evaluation, and a loss once asked for is remembered until the next removal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Mask, Rows

EvaluateMasks = Callable[[Sequence[Mask]], Floats]


@dataclass(frozen=True)
class MaskEvaluator:
    """Evaluates masks one `predict` each; holds no state, so a worker may own a copy.

    Attributes
    ----------
    model : FittedModel
        Trained on d features.
    rows : Rows
        The n rows whose loss is asked for; X has shape (n, d).
    loss : Loss
        How predictions are judged.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.
    """

    model: FittedModel
    rows: Rows
    loss: Loss
    baseline: Floats

    def __post_init__(self) -> None:
        n_features = self.rows.X.shape[1]
        if len(self.rows) == 0:
            raise ValueError("a masked loss needs at least 1 row but got 0")
        if self.baseline.shape != (n_features,):
            raise ValueError(
                f"baseline must have one value for each of the {n_features} features "
                f"but has shape {self.baseline.shape}"
            )
        if not np.isfinite(self.baseline).all():
            raise ValueError("baseline must be finite: a masked feature must hold a value")

    def __call__(self, masks: Sequence[Mask]) -> Floats:
        """Return the loss of each mask, shape (m,).

        Raises
        ------
        ValueError
            If a loss is not a finite number.
        """
        X = self.rows.X.copy(order="F")
        applied = np.ones(X.shape[1], dtype=bool)
        losses = np.empty(len(masks))
        with threadpool_limits(1):
            for i, mask in enumerate(masks):
                for j in np.flatnonzero(mask != applied):
                    X[:, j] = self.rows.X[:, j] if mask[j] else self.baseline[j]
                applied = mask
                losses[i] = self.loss(self.rows.y, self.model.predict(X), self.rows.weight)
        if not np.isfinite(losses).all():
            i = int(np.flatnonzero(~np.isfinite(losses))[0])
            raise ValueError(
                f"{self.loss.name} must be finite but is {losses[i]} with "
                f"{int(masks[i].sum())} of {X.shape[1]} features kept; choose another loss"
            )
        return losses


class BlackBox:
    """`MaskedLoss` of any model.

    Parameters
    ----------
    evaluator : MaskEvaluator
        Model, rows, loss and baseline.
    evaluate : callable, optional
        Takes a list of masks to their losses; must give the evaluator's own numbers. By default
        the evaluator itself; a cluster puts its spread-out form here.
    """

    def __init__(self, evaluator: MaskEvaluator, evaluate: EvaluateMasks | None = None) -> None:
        self.evaluator = evaluator
        self._evaluate = evaluate or evaluator
        self._used = evaluator.model.used_features
        self._mask = np.ones(evaluator.rows.X.shape[1], dtype=bool)
        self._known: dict[bytes, float] = {}

    @property
    def mask(self) -> Mask:
        """The present mask, shape (d,), a copy."""
        return self._mask.copy()

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        return float(self([self._mask])[0])

    def without_each(self) -> Floats:
        """Losses of masking one more feature each, shape (d,); inf where already masked."""
        losses = np.full(len(self._mask), np.inf)
        kept = np.flatnonzero(self._mask)
        masks = np.repeat(self._mask[np.newaxis], len(kept), axis=0)
        masks[np.arange(len(kept)), kept] = False
        losses[kept] = self(masks)
        return losses

    def remove(self, feature: int) -> None:
        """Mask one more feature for good.

        Raises
        ------
        ValueError
            If `feature` is no index of a kept feature.
        """
        if not 0 <= feature < len(self._mask):
            raise ValueError(f"feature must be in 0..{len(self._mask) - 1} but is {feature}")
        if not self._mask[feature]:
            raise ValueError(f"feature {feature} is masked already; name one that is kept")
        self._mask[feature] = False
        present = (self._mask & self._used).tobytes()
        self._known = {key: loss for key, loss in self._known.items() if key == present}

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), whatever the present mask is."""
        seen = np.asarray(masks, dtype=bool)
        if seen.ndim != 2 or seen.shape[1] != len(self._mask):
            raise ValueError(f"masks must have shape (m, {len(self._mask)}) but are {seen.shape}")
        effective = seen & self._used
        keys = [mask.tobytes() for mask in effective]
        new = {
            key: mask for key, mask in zip(keys, effective, strict=True) if key not in self._known
        }
        if new:
            self._known.update(zip(new, self._evaluate(list(new.values())).tolist(), strict=True))
        return np.array([self._known[key] for key in keys])
