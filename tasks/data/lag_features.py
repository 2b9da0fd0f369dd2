"""Lag features: earlier values of a column, and rolling means and standard deviations.

They are features of AFS-BM's experiments on time series (arXiv 2401.11250, section 5.1.2). A
feature at time t is computed only from earlier rows of the same series. It is missing where the
series is too short or a value in the window is missing; no row is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.errors import InputError, short_repr
from chaffinch.storage.column_names import labels_of
from chaffinch.storage.sources import Source, source_of
from chaffinch.tasks.data.arrow import as_keys, as_numbers, if_numbers, kind_of
from chaffinch.tasks.data.column_profile import check_largest
from chaffinch.tasks.data.reselection_fit import optional_columns
from chaffinch.tasks.data.roles import check_has_order, refuse_missing, typed_column
from chaffinch.tasks.data.splitting.splits import NOT_FINER
from chaffinch.tasks.data.splitting.stratified_split import Index
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.settings.base import as_name, listed
from chaffinch.tasks.settings.columns import HistorySettings
from chaffinch.tasks.settings.selection import SelectionSettings

_LAG_FEATURE = re.compile(r".+_(lag|mean|deviation)_[0-9]+", re.DOTALL)
_NAMES = "the name of a column, or a list of names,"


def made_names(column: str, history: HistorySettings) -> tuple[str, ...]:
    """Return the names of a column's lag features, in order."""
    lags = [f"{column}_lag_{lag}" for lag in history.lags]
    kinds = ("mean", "deviation")
    return (*lags, *(f"{column}_{kind}_{window}" for window in history.rolling for kind in kinds))


def hint_for_missing(names: Iterable[str]) -> str:
    """Return what makes the missing columns, or "" if none has the name of a lag feature."""
    if any(_LAG_FEATURE.fullmatch(name) for name in names):
        return "; chaffinch.with_history makes lag features"
    return ""


def with_history(
    data: Any,
    columns: str | Sequence[str],
    *,
    time: str,
    lags: tuple[int, ...] = (),
    rolling: tuple[int, ...] = (),
    series: str | None = None,
    numeric: Collection[str] = (),
) -> pa.Table:
    """Return a table with the lag features of some columns, computed as in `select`.

    To predict new rows, pass them together with as many earlier rows as the longest lag or window
    needs, and keep the new rows of the result. The values of `columns` in the new rows may be
    missing: they are used only for later rows.

    Parameters
    ----------
    data : path or address, or pandas, polars or Arrow table
        See `chaffinch.select`.
    columns : str, or sequence of str
        Numeric columns to compute the features from: all history columns of the run, in one call.
    time : str
        Column of times; no two rows of a series have the same time.
    lags : tuple of int, each at least 1
        Distances in rows to the earlier values.
    rolling : tuple of int, each at least 2
        Window lengths in rows; a window ends before the present row.
    series : str, optional
        Column that identifies the series.
    numeric : collection of str
        Columns to read as numbers, including integers with leading zeros, as in the run.

    Returns
    -------
    pyarrow.Table
        The rows in their order, with the lag features as the last columns: ``y_lag_7``,
        ``y_mean_4``, ``y_deviation_4``; column by column, in the order of their names.

    Raises
    ------
    InputError
        If a column is missing, cannot be used or holds a number beyond 1e30; or if a feature's name
        is taken or no feature is requested.

    Examples
    --------
    >>> import chaffinch, pandas
    >>> days = pandas.DataFrame({"day": [1, 2, 3], "y": [5.0, 7.0, 6.0]})
    >>> chaffinch.with_history(days, "y", time="day", lags=(1,))["y_lag_1"].to_pylist()
    [None, 5.0, 7.0]
    """
    is_one = isinstance(columns, str | Integral) or (
        isinstance(columns, tuple) and as_name(columns) in labels_of(data)
    )
    names = (columns,) if is_one else listed("columns", columns, _NAMES)
    time = as_name(time)
    if not isinstance(time, str):
        raise InputError(f"time must be the name of a column but is {short_repr(time)}")
    if not names:
        raise InputError("columns must name at least 1 column of numbers but names none")
    history = HistorySettings(lags=lags, rolling=rolling, columns=names, series=series)
    named = tuple(map(as_name, listed("numeric", numeric, "a list of column names")))
    for name in named:
        if not isinstance(name, str):
            raise InputError(f"numeric must be text but is {short_repr(name)}")
    return _add_history(_with_numbers(source_of(data).read(), named), history, time)


def prepared(source: Source, settings: SelectionSettings) -> pa.Table:
    """Return a source's table with its lag features."""
    history, time = settings.history, settings.columns.time
    if history is None or time is None:
        raise ValueError("no history is asked for")
    needed = {time, history.series, *(history.columns or [settings.target])}
    dropped = set(settings.columns.drop) - needed
    table = source.read(settings.columns.categorical, drop=dropped)
    passed_over = optional_columns(settings).difference(table.column_names)
    numeric = [name for name in settings.columns.numeric if name not in passed_over]
    table = _with_numbers(table, numeric)
    columns = _usable_columns(table, history, settings)
    return _add_history(table, history.model_copy(update={"columns": columns}), time)


