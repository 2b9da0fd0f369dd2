"""Robust elimination with models trained on masked rows, a model for each fold.

The models are retrained in stages, each time three quarters of the features are removed.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from pydantic import ConfigDict, model_validator

from chaffinch.errors import InputError
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.paths import PLACE, cross_validated_path, of_ranking
from chaffinch.tasks.methods.protocol import (
    Problem,
    Seen,
    candidates_at,
    masks_of_sizes,
)
from chaffinch.tasks.methods.refits import Refit, refitted_loss, within_one_standard_error
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, mask_of_size
from chaffinch.tasks.selection.elimination.robust_elimination import (
    Judge,
    eliminate_in_stages,
    on_the_way_down,
    sizes_down,
    stage_sizes,
    with_masked_copies,
)
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.masked_loss.grouped import grouped, summed
from chaffinch.tasks.settings.base import Sizes, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult, best_first

logger = logging.getLogger(__name__)

_ROBUST = (
    "backward elimination by models that have seen masked rows, one for each fold and trained "
    "again when three quarters of the features have left; of features whose losses on the rows "
    "held out are within one standard error the least used one leaves"
)


class RobustElimination(Method):
    """Backward elimination by models that have seen masked rows, judged across folds."""

    model_config = ConfigDict(title="Robust elimination")
    declared_traits = Traits(
        score=PLACE,
        score_is_place=True,
        refits=_ROBUST,
        folded_parts=("train", "mask_validation"),
        masks_rows=True,
        parts_used={
            "train": "tuning, the folds of the search, fitting",
            "mask_validation": "the folds of the search; then fitting",
        },
    )

    kind: Literal["robust_elimination"] = setting(
        "robust_elimination", 0, "Kind", f"robust_elimination: {_ROBUST}."
    )
    n_features: Sizes | None = setting(
        None,
        1,
        "Sizes",
        "Numbers of features to keep, or shares of all; of several, the one that does best on the "
        "model-validation rows wins. By default refits on the same folds find the number.",
    )
    within_one_standard_error: bool = within_one_standard_error(2)

    @model_validator(mode="after")
    def _sizes_or_refits(self) -> Self:
        if self.n_features is not None and self.within_one_standard_error:
            raise ValueError(
                "within_one_standard_error is for a number of features that refits find; leave it "
                "out, or n_features"
            )
        return self

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        # rows come with masked copies of themselves, which count as another fit
        stages = 2 * stage_sizes(n_features, 1)[:-1]
        sized = sizes_down(n_features, 1) if self.n_features is None else []
        return (stages + sized) * n_folds

    def search(self, problem: Problem) -> SearchResult:
        """Remove features by the held-out masked losses of a model per fold.

        Without a number of features, refits on the same folds measure the loss of some sizes.
        """
        n_features, keep = len(problem.schema.features), problem.keep
        seen: tuple[Seen, ...] = ("train", "mask_validation")
        rows, folds = problem.rows(*seen), tuple(problem.folds(*seen))
        refit = Refit(rows, rows, problem.schema, problem.recipe, problem.loss)
        training = _Training(refit, folds, problem.baseline, keep, problem.seed)
        n_fits = len(stage_sizes(n_features, max(1, len(keep)))[:-1]) * len(folds)
        logger.info("robust_elimination trains model %s %d times", problem.recipe.name, n_fits)

        def judges(mask: Mask, stage: int) -> list[Judge]:
            models = problem.workers.map(
                _train, training, [(mask, stage, fold) for fold in range(len(training.folds))]
            )
            of_folds = _judges(problem, training, models, mask)
            if stage == 0 and not keep and not any(judge.importances.any() for judge in of_folds):
                raise InputError(
                    f"model {problem.recipe.name} makes no use of any of the {n_features} "
                    "features: not in one of the folds is any needed; give more rows, or another "
                    "model or loss"
                )
            return of_folds

        path = eliminate_in_stages(judges, n_features, keep=keep, on_removal=problem.on_progress)
        if self.n_features is None:
            path = _with_losses(path, problem, training)
        return of_ranking(path, problem.schema)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        if self.n_features is not None:
            return masks_of_sizes(result, self.n_features)
        path = cross_validated_path(result)
        best = path.best_size(within_one_standard_error=self.within_one_standard_error)
        return candidates_at(result, {best: []})


@dataclass(frozen=True)
class _Training:
    refit: Refit
    folds: tuple[Fold, ...]
    baseline: Floats
    keep: tuple[int, ...]
    seed: int


def _with_losses(path: RankedPath, problem: Problem, training: _Training) -> CrossValidatedPath:
    """Return the path with the held-out losses of refits at some sizes."""

    def fold_losses(size: int) -> Floats:
        mask = mask_of_size(path.n_features, path.removed, size)
        if problem.feasible is not None:
            mask = problem.feasible.best(best_first(path.n_features, path.removed), size)
        items = [(mask, fold) for fold in range(len(training.folds))]
        return np.array(problem.workers.map(_refitted_loss, training, items))

    sizes, losses = on_the_way_down(
        fold_losses, path.n_features, path.n_features - len(path.removed)
    )
    name, words = problem.recipe.name, ", ".join(map(str, sizes))
    logger.info("robust_elimination refitted model %s %d times: sizes %s", name, losses.size, words)
    return CrossValidatedPath.from_folds(path, sizes, losses)


def _refitted_loss(training: _Training, item: tuple[Mask, int]) -> float:
    """Return a fold's held-out loss of a model fitted on the features of a mask (d,)."""
    mask, fold = item
    return refitted_loss(training.refit.fold(training.folds[fold]), mask)


def _train(training: _Training, item: tuple[Mask, int, int]) -> FittedModel:
    """Return the model of a fold, trained on the features of a mask (d,) and masked copies."""
    mask, stage, fold = item
    refit, (fitted, _) = training.refit, training.folds[fold]
    never = np.flatnonzero(np.isin(np.flatnonzero(mask), training.keep)).tolist()
    random = np.random.default_rng([training.seed, stage, fold])
    rows = with_masked_copies(
        refit.train.take(fitted).select(mask), training.baseline[mask], random, never=never
    )
    return refit.recipe.fit(rows, refit.schema.select(mask))


def _judges(
    problem: Problem, training: _Training, models: Sequence[FittedModel], mask: Mask
) -> list[Judge]:
    judges = []
    groups = [] if problem.feasible is None else problem.feasible.all_or_none(mask)
    for model, (_, held_out) in zip(models, training.folds, strict=True):
        rows = training.refit.train.take(held_out).select(mask)
        engine = masked_loss(model, rows, problem.loss, training.baseline[mask])
        weight = float(len(rows) if rows.weight is None else rows.weight.sum())
        importances = model.importances()
        if importances is None:  # use increases of the masked loss instead
            importances = np.maximum(engine.without_each() - engine.loss, 0)
        judges.append(Judge(grouped(engine, groups), weight, summed(importances, groups)))
    return judges
