"""Parts of dates of newer rows, made as those of the rows of the selection were."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import pyarrow as pa

from chaffinch.errors import InputError, about_column, short_repr
from chaffinch.storage.datasets.column_types import (
    TIMESTAMP,
    decoded,
    has_zone,
    is_text,
    type_columns,
)
from chaffinch.storage.datasets.date_parts import date_part
from chaffinch.storage.datasets.text_spellings import are_iso_dates


def with_date_features(
    table: pa.Table, made_of: Mapping[str, str], zones: Mapping[str, bool]
) -> pa.Table:
    """Return a table with the parts that it lacks, by their names, of the columns of dates it has.

    InputError for a column that holds no dates. `zones` are the columns whose times had a zone at
    the selection, or had none; a warning names what is other now.
    """
    warn_of_zones(table, zones)
    for name, column in made_of.items():
        if name not in table.column_names and column in table.column_names:
            values = date_part(_dates(table, column), name.removeprefix(f"{column}_"))
            table = table.append_column(name, values)
    return table


def warn_of_zones(table: pa.Table, zones: Mapping[str, bool]) -> None:
    """Warn of columns of times with a zone that had none at the selection, and the reverse."""
    for name, before in zones.items():
        now = has_zone(table.column(name)) if name in table.column_names else None
        if now is not None and now != before:
            held, had = ("with", "had none") if now else ("without", "had one")
            warnings.warn(
                f"column {name!r} holds times {held} a zone, and {had} at the selection, so that "
                "hours and days may be others; give them as they were",
                UserWarning,
                stacklevel=2,
            )


def _dates(table: pa.Table, name: str) -> pa.Array:
    held = table.column(name)
    if pa.types.is_dictionary(held.type):  # as pandas reads the folders of partitions
        held = decoded(held)
    if held.null_count == len(held):
        return pa.nulls(len(held), TIMESTAMP)
    typed = type_columns(pa.table({name: held}), has_others=True).column(0)
    if typed.type != TIMESTAMP:
        row, value = _first_other(held)
        with about_column(name):
            raise InputError(
                f"column {name!r} must hold dates, as at the selection, but row {row} holds "
                f"{short_repr(value)}",
                "write all as 2023-01-31",
            )
    return typed.combine_chunks()


def _first_other(column: pa.ChunkedArray) -> tuple[int, object]:
    """Return the row, counted from 1, and the value of the first that is no date."""
    present = [(row, value) for row, value in enumerate(column.to_pylist(), 1) if value is not None]
    if is_text(column.type):
        is_date = are_iso_dates(pa.array([text for _, text in present]), ordered=True)
        others = [cell for cell, known in zip(present, is_date, strict=True) if not known]
        present = others or present
    return present[0]
