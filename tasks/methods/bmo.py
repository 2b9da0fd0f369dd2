"""GBMO and FLBMO: repeatedly remove the feature with the lowest masked loss.

Binary Mask Optimization, arXiv 2401.12644.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from chaffinch.tasks.methods.paths import elimination_path, of_elimination
from chaffinch.tasks.methods.protocol import (
    Problem,
    candidates_at,
    masks_of_sizes,
    unused_features_error,
)
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.settings.base import SIZES, Count, Sizes, setting
from chaffinch.tasks.settings.method import Method, Traits
from chaffinch.tasks.settings.search_result import Candidate, SearchResult

Slack = Annotated[float, Field(ge=0)]


class _MaskOptimisation(Method):
    """The search that GBMO and FLBMO share."""

    declared_traits = Traits(masks_given=True, reads_files=True)
    published = MappingProxyType({"baseline": "minimum"})

    def search(self, problem: Problem) -> SearchResult:
        """Remove single features by masked losses of the base model."""
        engine = problem.masked_loss(len(problem.schema.features) - len(problem.keep))
        path = eliminate(engine, keep=problem.keep, on_removal=problem.on_progress)
        is_flat = all(loss == path.unmasked_loss for loss in path.losses)
        # a model that uses a single feature has a constant loss until only it is left
        if is_flat and not problem.keep and engine.without_each().min() == path.unmasked_loss:
            raise unused_features_error(problem, path.unmasked_loss)
        return of_elimination(path, problem.schema)


class Gbmo(_MaskOptimisation):
    """General binary mask optimisation: remove features while the loss allows it."""

    model_config = ConfigDict(title="GBMO")

    declared_traits = Traits(masks_given=True, reads_files=True, limits_size=True)

    kind: Literal["gbmo"] = setting(
        "gbmo", "General binary mask optimisation finds the number of features itself."
    )
    slacks: tuple[Slack, ...] = setting(
        (0.00025, 0.001, 0.01, 0.05),
        "A removal is accepted while loss <= previous loss x (1 + slack); the slack whose mask "
        "does best on the model-validation rows wins.",
        min_length=1,
    )
    n_features: Count | None = setting(
        None,
        "Keep at most this many features: removals continue until no more are left.",
        title="At most this many features",
    )
    drift_cap: Slack | None = setting(
        None, "Also stop once the loss exceeds the unmasked loss x (1 + cap). By default no cap."
    )

    def candidates(self, result: SearchResult) -> list[Candidate]:
        path, sizes = elimination_path(result), dict[int, list[float]]()
        for slack in self.slacks:
            mask = path.gbmo(slack, n_features=self.n_features, drift_cap=self.drift_cap)
            sizes.setdefault(int(mask.sum()), []).append(slack)
        return candidates_at(result, sizes, self.n_features)


class Flbmo(_MaskOptimisation):
    """Fixed-length binary mask optimisation: remove features until a size is reached."""

    model_config = ConfigDict(title="FLBMO")

    kind: Literal["flbmo"] = setting(
        "flbmo", "Fixed-length binary mask optimisation keeps a fixed number of features."
    )
    n_features: Sizes = SIZES

    def candidates(self, result: SearchResult) -> list[Candidate]:
        return masks_of_sizes(result, self.n_features)
