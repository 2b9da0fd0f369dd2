"""Conversions between paths of removal and results of searches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath
from chaffinch.tasks.selection.core import Schema
from chaffinch.tasks.selection.elimination.bmo import EliminationPath
from chaffinch.tasks.settings.search_result import SearchResult

if TYPE_CHECKING:
    from chaffinch.tasks.methods.protocol import Seen

# Score and rows of methods that order the features without masked losses.
PLACE = "the place in the order of leaving; what outlasts all others has the highest"
RANKED_ON: tuple[Seen, ...] = ("train", "mask_validation")
PARTS_OF_RANKINGS = {
    "train": "tuning, fitting, the ranking",
    "mask_validation": "fitting, the ranking",
}
_SIZED = ("n_features", "loss", "standard_error")  # facts of a cross-validated size


def of_elimination(path: EliminationPath, schema: Schema) -> SearchResult:
    """Return each removal with its loss."""
    losses, facts = {"loss": path.losses}, {"unmasked_loss": path.unmasked_loss}
    return SearchResult.of_removals(schema.features, path.removed, losses, facts)


def elimination_path(result: SearchResult) -> EliminationPath:
    """Return the path of `of_elimination`."""
    losses = tuple(result.steps["loss"].to_pylist())
    loss = result.facts["unmasked_loss"]
    return EliminationPath(result.n_features, loss, result.removed, losses)


def of_ranking(
    path: RankedPath, schema: Schema, facts: Mapping[str, Any] | None = None, **others: Any
) -> SearchResult:
    """Return each feature with its score in the order of removal, and cross-validated sizes."""
    facts = {"scores": dict(zip(schema.features, path.scores, strict=True)), **(facts or {})}
    if isinstance(path, CrossValidatedPath):
        rows = zip(path.sizes, path.losses, path.standard_errors, strict=True)
        facts["sizes"] = [dict(zip(_SIZED, row, strict=True)) for row in rows]
    scores = {"score": [path.scores[j] for j in path.removed]}
    return SearchResult.of_removals(schema.features, path.removed, scores, facts, **others)


def ranked_path(result: SearchResult) -> RankedPath:
    """Return the path of `of_ranking`."""
    scores = tuple(result.facts["scores"][name] for name in result.features)
    return RankedPath(scores, result.removed)


def cross_validated_path(result: SearchResult) -> CrossValidatedPath:
    """Return the path of `of_ranking`, with its sizes."""
    path = ranked_path(result)
    sizes = (tuple(size[name] for size in result.facts["sizes"]) for name in _SIZED)
    return CrossValidatedPath(path.scores, path.removed, *sizes)
