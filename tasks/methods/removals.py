"""Masks and storage of searches that remove one feature at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic

import numpy as np
import pyarrow as pa

from chaffinch.tasks.methods.protocol import (
    Candidate,
    Found,
    Recorded,
    SearchMethod,
    sizes_asked_for,
)
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.core import Mask, Schema, mask_of_size

_SIZED = ("n_features", "loss", "standard_error")  # facts of a cross-validated size


class RemovalMethod(SearchMethod[Found], Generic[Found]):
    """Method whose result is an order of removal, which defines a mask of every size."""

    def mask_of_size(self, found: Any, size: int) -> Mask | None:
        """Return the mask of a size; None if the removals did not reach it."""
        fewest, most = found.n_features - len(found.removed), found.n_features
        return mask_of_size(most, found.removed, size) if fewest <= size <= most else None

    def scores(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, float] | None:
        """Return the score of each feature by name; None for searches by masked losses."""
        scores: dict[str, float] | None = facts.get("scores")
        return scores

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        """Return each removal, and the losses of cross-validated sizes."""
        return {**report_removals(table), "sizes": facts.get("sizes")}


def report_removals(table: pa.Table) -> dict[str, Any]:
    """Return the step, feature, loss and features left of each removal."""
    steps = table.to_pydict()
    losses = steps.get("loss", [None] * table.num_rows)  # a ranking has scores instead
    rows = zip(steps["step"], steps["feature"], losses, steps["features_left"], strict=True)
    return {"path": list(rows)}


def masks_of_sizes(
    found: EliminationPath | RankedPath, asked_for: Sequence[int | float]
) -> list[Candidate]:
    """Return the mask of each requested number or share of features, the smallest first."""
    fewest = found.n_features - len(found.removed)
    sizes = sizes_asked_for(asked_for, found.n_features, fewest)
    each = zip(sorted(sizes), masks_on_the_way(found, sizes), strict=True)
    return [replace(candidate, at_most=size) for size, candidate in each]


def masks_on_the_way(
    found: EliminationPath | RankedPath,
    sizes: Mapping[int, list[float]],
    at_most: int | None = None,
) -> list[Candidate]:
    """Return the mask of each size, with the settings that led to it, the smallest first."""
    n_features, order = found.n_features, best_first(found.n_features, found.removed)
    return [
        Candidate(mask_of_size(n_features, found.removed, size), sizes[size], order, at_most)
        for size in sorted(sizes)
    ]


def best_first(n_features: int, removed: Sequence[int]) -> list[int]:
    """Return all features: those that were never removed, then from the last removed on."""
    left = np.setdiff1d(np.arange(n_features), removed)
    return [*left.tolist(), *reversed(removed)]


def _removed_names(found: EliminationPath | RankedPath, schema: Schema) -> pa.Array:
    return pa.array([schema.features[j] for j in found.removed], pa.string())


def _features_left(found: EliminationPath | RankedPath) -> list[int]:
    return [found.n_features - step for step in range(1, len(found.removed) + 1)]


def step_of_each(table: pa.Table) -> dict[str, int]:
    """Return the step of each feature's removal; empty for searches of whole masks."""
    if "feature" not in table.column_names:
        return {}
    return dict(zip(table["feature"].to_pylist(), table["step"].to_pylist(), strict=True))


def _removed_positions(table: pa.Table, schema: Schema) -> tuple[int, ...]:
    position = {name: j for j, name in enumerate(schema.features)}
    return tuple(position[name] for name in table["feature"].to_pylist())


def record_elimination(found: EliminationPath, schema: Schema) -> Recorded:
    """Return the record of an elimination: each removal with its loss."""
    losses = pa.array(found.losses, pa.float64())
    return Recorded(
        {"feature": _removed_names(found, schema), "loss": losses}, _features_left(found)
    )


def read_elimination(table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> EliminationPath:
    """Return the elimination recorded by `record_elimination`, with the unmasked loss."""
    removed, losses = _removed_positions(table, schema), tuple(table["loss"].to_pylist())
    return EliminationPath(len(schema.features), facts["unmasked_loss"], removed, losses)


def read_ranking(table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> RankedPath:
    """Return the order recorded by a `RankedMethod`."""
    scores = tuple(facts["scores"][name] for name in schema.features)
    return RankedPath(scores, _removed_positions(table, schema))


class RankedMethod(RemovalMethod[Found], Generic[Found]):
    """Method whose result is a `RankedPath`, which may have cross-validated sizes."""

    @property
    def score(self) -> str:
        """Definition of a feature's score: by default, its place in the order of removal."""
        return "the place in the order of leaving; what outlasts all others has the highest"

    @property
    def parts_used(self) -> Mapping[str, str]:
        """Use of each set; by default features are scored on the training rows."""
        return {"train": "tuning, fitting, the ranking", "mask_validation": "fitting alone"}

    def record(self, found: Any, schema: Schema) -> Recorded:
        """Return each feature with its score in the order of removal."""
        scores = pa.array([found.scores[j] for j in found.removed], pa.float64())
        facts: dict[str, Any] = {"scores": dict(zip(schema.features, found.scores, strict=True))}
        if isinstance(found, CrossValidatedPath):
            each = zip(found.sizes, found.losses, found.standard_errors, strict=True)
            facts["sizes"] = [dict(zip(_SIZED, one, strict=True)) for one in each]
        columns = {"feature": _removed_names(found, schema), "score": scores}
        return Recorded(columns, _features_left(found), facts)

    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> Any:
        """Return the path recorded by `record`."""
        path = read_ranking(table, facts, schema)
        if "sizes" not in facts:
            return path
        sizes = (tuple(size[name] for size in facts["sizes"]) for name in _SIZED)
        return CrossValidatedPath(path.scores, path.removed, *sizes)
