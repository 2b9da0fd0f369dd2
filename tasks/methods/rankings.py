"""Rankings: score every feature once and keep the best."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, model_validator

from chaffinch.errors import InputError
from chaffinch.tasks.methods.protocol import Candidate, SearchContext
from chaffinch.tasks.methods.removals import RankedMethod, masks_of_sizes, masks_on_the_way
from chaffinch.tasks.selection.baselines.importances import (
    check_importances,
    check_tree_shap,
    permutation,
    select_from_model,
    tree_shap,
)
from chaffinch.tasks.selection.baselines.names import (
    OF_ROWS_HELD_OUT,
    OF_TRAINING_ROWS,
    PLAIN,
    SCORES,
    WEIGHTED,
    PlainName,
    RankingName,
    fewest_rows,
)
from chaffinch.tasks.selection.baselines.ranking import ONE_BY_ONE, RankedPath, filter_scores
from chaffinch.tasks.selection.core import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.settings.base import SIZES, Sizes, setting

if TYPE_CHECKING:
    from chaffinch.tasks.settings.method import Fit

_MOST_SHARES = 64

Features = NDArray[np.int64]
Shared = TypeVar("Shared")


class RankingMethod(RankedMethod[RankedPath]):
    """A method that scores every feature once and keeps the best.

    A subclass gives `kind`, `score` and `score_features`.
    """

    n_features: Sizes | None = setting(
        None,
        1,
        "Sizes",
        f"{SIZES.description} By default 1/6, 1/5, 1/4 and 1/2 of all, unless there is a lowest "
        "score.",
    )
    min_score: float | None = setting(
        None,
        2,
        "Lowest score",
        "Keep the features whose score is at least this, in place of a number of features.",
    )

    @model_validator(mode="before")
    @classmethod
    def _sizes_unless_a_lowest_score(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_given = any(values.get(name) is not None for name in ("n_features", "min_score"))
        return values if is_given else {**values, "n_features": SIZES.default}

    @model_validator(mode="after")
    def _sizes_or_a_lowest_score(self) -> Self:
        if self.n_features is not None and self.min_score is not None:
            sizes = ", ".join(f"{size:g}" for size in self.n_features)
            raise ValueError(
                f"n_features and min_score exclude each other but are {sizes} and "
                f"{self.min_score:g}; give one of them"
            )
        return self

    @property
    def summary(self) -> str:
        return f"Ranking by {self.score}."

    @abstractmethod
    def score_features(self, context: SearchContext) -> Floats:
        """Return the score of every feature, shape (d,); higher is better."""

    def search(self, context: SearchContext) -> RankedPath:
        """Score every feature and order them, worst first."""
        scores = self.score_features(context)
        if not context.keep and not scores.any():
            raise InputError(
                f"{self.kind} finds no use in any of the {len(scores)} features: each has the "
                "score 0; give more rows, or another method or model"
            )
        best, asked = float(scores.max()), self.min_score
        if not context.keep and asked is not None and best < asked:
            raise InputError(
                f"min_score must be at most {best!r}, the best score by {self.kind}, but is "
                f"{asked!r}"
            )
        return RankedPath.from_scores(scores, context.keep)

    def candidates(self, found: RankedPath) -> list[Candidate]:
        if self.min_score is not None:
            return masks_on_the_way(found, {found.size_at(self.min_score): [self.min_score]})
        return masks_of_sizes(found, self.n_features or ())


class Ranking(RankingMethod):
    """Rank the features once, by a filter or by importances of the base model."""

    model_config = ConfigDict(title="Ranking")

    kind: PlainName = setting(
        "anova_f",
        0,
        "Kind",
        "Features are ranked by " + "; ".join(f"{kind}: {SCORES[kind]}" for kind in PLAIN) + ".",
    )

    @property
    def score(self) -> str:
        return SCORES[self.kind]

    @property
    def score_is_place(self) -> bool:
        return self.kind == "mrmr"

    @property
    def takes_weights(self) -> bool:
        return self.kind in WEIGHTED

    @property
    def reads_files(self) -> bool:
        return self.kind not in OF_TRAINING_ROWS

    @property
    def parts_used(self) -> Mapping[str, str]:
        if self.kind in OF_ROWS_HELD_OUT:
            return {"train": "tuning, fitting", "mask_validation": "the ranking; then fitting"}
        return super().parts_used

    def fewest_training_rows(self, n_classes: int) -> int:
        return fewest_rows(n_classes) if self.kind in OF_TRAINING_ROWS else 1

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        if self.kind == "select_from_model":
            check_importances(name, n_classes, fit, self.kind)
        if self.kind == "tree_shap":
            check_tree_shap(name, parameters)

    def score_features(self, context: SearchContext) -> Floats:
        return scores_of(self.kind, context)


@dataclass(frozen=True)
class _Judged:
    """Inputs that all batches share, for permutation importance and SHAP values."""

    model: FittedModel
    rows: Rows
    loss: Loss
    seed: int


def scores_of(name: RankingName, context: SearchContext) -> Floats:
    schema, seed = context.schema, context.seed
    if name == "select_from_model":
        return select_from_model(context.model)
    if name in ("permutation", "tree_shap"):
        judged = _Judged(context.model, context.masked_rows(), context.loss, seed)
        if name == "tree_shap":
            return _mean_shap(context, judged)
        return _shared_out(context, _rises, judged)
    train = context.rows("train")
    if name not in ONE_BY_ONE:
        return filter_scores(name, train, schema, seed)
    return _shared_out(context, _filter_scores, (name, train, schema, seed))


def _shared_out(
    context: SearchContext, function: Callable[[Shared, Features], Floats], shared: Shared
) -> Floats:
    """Return scores (d,) computed by the workers in batches of features."""
    n_features = len(context.schema.features)
    shares = np.array_split(np.arange(n_features), min(n_features, _MOST_SHARES))
    return np.concatenate(context.workers.map(function, shared, shares, context.on_progress))


def _mean_shap(context: SearchContext, explained: _Judged) -> Floats:
    """Return mean absolute SHAP values (d,) computed by the workers in batches of rows."""
    n_rows, weight = len(explained.rows), explained.rows.weight
    shares = np.array_split(np.arange(n_rows), min(n_rows, _MOST_SHARES))
    means = context.workers.map(_shap_of_rows, explained, shares, context.on_progress)
    weights = [len(share) if weight is None else weight[share].sum() for share in shares]
    return np.asarray(np.average(means, axis=0, weights=weights))


def _shap_of_rows(shared: _Judged, share: NDArray[np.int64]) -> Floats:
    return tree_shap(shared.model, shared.rows.take(share))


def _filter_scores(shared: tuple[RankingName, Rows, Schema, int], features: Features) -> Floats:
    name, rows, schema, seed = shared
    mask = np.zeros(len(schema.features), dtype=bool)
    mask[features] = True
    return filter_scores(name, rows.select(mask), schema.select(mask), seed)


def _rises(shared: _Judged, features: Features) -> Floats:
    return permutation(shared.model, shared.rows, shared.loss, features.tolist(), shared.seed)
