"""Search by fitting the model anew, for the rivals of mask optimisation that do.

They cost a fit where mask optimisation costs a masked loss. What can be fitted at once goes to the
workers: the candidates of a step, the masks of a generation, the folds.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.methods.candidates import Path, sizes_asked_for
from chaffinch.tasks.methods.fitting import Fold, Recipe
from chaffinch.tasks.methods.inputs import Material
from chaffinch.tasks.selection.baselines.importances import select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import (
    CrossValidatedPath,
    FoundMasks,
    Swarm,
    eliminate_by_refits,
    n_refits_backward,
    n_refits_forward,
    particle_swarm,
    sequential_backward,
    sequential_forward,
    sizes_on_the_way,
)
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, Rows, Schema
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.masked_loss.base import check_finite
from chaffinch.tasks.settings.methods import ParticleSwarm, Rfe, Rfecv, Sequential

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Refit:
    """What all masks that are judged by a refit have in common.

    Attributes
    ----------
    train, held_out : Rows
        What the model is fitted on, and what its loss is of.
    schema : Schema
        What the d columns of both mean.
    recipe : Recipe
        How to fit it.
    loss : Loss
        How its predictions are judged.
    """

    train: Rows
    held_out: Rows
    schema: Schema
    recipe: Recipe
    loss: Loss

    def model(self, mask: Mask) -> FittedModel:
        """Return a model fitted on the features of a mask (d,) alone."""
        return self.recipe.fit(self.train.select(mask), self.schema.select(mask))

    def loss_of(self, model: FittedModel, mask: Mask) -> float:
        """Return the loss of such a model."""
        held_out = self.held_out.select(mask)
        return self.loss(held_out.y, model.predict(held_out.X), held_out.weight)


@dataclass(frozen=True)
class _Eliminations:
    """What the eliminations of all folds have in common."""

    refit: Refit
    folds: Sequence[Fold]
    share: float
    keep: tuple[int, ...]
    asked_by: str


def refitted_loss(shared: Refit, mask: Mask) -> float:
    """Return the loss of a model fitted on the features of a mask (d,) alone."""
    return shared.loss_of(shared.model(mask), mask)


def check_losses(name: str, masks: Sequence[Mask], losses: Sequence[float]) -> None:
    """Refuse a loss that is no finite number, which would pass for the lowest; UnusableError."""
    for mask, loss in zip(masks, losses, strict=True):
        check_finite(name, np.array([loss]), int(mask.sum()), len(mask))


def search_by_refits(method: Rfe | Rfecv | Sequential | ParticleSwarm, material: Material) -> Path:
    """Return what a search finds that fits the model to one mask after the other."""
    with said_to_the_user():
        if isinstance(method, Rfe):
            return _eliminated(method, material)
        if isinstance(method, Rfecv):
            return _cross_validated(method, material)
        if isinstance(method, Sequential):
            return _one_by_one(method, material)
        return _swarmed(method, material)


def _eliminated(method: Rfe, material: Material) -> RankedPath:
    train = material.rows("train")  # nothing is held out
    refit = Refit(train, train.take(slice(0)), material.schema, material.recipe, material.loss)
    n_features = len(material.schema.features)
    _say(method.kind, material, len(_sizes_of(material, method.step)) - 1)
    return eliminate_by_refits(
        lambda mask: _importances(refit.model(mask), method.kind, material.keep, n_features),
        n_features,
        share=method.step,
        keep=material.keep,
        on_round=material.on_progress,
    )


def _cross_validated(method: Rfecv, material: Material) -> CrossValidatedPath:
    train, folds = material.rows("train"), material.folds("train")
    refit = Refit(train, train, material.schema, material.recipe, material.loss)
    shared = _Eliminations(refit, folds, method.step, material.keep, method.kind)
    sizes = _sizes_of(material, method.step)
    _say(method.kind, material, len(folds) * len(sizes) + len(sizes) - 1)
    items = [*range(len(folds)), None]  # the path itself is of all rows
    *of_folds, (path, _) = material.workers.map(_elimination, shared, items, material.on_progress)
    return CrossValidatedPath.from_folds(path, sizes, np.array([losses for _, losses in of_folds]))


def _elimination(shared: _Eliminations, fold: int | None) -> tuple[RankedPath, list[float]]:
    """Return the path of a fold, and the loss at each size on the way on what the fold holds out.

    Without a fold, the path of all rows and no losses.
    """
    refit, losses = shared.refit, []
    n_features = len(refit.schema.features)
    if fold is not None:
        fitted, held_out = shared.folds[fold]
        rows = refit.train
        refit = replace(refit, train=rows.take(fitted), held_out=rows.take(held_out))

    def importances(mask: Mask) -> Floats:
        model = refit.model(mask)
        if fold is not None:
            losses.append(refit.loss_of(model, mask))
        return _importances(model, shared.asked_by, shared.keep, n_features)

    path = eliminate_by_refits(importances, n_features, share=shared.share, keep=shared.keep)
    if fold is not None:
        last = path.best(n_features - len(path.removed))
        losses.append(refitted_loss(refit, last))
    return path, losses


def _importances(
    model: FittedModel, asked_by: str, keep: tuple[int, ...], n_features: int
) -> Floats:
    """Return the importances of a model's features; refuse one that makes no use of any."""
    scores = select_from_model(model, asked_by)
    if len(scores) == n_features and not keep and not scores.any():
        raise InputError(
            f"{asked_by} finds no use in any of the {n_features} features: each has the importance "
            "0; give more rows, or another method or model"
        )
    return scores


