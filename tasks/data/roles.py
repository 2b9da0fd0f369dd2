"""The target's task, classes and encoding, and checks of the columns with other roles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import DATE_IN_TEXT, MIXED_ZONES, type_columns
from chaffinch.tasks.data.arrow import (
    are_beyond_exact,
    as_keys,
    as_numbers,
    categories_of,
    column_of,
    first_missing,
    if_numbers,
    kind_of,
    no_date_in,
    other_type,
)
from chaffinch.tasks.data.column_profile import LARGEST
from chaffinch.tasks.data.splitting.splits import SPLIT_WORDS, Roles
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.selection.core import Floats, Task
from chaffinch.tasks.settings.columns import ROW_ROLES
from chaffinch.tasks.settings.selection import SelectionSettings

# whole numbers with more distinct values are a quantity, unless the task is set
_MOST_INFERRED_CLASSES = 20
# float columns with more distinct values cannot be classes
_MOST_FLOAT_CLASSES = 50
_LEAVE_ROWS_OUT = (
    ", or give columns={'drop_rows_without_target': True} (--drop-rows-without-target)"
)

TargetType = Literal["integer", "number", "boolean", "text"]
Label = int | float | bool | str

# type of the ingested column -> type in the feature contract
_TYPES: dict[str, TargetType] = {
    "int64": "integer",
    "float64": "number",
    "bool": "boolean",
    "category": "text",
}
_FROM_TEXT: dict[TargetType, Callable[[str], Label]] = {
    "integer": int,
    "number": float,
    "boolean": lambda label: label == "true",
    "text": str,
}


@dataclass(frozen=True)
class Target:
    """Task and classes of the target: labels as text, in the order of their indices."""

    task: Task
    reason: str
    classes: tuple[str, ...]
    note: str = ""  # on a task that the numbers alone do not settle


def describe_target(column: Any, settings: SelectionSettings) -> Target:
    """Return the task and classes of a target column; raise InputError if it is unsuitable.

    Labels are sorted: numbers by value, false before true, text by the order of its categories.
    """
    name = settings.target
    kind = kind_of(name, column)
    if kind == "timestamp":
        raise InputError(f"target {name!r} holds timestamps: give a number or a class instead")
    refuse_missing(f"target {name!r}", column, _LEAVE_ROWS_OUT)
    values = None if kind == "category" else np.unique(_values(column, kind))
    n_distinct = len(categories_of(column)) if values is None else len(values)
    if n_distinct == 1:
        raise InputError(
            f"target {name!r} has the same value in every row, so there is nothing to learn: "
            "give rows with at least 2 different values, or another target"
        )
    if kind == "category" and settings.task == "regression":
        raise InputError(
            f"target {name!r} holds text but the task is regression",
            f"set task to classification, or give a column of numbers{if_numbers(name, column)}",
        )
    if values is None and _are_quantities(categories_of(column), settings):
        raise InputError(
            f"target {name!r} holds {n_distinct} whole numbers, some beyond 2^53, which float64 "
            "does not hold exactly",
            f"name {name!r} as numeric to round them for a regression, or as categorical",
        )
    task, reason = _task(kind, values, n_distinct, settings)
    if task == "regression":
        return Target(task, reason, ())
    if values is None:
        return Target(task, reason, categories_of(column))
    if kind == "bool":
        return Target(task, reason, ("false", "true"))
    note = ""
    if settings.task == "auto" and n_distinct > 2:
        note = (
            f"target {name!r} has {n_distinct} whole numbers, which are taken for classes; if they "
            "count or rank, set task to regression"
        )
    return Target(task, reason, tuple(str(int(value)) for value in values), note)


def _are_quantities(categories: Sequence[str], settings: SelectionSettings) -> bool:
    """Return whether categories are whole numbers with too many values for classes."""
    if settings.task != "auto" or settings.target in settings.columns.categorical:
        return False
    return len(categories) > _MOST_INFERRED_CLASSES and are_beyond_exact(categories)


def encode_target(
    column: Any, name: str, task: Task, classes: Sequence[str]
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return the target as float64 values or int64 class indices, shape (n,)."""
    kind = kind_of(name, column)
    if task == "regression" and kind in ("float64", "int64", "bool"):
        y = as_numbers(column)
    elif kind == "category":
        y = as_numbers(column, classes)
    else:
        known = labels_of(classes, target_type(kind))
        y = _positions(_values(column, kind), np.array(known))
    wrong = np.isnan(y)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            f"target {name!r} is {column[row].as_py()!r} in row {row + 1}, which is none of the "
            f"{len(classes)} classes it was described with: describe the table again"
        )
    return y if task == "regression" else y.astype(np.int64)


def target_type(kind: str) -> TargetType:
    return _TYPES[kind]


def labels_of(classes: Sequence[str], of_type: TargetType) -> tuple[Label, ...]:
    """Return class labels, stored as text, in the type of the target's column."""
    return tuple(_FROM_TEXT[of_type](label) for label in classes)


