"""RFE and RFECV: recursive feature elimination to fixed sizes or by cross-validation.

Guyon et al., Gene selection for cancer classification using support vector machines, 2002.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ConfigDict

from chaffinch.errors import InputError
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.paths import (
    PARTS_OF_RANKINGS,
    PLACE,
    RANKED_ON,
    cross_validated_path,
    of_ranking,
)
from chaffinch.tasks.methods.protocol import Problem, candidates_at, masks_of_sizes
from chaffinch.tasks.methods.refits import (
    AT_MOST,
    WITHIN_ONE_STANDARD_ERROR,
    Refit,
    log_refits,
    refitted_loss,
)
from chaffinch.tasks.selection.baselines.importances import check_importances, select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import (
    CrossValidatedPath,
    eliminate_by_refits,
    sizes_on_the_way,
)
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask
from chaffinch.tasks.settings.base import SIZES, Count, Share, Sizes, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

if TYPE_CHECKING:
    from chaffinch.tasks.settings.method import Fit

_RFE = (
    "recursive feature elimination: the model is refitted on the development rows, a share of the "
    "features with the least importance leaves, and so on"
)
_RFECV = (
    "recursive feature elimination that keeps the number of features for which cross-validation "
    "inside the development rows has the lowest loss"
)
_STEP = setting(
    0.1,
    "Share of the features left that leaves after each refit: rounded down, and one at least.",
    title="Step",
)


class _RecursiveElimination(Method):
    """Base class of RFE and RFECV."""

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        check_importances(name, n_classes, fit, self.kind)


class Rfe(_RecursiveElimination):
    """Recursive feature elimination: refit, drop the least important, and again."""

    model_config = ConfigDict(title="RFE")
    declared_traits = Traits(
        score=PLACE, score_is_place=True, refits=_RFE, parts_used=PARTS_OF_RANKINGS
    )

    kind: Literal["rfe"] = setting("rfe", f"rfe: {_RFE}.")
    n_features: Sizes = SIZES
    step: Share = _STEP

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        return sizes_on_the_way(n_features, 1, self.step)[:-1]

    def search(self, problem: Problem) -> SearchResult:
        """Repeatedly refit and drop the least important features."""
        train = problem.rows(*RANKED_ON)  # nothing is held out
        refit = Refit(train, train.take(slice(0)), problem.schema, problem.recipe, problem.loss)
        n_features = len(problem.schema.features)
        log_refits(self.kind, problem, len(_sizes_of(problem, self.step)) - 1)
        path = eliminate_by_refits(
            lambda mask: _importances(refit.model(mask), self.kind, problem.keep, n_features),
            n_features,
            share=self.step,
            keep=problem.keep,
            on_round=problem.on_progress,
        )
        return of_ranking(path, problem.schema)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        return masks_of_sizes(result, self.n_features)


class Rfecv(_RecursiveElimination):
    """Recursive feature elimination that finds the size by cross-validation."""

    model_config = ConfigDict(title="RFECV")
    declared_traits = Traits(
        score=PLACE,
        score_is_place=True,
        refits=_RFECV,
        limits_size=True,
        finds_size=True,
        folded_parts=RANKED_ON,
        parts_used=PARTS_OF_RANKINGS,
    )

    kind: Literal["rfecv"] = setting("rfecv", f"rfecv: {_RFECV}.")
    n_features: Count | None = AT_MOST
    step: Share = _STEP
    within_one_standard_error: bool = WITHIN_ONE_STANDARD_ERROR

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        return sizes_on_the_way(n_features, 1, self.step) * (n_folds + 1)

    def search(self, problem: Problem) -> SearchResult:
        """Eliminate on all development rows, and in each fold for the loss of each size."""
        train, folds = problem.rows(*RANKED_ON), problem.folds(*RANKED_ON)
        refit = Refit(train, train, problem.schema, problem.recipe, problem.loss)
        shared = _Eliminations(refit, folds, self.step, problem.keep, self.kind)
        sizes = _sizes_of(problem, self.step)
        log_refits(self.kind, problem, len(folds) * len(sizes) + len(sizes) - 1)
        items = [*range(len(folds)), None]  # None: the path of all rows
        *of_folds, (path, _) = problem.workers.map(_elimination, shared, items, problem.on_progress)
        losses = np.array([of_fold for _, of_fold in of_folds])
        return of_ranking(CrossValidatedPath.from_folds(path, sizes, losses), problem.schema)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        path, by_rule = cross_validated_path(result), self.within_one_standard_error
        size = path.best_size(at_most=self.n_features, within_one_standard_error=by_rule)
        return candidates_at(result, {size: []}, self.n_features)


@dataclass(frozen=True)
class _Eliminations:
    refit: Refit
    folds: Sequence[Fold]
    share: float
    keep: tuple[int, ...]
    asked_by: str


def _elimination(shared: _Eliminations, fold: int | None) -> tuple[RankedPath, list[float]]:
    """Return the path of a fold (or of all rows), and its held-out loss (or none) at each size."""
    refit, losses = shared.refit, []
    n_features = len(refit.schema.features)
    if fold is not None:
        refit = refit.fold(shared.folds[fold])

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
    """Return the importances of a model; raise InputError if all features have importance 0."""
    scores = select_from_model(model, asked_by)
    if len(scores) == n_features and not keep and not scores.any():
        raise InputError(
            f"{asked_by} finds no use in any of the {n_features} features: each has the importance "
            "0; give more rows, or another method or model"
        )
    return scores


def _sizes_of(problem: Problem, share: float) -> list[int]:
    fewest = max(1, len(problem.keep))
    return sizes_on_the_way(len(problem.schema.features), fewest, share)
