"""Delimited text: CSV, TSV and semicolons, read by all threads.

Each column has the narrowest type that all its rows allow; integers with leading zeros stay text,
and so do columns of numbers beyond 2^53, of which float64 may lose digits.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from chaffinch.errors import InputError, StorageError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.sources.source import Format, OpenTable
from chaffinch.storage.spilled import SpilledRows


@dataclass(frozen=True)
class _Header:
    """The first line that is not blank."""

    names: list[str]  # the first is empty for an unnamed index of pandas
    delimiter: str
    n_characters: int

    @property
    def columns(self) -> list[str]:
        """Names of the columns without an unnamed index."""
        return self.names if self.names[0] else self.names[1:]


def _read_header(file: Any, name: str) -> _Header:
    """Read the header of an open text file, and no rows."""
    magic = file.read(4)
    file.seek(0)
    if magic == b"PAR1":
        raise InputError(f"{name} is a Parquet file; rename it so that it ends in .parquet")
    if magic[:2] == b"\x1f\x8b" and not name.lower().endswith(".gz"):
        ending = f"{Path(name).suffix.lower()}.gz"
        raise InputError(f"{name} is compressed by gzip; rename it so that it ends in {ending}")
    packed = gzip.GzipFile(fileobj=file) if name.lower().endswith(".gz") else file
    # bytes after the header that are not UTF-8 are found when the rows are read
    text = io.TextIOWrapper(packed, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        with _unpacking(name):
            header = _parse_header(text, name)
    finally:
        text.detach()
    try:
        "".join(header.names).encode()
    except UnicodeEncodeError as error:
        raise InputError(_no_text(name)) from error
    n_unnamed = int(len(header.names) > 1 and not header.names[0])
    check_columns(header.names[n_unnamed:], name, first=1 + n_unnamed)
    return header


@contextmanager
def _unpacking(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name} is damaged ({error}); write it again") from error


def _parse_header(text: io.TextIOWrapper, name: str) -> _Header:
    first = next((line for line in text if line.strip()), "")
    if not first:
        raise InputError(f"{name} is empty; give a header and at least one row")
    if "\0" in first:  # as in UTF-16, and in nearly all files that are no text
        raise InputError(_no_text(name))
    ending = Path(name.lower().removesuffix(".gz")).suffix
    if ending == ".tsv" or (ending == ".txt" and "\t" in first):
        delimiter = "\t"
    else:
        delimiter = ";" if ";" in first and "," not in first else ","
    text.seek(0)  # a name in quotes may contain line breaks
    try:
        names = next(row for row in csv.reader(text, delimiter=delimiter) if row)
    except csv.Error as error:
        raise InputError(f"{name} has no readable header ({error}); correct it") from error
    return _Header(names, delimiter, len(first))


def _no_text(name: str) -> str:
    return f"the header of {name} is not UTF-8 text; save the table as CSV in UTF-8"


# bytes that a thread parses at a time: each block makes a chunk of every column
_LEAST_BLOCK, _MOST_BLOCK, _BYTES_PER_COLUMN = 1 << 20, 1 << 23, 1 << 12
_MOST_GUESSES = 8
_SAMPLE = 1 << 18  # bytes, at each of three places
# pandas takes two words for missing that pyarrow does not
_MISSING = [*pa.csv.ConvertOptions().null_values, "None", "<NA>"]


def _read(
    files: Sequence[Path], categorical: Collection[str], aside: Path | None = None
) -> pa.Table:
    """Read UTF-8 text with a header; `categorical` columns of numbers stay text."""
    (path,) = files
    with _open(path) as text:
        table = _read_guessing(text, categorical, aside)
    _check_utf8(table, text)
    return _without_unnamed_index(table, path.name)


def _column_bytes(files: Iterable[tuple[str, Path]]) -> dict[str, int]:
    """Return the size of each column's fields in bytes, delimiters included."""
    ((_, path),) = files
    with _open(path) as text:
        found = {name: len(name.encode()) + 1 for name in text.names}
        with pa.csv.open_csv(path, **text.options(), convert_options=text.as_it_is) as stream:
            for batch in stream:
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    found[name] += pc.sum(pc.binary_length(column)).as_py() + len(column)
    found.pop("", None)  # an unnamed index
    return found


