"""The columns beside the target and the features: weights, groups, times."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.storage.errors import InputError, MendableError
from chaffinch.tasks.arrow_columns import (
    as_numbers,
    column_of,
    first_missing,
    if_numbers,
    kind_of,
)
from chaffinch.tasks.errors import ANEW
from chaffinch.tasks.former_fit import unless_given, within_reach
from chaffinch.tasks.magnitudes import LARGEST
from chaffinch.tasks.settings import SelectionSettings

_IN_WORDS = {"category": "text", "bool": "true and false", "timestamp": "timestamps"}


def check_roles(table: Any, settings: SelectionSettings) -> None:
    """Check the columns of weights, groups and times, those of them that are named.

    Parameters
    ----------
    table : pyarrow.Table
        Typed columns.
    settings : SelectionSettings
        Name the columns, and say whether a former run did.

    Raises
    ------
    InputError
        If one is not there, is missing in a row, or cannot weigh or order rows.
    """
    _check_weight(table, settings)
    _check_order(table, settings)


def _check_weight(table: Any, settings: SelectionSettings) -> None:
    name = settings.columns.weight
    if name is None:
        return
    column = column_of(table, name, "weight column")
    kind = kind_of(name, column)
    if kind not in ("float64", "int64"):
        remedy = f"name another{if_numbers(name, column)}"
        raise InputError(
            f"weight column {name!r} must hold numbers above 0 but holds {_IN_WORDS[kind]}: "
            f"{unless_given(settings.method, remedy, f'mend the column, or {ANEW}')}"
        )
    _refuse_missing("weight", name, column)
    weights = as_numbers(column)
    if weights.min() <= 0:
        row = int(np.argmax(weights <= 0))
        raise InputError(
            f"weight column {name!r} must be above 0 but is {weights[row]:g} in row {row + 1}: "
            "remove these rows or mend the weights"
        )
    if weights.max() > LARGEST or weights.min() < 1 / LARGEST:
        row = int(np.argmax((weights > LARGEST) | (weights < 1 / LARGEST)))
        raise InputError(
            f"weight column {name!r} must lie within {1 / LARGEST:g}..{LARGEST:g}, which models "
            f"can compute with, but is {weights[row]:g} in row {row + 1}: rescale it"
        )


def _check_order(table: Any, settings: SelectionSettings) -> None:
    """Check the group column and the time column."""
    columns = settings.columns
    if columns.group is not None:
        column = column_of(table, columns.group, "group column")
        _refuse_missing("group", columns.group, column)
    if columns.time is not None:
        column = column_of(table, columns.time, "time column")
        with within_reach(settings):
            check_has_order(columns.time, column)
        _refuse_missing("time", columns.time, column)


def check_has_order(name: str, column: Any) -> None:
    """Refuse a column of times that tells no earlier row from a later one.

    Parameters
    ----------
    name : str
        Of the time column.
    column : pyarrow.ChunkedArray
        Typed.

    Raises
    ------
    InputError
        If it holds text, or true and false.
    """
    kind = kind_of(name, column)
    if kind in ("category", "bool"):
        raise MendableError(
            f"time column {name!r} holds {_IN_WORDS[kind]}, which has no order in time",
            f"give timestamps or numbers{if_numbers(name, column)}",
            "give timestamps or numbers",
        )


def _refuse_missing(role: str, name: str, column: Any) -> None:
    if column.null_count:
        raise InputError(
            f"{role} column {name!r} is missing in {column.null_count} of {len(column)} rows, "
            f"first in row {first_missing(column)}: fill or remove these rows"
        )
