"""Inputs of a search, and the candidate masks of its result.

A method is a module with a pydantic class derived from `Method`: settings, traits, search and
candidates. `bmo.py` is a short example.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from chaffinch.errors import InputError
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.data.splitting.stratified_split import Index
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
from chaffinch.tasks.selection.near_copies import near_copies
from chaffinch.tasks.settings.search_result import Candidate, SearchResult, best_first
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.interface import OnDone, Workers

Seen = Literal["train", "mask_validation", "model_validation"]


@dataclass(frozen=True)
class Problem:
    """Inputs of a search over d columns. Test rows are never included."""

    settings: SelectionSettings
    schema: Schema
    recipe: Recipe  # model with the tuned hyper-parameters
    base_model: Callable[[], FittedModel]  # fitted on the training set with every feature
    baseline: Floats  # shape (d,); the value of each feature when it is masked
    keep: tuple[int, ...]  # positions of the features that are always kept
    # Loads the rows of some sets. A search loads only the sets that it needs.
    rows: Callable[[*tuple[Seen, ...]], Rows]
    # Returns the folds of cross-validation inside some sets.
    folds: Callable[[*tuple[Seen, ...]], Sequence[Fold]]
    # Returns the unit of each row of some sets: rows of a unit are resampled together.
    units: Callable[[*tuple[Seen, ...]], Index]
    workers: Workers  # this process, or workers of a cluster; the result is the same
    on_progress: OnDone  # called with the number of finished items and the total
    warnings: tuple[str, ...] = ()  # data-quality warnings about the table, for errors
    checkpoints: Checkpoints | None = None  # storage for the state of a long search
    # called with the features of each fit, as `Method.fits`, once it is known better
    on_fits: Callable[[Sequence[int]], None] | None = None
    feasible: FeasibleMasks | None = None  # None: features to keep are the only constraint
    given_loss: Loss | None = None  # None: that of the settings
    # lets a worker without other work fit the final model of a mask, until another mask is given
    begin_final: Callable[[Mask], None] = lambda _: None

    @property
    def model(self) -> FittedModel:
        return self.base_model()

    @property
    def seed(self) -> int:
        """The only source of randomness."""
        return self.settings.seed

    @cached_property
    def loss(self) -> Loss:
        return self.given_loss or loss_of(self.settings, self.schema)

    @cached_property
    def near_copies(self) -> list[Index]:
        """Groups of columns that are near copies, by the training rows, or all that folds part.

        The rows are read for this, and not held.
        """
        is_cross_fitted = self.settings.method.traits.is_cross_fitted
        parts = get_args(Seen) if is_cross_fitted else ("train",)
        return near_copies(self.rows(*parts), self.schema)

    @property
    def tuner(self) -> Tuner:
        """Tuner of hyper-parameters for other columns."""
        return Tuner(recipe_of(self.settings, self.recipe.estimator), self.settings, self.loss)

    def masked_rows(self) -> Rows:
        """Return the mask-validation rows, or as many as masked losses are computed on.

        Rows are shuffled by a hash of their content, so that the first are a random sample.
        """
        return self.rows("mask_validation").take(slice(self.settings.mask_rows)).in_memory()

    def masked_loss(self, n_removals: int = 0) -> MaskedLoss:
        """Return the base model's masked loss on mask-validation rows; groups leave together.

        `n_removals` is how many features the search is to remove, in single steps.
        """
        rows = self.masked_rows()
        engine = self.workers.masked_loss(self.model, rows, self.loss, self.baseline, n_removals)
        return engine if self.feasible is None else grouped(engine, self.feasible.all_or_none())

    def by_masked_loss(self, first: Mask) -> list[int]:
        """Return the features by the rise of the base model's masked loss, the largest first.

        Features of the mask `first` come before the others.
        """
        losses = self.masked_loss().without_each()
        order: list[int] = np.lexsort((-losses, ~first)).tolist()
        return order


def requested_sizes(
    requests: Sequence[int | float], n_features: int, fewest: int
) -> dict[int, list[float]]:
    """Return size -> the requested numbers or shares of features that lead to it."""
    sizes: dict[int, list[float]] = {}
    for request in requests:
        size = request if isinstance(request, int) else round(request * n_features)
        sizes.setdefault(max(size, fewest), []).append(request)
    return sizes


def masks_of_sizes(result: SearchResult, requests: Sequence[int | float]) -> list[Candidate]:
    """Return the mask of each requested number or share of features, the smallest first."""
    fewest = result.n_features - result.steps.num_rows
    sizes = requested_sizes(requests, result.n_features, fewest)
    candidates = candidates_at(result, sizes)
    return [replace(c, at_most=size) for size, c in zip(sorted(sizes), candidates, strict=True)]


def candidates_at(
    result: SearchResult, sizes: Mapping[int, list[float]], at_most: int | None = None
) -> list[Candidate]:
    """Return a candidate of each size, the smallest first, with the requests that led to it."""
    n_features, removed = result.n_features, result.removed
    order = best_first(n_features, removed)
    return [
        Candidate(mask_of_size(n_features, removed, size), sizes[size], order, at_most)
        for size in sorted(sizes)
    ]


def unique_masks(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return a candidate for each distinct mask, the smallest first, with all its settings."""
    unique: dict[bytes, Candidate] = {}
    for candidate in candidates:
        key = candidate.mask.tobytes()
        before = unique.get(key, replace(candidate, settings=[]))
        unique[key] = replace(before, settings=[*before.settings, *candidate.settings])
    return sorted(unique.values(), key=lambda candidate: int(candidate.mask.sum()))


def feasible_candidates(candidates: Sequence[Candidate], problem: Problem) -> Sequence[Candidate]:
    """Return the candidates with masks that satisfy the constraints."""
    if problem.feasible is None:
        return candidates
    feasible = []
    for candidate in candidates:
        mask, order = candidate.mask, candidate.order
        order = problem.by_masked_loss(mask) if order is None else order
        mask = problem.feasible.best(order, int(mask.sum()), candidate.at_most)
        feasible.append(replace(candidate, mask=mask))
    return unique_masks(feasible)


def unused_features_error(problem: Problem, loss: float) -> InputError:
    """Return the error for a model whose loss is the same for every mask."""
    warnings = "; ".join(problem.warnings)
    return InputError(
        f"model {problem.recipe.name} makes no use of any of the "
        f"{len(problem.schema.features)} features: whichever are masked, its "
        f"{loss_in_words(problem.loss.name)} is {loss:.4g}; "
        + (f"heed the warnings ({warnings}), or " if warnings else "")
        + "give more rows, or another model or loss"
    )
