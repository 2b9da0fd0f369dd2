"""Boruta: the features that a model needs more than shuffled copies of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ConfigDict

from chaffinch.errors import InputError
from chaffinch.tasks.methods.fitting import Recipe
from chaffinch.tasks.methods.paths import PARTS_OF_RANKINGS, RANKED_ON, of_ranking
from chaffinch.tasks.methods.protocol import Problem, candidates_at
from chaffinch.tasks.methods.refits import AT_MOST, log_refits
from chaffinch.tasks.selection.baselines.importances import check_importances, select_from_model
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.shadows import confirm, with_shadows
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.settings.base import Count, Share, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

if TYPE_CHECKING:
    from chaffinch.tasks.settings.method import Fit

logger = logging.getLogger(__name__)

_BORUTA = (
    "features are kept that are more important than every shuffled copy of a feature, in more "
    "refits on the development rows than chance allows"
)


class Boruta(Method):
    """Features that are more important in refits than shuffled copies of all features."""

    model_config = ConfigDict(title="Boruta")
    declared_traits = Traits(
        score="the share of the refits in which the feature is more important than every shuffled "
        "copy, until that decides; equal shares go by how much more important it is",
        refits=_BORUTA,
        limits_size=True,
        finds_size=True,
        parts_used=PARTS_OF_RANKINGS,
    )

    kind: Literal["boruta"] = setting("boruta", f"boruta: {_BORUTA}.")
    n_features: Count | None = AT_MOST
    rounds: Count = setting(100, "Refits at most; what they do not decide is not kept.")
    alpha: Share = setting(
        0.05,
        "Level at which a feature has more hits than chance, over all features by Bonferroni's "
        "rule. Rounds share their rows, so that a chance association may be confirmed more often.",
    )

    def fits(self, n_rows: int, n_features: int, n_folds: int) -> None:
        return None

    def check_model(
        self, name: str, parameters: Mapping[str, Any], n_classes: int, fit: Fit
    ) -> None:
        check_importances(name, n_classes, fit, self.kind)

    def search(self, problem: Problem) -> SearchResult:
        """Refit with shuffled copies until every feature is decided.

        Raises
        ------
        InputError
            If the model uses no feature.
        """
        schema, names = problem.schema, np.array(problem.schema.features)
        shared = _Shared(problem.rows(*RANKED_ON), schema, problem.recipe, problem.seed)
        log_refits(self.kind, problem, self.rounds, "at most ")

        def margins(mask: Mask, rounds: Sequence[int]) -> Floats:
            return np.array(problem.workers.map(_margins, shared, [(mask, n) for n in rounds]))

        found = confirm(
            margins,
            len(names),
            rounds=self.rounds,
            alpha=self.alpha,
            keep=problem.keep,
            on_rounds=problem.on_progress,
        )
        problem.on_progress(self.rounds, self.rounds)
        chosen = found.confirmed.copy()
        chosen[list(problem.keep)] = True
        facts = {
            "chosen": max(1, int(chosen.sum())),
            "confirms_none": not found.confirmed.any(),
            "tentative": names[found.tentative].tolist(),
        }
        # most that is confirmed has a hit in every round
        order = np.lexsort((found.margins, found.shares)).tolist()
        leaving = [j for j in order if j not in problem.keep]
        path = RankedPath(tuple(found.shares.tolist()), tuple(leaving[: len(order) - 1]))
        return of_ranking(path, schema, facts)

    def caveat(self, facts: Mapping[str, Any]) -> str:
        if not facts.get("confirms_none"):
            return ""
        return (
            "Boruta confirms no feature: none is more important than the shuffled copies; what is "
            "kept is the keep list, or the feature with the most hits. "
        )

    def candidates(self, result: SearchResult) -> list[Candidate]:
        size: int = result.facts["chosen"]
        fewest = result.n_features - result.steps.num_rows
        most = size if self.n_features is None else max(fewest, min(size, self.n_features))
        return candidates_at(result, {most: []}, self.n_features)


@dataclass(frozen=True)
class _Shared:
    train: Rows
    schema: Schema
    recipe: Recipe
    seed: int


def _margins(shared: _Shared, item: tuple[Mask, int]) -> Floats:
    """Return by how much the features left are more important than every shadow in a round."""
    mask, number = item
    random = np.random.default_rng([shared.seed, number])
    rows, schema = with_shadows(shared.train.select(mask), shared.schema.select(mask), random)
    recipe = replace(shared.recipe, seed=int(random.integers(2**31)))
    importances = select_from_model(recipe.fit(rows, schema), "boruta")
    if not importances.any():
        raise InputError(
            f"boruta finds no use in any of the {mask.sum()} features: each has the importance 0, "
            "and so have shuffled copies; give more rows, or another method or model"
        )
    k = int(mask.sum())
    return np.asarray((importances[:k] - importances[k:].max()) / importances.sum())
