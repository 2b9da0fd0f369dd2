"""Common terms and interfaces of all methods.

A *mask* is a boolean vector over the features, True where a feature is kept. A *masked* feature
has its whole column set to its *baseline* value. A lower *loss* is better.
A search accesses a model only through `MaskedLoss`: it never sees rows, parameters or workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError, NotCovered

if TYPE_CHECKING:
    from chaffinch.tasks.selection.models.dense import DenseModel
    from chaffinch.tasks.selection.models.forest import Forest

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
Task = Literal["regression", "classification"]


def mask_of_size(n_features: int, removed: Sequence[int], size: int) -> Mask:
    """Return the mask (n_features,) with `size` left; InputError if the path does not reach it."""
    fewest = n_features - len(removed)
    if not fewest <= size <= n_features:
        raise InputError(f"n_features must be in {fewest}..{n_features} but is {size}")
    mask = np.ones(n_features, dtype=bool)
    mask[list(removed[: n_features - size])] = False
    return mask


def loosened(loss: float, slack: float) -> float:
    """Return loss + slack |loss|, which also loosens losses below zero (negated scores)."""
    return loss * (1 + slack) if loss >= 0 else loss * (1 - slack)


@dataclass(frozen=True)
class Schema:
    """Columns of a feature matrix, and its target."""

    features: tuple[str, ...]  # d names, sorted
    n_categories: tuple[int, ...]  # (d,): 0 if numeric, else the matrix holds the codes 0..n-1
    n_classes: int = 0  # 0 for regression, else at least 2

    @property
    def task(self) -> Task:
        return "classification" if self.n_classes else "regression"

    @property
    def categorical(self) -> tuple[int, ...]:
        return tuple(i for i, n in enumerate(self.n_categories) if n)

    def select(self, mask: Mask) -> Schema:
        kept = np.flatnonzero(mask)
        return Schema(
            tuple(self.features[i] for i in kept),
            tuple(self.n_categories[i] for i in kept),
            self.n_classes,
        )


@dataclass(frozen=True)
class Rows:
    """Rows of a table in the form that models use."""

    X: Floats  # (n, d); categories as codes, a missing value as NaN
    y: NDArray[np.float64] | NDArray[np.int64]  # (n,); class indices 0..n_classes-1 are int64
    weight: Floats | None = None  # (n,), positive; None means all equal

    def __len__(self) -> int:
        return len(self.y)

    @property
    def is_streamed(self) -> bool:
        """Whether X is too large to be held, so that its batches are to be read."""
        return False

    @property
    def n_features(self) -> int:
        return int(self.X.shape[1])

    @property
    def n_values(self) -> int:
        return len(self) * self.n_features

    def take(self, index: NDArray[np.int64] | slice, mask: Mask | None = None) -> Rows:
        """Return the rows at `index`, of the features of a mask; a slice alone copies none."""
        X = self.X[index] if mask is None else self.X[index][:, mask]
        return Rows(X, self.y[index], None if self.weight is None else self.weight[index])

    def select(self, mask: Mask) -> Rows:
        return self.take(slice(None), mask)

    def columns(self, features: Sequence[int]) -> Iterator[Floats]:
        """Yield the values of features, each of shape (n,)."""
        yield from (self.X[:, feature] for feature in features)

    def batches(self) -> Iterator[Rows]:
        """Yield the rows in order, some at a time where X is too large to be held."""
        yield self

    def matrices(self) -> Iterator[Floats]:
        """Yield X, some rows at a time, as `batches` does."""
        yield self.X

    def in_memory(self) -> Rows:
        return self

    def temporary_path(self, n_bytes: float) -> Path:
        """Return a path that is of no other file, where so many bytes may be written.

        InputError if the disk has less free.
        """
        raise NotImplementedError("rows in memory need no files")

    def predicted_by(self, model: Predictor) -> Floats:
        """Return a model's predictions: values (n,), or class probabilities (n, n_classes)."""
        predictions = [model.predict(batch.X) for batch in self.batches()]
        return predictions[0] if len(predictions) == 1 else np.concatenate(predictions)


class Predictor(ABC):
    """A trained model of `kind`, its name in the registry, trained on `schema`.

    What it may offer beside its predictions it does not by default. Exact masked losses follow from
    `forest` or `dense`, rankings from `importances` and `shap_values`.
    """

    kind: str
    schema: Schema
    is_single_precision = False  # it adds in float32, so that predictions differ from exact sums

    @property
    def name(self) -> str:
        """The name that a user knows the model by."""
        return self.kind

    @property
    def rows_are_independent(self) -> bool:
        """Whether a row's prediction is the same to the last bit in any company."""
        return False

    @property
    @abstractmethod
    def used_features(self) -> Mask:
        """Features that can change a prediction, shape (d,); True where this is not known."""

    @abstractmethod
    def predict(self, X: Floats) -> Floats:
        """Predict every row of X (n, d): values (n,), or class probabilities (n, n_classes).

        The prediction of a row depends on that row alone, and on nothing else to the last bit
        as long as all rows of the same X come in the same call.
        """

    def forest(self) -> Forest:
        """Return the model's trees; NotCovered if it has none that are known here."""
        raise NotCovered

    def dense(self) -> DenseModel:
        """Return the model's layers; NotCovered if it is neither a network nor linear."""
        raise NotCovered

    def importances(self) -> Floats | None:
        """Return the total gain or sum of absolute coefficients by feature, (d,); None without."""
        return None

    def shap_values(self, X: Floats) -> Floats | None:
        """Return the exact SHAP values (n, k, d) of rows X (n, d); None if it has none.

        k is 1, or n_classes above 2. InputError if a parameter of the model excludes them.
        """
        return None


class FittedModel(Predictor):
    """A trained model of any library; immutable, can be sent to a worker."""

    @abstractmethod
    def to_files(self) -> dict[str, bytes]:
        """Return the library's native files by name; never pickle."""

    @classmethod
    @abstractmethod
    def from_files(cls, files: Mapping[str, bytes], schema: Schema) -> Self:
        """Rebuild from native files; inverse of `to_files`."""


class MaskedLoss(Protocol):
    """Losses under masks, with the state kept between removals.

    `mask` starts with every feature kept. All losses are of the same rows.
    """

    @property
    def mask(self) -> Mask:
        """The present mask, shape (d,), a copy."""
        ...

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        ...

    def without_each(self) -> Floats:
        """Losses of masking another feature each, shape (d,); inf where already masked."""
        ...

    def remove(self, feature: int) -> None:
        """Mask another feature for good; `feature` is an index in 0..d-1, still kept."""
        ...

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        ...
