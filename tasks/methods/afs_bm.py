"""Search by training and masking in turn: the walks of AFS-BM, one for each slack.

A walk goes from one training to the next, and no two walks have much in common, so that the workers
are given whole walks.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.fitting import Fold, Recipe, Tuner
from chaffinch.tasks.methods.inputs import Material, no_use_made
from chaffinch.tasks.selection.afs_bm import MaskingWalk, MaskingWalks, Rules, alternate
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.settings.methods import AfsBm

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Search:
    """What the walks of all slacks have in common."""

    method: AfsBm
    train: Rows
    held_out: Rows
    schema: Schema
    recipe: Recipe
    tuner: Tuner
    folds: tuple[Fold, ...]
    model: FittedModel
    baseline: Floats
    loss: Loss
    keep: tuple[int, ...]
    seed: int

    def trained(self, mask: Mask) -> MaskedLoss:
        """Return the masked loss of a model trained on the features of a mask (d,) alone."""
        held_out, baseline = self.held_out.select(mask), self.baseline[mask]
        return masked_loss(self._model(mask), held_out, self.loss, baseline)

    def _model(self, mask: Mask) -> FittedModel:
        if mask.all():
            return self.model  # tuned for all features, and fitted on them
        rows, schema, recipe = self.train.select(mask), self.schema.select(mask), self.recipe
        if self.method.tune_every_round:
            recipe = self.tuner.recipe_for(rows, schema, self.folds)
        return recipe.fit(rows, schema)

    @property
    def start(self) -> Mask:
        """The features to begin with, shape (d,)."""
        names = self.method.start or self.schema.features
        mask = np.isin(self.schema.features, names)
        mask[list(self.keep)] = True
        return mask


def search_by_alternation(method: AfsBm, material: Material) -> MaskingWalks:
    """Return what training and masking in turn leads to, for each slack."""
    search = _Search(
        method,
        material.rows("train"),
        material.rows("mask_validation"),
        material.schema,
        material.recipe,
        material.tuner,
        tuple(material.folds("train")) if method.tune_every_round else (),
        material.model,
        material.baseline,
        material.loss,
        material.keep,
        material.seed,
    )
    with said_to_the_user():
        walks = material.workers.map(_walk, search, method.slacks, material.on_progress)
    for walk in walks:
        logger.info(
            "slack %g: %d rounds, model %s trained %d times, %d of %d features kept",
            walk.slack,
            len(walk.rounds),
            material.recipe.name,
            walk.n_trainings,
            walk.mask.sum(),
            len(walk.mask),
        )
    _check_that_features_matter(walks, material)
    return MaskingWalks(tuple(walks))


def _walk(search: _Search, slack: float) -> MaskingWalk:
    method = search.method
    rules = Rules(slack, method.rejections, method.patience, method.drift_cap)
    return alternate(
        search.trained,
        search.start,
        rules,
        search.seed,
        keep=search.keep,
        at_most=method.n_features,
    )


def _check_that_features_matter(walks: list[MaskingWalk], material: Material) -> None:
    """Refuse a model to which every mask is the same: what is kept would be arbitrary."""
    rounds = [one for walk in walks for one in walk.rounds]
    if material.keep or any(loss != one.trained_loss for one in rounds for loss in one.losses):
        return
    raise no_use_made(material, rounds[0].trained_loss)
