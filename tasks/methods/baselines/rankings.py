"""Rankings: score every feature once and keep the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from chaffinch.errors import InputError, short_repr
from chaffinch.tasks.methods.paths import PARTS_OF_RANKINGS, RANKED_ON, of_ranking, ranked_path
from chaffinch.tasks.methods.protocol import Problem, candidates_at, masks_of_sizes
from chaffinch.tasks.selection.baselines.importances import (
    check_importances,
    check_tree_shap,
    permutation,
    tree_shap,
)
from chaffinch.tasks.selection.baselines.ranking import SCORERS, RankedPath, Scorer
from chaffinch.tasks.selection.core import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.settings.base import SIZES, Sizes, setting
from chaffinch.tasks.settings.method import (
    Method,
    Traits,
    imported,
    numbers_in_words,
    plain_rankings,
)
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

if TYPE_CHECKING:
    from chaffinch.tasks.settings.method import Fit

_MOST_SHARES = 64

Features = NDArray[np.int64]
Shared = TypeVar("Shared")


def scorer_of(kind: str) -> Scorer:
    """Return the function of a ranking."""
    imported(kind)
    return SCORERS[kind]


class _AnyRanking:
    """The schema of the form: the rankings that are a function."""

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {**handler(schema), "enum": list(plain_rankings())}


def _is_ranking(kind: str) -> str:
    if kind not in plain_rankings():
        raise ValueError(
            f"kind must be one of {', '.join(plain_rankings())} but is {short_repr(kind)}"
        )
    return kind


class Ranking(Method):
    """Rank the features once, by a filter or by importances of the base model."""

    model_config = ConfigDict(title="Ranking")
    # settings that say how many features are kept, of which one is given; sizes by default
    aims: ClassVar[tuple[str, ...]] = ("n_features", "min_score")

    kind: Annotated[str, AfterValidator(_is_ranking), _AnyRanking] = setting(
        "anova_f",
        "Features are ranked by "
        + "; ".join(f"{kind}: {scorer_of(kind).score}" for kind in plain_rankings())
        + ".",
    )
    n_features: Sizes | None = setting(
        None,
        f"{SIZES.description} By default 1/6, 1/5, 1/4 and 1/2 of all, unless there is a lowest "
        "score.",
        title="Sizes",
    )
    min_score: float | None = setting(
        None,
        "Keep the features whose score is at least this, in place of a number of features.",
        title="Lowest score",
    )

    @model_validator(mode="before")
    @classmethod
    def _sizes_unless_a_lowest_score(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        is_set = any(values.get(name) is not None for name in cls.aims)
        return values if is_set else {**values, "n_features": SIZES.default}

    @model_validator(mode="after")
    def _sizes_or_a_lowest_score(self) -> Self:
        aims = {name: value for name in self.aims if (value := getattr(self, name)) is not None}
        if len(aims) > 1:
            values = map(numbers_in_words, aims.values())
            raise ValueError(
                f"{' and '.join(aims)} exclude each other but are {' and '.join(values)}; give "
                "one of them"
            )
        return self

    def search(self, problem: Problem) -> SearchResult:
        """Score every feature and order them, worst first."""
        scores = self.score_features(problem)
        if not problem.keep and not scores.any():
            raise InputError(
                f"{self.kind} finds no use in any of the {len(scores)} features: each has the "
                "score 0; give more rows, or another method or model"
            )
        best, lowest = float(scores.max()), self.min_score
        if not problem.keep and lowest is not None and best < lowest:
            raise InputError(
                f"min_score must be at most {best!r}, the best score by {self.kind}, but is "
                f"{lowest!r}"
            )
        return of_ranking(RankedPath.from_scores(scores, problem.keep), problem.schema)

    def candidates(self, result: SearchResult) -> list[Candidate]:
        if self.min_score is not None:
            size = ranked_path(result).size_at(self.min_score)
            return candidates_at(result, {size: [self.min_score]})
        return masks_of_sizes(result, self.n_features or ())

    @property
    def traits(self) -> Traits:
        scorer, parts = scorer_of(self.kind), PARTS_OF_RANKINGS
        if scorer.reads == "rows held out":
            parts = {"train": "tuning, fitting", "mask_validation": "the ranking; then fitting"}
        return Traits(
            summary=f"Ranking by {scorer.score}.",
            score=scorer.score,
            score_is_place=scorer.is_place,
            takes_weights=scorer.weights,
            reads_files=scorer.reads != "training rows",
            parts_used=parts,
        )

    def min_training_rows(self, n_classes: int) -> int:
        return scorer_of(self.kind).fewest_rows(n_classes)

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        if self.kind == "select_from_model":
            check_importances(name, n_classes, fit, self.kind)
        if self.kind == "tree_shap":
            check_tree_shap(name, parameters)

    def score_features(self, problem: Problem) -> Floats:
        """Return the score of every feature, shape (d,); higher is better."""
        return scores_of(self.kind, problem)


@dataclass(frozen=True)
class _HeldOutModel:
    """Inputs that all batches share, for permutation importance and SHAP values."""

    model: FittedModel
    rows: Rows
    loss: Loss
    seed: int


def scores_of(name: str, problem: Problem) -> Floats:
    """Return the scores (d,) by a ranking without settings of its own, computed by the workers."""
    scorer, schema, seed = scorer_of(name), problem.schema, problem.seed
    if scorer.reads == "model":
        return scorer.function(problem.recipe.fit(problem.rows(*RANKED_ON), schema))
    if scorer.reads == "rows held out":
        model = _HeldOutModel(problem.model, problem.masked_rows(), problem.loss, seed)
        if name == "tree_shap":
            return _mean_shap(problem, model)
        return _score_in_batches(problem, _permutation_scores, model)
    rows = problem.rows(*RANKED_ON)
    if not scorer.one_by_one:
        return scorer.scores(rows, schema, seed)
    return _score_in_batches(problem, _scores, (scorer, rows, schema, seed))


def _score_in_batches(
    problem: Problem, function: Callable[[Shared, Features], Floats], shared: Shared
) -> Floats:
    """Return scores (d,) computed by the workers in batches of features."""
    n_features = len(problem.schema.features)
    shares = np.array_split(np.arange(n_features), min(n_features, _MOST_SHARES))
    return np.concatenate(problem.workers.map(function, shared, shares, problem.on_progress))


def _mean_shap(problem: Problem, explained: _HeldOutModel) -> Floats:
    """Return mean absolute SHAP values (d,) computed by the workers in batches of rows."""
    n_rows, weight = len(explained.rows), explained.rows.weight
    shares = np.array_split(np.arange(n_rows), min(n_rows, _MOST_SHARES))
    means = problem.workers.map(_shap_of_rows, explained, shares, problem.on_progress)
    weights = [len(share) if weight is None else weight[share].sum() for share in shares]
    return np.asarray(np.average(means, axis=0, weights=weights))


def _shap_of_rows(shared: _HeldOutModel, share: NDArray[np.int64]) -> Floats:
    return tree_shap(shared.model, shared.rows.take(share))


def _scores(shared: tuple[Scorer, Rows, Schema, int], features: Features) -> Floats:
    scorer, rows, schema, seed = shared
    mask = np.zeros(len(schema.features), dtype=bool)
    mask[features] = True
    return scorer.scores(rows.select(mask), schema.select(mask), seed)


def _permutation_scores(shared: _HeldOutModel, features: Features) -> Floats:
    return permutation(shared.model, shared.rows, shared.loss, features.tolist(), shared.seed)
