"""A table and a target that someone hands over without a model: as rows and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.given_table import COMPLEX, GivenTable, as_real_numbers, read_given_table
from chaffinch.tasks.selection.given_arrays import (
    LEAVE_OUT,
    check_gaps,
    check_same_order,
    not_of_rows,
    target_array,
    without_order,
)
from chaffinch.tasks.selection.target_kind import asks_for_classes
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema, Task

_FEWEST_ROWS = 3
_NO_TARGET = f"y must be finite; {LEAVE_OUT}"


def rows_and_schema(X: Any, y: Any, task: Task | None) -> tuple[Rows, Schema]:
    """Return a table and its target as rows, and what their columns mean.

    Parameters
    ----------
    X : array of numbers (K, M) or pandas.DataFrame
        Rows; text and categories become codes.
    y : array, shape (K,)
        Numbers or classes.
    task : "classification" or "regression", optional
        By default what `asks_for_classes` says.

    Raises
    ------
    InputError
        If the table and the target do not fit each other.
    """
    with said_to_the_user():
        check_same_order(X, y)
    return rows_of(read_rows(X), y, task)


def read_rows(X: Any) -> GivenTable:
    """Return a table that is given without a model; InputError if it is none.

    Parameters
    ----------
    X : array of numbers (K, M) or pandas.DataFrame
        Its columns of objects may be true and false.
    """
    return read_given_table(with_truths(X) if isinstance(X, pd.DataFrame) else X, None)


def with_truths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with pandas' own type in columns of objects that are all true or false.

    Such a column is what becomes of true and false where some are missing.
    """
    typed = frame.copy(deep=False)
    for j, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_object_dtype(dtype):
            column = frame.iloc[:, j]
            if pd.api.types.infer_dtype(column) == "boolean":
                typed.isetitem(j, column.astype("boolean").array)
    return typed


def rows_of(table: GivenTable, y: Any, task: Task | None) -> tuple[Rows, Schema]:
    """Do the same with a table that was read.

    Raises
    ------
    InputError
        If the table and the target do not fit each other.
    """
    with said_to_the_user():
        truth = target_array(y)
    if truth.shape != (len(table.matrix),):
        raise InputError(not_of_rows("y", truth.shape, len(table.matrix)))
    if truth.dtype.kind == "c":
        raise InputError(COMPLEX.format("y"))
    with said_to_the_user():
        check_gaps(truth)
    sizes = tuple(0 if known is None else len(known) for known in table.categories)
    check_finite(table.matrix, table.names)
    with said_to_the_user():
        is_classes = asks_for_classes(truth, task)
    if is_classes:
        if truth.dtype.kind == "f" and not np.isfinite(truth).all():
            raise InputError(_NO_TARGET)
        try:
            labels, positions = np.unique(truth, return_inverse=True)
        except TypeError as error:  # they have no order
            raise InputError(without_order(truth)) from error
        rows, n_classes = Rows(table.matrix, positions.astype(np.int64)), len(labels)
    else:
        rows, n_classes = Rows(table.matrix, as_real_numbers(y, "y", "hold numbers")), 0
        if not np.isfinite(rows.y).all():
            raise InputError(_NO_TARGET)
    if len(rows) < _FEWEST_ROWS:
        raise InputError(f"X must have at least {_FEWEST_ROWS} rows but has {len(rows)}")
    if n_classes >= len(rows):
        raise InputError(
            f"y must have fewer classes than rows but has {n_classes} classes in {len(rows)} rows; "
            "if it is a quantity, ask for the task regression"
        )
    return rows, Schema(table.names, sizes, n_classes)


def check_finite(matrix: Floats, names: Sequence[str]) -> None:
    """Refuse infinite numbers in the columns of a matrix (K, M), by name; InputError."""
    infinite = np.flatnonzero(np.isinf(matrix).any(axis=0))
    if len(infinite):
        raise InputError(f"X must be finite but feature {names[infinite[0]]!r} is not; clip it")
