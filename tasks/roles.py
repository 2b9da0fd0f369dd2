"""The columns beside the target and the features: weights, groups, times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from chaffinch.storage.errors import InputError, MendableError, NoFeatureError
from chaffinch.tasks.arrow_columns import (
    as_numbers,
    column_of,
    first_missing,
    if_numbers,
    kind_of,
    other_type,
)
from chaffinch.tasks.errors import ANEW
from chaffinch.tasks.former_fit import unless_given, within_reach
from chaffinch.tasks.magnitudes import LARGEST
from chaffinch.tasks.settings import SelectionSettings

_IN_WORDS = {"category": "text", "bool": "true and false", "timestamp": "timestamps"}
_GIVE = {
    "target": "give numbers or classes",
    "weight column": "give numbers above 0",
    "time column": "give timestamps or numbers",
    **dict.fromkeys(("history column", "numeric column"), "give numbers"),
    **dict.fromkeys(("group column", "series column"), "give numbers or text"),
    **dict.fromkeys(("keep column", "categorical column"), "give numbers or text"),
}


@contextmanager
def said_in_role(named: Iterable[tuple[str, str]]) -> Iterator[None]:
    """Let an error inside tell no one to drop a column that is named for something.

    Parameters
    ----------
    named : iterable of (str, str)
        Each role, such as ``"time column"``, and the column that is named for it.

    Raises
    ------
    InputError
        In place of a NoFeatureError of such a column: what to give for its role.
    """
    try:
        yield
    except NoFeatureError as error:
        for role, name in named:
            if name == error.name:
                raise InputError(
                    f"{role} {name!r} is of type {error.kind}; {_GIVE[role]}"
                ) from error
        raise


def roles_of(settings: SelectionSettings) -> Iterator[tuple[str, str]]:
    """Yield every role that a column is named for, and the column."""
    columns = settings.columns
    yield "target", settings.target
    for role in ("weight", "group", "time"):
        if (name := getattr(columns, role)) is not None:
            yield f"{role} column", name
    if settings.history is not None and settings.history.series is not None:
        yield "series column", settings.history.series
    for role in ("keep", "numeric", "categorical"):
        for name in getattr(columns, role):
            yield f"{role} column", name


def refuse_others(table: Any, settings: SelectionSettings) -> None:
    """Raise InputError if a column that is named for a role is of a type that fits none."""
    for role, name in roles_of(settings):
        position = table.schema.get_field_index(name)
        kind = None if position < 0 else other_type(table.column(position))
        if kind is not None:
            raise InputError(f"{role} {name!r} is of type {kind}; {_GIVE[role]}")


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
