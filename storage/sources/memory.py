"""Tables in memory: pandas, polars, Arrow, and others with the Arrow stream interface."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, Self

import pyarrow as pa

from chaffinch.storage.datasets.column_names import check_columns, text_of_label
from chaffinch.storage.datasets.column_types import whole_number_too_large
from chaffinch.storage.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.sources.formats import TAKEN
from chaffinch.storage.sources.parquet import without_unnamed_index
from chaffinch.storage.sources.source import Source


@dataclass(frozen=True, eq=False)
class MemorySource(Source):
    """A table in memory; other objects are refused when they are read."""

    table: Any
    label = "the table"

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        return cls(data) if scheme is None else None

    @property
    def name(self) -> str:
        return type(self.table).__name__

    def shape(self) -> tuple[int, int] | None:
        shape = getattr(self.table, "shape", None)
        return shape if isinstance(shape, tuple) and len(shape) == 2 else None

    def load(self, categorical: Collection[str], drop: Collection[str]) -> pa.Table:
        try:
            table = _as_arrow(self.table, drop)
        except InputError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise_if_out_of_memory(error)
            if isinstance(error, OverflowError) and (name := _beyond_int64(self.table)) is not None:
                raise whole_number_too_large(name) from error
            reasons = "; ".join(shorten(str(arg), 200, placeholder="...") for arg in error.args)
            raise InputError(
                f"the table cannot be read ({reasons}); give each column values of one type, or "
                "drop the column"
            ) from error
        # Arrow may fail to join a column that has empty chunks
        columns = [
            pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)
            for column in table.columns
        ]
        return pa.table(columns, names=table.column_names)


def _as_arrow(table: Any, drop: Collection[str]) -> pa.Table:
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(table, pa.Table):
        return table
    if pandas is not None and isinstance(table, pandas.DataFrame):
        if named := [name for name in table.columns if isinstance(name, bytes)]:
            raise InputError(f"a column is named by bytes, {named[0]!r}; name it by text")
        check_columns([str(name) for name in table.columns], "the table")
        with warnings.catch_warnings():
            # names of mixed types become text, as every name does here
            warnings.filterwarnings("ignore", "The DataFrame has column names of mixed type")
            warnings.filterwarnings("ignore", "The DataFrame has non-str index name")
            dropped = [name for name in map(text_of_label, table.columns) if name in drop]
            rest = table.loc[:, [text_of_label(name) not in drop for name in table.columns]]
            arrow = without_unnamed_index(pa.Table.from_pandas(rest))
            for name in dropped:
                arrow = arrow.append_column(name, pa.nulls(len(rest)))
            return arrow
    if polars is not None and isinstance(table, polars.DataFrame):
        names = repr(table.schema)
        if "\\x00" in names:  # to export such a name would end the process
            raise InputError("a column name holds the character of code 0; rename the column")
    if hasattr(table, "__arrow_c_stream__"):
        return pa.table(table)
    raise InputError(f"a source must be {TAKEN} but is {type(table).__name__}")


def _beyond_int64(table: Any) -> str | None:
    """Return the first column of a pandas table that holds a whole number beyond int64."""
    for name, column in table.items():
        if column.dtype == object and any(
            isinstance(value, int) and not -(2**63) <= value < 2**63 for value in column
        ):
            return str(name)
    return None
