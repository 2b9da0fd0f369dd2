"""Chunks of a large table while it is written: rows of numbers with a target each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.errors import InputError

MOST_COLUMNS = 2**31 - 1
NameRow = Callable[[int], str]  # position in a piece -> description of the row
NameColumn = Callable[[int], str]  # position from 0 -> description of the column


def by_names(names: Sequence[object] | None) -> NameColumn:
    """Return a function from a column's position to its name, or to the position without names."""
    if names is None:
        return str
    return lambda column: repr(str(names[column])) if 0 <= column < len(names) else str(column)


def check_rows(X: Any, n_columns: int, name_row: NameRow, name_column: NameColumn) -> None:
    """Refuse rows (n, D) with numbers that are not finite, or sparse indices out of order.

    InputError with the row and the column, as `name_row` and `name_column` describe them.
    """
    if not scipy.sparse.issparse(X):
        wrong = np.argwhere(~np.isfinite(X))
        if len(wrong):
            row, column = wrong[0].tolist()
            raise InputError(_not_finite(name_row(row), name_column(column), X[row, column]))
        return
    parts: Any = X
    check_sparse(parts.indptr, parts.indices, parts.data, n_columns, name_row, name_column)


def check_sparse(
    starts: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any],
    n_columns: int,
    name_row: NameRow,
    name_column: NameColumn,
) -> None:
    """Refuse sparse rows as `check_rows` does, by their three arrays."""

    def place(wrong: NDArray[np.bool_]) -> tuple[str, int]:
        entry = int(np.argmax(wrong))
        return name_row(int(np.searchsorted(starts, entry, side="right")) - 1), entry

    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        row, entry = place((indices < 0) | (indices >= n_columns))
        raise InputError(
            f"{row} has a value in column {name_column(indices[entry])} but columns are "
            f"{name_column(0)}..{name_column(n_columns - 1)}; correct the row, or say how many "
            "columns there are"
        )
    ascends = np.ones(len(indices), dtype=bool)
    np.greater(indices[1:], indices[:-1], out=ascends[1:])
    ascends[starts[:-1][starts[:-1] < len(indices)]] = True  # where rows begin
    if not ascends.all():
        row, entry = place(~ascends)
        before = indices[entry - 1]
        how = "twice" if indices[entry] == before else f"after column {name_column(before)}"
        raise InputError(
            f"{row} has column {name_column(indices[entry])} {how}; sort the columns of each row, "
            "and give one value for each"
        )
    finite = np.isfinite(values)
    if not finite.all():
        row, entry = place(~finite)
        raise InputError(_not_finite(row, name_column(indices[entry]), values[entry]))


def _not_finite(row: str, column: str, value: Any) -> str:
    return (
        f"{row} has {value} in column {column}, which is no number to compute with; fill what is "
        "missing, as with the mean, or leave the row out"
    )


MOST_LABELS = 1_000  # with more distinct values the target is a quantity, not classes
_MOST_VALUES = 2**21  # per processed chunk
_LARGEST = 2**63 - 1
_KINDS = {"b": "true and false", "i": "whole numbers", "f": "numbers", "U": "text"}
_TYPES = {"b": pa.bool_(), "i": pa.int64(), "f": pa.float64(), "U": pa.string()}


@dataclass(frozen=True, eq=False)
class Piece:
    """Rows (n, D), an array or csr_array, with a target each; InputError if not."""

    X: Any
    y: NDArray[Any]
    name_row: NameRow
    name_column: NameColumn

    def __post_init__(self) -> None:
        n_rows = self.X.shape[0]
        if self.y.shape != (n_rows,):
            raise InputError(
                f"{self.name_row(0)} begins a piece of {n_rows} rows but {self.y.shape} targets; "
                "give one for each row"
            )

    def small_enough(self) -> Iterator[Piece]:
        """Yield the rows in pieces of at most about two million values."""
        n_rows, n_columns = self.X.shape
        sparse = scipy.sparse.issparse(self.X)
        ends = self.X.indptr if sparse else np.arange(n_rows + 1) * n_columns
        first = 0
        while first < n_rows:
            last = int(np.searchsorted(ends, ends[first] + _MOST_VALUES, side="right")) - 1
            last = min(max(last, first + 1), n_rows)
            rows, targets = self.X[first:last], self.y[first:last]
            yield Piece(rows, targets, self._names_from(first), self.name_column)
            first = last

    def _names_from(self, first: int) -> NameRow:
        return lambda row: self.name_row(first + row)


