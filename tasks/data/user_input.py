"""Conversion of a user's table to the engines' matrix, and back to the table for the user's model.

Numbers stay numbers. Categories and text become codes, and are restored before the model's library
reads the table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from chaffinch.errors import InputError, as_input_error
from chaffinch.storage.column_names import names_in_array, nearest
from chaffinch.storage.sources.memory import computed_by
from chaffinch.tasks.data.matrix import baseline_values
from chaffinch.tasks.selection.core import Floats, Rows, Schema, Task
from chaffinch.tasks.selection.input_checks import (
    asks_for_classes,
    check_same_order,
    check_whole_numbers,
    read_floats,
    read_target,
)
from chaffinch.tasks.settings.selection import BaselineKind

_FEWEST_ROWS = 3
_MOST_SHOWN = 10
_AS_NUMBERS = "give an array of numbers, or a pandas frame"


@dataclass(frozen=True)
class GivenTable:
    """A table of K rows and M features.

    `matrix` is float64, shape (K, M), with codes of categories, and NaN for missing values.
    `categories` has the categories of each column in the order of their codes, None for numbers;
    `frame` is the user's frame, None for an array.
    """

    matrix: Floats
    names: tuple[str, ...]
    categories: tuple[Sequence[Any] | None, ...]
    frame: pd.DataFrame | None

    @property
    def n_categories(self) -> tuple[int, ...]:
        return tuple(0 if known is None else len(known) for known in self.categories)

    def as_given(self, matrix: Floats) -> Any:
        """Return a matrix (n, M) as a table with the user's container, names and types.

        The result is a copy, because a model may change its input.
        """
        matrix = matrix.copy(order="K")
        if self.frame is None:
            return matrix
        columns = [
            _column_as_given(matrix[:, j], dtype, categories)
            for j, (dtype, categories) in enumerate(
                zip(self.frame.dtypes, self.categories, strict=True)
            )
        ]
        table = pd.concat(columns, axis=1)
        table.columns = self.frame.columns
        return table

    def baseline(self, baseline: Any, rows: Rows) -> Floats:
        """Return the values of masked features, shape (M,)."""
        schema = Schema(self.names, self.n_categories)
        if isinstance(baseline, str):
            if baseline not in get_args(BaselineKind):
                raise InputError(
                    f"baseline must be zero, mean, median, minimum or values but is {baseline!r}"
                )
            values = baseline_values(rows, schema, baseline)  # type: ignore[arg-type]
            wrong = np.flatnonzero(~np.isfinite(values) & np.isinf(rows.X).any(axis=0))
            if len(wrong):
                raise InputError(
                    f"baseline {baseline!r} of {self.names[wrong[0]]!r} is {values[wrong[0]]}, for "
                    "the column holds infinite values; give it a value of its own, or correct them"
                )
            return values
        if isinstance(baseline, Mapping) or self._has_names(baseline):
            values = baseline_values(rows, schema, "mean")
            for name, value in baseline.items():
                if str(name) not in self.names:
                    raise InputError(
                        f"baseline names {name!r}, which is no feature of X"
                        f"{nearest(str(name), self.names)}"
                    )
                position = self.names.index(str(name))
                values[position] = self._value(position, value)
            return values
        values_of = list(baseline) if np.ndim(baseline) == 1 else []
        if len(values_of) != len(self.names):
            raise InputError(
                f"baseline must have one value for each of the {len(self.names)} features but has "
                f"shape {np.shape(baseline)}"
            )
        return np.array([self._value(j, value) for j, value in enumerate(values_of)])

    def _has_names(self, baseline: Any) -> bool:
        """Return whether a baseline is a Series with an index of feature names."""
        if not isinstance(baseline, pd.Series):
            return False
        twice = baseline.index[baseline.index.duplicated()]
        if len(twice):
            raise InputError(
                f"baseline must name a feature once but names {twice[0]!r} twice; drop one"
            )
        is_numbered = baseline.index.equals(pd.RangeIndex(len(baseline)))
        return not is_numbered or any(str(name) in self.names for name in baseline.index)

    def _value(self, position: int, value: Any) -> float:
        known = self.categories[position]
        if known is not None:
            if value not in list(known):
                raise InputError(
                    f"baseline of {self.names[position]!r} must be one of its categories, "
                    f"{', '.join(map(repr, list(known)[:10]))}, but is {value!r}"
                )
            return float(list(known).index(value))
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = np.nan
        if not np.isfinite(number):
            raise InputError(
                f"baseline of {self.names[position]!r} must be a finite number but is {value!r}"
            )
        return number


@as_input_error()
def read_given_table(X: Any, categories: Sequence[Sequence[Any]] | None) -> GivenTable:
    """Return a copy of a user's table; `categories` are from the model's training."""
    if not hasattr(X, "__array__") and (method := computed_by(X)) is not None:
        raise InputError(
            f"X must be a table in memory but is a {type(X).__name__}; give its .{method}()"
        )
    if hasattr(X, "to_pandas"):  # a polars or Arrow table
        X = X.to_pandas()
    if isinstance(X, pd.DataFrame):
        return _read_frame(X, categories)
    matrix = read_floats(X, "X", _AS_NUMBERS)
    if matrix.ndim != 2 or not matrix.size:
        raise InputError(f"X must have rows and features, (K, M), but has shape {matrix.shape}")
    names = tuple(names_in_array(matrix.shape[1]))
    return GivenTable(matrix, names, (None,) * matrix.shape[1], None)


def _read_frame(X: pd.DataFrame, trained: Sequence[Sequence[Any]] | None) -> GivenTable:
    if not X.size:
        raise InputError(f"X must have rows and features, (K, M), but has shape {X.shape}")
    frame = X.reset_index(drop=True).copy()
    names = tuple(str(name) for name in frame.columns)
    if len(set(names)) < len(names):
        twice = next(name for name, n_times in Counter(names).items() if n_times > 1)
        raise InputError(f"X must have names that differ but has {twice!r} twice; rename a column")
    is_categorical = [isinstance(dtype, pd.CategoricalDtype) for dtype in frame.dtypes]
    if trained is not None and sum(is_categorical) != len(trained):
        raise InputError(
            f"X must have {len(trained)} categorical columns, as many as the model was trained "
            f"on, but has {sum(is_categorical)}"
        )
    waiting = iter(trained or ())
    matrix, categories = np.empty(frame.shape), []
    for j, name in enumerate(names):
        column = frame.iloc[:, j]
        known = next(waiting, None) if is_categorical[j] else None
        matrix[:, j], of_column = codes_or_numbers(column, name, known)
        categories.append(of_column)
    return GivenTable(matrix, names, tuple(categories), frame)


def codes_or_numbers(
    column: Any, name: str, known: Sequence[Any] | None
) -> tuple[Floats, Sequence[Any] | None]:
    """Return a column of a frame as float64, and its categories if the values are codes.

    `known` replaces the column's own categories. Raise InputError for other types.
    """
    kind = column.dtype
    is_number = pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_complex_dtype(kind)
    if is_number:
        numbers: Floats = column.to_numpy(dtype=np.float64, na_value=np.nan)
        if pd.api.types.is_integer_dtype(kind):
            check_whole_numbers(column.array, numbers, f"column {name!r} of X")
        return numbers, None
    if known is None and isinstance(kind, pd.CategoricalDtype):
        known = list(column.cat.categories)
    elif known is None:
        values = column.dropna()
        if not all(isinstance(value, str) for value in values):
            raise InputError(
                f"column {name!r} of X must hold numbers, categories or text but is {kind}; make "
                "all its values numbers, as by astype(float), or text"
            )
        known = sorted(values.unique())
    codes = pd.Index(known).get_indexer(column.to_numpy(dtype=object, na_value=np.nan))
    return np.where(codes < 0, np.nan, codes), known


def _column_as_given(values: Floats, dtype: Any, categories: Sequence[Any] | None) -> Any:
    """Return a column in its original type, or in float64 if that type cannot hold the values."""
    if categories is not None:
        missing = np.isnan(values)
        codes = np.where(missing, -1, values).astype(np.int64)
        if isinstance(dtype, pd.CategoricalDtype):
            known = pd.CategoricalDtype(list(categories), dtype.ordered)
            return pd.Series(pd.Categorical.from_codes(codes, dtype=known))
        labels = np.array([*categories, np.nan], dtype=object)
        return pd.Series(labels[codes], dtype=dtype)
    column = pd.Series(values)
    if dtype == np.float64:
        return column
    try:
        typed = column.astype(dtype)
    except (TypeError, ValueError):  # the type cannot represent a number
        return column
    same = typed.to_numpy(dtype=np.float64, na_value=np.nan)
    return typed if np.array_equal(same, values, equal_nan=True) else column


def rows_and_schema(X: Any, y: Any, task: Task | None) -> tuple[Rows, Schema]:
    """Return a table and its target as rows, with their schema.

    Text and categories become codes; without a task, see `asks_for_classes`.
    """
    check_same_order(X, y)
    return rows_of(read_rows(X), y, task)


def read_rows(X: Any) -> GivenTable:
    """Return a user's table without a model; object columns may hold true and false."""
    return read_given_table(with_truths(X) if isinstance(X, pd.DataFrame) else X, None)


