"""The target: whether it asks for regression or classification, its classes, and its numbers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.tasks.arrow_columns import (
    as_numbers,
    categories_of,
    first_missing,
    if_numbers,
    kind_of,
)
from chaffinch.tasks.errors import ANEW
from chaffinch.tasks.former_fit import unless_given
from chaffinch.tasks.selection.vocabulary import Floats, Task
from chaffinch.tasks.settings import SelectionSettings

# whole numbers with more different values than this are a quantity, unless the user says otherwise
_MOST_INFERRED_CLASSES = 20
# and with more than this they are a quantity even if the user calls them classes
_MOST_FLOAT_CLASSES = 50

TargetType = Literal["integer", "number", "boolean", "text"]
Label = int | float | bool | str

# type of the ingested column -> what the feature contract calls it
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
    """What the target is.

    Attributes
    ----------
    task : "regression" or "classification"
    reason : str
        Why it was taken for that.
    classes : tuple of str
        The labels as text, in the order of their class indices; empty for regression.
    """

    task: Task
    reason: str
    classes: tuple[str, ...]


def describe_target(column: Any, settings: SelectionSettings) -> Target:
    """Return what the target column is, or say why it cannot be one.

    Labels are sorted: numbers by value, false before true, text by the order of its categories.

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The typed target column.
    settings : SelectionSettings
        Names the target and may name the task.

    Raises
    ------
    InputError
        If values are missing, there is only one, it is a timestamp, or it does not fit the task.
    """
    name = settings.target
    kind = kind_of(name, column)
    if kind == "timestamp":
        raise InputError(f"target {name!r} holds timestamps: give a number or a class instead")
    if column.null_count:
        raise InputError(
            f"target {name!r} is missing in {column.null_count} of {len(column)} rows, first in "
            f"row {first_missing(column)}: fill or remove these rows"
        )
    values = None if kind == "category" else np.unique(_values(column, kind))
    n_distinct = len(categories_of(column)) if values is None else len(values)
    if n_distinct == 1:
        raise InputError(
            f"target {name!r} has the same value in every row, so there is nothing to learn: "
            "give rows with at least 2 different values, or another target"
        )
    if kind == "category" and settings.task == "regression":
        numbers = "give a column of numbers"
        remedy = f"set task to classification, or {numbers}{if_numbers(name, column)}"
        raise InputError(
            f"target {name!r} holds text but the task is regression: "
            f"{unless_given(settings.method, remedy, f'{numbers}, or {ANEW}')}"
        )
    task, reason = _task(kind, values, n_distinct, settings)
    if task == "regression":
        return Target(task, reason, ())
    if values is None:
        return Target(task, reason, categories_of(column))
    if kind == "bool":
        return Target(task, reason, ("false", "true"))
    return Target(task, reason, tuple(str(int(value)) for value in values))


def encode_target(
    column: Any, name: str, task: Task, classes: Sequence[str]
) -> NDArray[np.float64] | NDArray[np.int64]:
    """Return the target as a model takes it, shape (n,).

    Parameters
    ----------
    column : pyarrow.ChunkedArray
        The typed target column.
    name : str
        Its name, for the errors.
    task : "regression" or "classification"
    classes : sequence of str
        The labels, in the order of their class indices.

    Returns
    -------
    ndarray, shape (n,)
        float64 values for regression, int64 class indices for classification.

    Raises
    ------
    InputError
        If a value is missing or is none of the classes.
    """
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
            f"{len(classes)} classes it was described with: describe the table anew"
        )
    return y if task == "regression" else y.astype(np.int64)


def target_type(kind: str) -> TargetType:
    """Return what a person calls the type that ingestion gave the target's column."""
    return _TYPES[kind]


def labels_of(classes: Sequence[str], of_type: TargetType) -> tuple[Label, ...]:
    """Return class labels, which the store keeps as text, as what the target's column held."""
    return tuple(_FROM_TEXT[of_type](label) for label in classes)


def _values(column: Any, kind: str) -> NDArray[Any]:
    """Return the values of a column of numbers; whole ones as they are, however large."""
    return np.asarray(column.to_numpy()) if kind == "int64" else as_numbers(column)


def _positions(values: NDArray[Any], known: NDArray[Any]) -> Floats:
    """Return the position of each value among the sorted classes; NaN where it is none."""
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
            remedy = f"set task to regression, or name {name!r} as categorical"
            raise InputError(
                f"target {name!r} has {n_distinct} {what}, but classes must be at most "
                f"{_MOST_FLOAT_CLASSES} whole numbers, or text: "
                f"{unless_given(settings.method, remedy, f'give such a column, or {ANEW}')}"
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
