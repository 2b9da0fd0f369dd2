"""Tables in memory: pandas, polars, Arrow, and others with the Arrow stream interface."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Collection, Container
from dataclasses import dataclass
from datetime import date, datetime, time
from functools import cached_property
from numbers import Integral, Number
from textwrap import shorten
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, about_column, raise_if_out_of_memory, short_repr
from chaffinch.storage.column_names import check_columns, text_of_label
from chaffinch.storage.sources.formats.file_name import TAKEN
from chaffinch.storage.sources.formats.parquet import without_unnamed_index
from chaffinch.storage.sources.source import Source

_ONE_TYPE = "give each column values of one type"
_DAY, _WITH_ZONE, _WITHOUT_ZONE = "day", "with zone", "without zone"


@dataclass(frozen=True, eq=False)
class MemorySource(Source):
    """A table in memory; other objects are refused when they are read."""

    table: Any  # or what becomes one: a lazy table, a data set, a reader of batches
    label = "the table"

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        return cls(data) if scheme is None else None

    @property
    def name(self) -> str:
        return "DataFrame" if type(self.table).__name__ == "DataFrame" else "Table"

    @cached_property
    def _computed(self) -> Any:
        return computed(self.table)

    def shape(self) -> tuple[int, int] | None:
        shape = getattr(self.table, "shape", None)
        if not isinstance(shape, tuple) or len(shape) != 2:
            return None
        return shape if all(isinstance(n, int) for n in shape) else None  # of a lazy table, unknown

    def check(self) -> None:
        _check_is_table(self._computed)

    def load(self, categorical: Collection[str], drop: Container[str]) -> pa.Table:
        try:
            table = as_arrow(self._computed, drop)
        except InputError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise_if_out_of_memory(error)
            reasons = "; ".join(shorten(str(arg), 200, placeholder="...") for arg in error.args)
            if (unreadable := _first_unreadable(self._computed, drop)) is not None:
                with about_column(unreadable[0]):
                    raise _refusal(*unreadable, reasons) from error
            raise InputError(f"the table cannot be read ({reasons})", _ONE_TYPE) from error
        # Arrow may fail to join a column that has empty chunks
        columns = [
            pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)
            for column in table.columns
        ]
        return pa.table(columns, names=table.column_names)


def computed(table: Any) -> Any:
    """Return a table; a lazy one, a data set and a reader of batches are read into memory."""
    if (method := computed_by(table)) is not None:
        return getattr(table, method)()
    own = getattr(table, "modin", None)  # Modin keeps what is its own under its name
    return table if own is None else own.to_pandas()


def computed_by(table: Any) -> str | None:
    """Return the method that reads a table into memory; None where it is there, or has none."""
    if isinstance(table, pa.RecordBatchReader):  # its rows can be read once
        return "read_all"
    if hasattr(table, "__arrow_c_stream__"):
        return None
    return next((name for name in _COMPUTE if callable(getattr(table, name, None))), None)


_COMPUTE = ("toArrow", "collect", "compute", "to_table")  # of Spark, polars, Dask, data sets
# Methods of objects that are no tables -> what they are
_BECOME_TABLES = {
    "to_frame": "a column",
    "toarray": "a sparse matrix",
    "to_dataframe": "an array with labels",
    "to_arrow": "a table of another library",  # such as cuDF
}


def _check_is_table(table: Any) -> None:
    """Raise InputError for what is no table, with the method that makes it a table."""
    is_column = callable(getattr(table, "to_frame", None))
    if hasattr(table, "__arrow_c_stream__") and not is_column:
        return
    name = type(table).__name__
    for method, kind in _BECOME_TABLES.items():
        if callable(getattr(table, method, None)):
            row = ", or .to_frame().T of a row" if is_column else ""
            raise InputError(
                f"a source must be a table but is {kind}, {name}; give its .{method}(){row}"
            )
    is_values = isinstance(table, list | tuple | dict) or hasattr(table, "__array__")
    remedy = "; give one table, as by pandas.DataFrame, or one folder" if is_values else ""
    raise InputError(f"a source must be {TAKEN} but is {name}{remedy}")


def named_levels(frame: Any, drop: Container[str] = ()) -> Any:
    """Return the named levels of the index of a pandas table as a frame; a range is none.

    A level that holds the same as a column, or as a level before, of its name is left out.
    InputError if it holds something else, unless the name is among those to drop.
    """
    import pandas

    places = {text_of_label(label): j for j, label in enumerate(frame.columns)}
    levels: dict[str, Any] = {}
    for j, label in enumerate(frame.index.names):
        if label is None or isinstance(frame.index, pandas.RangeIndex):
            continue
        name, level = text_of_label(label), frame.index.get_level_values(j)
        if name not in levels and name not in places:
            levels[name] = level
        elif name not in drop:
            of_name = levels[name] if name in levels else frame.iloc[:, places[name]]
            with about_column(name):
                _check_equal(name, pandas.Index(of_name), level)
    return pandas.DataFrame(levels)


def _check_equal(name: str, column: Any, level: Any) -> None:
    if level.equals(column):
        return
    for here, there, *lack in zip(column, level, column.isna(), level.isna(), strict=True):
        if lack[0] != lack[1] or (not lack[0] and here != there):
            raise InputError(
                f"column {name!r} holds {short_repr(here)} where the index of that name holds "
                f"{short_repr(there)}",
                "rename the index by table.index.names, or leave it out by "
                "table.reset_index(drop=True)",
            )


def _with_types_of_arrow(frame: Any) -> Any:
    """Return a frame of pandas with types that Arrow takes as they are meant.

    Periods become their starts, sparse columns dense, and days among times their midnights.
    """
    import pandas

    typed = frame.copy(deep=False)
    for j, (label, dtype) in enumerate(frame.dtypes.items()):
        if isinstance(dtype, pandas.PeriodDtype):
            typed.isetitem(j, frame.iloc[:, j].dt.to_timestamp())
        elif isinstance(dtype, pandas.SparseDtype):
            typed.isetitem(j, frame.iloc[:, j].sparse.to_dense())
        elif pandas.api.types.is_object_dtype(dtype):
            times = _with_times_of_one_kind(text_of_label(label), frame.iloc[:, j])
            if times is not None:
                typed.isetitem(j, times)
    return typed


def _with_times_of_one_kind(name: str, column: Any) -> Any:
    """Return a column of days and times as times, at midnight for the days; None for any other.

    After a day Arrow would cut times to days. Beside times with a zone it would take those without
    one as UTC; they raise InputError.
    """
    import pandas

    if pandas.api.types.infer_dtype(column) not in ("date", "datetime", "mixed"):
        return None
    first: dict[str, tuple[int, date]] = {}  # of each kind
    for row, value in enumerate(column, 1):
        if value is not pandas.NaT and isinstance(value, date):
            first.setdefault(_kind_of_time(value), (row, value))
    if len(first) > 1 and _WITH_ZONE in first:
        row, value = first.pop(_WITH_ZONE)
        other_row, other = next(iter(first.values()))
        with about_column(name):
            raise InputError(
                f"column {name!r} holds {str(value)!r} in row {row} but {str(other)!r} in row "
                f"{other_row}, without a zone",
                "give all of them a zone, as by pandas.to_datetime(column, utc=True), or none",
            )
    return column.map(_midnight, na_action="ignore") if len(first) > 1 else None


def _kind_of_time(value: date) -> str:
    if not isinstance(value, datetime):
        return _DAY
    return _WITHOUT_ZONE if value.tzinfo is None else _WITH_ZONE


def _midnight(value: Any) -> Any:
    """Return a day as a time; other values are refused by the conversion to Arrow."""
    is_day = isinstance(value, date) and not isinstance(value, datetime)
    return datetime.combine(value, time()) if is_day else value


def as_arrow(table: Any, drop: Container[str] = ()) -> pa.Table:
    """Return a table in memory as Arrow; columns to drop of a pandas table have no values."""
    _check_is_table(table)
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
            columns, kept, dropped = [], [], []
            for frame in (table, named_levels(table, drop)):
                labels = [*map(text_of_label, frame.columns)]
                rest = frame.loc[:, [label not in drop for label in labels]]
                arrow = without_unnamed_index(_from_pandas(_with_types_of_arrow(rest)))
                columns += arrow.columns
                kept += arrow.column_names
                dropped += [label for label in labels if label in drop]
            columns += [pa.nulls(len(table))] * len(dropped)
            return pa.table(columns, names=[*kept, *dropped])
    if polars is not None and isinstance(table, polars.DataFrame):
        names = repr(table.schema)
        if "\\x00" in names:  # to export such a name would end the process
            raise InputError("a column name holds the character of code 0; rename the column")
        table = table.with_columns(
            column.cast(polars.String)  # Arrow has no such type; the digits are typed as text is
            for column in table.iter_columns()
            if str(column.dtype) in ("Int128", "UInt128")
        )
    return pa.table(table)


def _first_unreadable(table: Any, drop: Container[str]) -> tuple[str, Any] | None:
    """Return the first column of a pandas table that Arrow cannot hold, and its name, or None."""
    for label in getattr(table, "columns", ()) if hasattr(table, "iloc") else ():
        name = text_of_label(label)
        try:
            if name not in drop:
                pa.Array.from_pandas(table[label])
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            return name, table[label]
    return None


def _refusal(name: str, column: Any, reasons: str) -> InputError:
    """Return the error of a pandas column, with the first value and the first of another type."""
    pairs = zip(column, column.notna(), strict=True)
    values = {row: value for row, (value, is_there) in enumerate(pairs, 1) if is_there}
    row = next(iter(values), 0)
    if row and isinstance(values[row], complex):
        return InputError(
            f"column {name!r} holds complex numbers, such as {values[row]} in row {row}",
            "give the real and the imaginary part as columns of their own",
        )
    kinds = {row: _kind(value) for row, value in values.items()}
    other = next((i for i, kind in kinds.items() if kind is not kinds[row]), None)
    if other is None:
        return InputError(f"the table cannot be read ({reasons})", _ONE_TYPE)
    return InputError(
        f"column {name!r} holds {short_repr(values[row])} in row {row} but "
        f"{short_repr(values[other])} in row {other}",
        "give it values of one type",
    )


def _kind(value: Any) -> type:
    is_number = isinstance(value, Number) and not isinstance(value, bool)
    return Number if is_number else type(value)


def _from_pandas(frame: Any) -> pa.Table:
    """Return a pandas frame as Arrow; whole numbers beyond int64 become text."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except OverflowError:
        frame = frame.copy(deep=False)
        for place, dtype in enumerate(frame.dtypes):
            column = frame.iloc[:, place]
            if dtype.kind == "O" and any(map(_is_beyond_int64, column)):
                frame.isetitem(place, column.map(_digits, na_action="ignore"))
        return pa.Table.from_pandas(frame, preserve_index=False)


def _is_beyond_int64(value: Any) -> bool:
    return isinstance(value, int) and not -(2**63) <= value < 2**63


def _digits(value: Any) -> Any:
    """Return a whole number as text; other values are refused by the conversion to Arrow."""
    return str(value) if isinstance(value, Integral) and not isinstance(value, bool) else value