def _values(column: Any, kind: str) -> NDArray[Any]:
    """Return the values of a column of numbers; integers stay exact."""
    return np.asarray(column.to_numpy()) if kind == "int64" else as_numbers(column)


def _positions(values: NDArray[Any], known: NDArray[Any]) -> Floats:
    """Return the position of each value among the sorted classes; NaN for an unknown value."""
    position = np.searchsorted(known, values).clip(max=len(known) - 1)
    return np.where(known[position] == values, position, np.nan)


def _task(
    kind: str, values: NDArray[Any] | None, n_distinct: int, settings: SelectionSettings
) -> tuple[Task, str]:
    name = settings.target
    whole = values is None or bool((values == np.floor(values)).all())
    if settings.task == "regression":
        return "regression", "the settings say so"
    if settings.task == "classification":
        if kind == "float64" and not (whole and n_distinct <= _MOST_FLOAT_CLASSES):
            what = "different values" if whole else "different values, not all whole numbers"
            raise InputError(
                f"target {name!r} has {n_distinct} {what}, but classes must be at most "
                f"{_MOST_FLOAT_CLASSES} whole numbers, or text",
                f"set task to regression, or name {name!r} as categorical",
            )
        return "classification", "the settings say so"
    if values is None:
        return "classification", "the target is text"
    if kind == "bool":
        return "classification", "the target is true or false"
    if not whole:
        return "regression", "the target has numbers that are not whole"
    if n_distinct <= _MOST_INFERRED_CLASSES:
        return "classification", f"the target has only {n_distinct} different whole numbers"
    return "regression", (
        f"the target has {n_distinct} different numbers, more than {_MOST_INFERRED_CLASSES}"
    )


_IN_WORDS = {"category": "text", "bool": "true and false", "timestamp": "timestamps"}
_GIVE = {
    "target": "give numbers or classes",
    "weight column": "give numbers above 0",
    "time column": "give timestamps or numbers",
    "split column": "give the words train, validation and test",
    **dict.fromkeys(("history column", "numeric column"), "give numbers"),
    **dict.fromkeys(("group column", "series column"), "give numbers or text"),
    **dict.fromkeys(("keep column", "categorical column"), "give numbers or text"),
}


def typed_column(table: Any, name: str, role: str) -> Any:
    """Return a typed column for a role; InputError if its type fits no role."""
    source = pa.table({name: column_of(table, name, role)})
    numeric = [name] if role == "numeric column" else []
    ordered = [name] if role == "time column" else []
    typed = type_columns(source, numeric=numeric, ordered=ordered, has_others=True)
    column = typed.column(0)
    _refuse_other(role, name, column)
    return column


def roles_of_rows(settings: SelectionSettings) -> Iterator[tuple[str, str]]:
    """Yield the roles of columns that are no features."""
    yield "target", settings.target
    for role in ROW_ROLES:
        if (name := getattr(settings.columns, role)) is not None:
            yield f"{role} column", name
    if settings.history is not None and settings.history.series is not None:
        yield "series column", settings.history.series


def named_roles(settings: SelectionSettings) -> Iterator[tuple[str, str]]:
    """Yield every role of the settings with its column."""
    yield from roles_of_rows(settings)
    for role in ("keep", "numeric", "categorical"):
        for name in getattr(settings.columns, role):
            yield f"{role} column", name


def refuse_others(table: Any, settings: SelectionSettings) -> None:
    """Raise InputError if a column with a role has a type that fits no role."""
    for role, name in named_roles(settings):
        if (position := table.schema.get_field_index(name)) >= 0:
            _refuse_other(role, name, table.column(position))


def _refuse_other(role: str, name: str, column: Any) -> None:
    if kind := other_type(column):
        otherwise = "" if role == "time column" else ", or name the column as categorical"
        if wrong := no_date_in(column):
            raise InputError(
                f"{role} {name!r} holds dates but {wrong}, which is no date such as 2023-01-31",
                f"correct it{otherwise}",
            )
        if kind == MIXED_ZONES:
            raise InputError(
                f"{role} {name!r} is a {kind}",
                f"write all with a zone, as in 2023-01-31 08:00+01:00, or all without{otherwise}",
            )
        if kind.startswith(DATE_IN_TEXT):
            raise InputError(
                f"{role} {name!r} is a {kind}",
                "write dates as 2023-01-31, as pandas.to_datetime reads them, or all in one other "
                f"format and add it, as in #date_format=%d.%m.%Y, to the path of delimited text"
                f"{otherwise}",
            )
        raise InputError(f"{role} {name!r} is of type {kind}; {_GIVE[role]}")