def _one_by_one(method: Sequential, material: Material) -> Path:
    keep, n_features = material.keep, len(material.schema.features)
    sizes = sizes_asked_for(method, n_features, max(1, len(keep)))
    forward = method.kind == "sequential_forward"
    limit = max(sizes) if forward else min(sizes)
    count = n_refits_forward if forward else n_refits_backward
    n_refits = count(n_features, limit, len(keep))
    _say(method.kind, material, n_refits)
    losses = _Losses(material, n_refits)
    path: Path
    if forward:
        path = sequential_forward(losses, n_features, largest=limit, keep=keep)
    else:
        path = sequential_backward(losses, n_features, smallest=limit, keep=keep)
    losses.check_that_features_matter()
    return path


def _swarmed(method: ParticleSwarm, material: Material) -> FoundMasks:
    _say(method.kind, material, method.individuals * method.generations, at_most="at most ")
    losses = _Losses(material)
    path = particle_swarm(
        losses,
        len(material.schema.features),
        Swarm(**method.model_dump(exclude={"kind", "n_features"})),
        material.seed,
        keep=material.keep,
        at_most=method.n_features,
        on_generation=material.on_progress,
    )
    losses.check_that_features_matter()
    return path


class _Losses:
    """Losses of refits on the mask-validation part, computed by the workers.

    Progress is told of each refit if it is known how many there will be.
    """

    def __init__(self, material: Material, n_refits: int | None = None) -> None:
        self._material, self._n_refits = material, n_refits
        self._refit = Refit(
            material.rows("train"),
            material.rows("mask_validation"),
            material.schema,
            material.recipe,
            material.loss,
        )
        self._seen: set[float] = set()
        self._n_done = 0

    def __call__(self, masks: Sequence[Mask]) -> list[float]:
        losses = self._material.workers.map(refitted_loss, self._refit, masks, self._tell)
        check_losses(self._refit.loss.name, masks, losses)
        self._seen.update(losses)
        self._n_done += len(masks)
        return losses

    def _tell(self, done: int, _: int) -> None:
        if self._n_refits is not None:
            self._material.on_progress(self._n_done + done, self._n_refits)

    def check_that_features_matter(self) -> None:
        """Refuse a model to which every mask is the same: what is kept would be arbitrary."""
        material, n_features = self._material, len(self._material.schema.features)
        if material.keep or len(self._seen) > 1 or self._n_done == 1:
            return
        (loss,) = self._seen
        raise InputError(
            f"model {material.recipe.name} makes no use of any of the {n_features} features: "
            f"whichever it is fitted on, its {loss_in_words(material.loss.name)} is {loss:.4g}; "
            "give more rows, or another model or loss"
        )


def _sizes_of(material: Material, share: float) -> list[int]:
    fewest = max(1, len(material.keep))
    return sizes_on_the_way(len(material.schema.features), fewest, share)


def _say(kind: str, material: Material, n_refits: int, at_most: str = "") -> None:
    name = material.recipe.name
    logger.info("%s fits model %s %s%d times", kind, name, at_most, n_refits)
