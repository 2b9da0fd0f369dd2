"""Rows as the network of PEFS reads them: a masked feature is 0 in all of its columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.models.encoding import Encoding
from chaffinch.tasks.selection.pefs.sparse_inputs import SparseInputs
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows, Schema

if TYPE_CHECKING:
    import torch

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Reading:
    """How features become inputs: encoded, less what the baseline is when encoded.

    So a feature at its baseline is 0 in all of its columns. A missing value is the baseline.

    Attributes
    ----------
    encoding : Encoding
        Numbers standardised, categories one-hot.
    baseline : ndarray of float64, shape (d,)
        What a masked feature is set to.
    """

    encoding: Encoding
    baseline: Floats

    @classmethod
    def fit(cls, rows: Rows, schema: Schema, baseline: Floats) -> Reading:
        """Take mean and scale of each number from training rows."""
        return cls(Encoding.fit(rows.X, schema.n_categories), baseline)

    @property
    def feature_of_column(self) -> NDArray[np.int64]:
        """The feature each input comes from, shape (width,)."""
        return self.encoding.feature_of_column

    @property
    def origin(self) -> Floats:
        """The baseline when encoded, shape (width,)."""
        return np.asarray(self.encoding.transform(self.baseline[None, :])[0])

    def filled(self, X: Floats) -> Floats:
        """Return X (n, d) with its baseline in place of each missing value."""
        return np.where(np.isnan(X), self.baseline, X)

    def inputs(self, X: Floats) -> NDArray[np.float32]:
        """Return X (n, d) as inputs (n, width)."""
        inputs = np.empty((len(X), len(self.feature_of_column)), dtype=np.float32)
        for start in range(0, len(X), _ROWS_AT_ONCE):
            block = slice(start, start + _ROWS_AT_ONCE)
            inputs[block] = self.encoding.transform(self.filled(X[block])) - self.origin
        return inputs


@dataclass(frozen=True, eq=False)
class Prepared:
    """Training rows, read once for any number of searches.

    Attributes
    ----------
    schema : Schema
        What the d features mean.
    reading : Reading
        How they became inputs.
    inputs : ndarray of float32, shape (n, width)
    target : ndarray, shape (n,)
        Class indices (int64), or values of mean 0 and deviation 1 (float32).
    weight : ndarray of float32, shape (n,), or None
        Sample weights of mean 1.
    location, scale : float
        A regression's prediction is location + scale x output; 0 and 1 for classes.
    """

    schema: Schema
    reading: Reading
    inputs: NDArray[np.float32]
    target: NDArray[np.int64] | NDArray[np.float32]
    weight: NDArray[np.float32] | None
    location: float
    scale: float

    @classmethod
    def of(cls, rows: Rows, schema: Schema, baseline: Floats) -> Prepared:
        """Read training rows; they are not changed.

        Raises
        ------
        ValueError
            If the baseline is not of as many features as the rows.
        """
        if baseline.shape != (rows.X.shape[1],):
            raise ValueError(
                f"baseline must have shape ({rows.X.shape[1]},) but has {baseline.shape}"
            )
        reading = Reading.fit(rows, schema, baseline)
        location, scale = 0.0, 1.0
        target: NDArray[np.int64] | NDArray[np.float32]
        if schema.n_classes:
            target = rows.y.astype(np.int64)
        else:
            location = float(np.average(rows.y, weights=rows.weight))
            scale = float(np.sqrt(np.average((rows.y - location) ** 2, weights=rows.weight))) or 1.0
            target = ((rows.y - location) / scale).astype(np.float32)
        weight = None
        if rows.weight is not None:
            weight = (rows.weight / rows.weight.mean()).astype(np.float32)
        return cls(schema, reading, reading.inputs(rows.X), target, weight, location, scale)

    def __len__(self) -> int:
        return len(self.target)

    @property
    def varying(self) -> Mask:
        """Features that are not the same in all rows, shape (d,)."""
        columns = self.inputs.min(axis=0) != self.inputs.max(axis=0)
        varying = np.zeros(len(self.schema.features), dtype=bool)
        varying[self.reading.feature_of_column[columns]] = True
        return varying

    @cached_property
    def sparse(self) -> SparseInputs | None:
        """The inputs in a form that is quicker to learn from, where that pays."""
        return SparseInputs.of(self.inputs)

    def tensors(self) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
        """Return inputs, target and weight as tensors that share their memory."""
        import torch

        weight = None if self.weight is None else torch.from_numpy(self.weight)
        return torch.from_numpy(self.inputs), torch.from_numpy(self.target), weight