def _check_weight(table: Any, settings: SelectionSettings) -> None:
    name = settings.columns.weight
    if name is None:
        return
    column = column_of(table, name, "weight column")
    kind = kind_of(name, column)
    if kind not in ("float64", "int64"):
        raise InputError(
            f"weight column {name!r} must hold numbers above 0 but holds {_IN_WORDS[kind]}",
            f"name another{if_numbers(name, column)}",
        )
    refuse_missing(f"weight column {name!r}", column)
    weights = as_numbers(column)
    if weights.min() <= 0:
        row = int(np.argmax(weights <= 0))
        raise InputError(
            f"weight column {name!r} must be above 0 but is {weights[row]:g} in row {row + 1}: "
            "remove these rows or correct the weights"
        )
    if weights.max() > LARGEST or weights.min() < 1 / LARGEST:
        row = int(np.argmax((weights > LARGEST) | (weights < 1 / LARGEST)))
        raise InputError(
            f"weight column {name!r} must lie within {1 / LARGEST:g}..{LARGEST:g}, which models "
            f"can compute with, but is {weights[row]:g} in row {row + 1}: rescale it"
        )


def check_roles(table: Any, settings: SelectionSettings) -> None:
    """Check the weight, group and time columns that the settings name."""
    columns = settings.columns
    _check_weight(table, settings)
    if columns.group is not None:
        column = column_of(table, columns.group, "group column")
        refuse_missing(f"group column {columns.group!r}", column)
    if columns.time is not None:
        column = column_of(table, columns.time, "time column")
        check_has_order(columns.time, column)
        refuse_missing(f"time column {columns.time!r}", column)


def rows_with_roles(
    table: Any, settings: SelectionSettings, y: Floats | Index, classes: Sequence[str]
) -> Roles:
    """Return the groups, times and user's parts of a table's rows, with the encoded target."""
    columns = settings.columns
    groups = times = split = None
    embargo = 0.0
    if columns.group is not None:
        groups = as_keys(column_of(table, columns.group, "group column"))
    if columns.time is not None:
        column = column_of(table, columns.time, "time column")
        times = as_keys(column)
        if columns.embargo is not None:
            embargo = _embargo(columns.embargo, columns.time, kind_of(columns.time, column))
    if columns.split is not None:
        split = _split_of(columns.split, column_of(table, columns.split, "split column"))
    return Roles(y, groups, times, classes=classes, split=split, embargo=embargo)


def _embargo(value: str | float, time: str, kind: str) -> float:
    """Return an embargo in the unit of the keys of a time column: microseconds, or its numbers."""
    import pandas as pd

    text = str(value)
    try:
        if kind == "timestamp":
            length = pd.Timedelta(text) / pd.Timedelta(microseconds=1)
        else:
            length = float(text)
    except ValueError:
        length = math.nan
    if not 0 <= length < math.inf or (kind == "timestamp" and text.strip().isdigit()):
        wanted = (
            "a length of time such as 7 days or 36 hours"
            if kind == "timestamp"
            else f"a number from 0, in the unit of the time column {time!r}"
        )
        raise InputError(f"embargo must be {wanted} but is {text!r}")
    return length


def _split_of(name: str, column: Any) -> Index:
    """Return the part that a split column names for each row, as indices of `SPLIT_WORDS`."""
    refuse_missing(f"split column {name!r}", column)
    if kind_of(name, column) != "category":
        raise InputError(
            f"split column {name!r} must hold the words {', '.join(SPLIT_WORDS)} but holds "
            f"{_IN_WORDS.get(kind_of(name, column), 'numbers')}"
        )
    words = categories_of(column)
    codes = {
        word: SPLIT_WORDS.index(low)
        for word in words
        if (low := word.strip().lower()) in SPLIT_WORDS
    }
    if len(codes) < len(words):
        wrong = next(word for word in words if word not in codes)
        raise InputError(
            f"split column {name!r} holds {wrong!r}; correct it to one of {', '.join(SPLIT_WORDS)}"
        )
    parts = np.array([codes[word] for word in words])[as_numbers(column, words).astype(np.int64)]
    for part in ("train", "test"):
        if SPLIT_WORDS.index(part) not in parts:
            raise InputError(f"split column {name!r} has no row of {part}; add some")
    return parts


def check_has_order(name: str, column: Any) -> None:
    """Raise InputError for a time column whose values have no order in time."""
    kind = kind_of(name, column)
    if kind in ("category", "bool"):
        converted = ", as by pandas.to_datetime, or by julianday in SQLite"
        how = "" if kind == "bool" else if_numbers(name, column) or converted
        raise InputError(
            f"time column {name!r} holds {_IN_WORDS[kind]}, which has no order in time",
            f"give timestamps or numbers{how}",
        )


def refuse_missing(what: str, column: Any, otherwise: str = "") -> None:
    """Raise InputError for a column with a missing value."""
    if column.null_count == len(column):
        raise InputError(f"{what} is missing in all {len(column)} rows; give rows that have it")
    if column.null_count:
        raise InputError(
            f"{what} is missing in {column.null_count} of {len(column)} rows, first in row "
            f"{first_missing(column)}: fill or remove these rows{otherwise}"
        )
