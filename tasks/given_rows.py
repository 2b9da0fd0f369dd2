"""A table and a target that someone hands over without a model: as rows and what they mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.given_table import GivenTable, as_real_numbers, read_given_table
from chaffinch.tasks.selection.given_arrays import (
    check_finite,
    check_same_order,
    check_target,
    not_of_rows,
    target_array,
    without_order,
)
from chaffinch.tasks.selection.target_kind import asks_for_classes
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema, Task

_FEWEST_ROWS = 3


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
    sizes = tuple(0 if known is None else len(known) for known in table.categories)
    check_table_finite(table.matrix, table.names)
    with said_to_the_user():
        is_classes = asks_for_classes(truth, task)
    if is_classes:
        with said_to_the_user():
            check_target(truth)
        try:
            labels, positions = np.unique(truth, return_inverse=True)
        except TypeError as error:  # they have no order
            raise InputError(without_order(truth)) from error
        rows, n_classes = Rows(table.matrix, positions.astype(np.int64)), len(labels)
    else:
        rows, n_classes = Rows(table.matrix, target_numbers(y, truth, "hold numbers")), 0
    if len(rows) < _FEWEST_ROWS:
        raise InputError(f"X must have at least {_FEWEST_ROWS} rows but has {len(rows)}")
    if n_classes >= len(rows):
        numbers = "" if truth.dtype.kind in "biuf" else "give its numbers and "
        raise InputError(
            f"y must have fewer classes than rows but has {n_classes} classes in {len(rows)} rows; "
            f"if it is a quantity, {numbers}ask for the task regression"
        )
    return rows, Schema(table.names, sizes, n_classes)


def target_numbers(y: Any, truth: NDArray[Any], must: str) -> Floats:
    """Return a target of numbers as float64, a copy.

    Parameters
    ----------
    y : array, shape (K,)
        As it was given.
    truth : ndarray, shape (K,)
        What `target_array` makes of it.
    must : str
        What it must do, in a message.

    Raises
    ------
    InputError
        If it holds what is no number, or one that is not finite, as float64 at least.
    """
    with said_to_the_user():
        check_target(truth)
    numbers = as_real_numbers(y, "y", must)
    with said_to_the_user():
        check_finite(numbers)
    return numbers


def check_table_finite(matrix: Floats, names: Sequence[str]) -> None:
    """Refuse infinite numbers in the columns of a matrix (K, M), by name; InputError."""
    infinite = np.flatnonzero(np.isinf(matrix).any(axis=0))
    if len(infinite):
        raise InputError(f"X must be finite but feature {names[infinite[0]]!r} is not; clip it")
