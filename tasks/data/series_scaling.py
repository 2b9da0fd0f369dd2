"""Scaling of series: subtract the mean and divide by the largest absolute deviation from it.

AFS-BM's published runs on time series scale every series to [-1, 1] with all of its rows (arXiv
2401.11250, section 4.3). Here the mean and the reach (the largest deviation) are fitted on training
rows only, so that no later row leaks; later values can lie outside [-1, 1].
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, Field, FiniteFloat, TypeAdapter, ValidationError

from chaffinch.errors import InputError
from chaffinch.storage.column_names import quoted
from chaffinch.tasks.data.arrow import as_numbers, if_numbers, kind_of
from chaffinch.tasks.data.column_profile import check_largest
from chaffinch.tasks.data.roles import refuse_missing, typed_column
from chaffinch.tasks.selection.core import Floats, Mask

# Series -> column -> "mean" and "reach"; without a series column the only series is "".
Scales = Mapping[str, Mapping[str, Mapping[str, float]]]


class _Scale(BaseModel):
    mean: FiniteFloat
    reach: Annotated[FiniteFloat, Field(gt=0)]


_SCALES = TypeAdapter(Annotated[dict[str, dict[str, _Scale]], Field(min_length=1)])


def checked_scales(given: Any) -> Scales:
    try:
        scales = _SCALES.validate_python(given)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = " -> ".join(repr(key) for key in first["loc"])
        raise InputError(
            "scales must be series -> column -> mean and reach but "
            f"{f'at {place} ' if place else ''}{first['msg'].lower()}; give those of a run, its "
            'result.contract["scales"]'
        ) from error
    if len({frozenset(of) for of in scales.values()}) > 1:
        raise InputError(
            "scales must be of the same columns for each series but are not; give those of a run, "
            'its result.contract["scales"]'
        )
    return {
        name: {column: one.model_dump() for column, one in of.items()}
        for name, of in scales.items()
    }


def fitted_scales(
    table: pa.Table, columns: Sequence[str], series: str | None, is_train: Mask
) -> Scales:
    """Return the scales of some columns, fitted on the training rows of each series."""
    names, numbers = _series_of(table, series), {c: numbers_of(table, c) for c in columns}
    for column, values in numbers.items():
        if np.isnan(values[is_train]).all():
            raise InputError(
                f"column {column!r} has no value in the training part, in any row, to be scaled by",
                "leave it out of the history columns, or leave out the scaling",
            )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in sorted(set(names.tolist())):
        rows = is_train & (names == name)
        found[name] = {c: _scale(values[rows], c, name) for c, values in numbers.items()}
    return found


def can_be_used(table: pa.Table, name: str, series: str | None, is_train: Mask | None) -> bool:
    """Return whether a column can be a history column and, with `is_train`, be scaled."""
    try:
        numbers_of(table, name)
        if is_train is not None:
            fitted_scales(table, [name], series, is_train)
    except InputError:
        return False
    return True


def scaled(table: pa.Table, series: str | None, scales: Scales) -> pa.Table:
    """Return a table of n rows with scaled columns, as float64."""
    known = list(scales)
    if series is None and known != [""]:
        raise InputError(
            f"the scales are those of series {quoted(known)} but no series column is named; give "
            "series, as the run was given it"
        )
    if series is not None and known == [""]:
        raise InputError(
            f"the scales are those of a run without series but the series column is {series!r}; "
            "leave out series"
        )
    names = _series_of(table, series)
    # names are matched like categories, so that 1.0 is 1
    place = as_numbers(pa.chunked_array([pa.array(names).dictionary_encode()]), known)
    unknown = sorted(set(names[np.isnan(place)].tolist()))
    if unknown:
        raise InputError(
            f"series column {series!r} has {quoted(unknown)}, of which there is no scale; leave "
            "out these rows, or select again with them"
        )
    which = place.astype(np.int64)
    for column in next(iter(scales.values())):
        values = numbers_of(table, column)
        mean, reach = (
            np.array([of[column][word] for of in scales.values()])[which]
            for word in ("mean", "reach")
        )
        values = pa.array((values - mean) / reach, from_pandas=True)
        table = table.set_column(table.schema.get_field_index(column), column, values)
    return table


def refuse_scaled_before(table: pa.Table, scales: Scales) -> None:
    """Raise InputError if a table seems to be scaled already.

    A lag feature of a scaled column, of any lag or window, is the sign.
    """
    columns = "|".join(map(re.escape, next(iter(scales.values()))))
    made = re.compile(f"({columns})_(lag|mean|deviation)_[1-9][0-9]*")
    there = [name for name in table.column_names if made.fullmatch(name)]
    if there:
        raise InputError(
            f"the table has {quoted(there)}, so that it seems to be on the scales already; ask for "
            "all columns, lags and windows in one call, or rename for it what else they are"
        )


def numbers_of(table: pa.Table, name: str) -> Floats:
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


def complete(table: pa.Table, name: str, role: str) -> pa.ChunkedArray:
    """Return a column of times or series, typed; raise InputError if a value is missing."""
    column = typed_column(table, name, f"{role} column")
    refuse_missing(f"{role} column {name!r}", column)
    return column


def _series_of(table: pa.Table, series: str | None) -> np.ndarray[Any, np.dtype[np.str_]]:
    """Return the name of each row's series, shape (n,)."""
    if series is None:
        return np.full(table.num_rows, "")
    return np.array([str(value) for value in complete(table, series, "series").to_pylist()])


def _scale(values: Floats, column: str, series: str) -> dict[str, float]:
    known = values[~np.isnan(values)]
    if not len(known):
        raise InputError(
            f"column {column!r} of series {series!r} has no value in the training part to be "
            "scaled by",
            "leave out the series, or the scaling",
        )
    # fsum rounds once: the order of rows does not matter, and the mean of equal values is exact
    lowest = float(known.min())
    mean = lowest + math.fsum(known - lowest) / len(known)
    reach = float(np.abs(known - mean).max())
    return {"mean": mean, "reach": reach or 1.0}
