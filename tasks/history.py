"""Features made of the past: what a column was some rows ago, and its mean and deviation since.

They are those of AFS-BM's published runs on time series (arXiv 2401.11250, section 4.3): the value
at t sees rows before t alone, in the time order of its own series. Where the past does not reach
back that far, or a value in it is missing, the made one is missing; no row is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import read_source
from chaffinch.storage.tables import type_columns
from chaffinch.tasks.arrow_columns import as_keys, column_of, first_missing, kind_of
from chaffinch.tasks.dealing import Index
from chaffinch.tasks.history_settings import HistorySettings
from chaffinch.tasks.selection.vocabulary import Floats
from chaffinch.tasks.series_scales import Scales, fitted_scales, numbers_of, scaled
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.splits import split_rows

_NO_ORDER = {"category": "text", "bool": "true and false"}


def made_names(column: str, history: HistorySettings) -> tuple[str, ...]:
    """Return what the features that are made of a column are called, in their order."""
    lags = [f"{column}_lag_{lag}" for lag in history.lags]
    kinds = ("mean", "deviation")
    return (*lags, *(f"{column}_{kind}_{window}" for window in history.rolling for kind in kinds))


def with_history(
    data: Any,
    column: str,
    *,
    time: str,
    lags: tuple[int, ...] = (),
    rolling: tuple[int, ...] = (),
    series: str | None = None,
    scales: Scales | None = None,
) -> pa.Table:
    """Return a table with features made of the past of one of its columns, as `select` makes them.

    For rows that a model is to predict: give them with as many rows before them as the longest lag
    or window needs, and take theirs of what comes back. Their own values of `column` are used for
    later rows alone, and may be missing.

    Parameters
    ----------
    data : path or address, or pandas, polars or Arrow table
        See `chaffinch.select`.
    column : str
        Column of numbers that they are made of.
    time : str
        Column of time order; in a series no two rows have the same time.
    lags : tuple of int, each at least 1
        How many rows back a value is taken from.
    rolling : tuple of int, each at least 2
        Numbers of rows before the present one that a mean and a deviation are taken of.
    series : str, optional
        Column that tells one series from another.
    scales : mapping, optional
        Of a run that scaled its series, as in its ``result.contract["scales"]``: the rows are
        brought to them first. Of columns that the rows lack, such as the target, they are left out.

    Returns
    -------
    pyarrow.Table
        The rows in their order, with the made features as the last columns: ``y_lag_7``,
        ``y_mean_4``, ``y_deviation_4``.

    Raises
    ------
    InputError
        If a column is missing or cannot be used, a name is taken, or nothing is asked for.

    Examples
    --------
    >>> import chaffinch, pandas
    >>> days = pandas.DataFrame({"day": [1, 2, 3], "y": [5.0, 7.0, 6.0]})
    >>> chaffinch.with_history(days, "y", time="day", lags=(1,))["y_lag_1"].to_pylist()
    [None, 5.0, 7.0]
    """
    history = HistorySettings(lags=lags, rolling=rolling, columns=(column,), series=series)
    table = read_source(data)
    if scales is not None:
        there = set(table.column_names)  # rows to predict may lack the target
        known = {name: {c: of[c] for c in of.keys() & there} for name, of in scales.items()}
        table = scaled(table, series, known)
    return add_history(table, history, time)


def prepared(source: Any, settings: SelectionSettings) -> tuple[pa.Table, Scales | None]:
    """Return a source with what its settings make of its past, and the scales of its series.

    Parameters
    ----------
    source : path or address, or pandas, polars or Arrow table
        See `chaffinch.storage.sources.read_source`.
    settings : SelectionSettings
        Ask for history, in time order.

    Raises
    ------
    InputError
        See `with_history`.
    ValueError
        If the settings ask for no history.
    """
    history, time = settings.history, settings.columns.time
    if history is None or time is None:
        raise ValueError("no history is asked for")
    if not history.columns:
        history = history.model_copy(update={"columns": (settings.target,)})
    table, scales = read_source(source, settings.columns.categorical), None
    if history.scale == "series":
        # the parts hang on times alone, whatever the target
        times = _keys(table, time, "time")
        train = split_rows(np.zeros(len(times)), settings, times=times).train
        is_train = np.isin(np.arange(len(times)), train)
        columns = sorted({*history.columns, settings.target})
        scales = fitted_scales(table, columns, history.series, is_train)
        table = scaled(table, history.series, scales)
    return add_history(table, history, time), scales


def add_history(table: pa.Table, history: HistorySettings, time: str) -> pa.Table:
    """Return a table with the features that the settings ask for.

    Parameters
    ----------
    table : pyarrow.Table
        As `chaffinch.storage.sources.read_source` returns it, n rows in any order.
    history : HistorySettings
        What to make, and of which columns.
    time : str
        Column of time order.

    Raises
    ------
    InputError
        See `with_history`.
    """
    numbers = {column: numbers_of(table, column) for column in history.columns}
    order, place = _order(table, history.series, time)
    for column, values in numbers.items():
        made = _made(values[order], place, history)
        for name, in_order in zip(made_names(column, history), made, strict=True):
            if name in table.column_names:
                raise InputError(
                    f"history makes a column {name!r} but the table has one; rename or drop it"
                )
            restored = np.empty(len(order))
            restored[order] = in_order
            table = table.append_column(name, pa.array(restored, from_pandas=True))
    return table


def _made(values: Floats, place: Index, history: HistorySettings) -> list[Floats]:
    """Return the features of a column whose rows are in order, each shape (n,)."""
    made = [_lagged(values, place, lag) for lag in history.lags]
    for window in history.rolling:
        mean = _mean_before(values, place, window)
        squares = np.zeros(len(values))
        for lag in range(1, window + 1):
            squares += np.square(_lagged(values, place, lag) - mean)
        made += [mean, np.sqrt(squares / (window - 1))]
    return made


def _mean_before(values: Floats, place: Index, window: int) -> Floats:
    total = np.zeros(len(values))
    for lag in range(1, window + 1):
        total += _lagged(values, place, lag)
    return np.asarray(total / window)


def _lagged(values: Floats, place: Index, lag: int) -> Floats:
    """Return the value `lag` rows before each in the same series, NaN where there is none."""
    earlier = np.full(len(values), np.nan)
    earlier[lag:] = values[:-lag]
    earlier[place < lag] = np.nan
    return earlier


def _order(table: pa.Table, series: str | None, time: str) -> tuple[Index, Index]:
    """Return the rows by series and time, and the place of each of these in its series, from 0."""
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
        raise InputError(
            f"time column {time!r} has the same value in rows {first} and {second}, so that "
            f"neither comes before the other in a history; {among}, or drop one"
        )
    begins = np.flatnonzero(np.concatenate([[True], ~is_same]))
    lengths = np.diff(np.concatenate([begins, [len(order)]]))
    return order, np.arange(len(order)) - np.repeat(begins, lengths)


def _keys(table: pa.Table, name: str, role: str) -> NDArray[Any]:
    """Return a column of times or series as what can be sorted."""
    column_of(table, name, f"{role} column")
    column = type_columns(table.select([name])).column(0)
    kind = kind_of(name, column)
    if column.null_count:
        raise InputError(
            f"{role} column {name!r} is missing in row {first_missing(column)}: fill or remove "
            "such rows"
        )
    if role == "time" and kind in _NO_ORDER:
        raise InputError(
            f"time column {name!r} holds {_NO_ORDER[kind]}, which has no order in time: give "
            "timestamps or numbers"
        )
    return as_keys(column)
