"""The masked loss of any model that can predict: a `predict` per mask, or less.

Masking replaces a whole column by the feature's baseline value, missing values included, so that
nothing of the column is left for the model to read (`x * mask` would leave a NaN in place).

Three savings that change no bit. Masks that differ only in features the model does not use share a
single evaluation. A computed loss is remembered until the next removal. And for trees, only rows
that a mask changes are predicted, those of several masks together: a tree model adds up the leaves
of a row in a fixed order, independent of the other rows in the call. A matrix product does not, so
that all rows of any other model come in a single call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Mask, Predictor, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.base import MaskState, check_finite
from chaffinch.tasks.selection.models.runtime import single_thread

_BYTES_AT_ONCE = 1 << 24  # of changed rows of several masks
EvaluateMasks = Callable[[Sequence[Mask]], Floats]


@dataclass(frozen=True)
class MaskEvaluator:
    """Evaluates masks by `predict`; holds no state, so a worker may own a copy."""

    model: Predictor
    rows: Rows  # X has shape (n, d)
    loss: Loss
    baseline: Floats  # (d,)

    def __post_init__(self) -> None:
        n_features = self.rows.X.shape[1]
        if len(self.rows) == 0:
            raise InputError("a masked loss needs at least 1 row but got 0")
        if self.baseline.shape != (n_features,):
            raise InputError(
                f"baseline must have one value for each of the {n_features} features "
                f"but has shape {self.baseline.shape}"
            )
        if not np.isfinite(self.baseline).all():
            raise InputError("baseline must be finite: a masked feature must hold a value")

    def __call__(self, masks: Sequence[Mask]) -> Floats:
        """Return the loss of each mask, shape (m,); InputError if a loss is not finite."""
        predict = _Predictor(self)
        losses = np.empty(len(masks))
        with single_thread():
            for i, prediction in predict.each(masks):
                losses[i] = self.loss(self.rows.y, prediction, self.rows.weight)
                check_finite(self.loss.name, losses[i : i + 1], masks[i].sum(), len(masks[i]))
        return losses


class _Predictor:
    def __init__(self, evaluator: MaskEvaluator) -> None:
        self._model, self._baseline = evaluator.model, evaluator.baseline
        self._X = evaluator.rows.X
        self._table = self._X.copy(order="F")
        self._applied = np.ones(self._X.shape[1], dtype=bool)

    def each(self, masks: Sequence[Mask]) -> Iterator[tuple[int, Floats]]:
        """Yield the number of each mask and its prediction, not in their order."""
        if len(masks) < 2 or not self._model.rows_are_independent:
            for i, mask in enumerate(masks):
                yield i, self._of_table(mask)
            return
        union = np.logical_or.reduce(masks)
        reference = self._of_table(union)
        waiting: list[tuple[int, NDArray[np.int64]]] = []
        n_waiting, n_at_once = 0, max(1, _BYTES_AT_ONCE // (8 * self._X.shape[1]))
        for i, mask in enumerate(masks):
            off = np.flatnonzero(union & ~mask)
            changed = np.flatnonzero((self._X[:, off] != self._baseline[off]).any(axis=1))
            if len(changed) > n_at_once // 16:  # a column is then cheaper to copy than the rows
                yield i, self._of_table(mask)
                continue
            if waiting and n_waiting + len(changed) > n_at_once:
                yield from self._of_changed(waiting, masks, reference)
                waiting, n_waiting = [], 0
            waiting.append((i, changed))
            n_waiting += len(changed)
        yield from self._of_changed(waiting, masks, reference)

    def _of_table(self, mask: Mask) -> Floats:
        for j in np.flatnonzero(mask != self._applied):
            self._table[:, j] = self._X[:, j] if mask[j] else self._baseline[j]
        self._applied = mask
        return self._model.predict(self._table)

    def _of_changed(
        self,
        waiting: Sequence[tuple[int, NDArray[np.int64]]],
        masks: Sequence[Mask],
        reference: Floats,
    ) -> Iterator[tuple[int, Floats]]:
        """Yield predictions that differ from the reference in the changed rows alone."""
        parts = [np.where(masks[i], self._X[changed], self._baseline) for i, changed in waiting]
        n_rows = [len(part) for part in parts]
        if not sum(n_rows):
            yield from ((i, reference) for i, _ in waiting)
            return
        predicted = self._model.predict(np.concatenate(parts))
        pieces = np.split(predicted, np.cumsum(n_rows)[:-1])
        for (i, changed), piece in zip(waiting, pieces, strict=True):
            prediction = reference.copy()
            prediction[changed] = piece
            yield i, prediction


class BlackBox(MaskState):
    """`MaskedLoss` of any model; `evaluate` may distribute the masks, with the same losses."""

    def __init__(self, evaluator: MaskEvaluator, evaluate: EvaluateMasks | None = None) -> None:
        super().__init__(evaluator.rows.X.shape[1])
        self.evaluator = evaluator
        self._evaluate = evaluate or evaluator
        self._used = evaluator.model.used_features
        self._known: dict[bytes, float] = {}

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        with self._lock.of_process:
            return float(self([self._mask])[0])

    def without_each(self) -> Floats:
        """Losses of masking another feature each, shape (d,); inf where already masked."""
        with self._lock.of_process:
            losses = np.full(len(self._mask), np.inf)
            kept = np.flatnonzero(self._mask)
            masks = np.repeat(self._mask[np.newaxis], len(kept), axis=0)
            masks[np.arange(len(kept)), kept] = False
            losses[kept] = self(masks)
            return losses

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        effective = self._as_masks(masks) & self._used
        keys = [mask.tobytes() for mask in effective]
        with self._lock.of_process:
            new = {
                key: mask
                for key, mask in zip(keys, effective, strict=True)
                if key not in self._known
            }
            if new:
                self._known.update(
                    zip(new, self._evaluate(list(new.values())).tolist(), strict=True)
                )
            return np.array([self._known[key] for key in keys])

    def _after_removal(self, feature: int) -> None:
        present = (self._mask & self._used).tobytes()
        self._known = {key: loss for key, loss in self._known.items() if key == present}
