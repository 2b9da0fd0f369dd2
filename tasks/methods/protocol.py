"""Inputs of a search, and the candidate masks of its result.

A method is one module with a pydantic class derived from `Method`: settings, traits, search and
candidates. `bmo.py` is a short example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from chaffinch.errors import InputError
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.methods.fitting import Fold, Recipe, Tuner, loss_of, recipe_of
from chaffinch.tasks.selection.core import (
    FittedModel,
    Floats,
    Mask,
    MaskedLoss,
    Rows,
    Schema,
    mask_of_size,
)
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.masked_loss.grouped import grouped
from chaffinch.tasks.settings.search_result import Candidate, SearchResult, best_first
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.interface import OnDone, Workers

Seen = Literal["train", "mask_validation", "model_validation"]


@dataclass(frozen=True)
class Problem:
    """What a search is given of a run over d columns. Test rows are never included."""

    settings: SelectionSettings
    schema: Schema
    recipe: Recipe  # model with the tuned hyper-parameters
    model: FittedModel  # the base model, fitted on the training set with every feature
    baseline: Floats  # shape (d,); the value of each feature when it is masked
    keep: tuple[int, ...]  # positions of the features that are always kept
    # Loads the rows of one or more sets. A search loads only the sets that it needs.
    rows: Callable[[*tuple[Seen, ...]], Rows]
    # Returns the folds of cross-validation inside one or more sets.
    folds: Callable[[*tuple[Seen, ...]], Sequence[Fold]]
    # Returns the unit of each row of one or more sets: rows of a unit are resampled together.
    units: Callable[[*tuple[Seen, ...]], Index]
    workers: Workers  # this process, or workers of a cluster; the result is the same
    on_progress: OnDone  # called with the number of finished items and the total
    warnings: tuple[str, ...] = ()  # data-quality warnings about the table, for errors
    checkpoints: Checkpoints | None = None  # storage for the state of a long search
    feasible: FeasibleMasks | None = None  # None: features to keep are the only constraint

    @property
    def seed(self) -> int:
        """The only source of randomness."""
        return self.settings.seed

    @cached_property
    def loss(self) -> Loss:
        return loss_of(self.settings, self.schema)

    @property
    def tuner(self) -> Tuner:
        """Tuner of hyper-parameters for other columns."""
        return Tuner(recipe_of(self.settings, self.recipe.estimator), self.settings)

    def masked_rows(self) -> Rows:
        """Return the mask-validation rows, or as many as masked losses are computed on.

        Rows are shuffled by a hash of their content, so that the first are a random sample.
        """
        return self.rows("mask_validation").take(slice(self.settings.mask_rows))

    def masked_loss(self, n_removals: int = 0) -> MaskedLoss:
        """Return the base model's masked loss on mask-validation rows; groups leave together.

        `n_removals` is how many features the search is to remove one by one.
        """
        rows = self.masked_rows()
        engine = self.workers.masked_loss(self.model, rows, self.loss, self.baseline, n_removals)
        return engine if self.feasible is None else grouped(engine, self.feasible.all_or_none())

    def by_masked_loss(self, first: Mask) -> list[int]:
        """Return features by how much masking them raises the base model's loss, the most first.

        Those of the mask `first` come before the others.
        """
        losses = self.masked_loss().without_each()
        order: list[int] = np.lexsort((-losses, ~first)).tolist()
        return order


def sizes_asked_for(
    asked_for: Sequence[int | float], n_features: int, fewest: int
) -> dict[int, list[float]]:
    """Return size -> the requested numbers or shares of features that lead to it."""
    sizes: dict[int, list[float]] = {}
    for asked in asked_for:
        size = asked if isinstance(asked, int) else round(asked * n_features)
        sizes.setdefault(max(size, fewest), []).append(asked)
    return sizes


def masks_of_sizes(result: SearchResult, asked_for: Sequence[int | float]) -> list[Candidate]:
    """Return the mask of each requested number or share of features, the smallest first."""
    fewest = result.n_features - result.steps.num_rows
    sizes = sizes_asked_for(asked_for, result.n_features, fewest)
    each = zip(sorted(sizes), masks_on_the_way(result, sizes), strict=True)
    return [replace(candidate, at_most=size) for size, candidate in each]


def masks_on_the_way(
    result: SearchResult, sizes: Mapping[int, list[float]], at_most: int | None = None
) -> list[Candidate]:
    """Return the mask of each size, with the settings that led to it, the smallest first."""
    n_features, removed = result.n_features, result.removed
    order = best_first(n_features, removed)
    return [
        Candidate(mask_of_size(n_features, removed, size), sizes[size], order, at_most)
        for size in sorted(sizes)
    ]


def each_mask_once(found: Sequence[Candidate]) -> list[Candidate]:
    """Return each mask once, the smallest first, with all settings that led to it."""
    candidates: dict[bytes, Candidate] = {}
    for one in found:
        key = one.mask.tobytes()
        before = candidates.get(key, replace(one, settings=[]))
        candidates[key] = replace(before, settings=[*before.settings, *one.settings])
    return sorted(candidates.values(), key=lambda one: int(one.mask.sum()))


def feasible_candidates(found: Sequence[Candidate], problem: Problem) -> Sequence[Candidate]:
    """Return the candidates with masks that satisfy the constraints."""
    if problem.feasible is None:
        return found
    feasible = []
    for one in found:
        order = problem.by_masked_loss(one.mask) if one.order is None else one.order
        mask = problem.feasible.best(order, int(one.mask.sum()), one.at_most)
        feasible.append(replace(one, mask=mask))
    return each_mask_once(feasible)


def no_use_made(problem: Problem, loss: float) -> InputError:
    """Return the error for a model whose loss is the same for every mask."""
    warnings = "; ".join(problem.warnings)
    return InputError(
        f"model {problem.recipe.name} makes no use of any of the "
        f"{len(problem.schema.features)} features: whichever are masked, its "
        f"{loss_in_words(problem.loss.name)} is {loss:.4g}; "
        + (f"heed the warnings ({warnings}), or " if warnings else "")
        + "give more rows, or another model or loss"
    )
