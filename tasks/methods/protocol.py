"""Interface of a method of selection, and the inputs of its search.

A method is one module with a pydantic class: settings, declarations (see `Method`), search, and
storage of the result. `rankings.py` is a short example.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Literal, TypeVar, cast

import numpy as np
import pyarrow as pa

from chaffinch.errors import InputError
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.methods.fitting import Fold, Recipe, Tuner
from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.feasible_masks import FeasibleMasks
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.masked_loss.together import together
from chaffinch.tasks.settings.method import Method
from chaffinch.tasks.settings.selection import MASK_ROWS, TOLERANCE
from chaffinch.tasks.workers.interface import OnDone, Workers

Seen = Literal["train", "mask_validation", "model_validation"]


@dataclass(frozen=True)
class SearchContext:
    """Inputs of a search over d columns. Test rows are never included."""

    schema: Schema
    recipe: Recipe  # model with the tuned hyper-parameters
    tuner: Tuner  # of hyper-parameters for other columns
    model: FittedModel  # the base model, fitted on the training set with every feature
    baseline: Floats  # shape (d,); the value of each feature when it is masked
    loss: Loss
    keep: tuple[int, ...]  # positions of the features that are always kept
    seed: int  # the only source of randomness
    # Loads the rows of one or more sets. A search loads only the sets that it needs.
    rows: Callable[[*tuple[Seen, ...]], Rows]
    # Returns the folds of cross-validation inside one or more sets.
    folds: Callable[[*tuple[Seen, ...]], Sequence[Fold]]
    workers: Workers  # this process, or workers of a cluster; the result is the same
    on_progress: OnDone  # called with the number of finished items and the total
    # Returns the unit of each row of one or more sets: rows of a unit are resampled together.
    units: Callable[[*tuple[Seen, ...]], Index]
    warnings: tuple[str, ...] = ()  # data-quality warnings about the table, for errors
    tolerance: float = TOLERANCE  # share of what all features explain that fewer may lose
    checkpoints: Checkpoints | None = None  # storage for the state of a long search
    mask_rows: int = MASK_ROWS  # most rows that masked losses are computed on
    feasible: FeasibleMasks | None = None  # None: features to keep are the only constraint

    def masked_rows(self) -> Rows:
        """Return the mask-validation rows, or as many as masked losses are computed on.

        Rows are shuffled by a hash of their content, so that the first are a random sample.
        """
        return self.rows("mask_validation").take(slice(self.mask_rows))

    def masked_loss(self, n_removals: int = 0) -> MaskedLoss:
        """Return the base model's masked loss on mask-validation rows; groups leave together.

        `n_removals` is how many features the search is to remove one by one.
        """
        rows = self.masked_rows()
        engine = self.workers.masked_loss(self.model, rows, self.loss, self.baseline, n_removals)
        return engine if self.feasible is None else together(engine, self.feasible.all_or_none())

    def by_masked_loss(self, first: Mask) -> list[int]:
        """Return features by how much masking them raises the base model's loss, the most first.

        Those of the mask `first` come before the others.
        """
        losses = self.masked_loss().without_each()
        order: list[int] = np.lexsort((-losses, ~first)).tolist()
        return order


@dataclass(frozen=True)
class Candidate:
    """Candidate mask of a search."""

    mask: Mask  # shape (d,)
    settings: Sequence[float]  # slacks, penalties, sizes or lowest score that led there, if any
    # Under constraints: all features, best first, to take as many of (by default `by_masked_loss`),
    # and a limit for those that these bring along.
    order: Sequence[int] | None = None
    at_most: int | None = None


@dataclass(frozen=True)
class Recorded:
    """Stored result of a search."""

    columns: Mapping[str, pa.Array]  # a row for each step
    features_left: Sequence[int]  # number of features after each step
    facts: Mapping[str, Any] = field(default_factory=dict)  # other results, as JSON values
    out_of_fold: pa.Table | None = None  # predictions of the rows that folds held out, by row

    def to_table(self) -> pa.Table:
        """Return the table, with the number of each step."""
        numbers = pa.array(range(1, len(self.features_left) + 1), pa.int64())
        left = pa.array(self.features_left, pa.int64())
        return pa.table({"step": numbers, **self.columns, "features_left": left})


Found = TypeVar("Found")


class SearchMethod(Method, Generic[Found]):
    """A method of selection that can search."""

    @abstractmethod
    def search(self, context: SearchContext) -> Found:
        """Return the result of the search.

        Raises
        ------
        InputError, ValueError
            If the method cannot be used with the model or the rows, or no feature is of any use.
        """

    @abstractmethod
    def candidates(self, found: Found) -> list[Candidate]:
        """Return the candidate masks, the smallest first."""

    @abstractmethod
    def record(self, found: Found, schema: Schema) -> Recorded:
        """Return the result in the form that a run stores."""

    @abstractmethod
    def read(self, table: pa.Table, facts: Mapping[str, Any], schema: Schema) -> Found:
        """Return the result recorded by `record`."""

    def unmasked_loss(self, found: Found) -> float | None:
        """Return the base model's loss with every feature, or None if it was not measured."""
        return None

    def reaching(self, sizes: Sequence[int]) -> SearchMethod[Found]:
        """Return the method with settings whose search includes some more sizes."""
        return self

    def of_sizes(
        self, found: Found, sizes: Sequence[int], context: SearchContext, seconds: float
    ) -> list[tuple[int, Mask, float]]:
        """Return each size of the result, with its mask and seconds; `seconds` took the search."""
        masks = [(size, self.mask_of_size(found, size)) for size in sizes]
        return [(size, mask, seconds) for size, mask in masks if mask is not None]

    def mask_of_size(self, found: Found, size: int) -> Mask | None:
        """Return the mask of a size; None if the search did not find one."""
        return None

    def report(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, Any]:
        """Return the search's part of the report: fields of `ReportContent` by name."""
        return {}

    def scores(
        self, table: pa.Table, facts: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
    ) -> dict[str, float] | None:
        """Return the score of each feature by name; None if features have none."""
        return None


