"""Result of a search, as a run stores it, and the candidate masks that a method reads from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa

from chaffinch.tasks.selection.core import Mask, mask_of_size


@dataclass(frozen=True)
class Candidate:
    """Candidate mask of a search."""

    mask: Mask  # shape (d,)
    settings: Sequence[float]  # slacks, penalties, sizes or lowest score that led there, if any
    # Under constraints: all features, best first, of which as many are taken (by default
    # `by_masked_loss`), and an upper limit of the size, which groups may exceed otherwise.
    order: Sequence[int] | None = None
    at_most: int | None = None


@dataclass(frozen=True)
class SearchResult:
    """Result of a search over d features, as a run stores it.

    A search that removes single features records the name of each as "feature"; a search for masks
    records the names of the features of each mask as "features".
    """

    features: Sequence[str]  # names of all d
    steps: pa.Table  # a row per step: its number, the search's record, and "features_left"
    facts: Mapping[str, Any] = field(default_factory=dict)  # other results, as JSON values
    out_of_fold: pa.Table | None = None  # predictions of the rows that folds held out, by row
    files: Mapping[str, bytes] = field(default_factory=dict)  # of models that the search trained

    @classmethod
    def of_removals(
        cls,
        features: Sequence[str],
        removed: Sequence[int],
        values: Mapping[str, Sequence[float]],
        facts: Mapping[str, Any],
        out_of_fold: pa.Table | None = None,
    ) -> Self:
        """Return the result of a search that removes single features.

        `values` are the losses or the scores of the features `removed`, by "loss" or "score".
        """
        columns = {"feature": pa.array([features[j] for j in removed], pa.string())}
        columns |= {name: pa.array(column, pa.float64()) for name, column in values.items()}
        n_left = [len(features) - step for step in range(1, len(removed) + 1)]
        return cls(features, _with_numbers(columns, n_left), facts, out_of_fold)

    @classmethod
    def of_masks(
        cls,
        features: Sequence[str],
        masks: Sequence[Mask],
        losses: Sequence[float] | None = None,
        columns: Mapping[str, pa.Array] | None = None,
        facts: Mapping[str, Any] | None = None,
        files: Mapping[str, bytes] | None = None,
    ) -> Self:
        """Return the result of a search with a mask at each step; `columns` are of other values."""
        names = [[features[j] for j in np.flatnonzero(mask).tolist()] for mask in masks]
        columns = {**(columns or {}), "features": pa.array(names, pa.list_(pa.string()))}
        if losses is not None:
            columns["loss"] = pa.array(losses, pa.float64())
        steps = _with_numbers(columns, list(map(len, names)))
        return cls(features, steps, facts or {}, files=files or {})

    @property
    def n_features(self) -> int:
        return len(self.features)

    @property
    def removed(self) -> tuple[int, ...]:
        """Positions of the removed features, in order."""
        position = {name: j for j, name in enumerate(self.features)}
        return tuple(position[name] for name in self.steps["feature"].to_pylist())

    @property
    def masks(self) -> list[Mask]:
        """Mask of each step, shape (d,)."""
        return [np.isin(self.features, names) for names in self.steps["features"].to_pylist()]

    def mask_of_size(self, size: int) -> Mask | None:
        """Return the mask of a size; None if the search has no such mask."""
        if "features" in self.steps.column_names:
            return next((mask for mask in self.masks if mask.sum() == size), None)
        is_reached = self.n_features - self.steps.num_rows <= size <= self.n_features
        return mask_of_size(self.n_features, self.removed, size) if is_reached else None


def best_first(n_features: int, removed: Sequence[int]) -> list[int]:
    """Return all features: kept features first, then the removed features in reverse order."""
    left = np.setdiff1d(np.arange(n_features), removed)
    return [*left.tolist(), *reversed(removed)]


def step_of_each(steps: pa.Table) -> dict[str, int]:
    """Return the step of each feature's removal; empty for searches of whole masks."""
    if "feature" not in steps.column_names:
        return {}
    return dict(zip(steps["feature"].to_pylist(), steps["step"].to_pylist(), strict=True))


def _with_numbers(columns: Mapping[str, pa.Array], features_left: Sequence[int]) -> pa.Table:
    """Return a table with the number of each step, and of the features left after it."""
    numbers = pa.array(range(1, len(features_left) + 1), pa.int64())
    return pa.table(
        {"step": numbers, **columns, "features_left": pa.array(features_left, pa.int64())}
    )