def with_truths(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame with pandas' boolean type in object columns of true and false.

    pandas stores booleans with missing values as such object columns.
    """
    typed = frame.copy(deep=False)
    for j, dtype in enumerate(frame.dtypes):
        if pd.api.types.is_object_dtype(dtype):
            column = frame.iloc[:, j]
            if pd.api.types.infer_dtype(column) == "boolean":
                typed.isetitem(j, column.astype("boolean").array)
    return typed


def rows_of(table: GivenTable, y: Any, task: Task | None) -> tuple[Rows, Schema]:
    """Return a `GivenTable` and its target as rows, with their schema."""
    check_table_finite(table.matrix, table.names)
    truth = read_target(y, len(table.matrix))
    if asks_for_classes(truth, task):
        labels, positions = np.unique(truth, return_inverse=True)
        rows, n_classes = Rows(table.matrix, positions.astype(np.int64)), len(labels)
    else:
        rows, n_classes = Rows(table.matrix, target_numbers(truth)), 0
    if len(rows) < _FEWEST_ROWS:
        raise InputError(f"X must have at least {_FEWEST_ROWS} rows but has {len(rows)}")
    if n_classes >= len(rows):
        numbers = "" if truth.dtype.kind in "biuf" else "give its numbers and "
        raise InputError(
            f"y must have fewer classes than rows but has {n_classes} classes in {len(rows)} rows; "
            f"if it is a quantity, {numbers}ask for the task regression"
        )
    return rows, Schema(table.names, table.n_categories, n_classes)


def target_numbers(truth: NDArray[Any]) -> Floats:
    """Return a target, as of `read_target`, as float64; InputError if it is text."""
    if truth.dtype.kind not in "biuf":
        raise InputError(
            f"y must hold numbers but holds text, such as {str(truth[0])!r}; give numbers"
        )
    return read_floats(truth, "y", "give numbers")


def check_table_finite(matrix: Floats, names: Sequence[str]) -> None:
    """Raise InputError for infinite numbers in a matrix (K, M), with the feature's name."""
    infinite = np.flatnonzero(np.isinf(matrix).any(axis=0))
    if len(infinite):
        raise InputError(f"X must be finite but feature {names[infinite[0]]!r} is not; clip it")


def check_columns(model: Any, name: str, X: Any) -> None:
    """Raise InputError unless a table's columns and their order are as in the model's training."""
    trained, columns = _names_of(model), getattr(X, "column_names", getattr(X, "columns", None))
    if trained is None or columns is None:
        return
    columns = [str(column) for column in columns]
    if _without_blanks(trained) == _without_blanks(columns):
        return
    shown = ", ".join(trained[:_MOST_SHOWN])
    more = f" and {len(trained) - _MOST_SHOWN} more" if len(trained) > _MOST_SHOWN else ""
    is_order = sorted(_without_blanks(trained)) == sorted(_without_blanks(columns))
    wrong = "the same in another order" if is_order else "others"
    raise InputError(
        f"X must have the columns that {name} was trained on, {shown}{more}, but has {wrong}; give "
        "it those columns, in that order"
    )


def _names_of(model: Any) -> tuple[str, ...] | None:
    """Return the names of the columns a model was trained on; None if it has none."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        names = getattr(model, "feature_names", None)  # XGBoost's Booster
    if names is None and callable(getattr(model, "feature_name", None)):  # LightGBM's
        names = model.feature_name()
        if list(names) == [f"Column_{place}" for place in range(len(names))]:
            names = None  # LightGBM's default names
    return None if names is None else tuple(str(name) for name in names)


def _without_blanks(names: Sequence[str]) -> list[str]:
    """Return names with underscores for blanks, as LightGBM stores them."""
    return [name.replace(" ", "_") for name in names]
