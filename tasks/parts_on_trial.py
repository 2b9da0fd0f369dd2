"""Whether a table's rows can be parted: tried before any work, with what a person can do if not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.arrow_columns import as_keys, column_of, kind_of
from chaffinch.tasks.dealing import Index
from chaffinch.tasks.former_fit import within_reach
from chaffinch.tasks.outer_folds import OuterFolds, RowsToDeal
from chaffinch.tasks.part_needs import MORE_ROWS, TooFewError, counted, fewer_folds, least_members
from chaffinch.tasks.pefs_settings import Pefs
from chaffinch.tasks.selection.vocabulary import Floats
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.splits import Splits, split_rows


def require_rows(n_rows: int, settings: SelectionSettings, outer_folds: OuterFolds | None) -> None:
    """Raise unless there are rows enough for the parts, before columns are looked at.

    Around outer folds it is only asked whether there are any: the trial says what those need.

    Raises
    ------
    InputError
        Names how many rows there are and how many are needed.
    """
    by_time = settings.columns.time is not None
    least = least_members(settings, by_time=by_time)
    needed, is_folded = int(least.sum()), bool(least[0] > 1)
    if n_rows >= (1 if outer_folds else needed):
        return
    what = "parts and the folds" if is_folded else "parts"
    few = TooFewError(
        f"the table has {counted(n_rows, 'row')} but the {what} need {needed}",
        MORE_ROWS,
        *fewer_folds(n_rows, least, by_time=by_time),
    )
    with within_reach(settings):
        raise few.without_fewer_folds() if outer_folds else few


def check_parts(
    table: Any,
    settings: SelectionSettings,
    y: Floats | Index,
    classes: tuple[str, ...],
    outer_folds: OuterFolds | None,
) -> None:
    """Part the rows on trial; the one place that knows what parts need is the one that asks.

    Parameters
    ----------
    table : pyarrow.Table
        Has the group and time columns.
    settings : SelectionSettings
    y : ndarray, shape (n,)
        float64 values, or int64 class indices.
    classes : tuple of str
        Labels in the order of the class indices; empty for regression.
    outer_folds : OuterFolds or None
        What the parts lie in; None for a selection, where they are all rows.

    Raises
    ------
    InputError
        If the rows cannot be parted.
    """
    columns = settings.columns
    groups = times = None
    if columns.group is not None:
        groups = as_keys(column_of(table, columns.group, "group column"))
    if columns.time is not None:
        times = as_keys(column_of(table, columns.time, "time column"))

    def parted(y: Floats | Index) -> Splits | None:
        if outer_folds is None:
            return split_rows(y, settings, groups=groups, times=times, classes=classes)
        outer_folds.check(RowsToDeal(y, groups, times, classes))
        return None

    def numbers_part() -> bool:
        try:
            parted(y.astype(np.float64))
        except InputError:
            return False
        return True

    with _said_of_the_target(table, settings, classes, numbers_part):
        splits = parted(y)
    if splits is not None and isinstance(settings.method, Pefs):
        settings.method.check_batch(len(splits.train))


@contextmanager
def _said_of_the_target(
    table: Any,
    settings: SelectionSettings,
    classes: Sequence[str],
    numbers_part: Callable[[], bool],
) -> Iterator[None]:
    """Let an error inside say so where the target does not look like classes.

    Where the rows cannot be parted if it were numbers either, the classes are not in the way.
    """
    try:
        yield
    except InputError as error:
        if not numbers_part():
            raise
        are_numbers = bool(classes) and all(label.lstrip("-").isdigit() for label in classes)
        if settings.task == "auto" and are_numbers:
            is_text = kind_of(settings.target, table[settings.target]) == "category"
            remedy = "name it as numeric and " if is_text else ""  # it has leading zeros
            remedy += "set task to regression"
            raise InputError(f"{error}; if {settings.target!r} is a quantity, {remedy}") from error
        n_rows = len(table)
        if 2 * len(classes) > n_rows:
            raise InputError(
                f"target {settings.target!r} has {len(classes)} different texts in {n_rows} rows, "
                "too many to be classes: give numbers, or classes of several rows each"
            ) from error
        raise
