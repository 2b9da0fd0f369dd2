"""Delimited text: CSV and its relatives, read by all threads with types that every row allows."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from chaffinch.storage.errors import InputError
from chaffinch.storage.names import check_columns

ENDINGS = (".csv", ".tsv", ".txt")

# bytes a thread parses at a time: each block makes a chunk of every column, and some are in work
_LEAST_BLOCK, _MOST_BLOCK, _BYTES_PER_COLUMN = 1 << 20, 1 << 23, 1 << 12
_MOST_GUESSES = 8
_WHOLE_OR_DECIMAL_COMMA = r"^\s*[+-]?(\d+|\d*,\d+)\s*$"


def read_delimited(path: Path, kind: str) -> pa.Table:
    """Read a text file with a header line.

    Parameters
    ----------
    path : Path
        UTF-8 text; unpacked on the way where it ends in ``.gz``.
    kind : ".csv", ".tsv" or ".txt"
        Fields are parted by tabs in .tsv, and in .txt with a tab in the header; otherwise by
        commas, or by semicolons if the header has those and no comma.

    Returns
    -------
    pyarrow.Table
        Columns typed by all their rows; see Notes of `chaffinch.storage.sources.read_source`.

    Raises
    ------
    InputError
        If it is empty, damaged or not UTF-8, or a row has too few or too many fields.
    """
    try:
        text = _open(path, kind)
        table = _read_guessing(text)
    except pa.ArrowInvalid as error:
        raise InputError(_first_bad_row(text, error)) from error
    except PermissionError:
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{path.name} is damaged ({error}); write it again") from error
    _check_values(table, text)
    return table


@dataclass(frozen=True)
class _Text:
    """A text file and what its header says."""

    path: Path
    delimiter: str
    names: list[str]
    block: int

    def read(self, **conversion: Any) -> pa.Table:
        return pa.csv.read_csv(self.path, **self.options(), convert_options=_conversion(conversion))

    def options(self, **parsing: Any) -> dict[str, Any]:
        return {
            "read_options": pa.csv.ReadOptions(block_size=self.block),
            "parse_options": pa.csv.ParseOptions(
                delimiter=self.delimiter, newlines_in_values=True, **parsing
            ),
        }


def _conversion(options: dict[str, Any]) -> pa.csv.ConvertOptions:
    return pa.csv.ConvertOptions(strings_can_be_null=True, **options)


def _open(path: Path, kind: str) -> _Text:
    open_text = gzip.open if path.suffix.lower() == ".gz" else open
    # bytes that are no UTF-8 may follow the header: read_delimited finds their row
    with open_text(path, "rt", encoding="utf-8-sig", errors="surrogateescape", newline="") as text:
        first = next((line for line in text if line.strip()), "")
        if not first:
            raise InputError(f"{path.name} is empty; give a header and at least one row")
        if kind == ".tsv" or (kind == ".txt" and "\t" in first):
            delimiter = "\t"
        else:
            delimiter = ";" if ";" in first and "," not in first else ","
        text.seek(0)
        try:
            names = next(row for row in csv.reader(text, delimiter=delimiter) if row)
        except csv.Error as error:
            raise InputError(f"{path.name} has no readable header ({error}); mend it") from error
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"the header of {path.name} is not UTF-8; save it as UTF-8") from error
    check_columns(names, path.name)
    block = min(max(_LEAST_BLOCK, _BYTES_PER_COLUMN * len(names)), _MOST_BLOCK)
    # a row must fit into a block, and very wide tables have very long headers
    return _Text(path, delimiter, names, max(block, 16 * len(first)))


def _read_guessing(text: _Text) -> pa.Table:
    """Read with the types of the first block, and mend the guess where a later row differs.

    Left to itself, pyarrow holds the whole text until every type is certain.
    """
    with pa.csv.open_csv(text.path, **text.options(), convert_options=_conversion({})) as stream:
        types = {field.name: field.type for field in stream.schema}
    doubtful = [name for name, kind in types.items() if pa.types.is_null(kind)]
    for _ in range(_MOST_GUESSES):
        if doubtful:
            types |= {f.name: f.type for f in text.read(include_columns=doubtful).schema}
        pa.default_memory_pool().release_unused()
        try:
            return text.read(column_types=types)
        except pa.ArrowInvalid as error:
            column = re.match(r"In CSV column #(\d+)", str(error))
            if not column:
                raise
            doubtful = [text.names[int(column[1])]]
    return text.read()


def _first_bad_row(text: _Text, error: pa.ArrowInvalid) -> str:
    """Return the message for text that cannot be parsed; only one thread counts its rows."""
    found: list[Any] = []

    def note(row: Any) -> str:
        found.append(row)
        return "error"

    options = text.options(invalid_row_handler=note)
    options["read_options"].use_threads = False
    with suppress(pa.ArrowInvalid), pa.csv.open_csv(text.path, **options) as stream:
        for _ in stream:
            pass
    if "straddling" in str(error):
        return (
            f"a row of {text.path.name} is longer than {text.block} bytes; "
            "mend it, perhaps a quote is never closed"
        )
    if not found:
        return f"{text.path.name} cannot be read ({error}); mend it"
    row = found[0]
    return (
        f"row {row.number - 1} of {text.path.name} must have {row.expected_columns} fields as the "
        f"header but has {row.actual_columns}; mend it, or quote fields that hold "
        f"{text.delimiter!r}"
    )


def _check_values(table: pa.Table, text: _Text) -> None:
    """Refuse what would pass for text unnoticed: other encodings, and decimal commas."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_binary(column.type):
            row = next(i for i, v in enumerate(column, start=1) if not _is_utf8(v.as_py()))
            raise InputError(
                f"row {row} of column {name!r} of {text.path.name} is not UTF-8; save it as UTF-8"
            )
        if text.delimiter == ";" and pa.types.is_string(column.type):
            is_number = pc.match_substring_regex(column, _WHOLE_OR_DECIMAL_COMMA)
            if pc.all(is_number).as_py():
                raise InputError(
                    f"column {name!r} of {text.path.name} is written with decimal commas; "
                    "save it with decimal points"
                )


def _is_utf8(value: bytes | None) -> bool:
    try:
        (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True
