"""Where rows come from: a table in memory, or blocks of rows that are read one after the other."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from chaffinch.tasks.selection.dfs.frames import is_mixed_frame, numbers_of_frame
from chaffinch.tasks.selection.dfs.target import as_target, labels_in
from chaffinch.tasks.selection.given_arrays import check_no_mask, check_same_order

_FILL = "leave out those rows, or fill them with a value of yours, as by X.filled(0.0)"


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
    """A table at hand as a source of one block.

    Parameters
    ----------
    X : array (N, D) or scipy sparse matrix
        float32 stays float32, any other number becomes float64. Sparse indices may come in any
        order; of an entry that comes twice the sum counts, as in scipy. A table of pandas or polars
        whose columns have text for names keeps these; nullable columns must have no gaps.
    y : array, shape (N,)
        Numbers or classes.

    Raises
    ------
    ValueError
        If X is no table of numbers, or y does not fit it.
    """

    def __init__(self, X: Any, y: ArrayLike) -> None:
        self._rows = read_rows(X)
        names = list(getattr(X, "columns", ()))
        are_text = bool(names) and all(isinstance(name, str) for name in names)
        self.columns: tuple[str, ...] | None = tuple(names) if are_text else None
        n_rows, n_columns = self._rows.shape
        self._y = as_target(y, n_rows)
        self.shape: tuple[int, int] = (n_rows, n_columns)
        self.block_rows: tuple[int, ...] = (n_rows,)
        self.target_type: np.dtype[Any] = self._y.dtype

    @property
    def labels(self) -> NDArray[Any] | None:
        """See `RowSource`; ValueError if there is no order of them."""
        return labels_in(self._y)

    def read(self, block: int) -> tuple[Any, NDArray[Any]]:
        """See `RowSource.read`."""
        return self._rows, self._y


def read_rows(X: Any) -> Any:
    """Return a table, or a block of one, as the kernels take it; it is not changed.

    Returns
    -------
    ndarray, shape (n, D), or sparse matrix in compressed rows
        float32 or float64; of sparse rows the columns are sorted and none comes twice.

    Raises
    ------
    ValueError
        If X is no table of numbers, or any is masked or missing in a nullable column.
    """
    if not scipy.sparse.issparse(X):
        check_no_mask("X", X, _FILL)
        given = numbers_of_frame(X) if is_mixed_frame(X) else _as_array(X)
        _check_numbers(given.dtype, given.shape)
        return np.ascontiguousarray(given, dtype=_type_of(given.dtype))
    sparse: Any = X
    _check_numbers(sparse.dtype, sparse.shape)
    rows = sparse.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows.astype(_type_of(rows.dtype), copy=False)


def is_source(X: Any) -> bool:
    """Return whether X is a source rather than a table in memory."""
    return hasattr(X, "block_rows") and hasattr(X, "read")


def names_in(source: RowSource) -> tuple[str, ...] | None:
    """Return the names of the columns; None where they have none."""
    names: tuple[str, ...] | None = getattr(source, "columns", None)
    return names


def name_in(source: RowSource, column: int) -> str:
    """Return how a person finds a column, given its position from 0: its name, or its number."""
    names = names_in(source)
    if names is None:
        return str(column + getattr(source, "counted_from", 0))
    return repr(names[column])


def check_one_target(X: Any, y: ArrayLike | None) -> None:
    """Refuse a path, a source with a target beside its own, and a table without one in its order.

    Raises
    ------
    ValueError
        If so.
    """
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X must be a table or a source of rows but is {X!r}; of a path give "
            "chaffinch.open_shuffled(path)"
        )
    if is_source(X) and y is not None:
        raise ValueError("y must be left out where X is a source, which has a target of its own")
    if not is_source(X) and y is None:
        raise ValueError("y must be given with a table in memory; give its target")
    check_same_order(X, y)


def _as_array(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X)
    except ValueError as error:
        raise ValueError(
            "X must have as many numbers in each row but has rows of several lengths; give an "
            "array (N, D)"
        ) from error


def _type_of(given: Any) -> Any:
    return np.float32 if given == np.float32 else np.float64


def _check_numbers(kind: Any, shape: tuple[int, ...]) -> None:
    if kind.kind == "O" and not shape:
        raise ValueError("X must be a table but is none; give an array (N, D) or a frame")
    if kind.kind not in "biuf":
        raise ValueError(f"X must hold real numbers but holds {kind}; give numbers, as float64")
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"X must have rows and features, (N, D), but has shape {shape}; give one row for each "
            "target, and one feature at least"
        )
