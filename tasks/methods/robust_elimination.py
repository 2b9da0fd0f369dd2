"""Search by models that have seen masked rows: a model for each fold, trained anew in stages."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.fitting import Fold, Recipe
from chaffinch.tasks.methods.inputs import Material, Seen
from chaffinch.tasks.methods.wrappers import Refit, refitted_loss
from chaffinch.tasks.selection.baselines.importances import importances_if_any
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema, mask_of_size
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.robust_elimination import (
    Judge,
    eliminate_in_stages,
    n_stages,
    on_the_way_down,
    with_masked_copies,
)
from chaffinch.tasks.settings.methods import RobustElimination

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Training:
    """What the models of all folds and stages have in common."""

    rows: Rows
    folds: tuple[Fold, ...]
    schema: Schema
    recipe: Recipe
    baseline: Floats
    keep: tuple[int, ...]
    loss: Loss
    seed: int


def search_by_robust_models(method: RobustElimination, material: Material) -> RankedPath:
    """Return the order in which features leave, judged by the folds' held-out rows.

    Training and mask-validation rows together are parted into the folds. Where no number of
    features is asked for, refits on the same folds say how well some do.
    """
    n_features, keep = len(material.schema.features), material.keep
    seen: tuple[Seen, ...] = ("train", "mask_validation")
    training = _Training(
        material.rows(*seen),
        tuple(material.folds(*seen)),
        material.schema,
        material.recipe,
        material.baseline,
        keep,
        material.loss,
        material.seed,
    )
    stages = n_stages(n_features, max(1, len(keep)))
    logger.info(
        "robust_elimination trains model %s %d times",
        material.recipe.name,
        stages * len(training.folds),
    )

    def judges(mask: Mask, stage: int) -> list[Judge]:
        models = material.workers.map(
            _trained, training, [(mask, stage, fold) for fold in range(len(training.folds))]
        )
        found = _judges(material, training, models, mask)
        if stage == 0 and not keep and not any(judge.importances.any() for judge in found):
            raise InputError(
                f"model {material.recipe.name} makes no use of any of the {n_features} features: "
                "not in one of the folds is any needed; give more rows, or another model or loss"
            )
        return found

    with said_to_the_user():
        path = eliminate_in_stages(judges, n_features, keep=keep, on_removal=material.on_progress)
        return path if method.n_features else _sized(path, material, training)


def _sized(path: RankedPath, material: Material, training: _Training) -> CrossValidatedPath:
    """Return the path with what refits on the way down it lose on the rows held out."""

    def fold_losses(size: int) -> Floats:
        mask = mask_of_size(path.n_features, path.removed, size)
        items = [(mask, fold) for fold in range(len(training.folds))]
        return np.array(material.workers.map(_refitted_loss, training, items))

    sizes, losses = on_the_way_down(
        fold_losses, path.n_features, path.n_features - len(path.removed)
    )
    logger.info(
        "robust_elimination refitted model %s %d times: sizes %s",
        material.recipe.name,
        losses.size,
        ", ".join(map(str, sizes)),
    )
    return CrossValidatedPath.from_folds(path, sizes, losses)


def _refitted_loss(training: _Training, item: tuple[Mask, int]) -> float:
    """Return the loss of a model on the features of a mask (d,), on what a fold holds out."""
    mask, fold = item
    fitted, held_out = (training.rows.take(part) for part in training.folds[fold])
    refit = Refit(fitted, held_out, training.schema, training.recipe, training.loss)
    return refitted_loss(refit, mask)


def _trained(training: _Training, item: tuple[Mask, int, int]) -> FittedModel:
    """Return the model of a fold, trained on the features of a mask (d,) and masked copies."""
    mask, stage, fold = item
    fitted, _ = training.folds[fold]
    never = np.flatnonzero(np.isin(np.flatnonzero(mask), training.keep)).tolist()
    random = np.random.default_rng([training.seed, stage, fold])
    rows = with_masked_copies(
        training.rows.take(fitted).select(mask), training.baseline[mask], random, never=never
    )
    return training.recipe.fit(rows, training.schema.select(mask))


def _judges(
    material: Material, training: _Training, models: Sequence[FittedModel], mask: Mask
) -> list[Judge]:
    judges = []
    for model, (_, held_out) in zip(models, training.folds, strict=True):
        rows = training.rows.take(held_out).select(mask)
        engine = masked_loss(model, rows, material.loss, training.baseline[mask])
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        importances = importances_if_any(model)
        if importances is None:  # then what it loses without a feature is all there is to say
            importances = np.maximum(engine.without_each() - engine.loss, 0)
        judges.append(Judge(engine, weight, importances))
    return judges
