"""Parts of dates as numbers, and the places of cyclical ones on a circle, as sine and cosine."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError
from chaffinch.storage.datasets.column_types import TIMESTAMP

_NUMBER = {"year": pc.year, "month": pc.month, "weekday": pc.day_of_week, "hour": pc.hour}
_PERIODS = {"month": 12, "weekday": 7, "hour": 24}  # Monday is weekday 0
_DIGITS = 12  # so that sines are the same on every machine
PARTS = ("year", *(f"{part}{of}" for part in _PERIODS for of in ("", "_sin", "_cos")))


def made_names(columns: Iterable[str]) -> Iterator[str]:
    """Yield what the parts of columns are called."""
    return (f"{name}_{part}" for name in columns for part in PARTS)


def date_part(column: pa.Array, part: str) -> pa.Array:
    """Return one of the `PARTS` of a column of timestamps."""
    part, _, of = part.partition("_")
    number = _NUMBER[part](column)
    if not of:
        return number.cast(pa.int64())
    angle = pc.multiply(number.cast(pa.float64()), 2 * math.pi / _PERIODS[part])
    return pc.round({"sin": pc.sin, "cos": pc.cos}[of](angle), _DIGITS)


def with_parts(
    columns: Iterable[tuple[str, pa.Array]],
    whole: Collection[str],
    names: Collection[str],
    drop: Collection[str],
) -> Iterator[tuple[str, pa.Array]]:
    """Yield typed columns, and after each of dates those of its parts that vary.

    Columns that are `whole` have another role. InputError if the name of a part is one of the
    table's `names`; a part is not made if it is one of those to `drop`.
    """
    for name, column in columns:
        yield name, column
        if column.type != TIMESTAMP or name in whole:
            continue
        for made, part in zip(made_names([name]), PARTS, strict=True):
            if made in drop:
                continue
            values = date_part(column, part)
            if pc.count_distinct(values).as_py() < 2:
                continue
            if made in names:
                raise InputError(
                    f"dates make a column {made!r} but the table has one; rename it, or drop it"
                )
            yield made, values
