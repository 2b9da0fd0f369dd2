"""What rows of numbers must be, sparse or dense, whoever wrote them; a wrong one is named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError

MOST_COLUMNS = 2**31 - 1
NameRow = Callable[[int], str]  # position in a piece -> how a person finds the row
NameColumn = Callable[[int], str]  # position from 0 -> how a person finds the column


def by_names(names: Sequence[object] | None) -> NameColumn:
    """Return what says the name of a column; where there are none, its position from 0."""
    return str if names is None else partial(_quoted, names)


def check_rows(X: Any, n_columns: int, name_row: NameRow, name_column: NameColumn) -> None:
    """Refuse rows that no method could take.

    Parameters
    ----------
    X : ndarray or csr_array, shape (n, D)
        float32 or float64.
    n_columns : int
        D.
    name_row : callable
        Says where a row of X is.
    name_column : callable
        Says which column is meant.

    Raises
    ------
    InputError
        Naming the row and the column, if a number is not finite, or the indices of a sparse row are
        not ascending, come twice or are outside 0..D - 1.
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
    """Refuse compressed rows as `check_rows` does, from their three arrays.

    Raises
    ------
    InputError
        See `check_rows`.
    """

    def place(wrong: NDArray[np.bool_]) -> tuple[str, int]:
        entry = int(np.argmax(wrong))
        return name_row(int(np.searchsorted(starts, entry, side="right")) - 1), entry

    if len(indices) and (indices.min() < 0 or indices.max() >= n_columns):
        row, entry = place((indices < 0) | (indices >= n_columns))
        raise InputError(
            f"{row} has a value in column {name_column(indices[entry])} but columns are "
            f"{name_column(0)}..{name_column(n_columns - 1)}; mend the row, or say how many "
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


def _quoted(names: Sequence[object], position: int) -> str:
    return repr(str(names[position])) if 0 <= position < len(names) else str(position)


def _not_finite(row: str, column: str, value: Any) -> str:
    return (
        f"{row} has {value} in column {column}, which is no number to compute with; fill what is "
        "missing, as with the mean, or leave the row out"
    )