def _n_rows(file: Any, name: str) -> int:
    """Estimate the number of rows from samples of the text; exact for small files."""
    size: int = file.seek(0, io.SEEK_END)
    starts = (0, size // 2, size - _SAMPLE)
    is_packed = name.lower().endswith(".gz")
    if is_packed or size <= len(starts) * _SAMPLE:
        file.seek(0)
        text = gzip.GzipFile(fileobj=file) if is_packed else file
        with _unpacking(name):
            sample = text.read(len(starts) * _SAMPLE)
            is_whole = not text.read(1)
        if is_whole:
            return max(0, _n_lines(sample) - 1)
        samples, sampled = [sample], int(file.tell())
    else:
        samples, sampled = [], int(len(starts) * _SAMPLE)
        for start in starts:
            file.seek(start)
            samples.append(file.read(_SAMPLE))
    n_lines = sum(map(_n_lines, samples))
    return round(n_lines * size / sampled)


def _n_lines(text: bytes) -> int:
    """Count lines that are not blank; a line break in quotes is none."""
    return len(re.findall(rb"[^\r\n]+", re.sub(rb'"[^"]*"', b"0", text)))


DELIMITED = Format(
    name="delimited text",
    listed=".csv, .tsv, .txt (each plain or .gz)",
    endings=(".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
    read=_read,
    columns=lambda file, name: _read_header(file, name).columns,
    column_bytes=_column_bytes,
    open=lambda *arguments: OpenTable.of(_read(*arguments)),
    n_rows=_n_rows,
    has_types=False,
)


@dataclass(frozen=True)
class _Text:
    """A text file and how to parse it."""

    path: Path
    delimiter: str
    names: list[str]
    block: int  # bytes

    @property
    def as_it_is(self) -> pa.csv.ConvertOptions:
        return pa.csv.ConvertOptions(column_types=dict.fromkeys(self.names, pa.binary()))

    def read(self, **conversion: Any) -> pa.Table:
        return pa.csv.read_csv(self.path, **self.options(), convert_options=_conversion(conversion))

    def options(self) -> dict[str, Any]:
        return {
            "read_options": pa.csv.ReadOptions(block_size=self.block),
            "parse_options": pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
        }


def _conversion(options: dict[str, Any]) -> pa.csv.ConvertOptions:
    return pa.csv.ConvertOptions(strings_can_be_null=True, null_values=_MISSING, **options)


@contextmanager
def _open(path: Path) -> Iterator[_Text]:
    """Read the header, and raise errors inside as InputError."""
    try:
        with path.open("rb") as file:
            header = _read_header(file, path.name)
        block = min(max(_LEAST_BLOCK, _BYTES_PER_COLUMN * len(header.names)), _MOST_BLOCK)
        # a row must fit into a block, and very wide tables have very long headers
        text = _Text(path, header.delimiter, header.names, max(block, 16 * header.n_characters))
        yield text
    except pa.ArrowInvalid as error:
        raise InputError(_first_bad_row(text, error)) from error
    except (PermissionError, StorageError):
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise_if_out_of_memory(error)
        raise InputError(f"{path.name} is damaged ({error}); write it again") from error


def _read_guessing(text: _Text, categorical: Collection[str], aside: Path | None) -> pa.Table:
    """Read with the types of the first block; read again where a later row has another type.

    pyarrow alone would hold the whole text until every type is certain.
    """
    with pa.csv.open_csv(text.path, **text.options(), convert_options=_conversion({})) as stream:
        types = {field.name: field.type for field in stream.schema}
    doubtful = {name for name, kind in types.items() if pa.types.is_null(kind)}
    certain: set[str] = set()
    while True:
        if doubtful:
            # the types that every row allows: a pass over the file
            some = [name for name in text.names if name in doubtful]
            types |= {field.name: field.type for field in text.read(include_columns=some).schema}
            pa.default_memory_pool().release_unused()
            certain |= doubtful
        try:
            table, inexact, others = _read_typed(text, _with_text(types, categorical), aside)
        except pa.ArrowInvalid as error:
            column = re.match(r"In CSV column #(\d+)", str(error))
            if not column or text.names[int(column[1])] in certain:
                raise
            few = len(certain) < _MOST_GUESSES
            doubtful = {text.names[int(column[1])]} if few else set(text.names)
            continue
        if table is not None:
            return table
        doubtful = others - certain
        types |= dict.fromkeys(inexact | (others & certain), pa.string())


def _with_text(
    types: dict[str, pa.DataType], categorical: Collection[str]
) -> dict[str, pa.DataType]:
    """Return the types, with text for categories whose spelling would be lost."""
    loses = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)

    def is_text(name: str, kind: pa.DataType) -> bool:
        # no model takes a time of day, but its text is a category
        return pa.types.is_time(kind) or (name in categorical and any(is_(kind) for is_ in loses))

    return {name: pa.string() if is_text(name, kind) else kind for name, kind in types.items()}


def _read_typed(
    text: _Text, types: dict[str, pa.DataType], aside: Path | None
) -> tuple[pa.Table | None, set[str], set[str]]:
    """Read with these types; integers are read as text first, to find leading zeros.

    Returns no table but the columns whose digits would be lost, as of integers with leading zeros,
    and those of integers that hold others.
    """
    schema = pa.schema(types.items())
    whole = {i: field.name for i, field in enumerate(schema) if pa.types.is_integer(field.type)}
    as_read = types | dict.fromkeys(whole.values(), pa.string())
    conversion = _conversion({"column_types": as_read})
    rows = SpilledRows(aside, lambda tables: pa.concat_tables([*tables] or [schema.empty_table()]))
    real = {i: field.name for i, field in enumerate(schema) if pa.types.is_floating(field.type)}
    inexact: set[str] = set()
    others: set[str] = set()
    with pa.csv.open_csv(text.path, **text.options(), convert_options=conversion) as stream:
        for batch in stream:
            columns = batch.columns
            for i, name in whole.items():
                try:
                    columns[i], has_zeros = _whole_numbers(columns[i])
                except pa.ArrowInvalid:
                    others.add(name)
                else:
                    inexact |= {name} if has_zeros else set()
            inexact |= {name for i, name in real.items() if _may_be_rounded(columns[i])}
            if inexact or others:
                rows.clear()  # to be read again
            else:
                rows.append(pa.table(columns, schema=schema))
    if inexact or others:
        return None, inexact, others
    return rows.table(), inexact, others


def _may_be_rounded(numbers: pa.DoubleArray) -> bool:
    """Return whether a number is so large that it may have been a whole one of more digits."""
    ends = pc.min_max(numbers).as_py()
    largest = 0.0 if ends["max"] is None else max(-ends["min"], ends["max"])
    return 2.0**53 <= largest < math.inf  # what is infinite is refused as such


def _whole_numbers(texts: pa.StringArray) -> tuple[pa.Int64Array, bool]:
    """Return integers, and whether any has leading zeros."""
    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        texts = pc.utf8_trim_whitespace(texts)
        numbers = texts.cast(pa.int64())
    zeros = pc.starts_with(texts, "0")
    if pc.any(zeros).as_py():
        zeros = pc.and_(zeros, pc.greater(pc.binary_length(texts), 1))
    return numbers, bool(pc.any(zeros).as_py())


def _first_bad_row(text: _Text, error: pa.ArrowInvalid) -> str:
    """Return the message for text that cannot be parsed; only one thread counts rows."""
    options = text.options()
    options["read_options"].use_threads = False
    try:
        with pa.csv.open_csv(text.path, **options, convert_options=text.as_it_is) as stream:
            for _ in stream:
                pass
    except pa.ArrowInvalid as counted:
        error = counted
    if "straddling" in str(error):
        return (
            f"a row of {text.path.name} is longer than {text.block} bytes; "
            "correct it, perhaps a quote is never closed"
        )
    found = re.match(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
    if not found:
        return f"{text.path.name} cannot be read ({shorten(str(error), 200)}); correct it"
    row, expected, actual = map(int, found.groups())
    return (
        f"row {row - 1} of {text.path.name} must have {expected} fields as the header but has "
        f"{actual}; correct it, or quote fields that hold {text.delimiter!r}"
    )


def _without_unnamed_index(table: pa.Table, name: str) -> pa.Table:
    """Leave out the first column if its name is empty and its values are unique."""
    if table.column_names[0]:
        return table
    if pc.count_distinct(table.column(0), mode="all").as_py() < len(table):
        raise InputError(f"column 1 of {name} has no name; give it one or remove it")
    return table.remove_column(0)


def _check_utf8(table: pa.Table, text: _Text) -> None:
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            row = next(i for i, v in enumerate(column, start=1) if not _is_utf8(v.as_py()))
            raise InputError(
                f"row {row} of column {name!r} of {text.path.name} is not UTF-8; save it as UTF-8"
            )


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
