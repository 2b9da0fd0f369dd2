"""RFE and RFECV: recursive feature elimination with given sizes or by cross-validation.

Guyon et al., Gene selection for cancer classification using support vector machines, 2002.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal

import numpy as np
from pydantic import ConfigDict

from chaffinch.errors import InputError
from chaffinch.tasks.methods.fitting import Fold
from chaffinch.tasks.methods.protocol import Candidate, Found, SearchContext
from chaffinch.tasks.methods.refits import (
    Refit,
    at_most,
    log_refits,
    refitted_loss,
    within_one_standard_error,
)
from chaffinch.tasks.methods.removals import RankedMethod, masks_of_sizes, masks_on_the_way
from chaffinch.tasks.selection.baselines.importances import check_importances, select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import (
    CrossValidatedPath,
    eliminate_by_refits,
    sizes_on_the_way,
)
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask
from chaffinch.tasks.settings.base import SIZES, Count, Share, Sizes, setting

if TYPE_CHECKING:
    from chaffinch.tasks.settings.method import Fit

_RFE = (
    "recursive feature elimination: the model is refitted on the training rows, a share of the "
    "features with the least importance leaves, and so on"
)
_RFECV = (
    "recursive feature elimination that keeps the number of features for which cross-validation "
    "inside the training rows has the lowest loss"
)
_STEP = setting(
    0.1,
    2,
    "Step",
    "Share of the features left that leaves after each refit: rounded down, and one at least.",
)


class _RecursiveElimination(RankedMethod[Found], Generic[Found]):
    """Base class of RFE and RFECV."""

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        check_importances(name, n_classes, fit, self.kind)


class Rfe(_RecursiveElimination[RankedPath]):
    """Recursive feature elimination: refit, drop the least important, and again."""

    model_config = ConfigDict(title="RFE")

    kind: Literal["rfe"] = setting("rfe", 0, "Kind", f"rfe: {_RFE}.")
    n_features: Sizes = SIZES
    step: Share = _STEP

    @property
    def refits(self) -> str:
        return _RFE

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        return sizes_on_the_way(n_features, 1, self.step)[:-1]

    def search(self, context: SearchContext) -> RankedPath:
        """Repeatedly refit and drop the least important features."""
        train = context.rows("train")  # nothing is held out
        refit = Refit(train, train.take(slice(0)), context.schema, context.recipe, context.loss)
        n_features = len(context.schema.features)
        log_refits(self.kind, context, len(_sizes_of(context, self.step)) - 1)
        return eliminate_by_refits(
            lambda mask: _importances(refit.model(mask), self.kind, context.keep, n_features),
            n_features,
            share=self.step,
            keep=context.keep,
            on_round=context.on_progress,
        )

    def candidates(self, found: RankedPath) -> list[Candidate]:
        return masks_of_sizes(found, self.n_features)


class Rfecv(_RecursiveElimination[CrossValidatedPath]):
    """Recursive feature elimination that finds the size by cross-validation."""

    model_config = ConfigDict(title="RFECV")
    limits_size = True
    finds_size = True
    folded_parts = ("train",)

    kind: Literal["rfecv"] = setting("rfecv", 0, "Kind", f"rfecv: {_RFECV}.")
    n_features: Count | None = at_most(1)
    step: Share = _STEP
    within_one_standard_error: bool = within_one_standard_error(3)

    @property
    def refits(self) -> str:
        return _RFECV

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> Sequence[int]:
        return sizes_on_the_way(n_features, 1, self.step) * (n_folds + 1)

    def search(self, context: SearchContext) -> CrossValidatedPath:
        """Eliminate on all training rows, and in each fold for the loss of each size."""
        train, folds = context.rows("train"), context.folds("train")
        refit = Refit(train, train, context.schema, context.recipe, context.loss)
        shared = _Eliminations(refit, folds, self.step, context.keep, self.kind)
        sizes = _sizes_of(context, self.step)
        log_refits(self.kind, context, len(folds) * len(sizes) + len(sizes) - 1)
        items = [*range(len(folds)), None]  # None: the path of all rows
        *of_folds, (path, _) = context.workers.map(_elimination, shared, items, context.on_progress)
        losses = np.array([of_fold for _, of_fold in of_folds])
        return CrossValidatedPath.from_folds(path, sizes, losses)

    def candidates(self, found: CrossValidatedPath) -> list[Candidate]:
        by_rule = self.within_one_standard_error
        size = found.best_size(at_most=self.n_features, within_one_standard_error=by_rule)
        return masks_on_the_way(found, {size: []}, self.n_features)


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


def _sizes_of(context: SearchContext, share: float) -> list[int]:
    fewest = max(1, len(context.keep))
    return sizes_on_the_way(len(context.schema.features), fewest, share)
