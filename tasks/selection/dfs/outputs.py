"""Targets as centred outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Task
from chaffinch.tasks.selection.input_checks import asks_for_classes

_MOST_LABELS = 1_000  # more are a quantity rather than classes
_NOT_FINITE = "y must be finite but is not; leave out the rows without a finite target"


@dataclass(frozen=True, eq=False)
class Outputs:
    """Statistics of the outputs of some rows, by which a target becomes outputs.

    Numbers are a single output, and so are two classes; of more each is an output of its own, 0 and
    1, and the estimate is summed. Outputs come in units in which their variances sum to 1, so that
    losses, penalties and steps mean the same for every target.
    """

    n_rows: int
    labels: NDArray[Any] | None  # of classes, ascending
    largest: float  # outputs are divided by it first, or squares of large numbers would overflow
    mean: Floats  # (C,)
    variance: float  # summed over the outputs
    example: Floats  # (C,), of some row, unscaled
    varies: bool

    def of(self, y: NDArray[Any]) -> Floats:
        """Return centred outputs of unit variance, shape (n, C), of a target (n,).

        InputError if it is not finite, or has a class that is none of the labels.
        """
        outputs = _raw_outputs(y, self.labels) / self.largest
        outputs -= self.mean
        outputs /= np.sqrt(self.variance)
        return np.ascontiguousarray(outputs)

    def weakened(self, share: float) -> Outputs:
        """Return the same statistics as of a share of the rows."""
        return replace(self, n_rows=math.ceil(share * self.n_rows))

    def check(self) -> None:
        """Raise InputError if the target is the same in every row."""
        if not self.varies:
            raise InputError("y must vary but is the same in every row; give rows that differ")


def outputs_of(y: NDArray[Any], labels: NDArray[Any] | None) -> Outputs:
    """Return the statistics of the outputs of at least one row; see `Outputs.of`."""
    outputs = _raw_outputs(y, labels)
    largest = float(np.abs(outputs).max()) or 1.0
    scaled = outputs / largest
    mean = scaled.mean(axis=0)
    scaled -= mean
    variance = float((scaled**2).mean(axis=0).sum())
    varies = not bool((outputs == outputs[0]).all())
    return Outputs(len(y), labels, largest, mean, variance, outputs[0], varies)


def merged_outputs(first: Outputs, second: Outputs) -> Outputs:
    """Return the statistics of the rows of both, as `scaling.merged` does."""
    n_rows, largest = first.n_rows + second.n_rows, max(first.largest, second.largest)
    shares = [part.n_rows / n_rows for part in (first, second)]
    units = [part.largest / largest for part in (first, second)]
    off = second.mean * units[1] - first.mean * units[0]
    variance = shares[0] * first.variance * units[0] ** 2
    variance += shares[1] * second.variance * units[1] ** 2
    variance += shares[0] * shares[1] * float(np.sum(off**2))
    varies = first.varies or second.varies or bool((first.example != second.example).any())
    mean = first.mean * units[0] + off * shares[1]
    return Outputs(n_rows, first.labels, largest, mean, variance, first.example, varies)


def labels_for(y: NDArray[Any], task: Task | None) -> NDArray[Any] | None:
    """Return the classes of a target, ascending; None of numbers. InputError if no task fits."""
    kind = y.dtype
    surely_numbers = task == "regression" or (task is None and kind.kind == "f")
    known = None if surely_numbers else _labels_in(y)
    if known is not None and asks_for_classes(known, task):
        return known
    if known is None and asks_for_classes(np.empty(0), task):
        raise InputError(
            "y must hold classes but has too many values to be that; set task to regression"
        )
    if kind.kind in "biuf":
        return None
    if known is None and not surely_numbers:
        raise InputError(
            f"y holds {in_words(kind)} of more than {_MOST_LABELS:,} different values, which are "
            "too many to be classes; give fewer, or numbers"
        )
    raise InputError(
        f"y must hold numbers for a regression but holds {in_words(kind)}; give numbers, or set "
        "task to classification"
    )


def in_words(kind: np.dtype[Any]) -> str:
    """Return the content type of an array, for a message."""
    names = {"U": "text", "S": "bytes", "O": "objects, such as text", "b": "true and false"}
    return names.get(kind.kind, f"numbers ({kind})" if kind.kind in "iuf" else str(kind))


def n_outputs(labels: NDArray[Any] | None) -> int:
    """Return C, how many outputs a target has: its classes if they are more than two."""
    return 1 if labels is None or len(labels) <= 2 else len(labels)


def _labels_in(y: NDArray[Any]) -> NDArray[Any] | None:
    """Return the different values of a target, ascending; None if there are more than 1,000."""
    labels = np.unique(y)
    return None if len(labels) > _MOST_LABELS else labels


def _raw_outputs(y: NDArray[Any], labels: NDArray[Any] | None) -> Floats:
    """Return outputs before they are centred, shape (n, C)."""
    if labels is None:
        outputs = y.astype(np.float64)[:, np.newaxis]
        if not np.isfinite(outputs).all():
            raise InputError(_NOT_FINITE)
        return outputs
    codes = np.minimum(np.searchsorted(labels, y), len(labels) - 1)
    strange = np.flatnonzero(labels[codes] != y)
    if len(strange):
        (other,) = y[strange[:1]].tolist()
        raise InputError(
            f"y holds the class {other!r}, which was none of the {len(labels)} before; "
            "begin again, without start"
        )
    # two classes need a single column
    columns = np.arange(len(labels)) if len(labels) > 2 else np.array([len(labels) - 1])
    one_hot: Floats = np.equal(codes[:, np.newaxis], columns).astype(np.float64)
    return one_hot
