"""Scales of series: each less its mean, and divided by how far it reaches from that at most.

AFS-BM's published runs on time series bring every series to [-1, 1] so (arXiv 2401.11250, section
4.3), but by all of its rows. Here mean and reach are those of the training part alone, so that
nothing of later rows is known, and later values may lie outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.storage.errors import InputError
from chaffinch.storage.names import quoted
from chaffinch.storage.tables import type_columns
from chaffinch.tasks.arrow_columns import as_numbers, column_of, kind_of
from chaffinch.tasks.selection.vocabulary import Floats, Mask

# Series -> column -> "mean" and "reach"; where there is but one series, it is called "".
Scales = Mapping[str, Mapping[str, Mapping[str, float]]]


def fitted_scales(
    table: pa.Table, columns: Sequence[str], series: str | None, is_train: Mask
) -> Scales:
    """Return the scales of some columns by the training rows of each series.

    Parameters
    ----------
    table : pyarrow.Table
        n rows.
    columns : sequence of str
        Columns of numbers.
    series : str or None
        Column that tells one series from another.
    is_train : ndarray of bool, shape (n,)
        Which rows are of the training part.

    Returns
    -------
    dict
        Series -> column -> ``mean``, and ``reach``, the largest distance from it, or 1 where that
        is 0.

    Raises
    ------
    InputError
        If a series has no value to go by in the training part, or a column holds no numbers.
    """
    names = _series_of(table, series)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in sorted(set(names.tolist())):
        rows = is_train & (names == name)
        found[name] = {c: _scale(numbers_of(table, c)[rows], c, name) for c in columns}
    return found


def scaled(table: pa.Table, series: str | None, scales: Scales) -> pa.Table:
    """Return a table with its columns brought to their scales, as float64.

    Parameters
    ----------
    table : pyarrow.Table
        n rows.
    series : str or None
        Column that tells one series from another.
    scales : mapping
        From `fitted_scales`.

    Raises
    ------
    InputError
        If the table has a series that has no scale.
    """
    names = _series_of(table, series)
    unknown = sorted(set(names.tolist()) - set(scales))
    if unknown:
        raise InputError(
            f"series column {series!r} has {quoted(unknown)}, of which there is no scale; leave "
            "out these rows, or select anew with them"
        )
    for column in next(iter(scales.values())):
        values = numbers_of(table, column)
        mean, reach = (
            np.array([scales[name][column][word] for name in names]) for word in ("mean", "reach")
        )
        values = pa.array((values - mean) / reach, from_pandas=True)
        table = table.set_column(table.schema.get_field_index(column), column, values)
    return table


def numbers_of(table: pa.Table, name: str) -> Floats:
    """Return a column of numbers as float64, shape (n,), NaN where it is missing.

    Raises
    ------
    InputError
        If there is none, or it holds something else.
    """
    column_of(table, name, "history column")
    column = type_columns(table.select([name])).column(0)
    if kind_of(name, column) not in ("float64", "int64"):
        raise InputError(
            f"history column {name!r} must hold numbers; name others with history columns, or "
            "leave out lags and rolling windows"
        )
    return as_numbers(column)


def _series_of(table: pa.Table, series: str | None) -> np.ndarray[Any, np.dtype[np.str_]]:
    """Return the name of each row's series, shape (n,)."""
    if series is None:
        return np.full(table.num_rows, "")
    column_of(table, series, "series column")
    column = type_columns(table.select([series])).column(0)
    return np.array([str(value) for value in column.to_pylist()])


def _scale(values: Floats, column: str, series: str) -> dict[str, float]:
    known = values[~np.isnan(values)]
    if not len(known):
        of = f" of series {series!r}" if series else ""
        raise InputError(
            f"column {column!r}{of} has no value in the training part to be scaled by; leave out "
            "the series, or the scaling"
        )
    mean = float(known.mean())
    reach = float(np.abs(known - mean).max())
    return {"mean": mean, "reach": reach or 1.0}
