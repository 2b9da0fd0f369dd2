"""Sources of rows, in memory or read block by block, and targets as centred outputs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Task
from chaffinch.tasks.selection.input_checks import (
    asks_for_classes,
    check_same_order,
    read_numbers,
    read_target,
)

_MOST_LABELS = 1_000  # as in a file: more are a quantity rather than classes
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


def labels_for(
    kind: np.dtype[Any], labels: Callable[[], NDArray[Any] | None], task: Task | None
) -> NDArray[Any] | None:
    """Return the classes of a target; None of numbers. InputError if no task fits.

    `labels` is called only if these may be classes: it returns the values of the target, ascending,
    or None if there are too many.
    """
    surely_numbers = task == "regression" or (task is None and kind.kind == "f")
    known = None if surely_numbers else labels()
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


def labels_in(y: NDArray[Any]) -> NDArray[Any] | None:
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


_AS_TABLE = "give an array (N, D), or a frame, of numbers in every row"


class RowSource(Protocol):
    """N rows of D columns with a target, in blocks, each of which fits into memory.

    Every block must be a sample of all rows. The estimate goes by the order of rows, and rows are
    shuffled within a block alone: sorted by their target they give wrong features.

    It may have `columns`, D names, by which newer rows are known to be of the same columns; and
    `counted_from`, the number of the first column where they have none, by default 0.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """(N, D)."""
        ...

    @property
    def block_rows(self) -> Sequence[int]:
        """How many rows each block has."""
        ...

    @property
    def target_type(self) -> np.dtype[Any]:
        """Of y."""
        ...

    @property
    def labels(self) -> NDArray[Any] | None:
        """The different values of y, ascending; None where they are too many to be classes."""
        ...

    def read(self, block: int) -> tuple[Any, NDArray[Any]]:
        """Return X, shape (n, D), dense or compressed rows, and y, shape (n,), of a block.

        In another process if workers share the blocks out.
        """
        ...


class InMemory:
    """A table in memory as a source of a single block.

    float32 stays float32, any other number becomes float64. Text names of the columns of a frame
    are kept; nullable columns must have no gaps. InputError if X is no table of numbers, or y does
    not fit it.
    """

    def __init__(self, X: Any, y: ArrayLike) -> None:
        self._rows = read_rows(X)
        names = list(getattr(X, "columns", ()))
        are_text = bool(names) and all(isinstance(name, str) for name in names)
        self.columns: tuple[str, ...] | None = tuple(names) if are_text else None
        n_rows, n_columns = self._rows.shape
        self._y = read_target(y, n_rows)
        self.shape: tuple[int, int] = (n_rows, n_columns)
        self.block_rows: tuple[int, ...] = (n_rows,)
        self.target_type: np.dtype[Any] = self._y.dtype

    @property
    def labels(self) -> NDArray[Any] | None:
        """See `RowSource`."""
        return labels_in(self._y)

    def read(self, block: int) -> tuple[Any, NDArray[Any]]:
        """See `RowSource.read`."""
        return self._rows, self._y


def read_rows(X: Any) -> Any:
    """Return rows as the kernels take them: an array (n, D) or compressed rows, canonical.

    Float32 or float64. InputError if X is no table of numbers, or a number is masked or missing.
    """
    try:
        rows: Any = read_numbers(X, "X", _AS_TABLE, "csr")
    except InputError:
        if hasattr(X, "iloc") and X.ndim == 2:  # a frame of pandas, whose column can be named
            for position, name in enumerate(X.columns):
                read_numbers(X.iloc[:, position], f"column {name!r} of X", _AS_TABLE)
        raise
    if rows.ndim != 2 or 0 in rows.shape:
        raise InputError(
            f"X must have rows and features, (N, D), but has shape {rows.shape}", _AS_TABLE
        )
    is_sparse: bool = scipy.sparse.issparse(rows)
    if is_sparse and not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    rows = rows.astype(np.float32 if rows.dtype == np.float32 else np.float64, copy=False)
    return rows if is_sparse else np.ascontiguousarray(rows)


def is_source(X: Any) -> bool:
    """Return whether X is a source rather than a table in memory."""
    return hasattr(X, "block_rows") and hasattr(X, "read")


def names_in(source: RowSource) -> tuple[str, ...] | None:
    """Return the names of the columns; None where they have none."""
    names: tuple[str, ...] | None = getattr(source, "columns", None)
    return names


def name_in(source: RowSource, column: int) -> str:
    """Return how a person finds a column at a position from 0: its name, or its number."""
    names = names_in(source)
    if names is None:
        return str(column + getattr(source, "counted_from", 0))
    return repr(names[column])


def check_one_target(X: Any, y: ArrayLike | None) -> None:
    """Refuse a path, a source with a separate target, and a table without target."""
    if isinstance(X, str | os.PathLike):
        raise InputError(
            f"X must be a table or a source of rows but is {X!r}; of a path give "
            "chaffinch.open_shuffled(path)"
        )
    if is_source(X) and y is not None:
        raise InputError("y must be left out where X is a source, which has a target of its own")
    if not is_source(X) and y is None:
        raise InputError("y must be given with a table in memory; give its target")
    check_same_order(X, y)
