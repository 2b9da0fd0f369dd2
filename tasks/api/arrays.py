"""Arrays given beside a table, such as the target, as columns of that table."""

from __future__ import annotations

from collections.abc import Collection
from numbers import Integral
from pathlib import PurePath
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.sparse import issparse
from sklearn.utils import check_consistent_length, column_or_1d

from chaffinch.storage.datasets.column_names import names_in_array, text_of_label
from chaffinch.storage.errors import InputError, TableTooLargeError
from chaffinch.storage.memory import free_memory
from chaffinch.storage.sources import source_of
from chaffinch.tasks.results.model import columns_of


def as_table(X: Any) -> pa.Table:
    """Return a table without its index; the columns of an array are x0, x1, ..."""
    if issparse(X):
        _check_fits(X)
    if isinstance(X, np.ndarray | list | tuple) or issparse(X):
        array: Any = X if issparse(X) else np.asarray(X)
        names = names_in_array(array.shape[1])
        if array.dtype != object:
            return pa.table([*columns_of(array)], names=names)
        X = pd.DataFrame(array, columns=names).infer_objects()
    if hasattr(X, "iloc"):  # a named index would become a column
        X = X.reset_index(drop=True)
    return source_of(X).load((), ())


def _check_fits(matrix: Any) -> None:
    """Raise TableTooLargeError for a sparse matrix that is too large as a dense table."""
    n_rows, n_columns = matrix.shape
    needed, free = 8 * n_rows * n_columns, free_memory()
    if needed > free:
        raise TableTooLargeError(
            f"the sparse matrix has {n_rows:,} rows x {n_columns:,} columns, which take "
            f"{needed / 1e9:,.1f} GB as a dense table but {free / 1e9:,.1f} GB of memory is free; "
            "give fewer rows or columns, or chaffinch.differentiable_selection, which stays sparse"
        )


def with_column(table: pa.Table, name: str, values: Any) -> tuple[pa.Table, str]:
    """Return a table with one more column, and its name, which underscores make unique."""
    if isinstance(values, str):
        raise InputError(
            f"{name} must hold a value for each row but is {values!r}; give that column's values"
        )
    values = column_or_1d(values, dtype=None)
    check_consistent_length(table, values)
    name = _unused(name, table.column_names)
    return table.append_column(name, pa.array(np.asarray(values))), name


def with_target(data: Any, target: Any) -> tuple[Any, Any]:
    """Return a table and the name of its target, which may be given by its values."""
    if isinstance(target, str | bool | Integral | tuple | None):
        return data, target
    if hasattr(target, "columns"):
        kind = type(target).__name__
        raise InputError(f"target must be a column's name or its values but is of type {kind}")
    if isinstance(data, str | PurePath):
        raise InputError(
            "target must name a column of a file; its values go with a table in memory"
        )
    if hasattr(data, "iloc"):  # pandas: its labels are kept
        name = _unused("target", [text_of_label(label) for label in data.columns])
        values = column_or_1d(target, dtype=None)
        check_consistent_length(data, values)
        return data.assign(**{name: values}), name
    return with_column(as_table(data), "target", target)


def _unused(name: str, names: Collection[str]) -> str:
    return _unused(f"{name}_", names) if name in names else name
