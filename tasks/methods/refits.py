"""Refits of the model for each mask, shared by several searches.

A refit costs a full fit instead of a masked loss. Independent refits run on the workers: the
candidates of a step, the masks of a generation, the folds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.methods.fitting import Fold, Recipe
from chaffinch.tasks.methods.protocol import Problem
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.masked_loss.base import check_finite
from chaffinch.tasks.settings.base import setting

logger = logging.getLogger(__name__)

# Use of each set by searches with refits.
PARTS_OF_REFITS = {
    "train": "tuning, fitting",
    "mask_validation": "the losses of the refits; then fitting",
}


AT_MOST: Any = setting(
    None,
    "The search finds the number of features itself, and none above this.",
    title="At most this many features",
)
WITHIN_ONE_STANDARD_ERROR: Any = setting(
    False,
    "Take the smallest size whose mean loss over the folds exceeds the lowest by no more than "
    "its standard error. By default the size with the lowest mean loss.",
    title="Within one standard error",
)


@dataclass(frozen=True)
class Refit:
    """Inputs that the refits of all masks share."""

    train: Rows  # for fitting the model
    held_out: Rows  # for its loss
    schema: Schema
    recipe: Recipe
    loss: Loss

    def fold(self, fold: Fold) -> Refit:
        """Return the refits on the training rows of a fold, scored on its held-out rows."""
        fitted, held_out = (self.train.take(rows) for rows in fold)
        return replace(self, train=fitted, held_out=held_out)

    def model(self, mask: Mask) -> FittedModel:
        """Return a model fitted on the features of a mask (d,)."""
        return self.recipe.fit(self.train.select(mask), self.schema.select(mask))

    def loss_of(self, model: FittedModel, mask: Mask) -> float:
        """Return the held-out loss of a model fitted on a mask's features."""
        prediction = self.prediction_of(model, mask)
        return self.loss(self.held_out.y, prediction, self.held_out.weight)

    def prediction_of(self, model: FittedModel, mask: Mask) -> Floats:
        """Return the held-out prediction of a model fitted on a mask's features."""
        return self.held_out.select(mask).predicted_by(model)


def refit_of(problem: Problem) -> Refit:
    """Return the refits on training rows, scored on mask-validation rows."""
    train, held_out = problem.rows("train"), problem.rows("mask_validation")
    return Refit(train, held_out, problem.schema, problem.recipe, problem.loss)


def refitted_loss(shared: Refit, mask: Mask) -> float:
    return shared.loss_of(shared.model(mask), mask)


def check_losses(name: str, masks: Sequence[Mask], losses: Sequence[float]) -> None:
    """Raise InputError for a loss that is not finite: NaN would count as the lowest."""
    for mask, loss in zip(masks, losses, strict=True):
        check_finite(name, np.array([loss]), int(mask.sum()), len(mask))


class RefitLosses:
    """Losses of refits on the mask-validation rows, computed by the workers.

    Progress is reported only if the number of refits is known.
    """

    def __init__(self, problem: Problem, n_refits: int | None = None) -> None:
        self._problem, self._n_refits = problem, n_refits
        self._refit = refit_of(problem)
        self._seen: set[float] = set()
        self._n_done = 0

    def __call__(self, masks: Sequence[Mask]) -> list[float]:
        losses = self._problem.workers.map(refitted_loss, self._refit, masks, self._report)
        check_losses(self._refit.loss.name, masks, losses)
        self._seen.update(losses)
        self._n_done += len(masks)
        return losses

    def _report(self, done: int, _: int) -> None:
        if self._n_refits is not None:
            self._problem.on_progress(self._n_done + done, self._n_refits)

    def check_that_features_matter(self) -> None:
        """Raise InputError if every mask has the same loss: the result would be arbitrary."""
        problem, n_features = self._problem, len(self._problem.schema.features)
        if problem.keep or len(self._seen) > 1 or self._n_done == 1:
            return
        (loss,) = self._seen
        raise InputError(
            f"model {problem.recipe.name} makes no use of any of the {n_features} features: "
            f"whichever it is fitted on, its {loss_in_words(problem.loss.name)} is {loss:.4g}; "
            "give more rows, or another model or loss"
        )


def log_refits(kind: str, problem: Problem, n_refits: int, at_most: str = "") -> None:
    name = problem.recipe.name
    logger.info("%s fits model %s %s%d times", kind, name, at_most, n_refits)
