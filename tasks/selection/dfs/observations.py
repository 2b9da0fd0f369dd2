"""A table in memory with its target."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from chaffinch.errors import InputError
from chaffinch.tasks.selection.input_checks import check_same_order, read_numbers, read_target

_AS_TABLE = "give an array (N, D), or a frame, of numbers in every row"


class Observations:
    """N rows of D columns, dense or compressed, and their target y, shape (N,).

    float32 stays float32, any other number becomes float64. `names` are those of the columns of a
    frame, if all are text; nullable columns must have no gaps. InputError if X is no table of
    numbers, or y does not fit it.
    """

    def __init__(self, X: Any, y: ArrayLike) -> None:
        check_same_order(X, y)
        self.rows = read_rows(X)
        names = list(getattr(X, "columns", ()))
        are_text = bool(names) and all(isinstance(name, str) for name in names)
        self.names: tuple[str, ...] | None = tuple(names) if are_text else None
        n_rows, n_columns = self.rows.shape
        self.shape: tuple[int, int] = (n_rows, n_columns)
        self.y = read_target(y, n_rows)

    def name_of(self, column: int) -> str:
        """Return how a person finds a column at a position from 0: its name, or its number."""
        return str(column) if self.names is None else repr(self.names[column])


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