class Kind:
    """Common properties of all pieces of a table, updated piece by piece.

    D is by default the width of the first piece or, with `may_grow`, the largest column seen.
    """

    def __init__(self, n_columns: int | None = None, *, may_grow: bool = False) -> None:
        if n_columns is not None and not 1 <= n_columns <= MOST_COLUMNS:
            raise InputError(f"n_columns must be in 1..{MOST_COLUMNS} but is {n_columns}")
        self._given, self._may_grow = n_columns, may_grow
        self.n_rows, self.n_values, self.n_columns = 0, 0, n_columns or 0
        self._form: tuple[bool, np.dtype[Any]] | None = None
        self._target: str | None = None
        self._labels: NDArray[Any] | None = None

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return self._form is not None and self._form[0]

    @property
    def labels(self) -> list[Any] | None:
        """Distinct values of the target, ascending; None with more than 1,000."""
        return None if self._labels is None else self._labels.tolist()

    def arrow(self, piece: Piece) -> dict[str, pa.Array]:
        """Check and count a piece, and return its columns as Arrow arrays."""
        self._check_form(piece)
        check_rows(piece.X, self.n_columns, piece.name_row, piece.name_column)
        y = self._read_target(piece)
        self.n_rows += len(y)
        sparse = self.is_sparse
        values = piece.X.data if sparse else piece.X.ravel()
        self.n_values += len(values)
        kind = pa.from_numpy_dtype(values.dtype)
        if not sparse:
            of_rows = list_of(kind, self.n_columns)
            rows = pa.FixedSizeListArray.from_arrays(pa.array(values), type=of_rows)
            return {"values": rows, "target": y}
        starts = pa.array(piece.X.indptr - piece.X.indptr[0], pa.int32())
        indices = pa.array(piece.X.indices, pa.int32())
        return {
            "indices": pa.ListArray.from_arrays(starts, indices, type=list_of(pa.int32())),
            "values": pa.ListArray.from_arrays(starts, pa.array(values), type=list_of(kind)),
            "target": y,
        }

    def _check_form(self, piece: Piece) -> None:
        form = bool(scipy.sparse.issparse(piece.X)), piece.X.dtype
        if self._form is None:
            self._form = form
            self.n_columns = self._given or piece.X.shape[1]
        if form != self._form:
            was, is_now = ((("dense", "sparse")[s], str(d)) for s, d in (self._form, form))
            raise InputError(
                f"{piece.name_row(0)} is {' '.join(is_now)} but those before are {' '.join(was)}; "
                "give all pieces alike"
            )
        width = piece.X.shape[1]
        if width > MOST_COLUMNS:
            raise InputError(f"there must be at most {MOST_COLUMNS} columns but are {width}")
        if self._may_grow and self._given is None:
            self.n_columns = max(self.n_columns, width)
        elif width != self.n_columns and not self._may_grow:
            raise InputError(
                f"{piece.name_row(0)} has {width} columns but those before have "
                f"{self.n_columns}; give all pieces the same"
            )

    def _read_target(self, piece: Piece) -> pa.Array:
        y, kind = _plain(piece.y, piece.name_row)
        if self._target is None:
            self._target, self._labels = kind, y[:0]
        if kind != self._target:
            raise InputError(
                f"{piece.name_row(0)} has {_KINDS[kind]} as target but those before have "
                f"{_KINDS[self._target]}; give all targets in one type"
            )
        if self._labels is not None:
            self._labels = np.union1d(self._labels, y)
            if len(self._labels) > MOST_LABELS:
                self._labels = None
        if self._labels is None and kind == "U":
            raise InputError(
                f"the target must have at most {MOST_LABELS} classes but has more by "
                f"{piece.name_row(len(y) - 1)}; give numbers for a regression"
            )
        return pa.array(y, _TYPES[kind])


def list_of(kind: Any, length: int = -1) -> Any:
    """Return the Arrow type of lists without nulls, of a fixed length if any."""
    return pa.list_(pa.field("element", kind, nullable=False), length)


def _as_text(y: NDArray[Any], name_row: NameRow) -> NDArray[Any]:
    """Return objects as text; InputError for a missing value or any other type."""
    labels = y.tolist()
    is_text = [isinstance(label, str) for label in labels]
    if not all(is_text):
        import pandas as pd  # knows all missing markers; only loaded on error

        missing = np.flatnonzero(pd.isna(y))
        if len(missing):
            gap = int(missing[0])
            raise InputError(
                f"{name_row(gap)} has the target {labels[gap]!r}; leave out rows without one"
            )
        other = is_text.index(False)
        if any(is_text):
            raise InputError(
                f"{name_row(other)} has the target {labels[other]!r} among text; give all targets "
                "in one type, such as text"
            )
        raise InputError(
            "the target must hold numbers, true and false, or text but holds objects, as "
            f"{labels[other]!r} in {name_row(other)}; convert it"
        )
    return y.astype(np.str_)


def _plain(y: NDArray[Any], name_row: NameRow) -> tuple[NDArray[Any], str]:
    """Return a target as bool, int64, float64 or text, and the name of that type."""
    if y.dtype.kind in "iu" and len(y) and y.max() > _LARGEST:
        raise InputError(
            f"the target must be at most {_LARGEST} but is {y.max()}; give it as float"
        )
    if y.dtype.kind in "iuf":
        y = y.astype(np.float64 if y.dtype.kind == "f" else np.int64)
    if y.dtype.kind == "O":
        y = _as_text(y, name_row)
    if y.dtype.kind not in _TYPES:
        raise InputError(
            f"the target must hold numbers, true and false, or text but holds {y.dtype}; convert it"
        )
    wrong = np.flatnonzero(~np.isfinite(y) if y.dtype.kind == "f" else np.zeros(0))
    if len(wrong):
        raise InputError(
            f"{name_row(int(wrong[0]))} has the target {y[wrong[0]]}; leave out rows without one"
        )
    return y, y.dtype.kind
