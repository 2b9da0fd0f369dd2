"""The masked squared error of a linear model: all features at once from the Gram matrix.

With residuals r = y - prediction and c_j the change that masking feature j makes to them, both
weighted so that the loss is |r|^2, the loss without j is

    |r|^2 + 2 r.c_j + |c_j|^2,

and a removal only adds c_j to r and a row of the Gram matrix of c to the slopes r.c: O(d + n).

The sum cancels where a removal makes the loss much smaller, and errors of the slopes add up over
removals. A bound on the rounding is tracked: where it exceeds a share of 1e-13 of a loss, residuals
and slopes are recomputed, and where that is not enough, so is the loss itself,
from r + c_j. That leaves a rounding error of the size of c_j. If a cell is huge, it is far more
than what is left of its row, so that the residuals are then made from the features that are kept,
without those that are masked: an error of the size of what the model itself adds up.

Of columns that change the residuals alike the first column's figures hold for all, so that they
tie.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.base import MaskState, check_finite
from chaffinch.tasks.selection.masked_loss.black_box import MaskEvaluator
from chaffinch.tasks.selection.masked_loss.dense_layers import (
    FirstLayer,
    OutputLoss,
    check_agreement,
)
from chaffinch.tasks.selection.masked_loss.rounding import MOST_ROUNDING
from chaffinch.tasks.selection.models.dense import DenseModel
from chaffinch.tasks.selection.models.runtime import single_thread

_EPSILON = float(np.finfo(np.float64).eps)
_TOLERANCE = 1e-13
_ALIKE = 1e-12  # of equal columns' squares, however they are summed
_MOST_FEATURES_OF_A_GRAM_MATRIX = 4096  # 128 MB; beyond it a row is computed when it is needed


def is_least_squares(evaluator: MaskEvaluator, model: DenseModel) -> bool:
    linear = len(model.weights) == 1 and model.link == "identity"
    return linear and evaluator.loss.name == "squared_error"


class LinearMaskedLoss(MaskState):
    """`MaskedLoss` of a linear model's squared error; one thread, for it needs no more."""

    def __init__(self, evaluator: MaskEvaluator, model: DenseModel) -> None:
        super().__init__(evaluator.rows.X.shape[1])
        self._evaluator = evaluator
        rows = evaluator.rows
        first = FirstLayer(model, rows.X, evaluator.baseline)
        output_loss = OutputLoss(model, rows, evaluator.model.schema, evaluator.loss)
        outputs = first.present(self._mask)
        check_agreement(evaluator, output_loss, outputs)
        root = np.sqrt(output_loss.weight / output_loss.weight.sum())
        masked = output_loss.prediction(first.present(np.zeros_like(self._mask)))
        self._masked = (rows.y - masked) * root
        self._changes = first.into_changes()
        self._changes *= root * model.scale
        self._squares = np.einsum("ij,ij->i", self._changes, self._changes)
        self._first = _first_of_equals(self._changes, self._squares)
        self._squares = self._squares[self._first]
        self._norms = np.sqrt(self._squares)
        self._gram: Floats | None = None
        self._rebuild()

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        with self._lock.of_process:
            self._ensure_precision()
            return float(self._checked(np.array([self._loss]), self._mask.sum())[0])

    def without_each(self) -> Floats:
        """Losses of masking another feature each, shape (d,); inf where already masked."""
        with self._lock.of_process:
            self._ensure_precision()
            self._checked(np.array([self._loss]), self._mask.sum())
            losses, doubtful = self._by_slopes()
            if doubtful.any() and not self._is_new:
                self._is_whole = False
                self._make_whole()
                losses, doubtful = self._by_slopes()
            for first in np.unique(self._first[doubtful]):
                losses[self._first == first] = self._from_residuals(first)
            self._checked(losses[self._mask], self._mask.sum() - 1)
            losses[~self._mask] = np.inf
            return losses

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        rows = self._as_masks(masks)
        losses = np.empty(len(rows))
        with single_thread():
            for i, mask in enumerate(rows):
                residual = self._residual_under(mask)
                losses[i] = self._checked(np.array([residual @ residual]), mask.sum())[0]
        return losses

    def _ensure_precision(self) -> None:
        """Rebuild the state if it may be inconsistent with the mask, or rounding shows in it."""
        self._make_whole()
        if self._residual_error > MOST_ROUNDING * np.sqrt(self._loss):
            self._is_whole = False
            self._make_whole()

    def _from_residuals(self, first: np.int64) -> float:
        """Return the loss of masking another feature, any of those equal to `first`."""
        with single_thread():
            residual = self._residual + self._changes[first]
            loss = float(residual @ residual)
            rounding = _EPSILON * (np.sqrt(self._loss) + self._norms[first])
            if rounding <= MOST_ROUNDING * np.sqrt(loss):
                return loss
            without = self._mask.copy()
            without[np.flatnonzero(self._mask & (self._first == first))[0]] = False
            residual = self._residual_under(without)
            return float(residual @ residual)

    def _after_removal(self, feature: int) -> None:
        with single_thread():
            row = self._gram_row(feature)
            self._residual += self._changes[feature]
            self._loss = float(self._residual @ self._residual)
        self._slopes += row
        self._slope_error += _EPSILON * (np.abs(self._slopes) + np.abs(row))
        self._residual_error += _EPSILON * (np.sqrt(self._loss) + self._norms[feature])
        self._is_new = False

    def _gram_row(self, feature: int) -> Floats:
        if len(self._mask) > _MOST_FEATURES_OF_A_GRAM_MATRIX:
            return np.asarray((self._changes @ self._changes[feature])[self._first])
        if self._gram is None:
            self._gram = self._changes @ self._changes.T
        return np.asarray(self._gram[self._first[feature]][self._first])

    def _by_slopes(self) -> tuple[Floats, Mask]:
        """Return every feature's loss, shape (d,), and where its rounding may be too large."""
        losses = self._loss + 2 * self._slopes + self._squares
        terms = self._loss + 2 * np.abs(self._slopes) + self._squares
        error = 2 * self._slope_error + 2 * _EPSILON * terms
        error += 2 * self._residual_error * (np.sqrt(self._loss) + self._norms)
        return losses, self._mask & (error > _TOLERANCE * losses)

    def _rebuild(self) -> None:
        with single_thread():
            self._residual = self._residual_under(self._mask)
            self._loss = float(self._residual @ self._residual)
            self._slopes = (self._changes @ self._residual)[self._first]
        with np.errstate(invalid="ignore"):  # non-finite losses are refused on access
            self._slope_error = 2 * _EPSILON * np.sqrt(self._loss) * self._norms
        self._residual_error = 0.0
        self._is_new = True

    def _residual_under(self, mask: Mask) -> Floats:
        return np.asarray(self._masked - mask.astype(np.float64) @ self._changes)

    def _checked(self, losses: Floats, n_kept: int) -> Floats:
        check_finite(self._evaluator.loss.name, losses, n_kept, len(self._mask))
        return losses


def _first_of_equals(changes: Floats, squares: Floats) -> NDArray[np.int64]:
    """Return for each feature the first that changes the residuals alike, shape (d,)."""
    # a product of matrices may give equal rows sums that differ in the last bit
    first = np.arange(len(changes))
    order = np.argsort(squares, kind="stable")
    with np.errstate(invalid="ignore"):  # of squares that are not finite
        differs = np.diff(squares[order], prepend=-1) > _ALIKE * squares[order]
    begins = np.flatnonzero(differs)
    ends = np.append(begins[1:], len(order))
    for begin, end in zip(begins[ends - begins > 1], ends[ends - begins > 1], strict=True):
        known: list[np.int64] = []
        for feature in np.sort(order[begin:end]):
            equal = (f for f in known if np.array_equal(changes[f], changes[feature]))
            first[feature] = next(equal, feature)
            if first[feature] == feature:
                known.append(feature)
    return first
