"""Arrays beside a table, such as the target, as columns of that table."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import issparse

from chaffinch.errors import InputError
from chaffinch.storage.column_names import names_in_array, text_of_label
from chaffinch.storage.memory import check_fits_as_dense
from chaffinch.storage.sources import source_of
from chaffinch.tasks.results.model import columns_of
from chaffinch.tasks.selection.input_checks import check_same_order, read_array


def as_table(X: Any) -> pa.Table:
    """Return a table without its index; the columns of an array are x0, x1, ..."""
    is_sparse: bool = issparse(X)
    if is_sparse and X.ndim == 2:
        remedy = "or chaffinch.differentiable_selection, which stays sparse"
        check_fits_as_dense("the sparse matrix", X.shape, f"give fewer rows or columns, {remedy}")
    elif is_sparse or isinstance(X, np.ndarray | list | tuple):
        X = _in_two_dimensions(X)
    if is_sparse or isinstance(X, np.ndarray):
        names = names_in_array(X.shape[1])
        if X.dtype.kind != "O":
            return pa.table([*columns_of(X)], names=names)
        X = pd.DataFrame(X, columns=names).infer_objects()
    if isinstance(X, pd.DataFrame):  # a named index would become a column
        X = X.reset_index(drop=True)
    return source_of(X).load((), ())


def _in_two_dimensions(X: Any) -> NDArray[Any]:
    """Return nested lists or an array as an array of rows and columns."""
    array: NDArray[Any] = read_array(X, "X", "give a table, as by pandas.DataFrame")
    if array.ndim != 2 or not array.shape[1] or array.dtype.kind in "mMV":
        raise InputError(
            f"an array must have rows and columns of numbers, (n, d), but has shape {array.shape} "
            f"and type {array.dtype}; give a table, as by pandas.DataFrame"
        )
    return array


def with_column(table: pa.Table, role: str, values: Any) -> tuple[pa.Table, str]:
    """Return a table with an added column, and its name, which underscores make unique.

    The column is named as its values are. `role` names them in an error, and the column if they
    have no name of their own.
    """
    if isinstance(values, str):
        raise InputError(
            f"{role} must hold a value for each row but is {values!r}; give that column's values"
        )
    of_rows = _values_of_rows(role, values, len(table))
    name = _unused(_name_of(values, table.column_names) or role, table.column_names)
    column = pd.DataFrame({name: of_rows})
    return table.append_column(name, source_of(column).load((), ()).column(0)), name


def _values_of_rows(name: str, values: Any, n_rows: int) -> Any:
    """Return one value for each row, also of a table of one column, as a column of pandas."""
    if isinstance(values, pd.DataFrame) and values.shape[1] == 1:
        values = values.iloc[:, 0]
    column = values
    if not isinstance(values, pd.Series):
        column = read_array(values, name, "give one value for each row")
        column = column[:, 0] if column.ndim == 2 and column.shape[1] == 1 else column
    if column.shape != (n_rows,):
        has = f"has shape {column.shape}" if column.shape else f"is a {type(values).__name__}"
        if column.shape and hasattr(values, "columns"):
            has = f"is a table of type {type(values).__name__} with {column.shape[-1]} columns"
        raise InputError(
            f"{name} must hold one value for each of the {n_rows} rows but {has}; give one column"
        )
    try:
        return pd.Series(column).reset_index(drop=True)
    except (TypeError, ValueError) as error:  # text that is not Unicode
        raise InputError(f"the values of {name} cannot be read ({error}); correct them") from error


def with_target(data: Any, target: Any) -> tuple[Any, Any]:
    """Return a table and the name of its target, which may be an array of values."""
    if isinstance(target, str | bool | Integral | tuple | None):
        if isinstance(data, np.ndarray):
            raise InputError(
                f"an array has no column {target!r}; give the target by its values, one for each "
                "row, or give a table, as by pandas.DataFrame"
            )
        return data, target
    if isinstance(data, str | PurePath):
        raise InputError(
            "target must name a column of a file; its values go with a table in memory"
        )
    if isinstance(data, pd.DataFrame):  # its labels are kept
        values = _values_of_rows("target", target, len(data)).array
        names = [text_of_label(label) for label in data.columns]
        name = _unused(_name_of(target, names) or "target", names)
        check_same_order(data, target, "target")
        return pd.concat([data, pd.Series(values, data.index, name=name)], axis=1), name
    return with_column(as_table(data), "target", target)


def _name_of(values: Any, names: Collection[str]) -> str | None:
    """Return the name of a series, or of a table's one column, if it is text and no column's."""
    is_table = hasattr(values, "columns") and np.shape(values)[1:] == (1,)
    name = values.columns[0] if is_table else getattr(values, "name", None)
    return name if isinstance(name, str) and name.strip() and name not in names else None


def _unused(name: str, names: Collection[str]) -> str:
    return _unused(f"{name}_", names) if name in names else name