def _usable_columns(
    table: pa.Table, history: HistorySettings, settings: SelectionSettings
) -> tuple[str, ...]:
    """Return the history columns, without unusable ones of which a former run kept no feature."""
    columns, former = history.columns or (settings.target,), settings.former
    if former is None:
        return columns

    kept = former.former.keys()
    return tuple(
        name
        for name in columns
        if not kept.isdisjoint(made_names(name, history)) or _can_be_used(table, name)
    )


def _can_be_used(table: pa.Table, name: str) -> bool:
    try:
        _numbers(table, name)
    except InputError:
        return False
    return True


def _numbers(table: pa.Table, name: str) -> Floats:
    """Return a column of numbers as float64, shape (n,), NaN where it is missing."""
    column = typed_column(table, name, "history column")
    if kind_of(name, column) not in ("float64", "int64"):
        raise InputError(
            f"history column {name!r} must hold numbers",
            "name others with history columns, or leave out lags and rolling windows"
            f"{if_numbers(name, column)}",
        )
    numbers = as_numbers(column)
    check_largest(f"history column {name!r}", numbers, ", or leave it empty")
    return numbers


def _with_numbers(table: pa.Table, numeric: Collection[str]) -> pa.Table:
    for name in numeric:
        typed = typed_column(table, name, "numeric column")
        table = table.set_column(table.schema.get_field_index(name), name, typed)
    return table


def _add_history(table: pa.Table, history: HistorySettings, time: str) -> pa.Table:
    numbers = {column: _numbers(table, column) for column in history.columns}
    order, place = order_of(table, history.series, time)
    for column, values in numbers.items():
        lag_features = _lag_features(values[order], place, history)
        for name, in_order in zip(made_names(column, history), lag_features, strict=True):
            if name in table.column_names:
                # after a drop by name it would be unclear which of the two is meant
                raise InputError(
                    f"history makes a column {name!r} but the table has one; rename it, or take it "
                    "out of the table"
                )
            restored = np.empty(len(order))
            restored[order] = in_order
            table = table.append_column(name, pa.array(restored, from_pandas=True))
    return table


def _lag_features(values: Floats, place: Index, history: HistorySettings) -> list[Floats]:
    """Return the lag features of a column of ordered rows, each shape (n,)."""
    features = [_lag(values, place, lag) for lag in history.lags]
    longest = int(place.max())
    for window in history.rolling:
        if window > longest:  # no row has enough earlier rows
            features += [np.full(len(values), np.nan)] * 2
            continue
        from chaffinch.tasks.data.rolling_windows import moments_before  # imports a compiler

        features += moments_before(values, place, window)
    return features


def _lag(values: Floats, place: Index, lag: int) -> Floats:
    """Return the value `lag` rows earlier in the same series, NaN where there is none."""
    earlier = np.full(len(values), np.nan)
    earlier[lag:] = values[:-lag]
    earlier[place < lag] = np.nan
    return earlier


def order_of(table: pa.Table, series: str | None, time: str) -> tuple[Index, Index]:
    """Return the rows ordered by series and time, and their positions within the series.

    InputError if the rows of a series have no order in time.
    """
    moments = _keys(table, time, "time")
    which = np.zeros(table.num_rows, dtype=np.int64)
    if series is not None:
        which = np.unique(_keys(table, series, "series"), return_inverse=True)[1]
    order = np.lexsort((moments, which))
    which, moments = which[order], moments[order]
    is_same = which[1:] == which[:-1]
    twice = np.flatnonzero(is_same & (moments[1:] == moments[:-1]))
    if len(twice):
        first, second = sorted(int(row) + 1 for row in order[twice[0] : twice[0] + 2])
        among = "name the series column" if series is None else "name a finer series or time column"
        finer = f" ({NOT_FINER})" if pa.types.is_timestamp(table[time].type) else ""
        raise InputError(
            f"time column {time!r} has the same value in rows {first} and {second}, so that "
            f"neither comes before the other in a history{finer}",
            f"{among}, or drop one",
        )
    begins = np.flatnonzero(np.concatenate([[True], ~is_same]))
    lengths = np.diff(np.concatenate([begins, [len(order)]]))
    return order, np.arange(len(order)) - np.repeat(begins, lengths)


def _keys(table: pa.Table, name: str, role: str) -> NDArray[Any]:
    """Return sortable keys of a column of times or series, in which no value is missing."""
    column = typed_column(table, name, f"{role} column")
    refuse_missing(f"{role} column {name!r}", column)
    if role == "time":
        check_has_order(name, column)
    return as_keys(column)


def lag_feature_names(settings: SelectionSettings) -> frozenset[str]:
    """Return the names of the run's lag features."""
    history = settings.history
    if history is None:
        return frozenset()
    columns = history.columns or (settings.target,)
    return frozenset(name for column in columns for name in made_names(column, history))