def as_search(method: Method) -> SearchMethod[Any]:
    """Return a method as one that can search, as all of the registry can."""
    return cast("SearchMethod[Any]", method)


def sizes_asked_for(
    asked_for: Sequence[int | float], n_features: int, fewest: int
) -> dict[int, list[float]]:
    """Return size -> the requested numbers or shares of features that lead to it."""
    sizes: dict[int, list[float]] = {}
    for asked in asked_for:
        size = asked if isinstance(asked, int) else round(asked * n_features)
        sizes.setdefault(max(size, fewest), []).append(asked)
    return sizes


def each_mask_once(found: Sequence[Candidate]) -> list[Candidate]:
    """Return each mask once, the smallest first, with all settings that led to it."""
    candidates: dict[bytes, Candidate] = {}
    for one in found:
        key = one.mask.tobytes()
        before = candidates.get(key, replace(one, settings=[]))
        candidates[key] = replace(before, settings=[*before.settings, *one.settings])
    return sorted(candidates.values(), key=lambda one: int(one.mask.sum()))


def feasible_candidates(found: Sequence[Candidate], context: SearchContext) -> Sequence[Candidate]:
    """Return the candidates with masks that satisfy the constraints."""
    if context.feasible is None:
        return found
    feasible = []
    for one in found:
        order = context.by_masked_loss(one.mask) if one.order is None else one.order
        mask = context.feasible.best(order, int(one.mask.sum()), one.at_most)
        feasible.append(replace(one, mask=mask))
    return each_mask_once(feasible)


def no_use_made(context: SearchContext, loss: float) -> InputError:
    """Return the error for a model whose loss is the same for every mask."""
    warnings = "; ".join(context.warnings)
    return InputError(
        f"model {context.recipe.name} makes no use of any of the "
        f"{len(context.schema.features)} features: whichever are masked, its "
        f"{loss_in_words(context.loss.name)} is {loss:.4g}; "
        + (f"heed the warnings ({warnings}), or " if warnings else "")
        + "give more rows, or another model or loss"
    )
