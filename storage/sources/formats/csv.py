"""Delimited text: CSV, TSV and other separators, read by all threads.

Each column has the narrowest type that all its rows allow. What may be read wrongly stays text, to
be typed as text of every source is: integers with leading zeros, numbers beyond 2^53, and numbers
whose points may mark thousands. Options behind the path say how text is written (`TextOptions`).
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import math
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from chaffinch.errors import InputError, StorageError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.sources.formats.text_options import (
    DELIMITERS,
    TextOptions,
    are_perhaps_thousands,
    dates_of_all,
)
from chaffinch.storage.sources.source import Format, OpenTable, check_same_columns
from chaffinch.storage.spilled import SpilledRows


@dataclass(frozen=True)
class _Header:
    """The first line that is not blank."""

    names: list[str]  # the first is empty for an unnamed index of pandas
    delimiter: str
    n_characters: int
    n_above: int  # lines above it
    n_filled_above: int  # of these, those with text

    @property
    def columns(self) -> list[str]:
        """Names of the columns without an unnamed index."""
        return self.names if self.names[0] else self.names[1:]


def _read_header(file: Any, name: str, options: TextOptions) -> _Header:
    """Read the header of an open text file, and no rows."""
    magic = file.read(4)
    file.seek(0)
    if magic[:3] == codecs.BOM_UTF8 and not options.is_utf8:
        raise InputError(
            f"{name} begins with the mark of UTF-8; leave out encoding={options.encoding}"
        )
    if magic == b"PAR1":
        raise InputError(f"{name} is a Parquet file; rename it so that it ends in .parquet")
    if magic[:2] == b"\x1f\x8b" and not name.lower().endswith(".gz"):
        ending = f"{Path(name).suffix.lower()}.gz"
        raise InputError(f"{name} is compressed by gzip; rename it so that it ends in {ending}")
    packed = gzip.GzipFile(fileobj=file) if name.lower().endswith(".gz") else file
    with _unpacking(name):
        mark = packed.read(2)
        packed.seek(0)
    codec = codecs.lookup(options.encoding).name
    if mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and not codec.startswith("utf-16"):
        raise InputError(
            f"{name} begins with the mark of UTF-16; give its encoding, as in {name}"
            "#encoding=utf-16"
        )
    encoding = "utf-8-sig" if options.is_utf8 else options.encoding
    # bytes after the header that are not UTF-8 raise when the rows are read
    text = io.TextIOWrapper(packed, encoding, errors="surrogateescape", newline="")
    try:
        with _unpacking(name):
            header = _parse_header(text, name, options)
    except UnicodeError as error:
        raise InputError(_no_text(name, options)) from error
    finally:
        text.detach()
    try:
        "".join(header.names).encode()
    except UnicodeEncodeError as error:
        raise InputError(_no_text(name, options)) from error
    n_unnamed = int(len(header.names) > 1 and not header.names[0])
    check_columns(header.names[n_unnamed:], name, first=1 + n_unnamed)
    return header


@contextmanager
def _unpacking(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name} is damaged ({error}); write it again") from error


def _parse_header(text: io.TextIOWrapper, name: str, options: TextOptions) -> _Header:
    lines, n_above, n_filled, delimiter = iter(text), 0, 0, options.delimiter
    for first in lines:
        if mark := re.fullmatch(r'"?sep=(.)"?', first.strip("\r\n"), re.IGNORECASE):
            delimiter = delimiter or mark[1]  # a line for Excel
        elif first.strip() and not (options.comment and first.startswith(options.comment)):
            break
        n_above, n_filled = n_above + 1, n_filled + bool(first.strip())
    else:
        raise InputError(f"{name} is empty; give a header and at least one row")
    if "\0" in first:  # as in UTF-16, and in nearly all files that are no text
        raise InputError(_no_text(name, options))
    ending = Path(name.lower().removesuffix(".gz")).suffix
    plain = re.sub(r'"[^"]*("|$)', "", first)  # a mark in quotes separates nothing
    if not delimiter and (ending == ".tsv" or (ending == ".txt" and "\t" in first)):
        delimiter = "\t"
    elif not delimiter:
        delimiter = next((mark for mark in DELIMITERS if mark in plain and "," not in plain), ",")
    rest = chain([first], lines)  # a name in quotes may contain line breaks
    try:
        names = next(csv.reader(rest, delimiter=delimiter))
    except csv.Error as error:
        raise InputError(f"{name} has no readable header ({error}); correct it") from error
    return _Header(names, delimiter, len(first), n_above, n_filled)


def _no_text(name: str, options: TextOptions) -> str:
    if not options.is_utf8:
        return f"the header of {name} is not text in {options.encoding}; give its encoding"
    return (
        f"the header of {name} is not UTF-8 text; save the table as CSV in UTF-8, or give its "
        f"encoding, as in {name}#encoding=cp1252"
    )


# bytes that a thread parses at a time: each block makes a chunk of every column
_LEAST_BLOCK, _MOST_BLOCK, _BYTES_PER_COLUMN = 1 << 20, 1 << 23, 1 << 12
_SAMPLE = 1 << 18  # bytes, at each of three places
_NEARLY = 1e-6  # a product by 1,000 is rounded
# pandas takes two words for missing that pyarrow does not
MISSING = [*pa.csv.ConvertOptions().null_values, "None", "<NA>"]
_TRUTH = [*pa.csv.ConvertOptions().true_values, *pa.csv.ConvertOptions().false_values]
# The types of columns, in the order in which they are tried. Categories stay text,
# but for dates of a format that is given.
_Kinds = tuple[pa.DataType, ...]
_DATES: _Kinds = (
    pa.date32(),
    *(pa.timestamp(unit, zone) for zone in (None, "UTC") for unit in ("s", "ns")),
)
_KINDS: _Kinds = (pa.null(), pa.int64(), pa.float64(), pa.bool_(), *_DATES, pa.string())


def _read(
    files: Mapping[str, Path],
    categorical: Collection[str],
    aside: Path | None,
    *,
    options: TextOptions,
) -> pa.Table:
    """Read text with a header; `categorical` columns of numbers stay text."""
    texts = _open_all(files, options)
    return _without_unnamed_index(*_read_typed(texts, categorical, aside))


def _column_bytes(files: Iterable[tuple[str, Path]], *, options: TextOptions) -> dict[str, int]:
    """Return the size of each column's fields in bytes, delimiters included."""
    sizes: Counter[str] = Counter()
    for text in _open_all(dict(files), options).values():
        sizes.update({name: len(name.encode()) + 1 for name in text.names})
        with text.batches(text.as_it_is) as batches:
            for batch in batches:
                for name, column in zip(batch.schema.names, batch.columns, strict=True):
                    sizes[name] += pc.sum(pc.binary_length(column)).as_py() + len(column)
    sizes.pop("", None)  # an unnamed index
    return sizes


def _n_rows(file: Any, name: str, *, options: TextOptions) -> int:
    """Estimate the number of rows from samples of the text; exact for small files."""
    n_above = _read_header(file, name, options).n_filled_above
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
            return max(0, _n_lines(sample) - n_above - 1)
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
    text = text.replace(b"\0", b"")  # of UTF-16
    return len(re.findall(rb"[^\r\n]+", re.sub(rb'"[^"]*"', b"0", text)))


def _delimited(options: TextOptions) -> Format:
    return Format(
        name="delimited text",
        listed=".csv, .tsv, .txt (each plain or .gz)",
        endings=(".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz"),
        columns=lambda file, name: _read_header(file, name, options).columns,
        column_bytes=partial(_column_bytes, options=options),
        open=lambda *arguments: OpenTable.of(_read(*arguments, options=options)),
        n_rows=partial(_n_rows, options=options),
        has_types=False,
        with_options=lambda text, name: _delimited(TextOptions.parse(text, name)),
    )


DELIMITED = _delimited(TextOptions())


@dataclass(frozen=True)
class _Text:
    """A text file and how to parse it."""

    name: str
    path: Path
    delimiter: str
    names: list[str]
    block: int  # bytes
    n_above: int  # lines above the header
    options: TextOptions

    @property
    def as_it_is(self) -> pa.csv.ConvertOptions:
        return pa.csv.ConvertOptions(column_types=dict.fromkeys(self.names, pa.binary()))

    @contextmanager
    def batches(self, conversion: pa.csv.ConvertOptions) -> Iterator[Any]:
        """Give the rows in batches, and raise errors inside as InputError."""
        with _reading(self.name):
            try:
                with self.stream(conversion) as stream:
                    yield stream
            except pa.ArrowInvalid as error:
                raise InputError(_first_bad_row(self, error)) from error

    def stream(self, conversion: pa.csv.ConvertOptions, use_threads: bool = True) -> Any:
        return pa.csv.open_csv(
            self.path,
            pa.csv.ReadOptions(
                block_size=self.block,
                encoding="utf8" if self.options.is_utf8 else self.options.encoding,
                skip_rows=self.n_above,
                use_threads=use_threads,
            ),
            pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            conversion,
        )


@contextmanager
def _reading(name: str) -> Iterator[None]:
    try:
        yield
    except (PermissionError, StorageError):
        raise
    except (OSError, EOFError, zlib.error) as error:
        raise_if_out_of_memory(error)
        raise InputError(f"{name} is damaged ({error}); write it again") from error


def _open_all(files: Mapping[str, Path], options: TextOptions) -> dict[str, _Text]:
    """Read the headers of text files, which must be alike."""
    texts = {name: _open(name, path, options) for name, path in files.items()}
    first, *_ = texts
    schemas = {name: pa.schema([(n, pa.string()) for n in texts[name].names]) for name in texts}
    for name, schema in schemas.items():
        check_same_columns(schemas[first], first, schema, name)
    return texts


def _open(name: str, path: Path, options: TextOptions) -> _Text:
    """Read the header of a text file."""
    with _reading(name), path.open("rb") as file:
        header = _read_header(file, name, options)
    block = min(max(_LEAST_BLOCK, _BYTES_PER_COLUMN * len(header.names)), _MOST_BLOCK)
    # a row must fit into a block, and very wide tables have very long headers
    block = max(block, 16 * header.n_characters)
    return _Text(name, path, header.delimiter, header.names, block, header.n_above, options)


def _read_typed(
    texts: Mapping[str, _Text], categorical: Collection[str], aside: Path | None
) -> tuple[pa.Table, Mapping[str, int]]:
    """Read the fields as text, each column in the first type that all its values allow.

    The rows are read again if a later value changes a type: the text of all would take more memory.
    Returned is also the number of rows of each text.
    """
    first, *_ = texts.values()
    names, options = first.names, first.options
    nulls: dict[str, Any] = {
        "strings_can_be_null": True,
        "null_values": [*MISSING, *options.missing],
    }
    guess, conversion = (
        pa.csv.ConvertOptions(column_types=types, **nulls)
        for types in ({}, dict.fromkeys(names, pa.string()))
    )
    # a guess by the usual spelling is none of another
    of_categories = (pa.null(), *(_DATES if options.date_format else ()), pa.string())
    is_usual = not (options.has_own_numbers or options.date_format)
    with first.batches(guess) as batches:
        kinds = [
            _types_from(
                of_categories if field.name in categorical else _KINDS,
                _first_tried(field.type) if is_usual else pa.null(),
            )
            for field in batches.schema  # of the first block
        ]
    empty = pa.table({name: pa.nulls(0) for name in names})
    while True:
        rows = SpilledRows(aside, lambda tables: pa.concat_tables([*tables] or [empty]))
        of_kept, is_whole, n_rows = None, True, dict.fromkeys(texts, 0)
        for file, text in texts.items():
            with text.batches(conversion) as batches:
                for batch in batches:
                    pairs = list(map(partial(_converted, options), batch.columns, kinds))
                    kinds = [left for _, left in pairs]
                    of_kept = of_kept or kinds
                    is_whole = is_whole and kinds == of_kept
                    n_rows[file] += len(batch)
                    if is_whole:
                        rows.append(pa.table([column for column, _ in pairs], names=names))
                    else:
                        rows.clear()
        if is_whole:
            break
    table = rows.table()
    for place, name in enumerate(names):
        column = table.column(place)
        if not pa.types.is_string(column.type):
            continue
        if options.date_format:
            table = table.set_column(place, name, options.with_iso_dates(column))
        if options.has_own_numbers and name not in categorical:
            column = options.with_usual_numbers(table.column(place), name, n_rows)
            table = table.set_column(place, name, column)
    return table, n_rows


def _first_tried(guess: pa.DataType) -> pa.DataType:
    """Return the first type to try: what is guessed to be decimals may be whole, with a plus."""
    return pa.int64() if pa.types.is_floating(guess) else guess


def _types_from(kinds: _Kinds, first: pa.DataType) -> _Kinds:
    return kinds[kinds.index(first) if first in kinds else -1 :]


def _converted(
    options: TextOptions, texts: pa.StringArray, kinds: _Kinds
) -> tuple[pa.Array, _Kinds]:
    """Return a column in the first of the types that all its values allow, and the types left."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), kinds[0]), kinds
    if options.date_format:  # dates of digits alone are no numbers
        with suppress(pa.ArrowInvalid):
            dates = dates_of_all(texts, options.date_format)
            if dates.type in kinds:
                return dates, kinds[kinds.index(dates.type) :]
    for place, kind in enumerate(kinds[:-1]):
        with suppress(pa.ArrowInvalid, pa.ArrowNotImplementedError):  # no text becomes null
            values = _as(_usual(texts, kind, options), kind, options)
            if pa.types.is_integer(kind) and _have_leading_zeros(texts):
                break
            if options.hold_dates(texts):
                break  # whether it is a column of dates, all of its values tell
            return values, kinds[place:]
    return texts, kinds[-1:]


def _usual(texts: pa.StringArray, kind: pa.DataType, options: TextOptions) -> pa.Array:
    """Return texts of a type in the spelling that a cast takes; others raise ArrowInvalid."""
    if options.has_own_numbers and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        if not pc.all(pc.match_substring_regex(texts, options.number)).as_py():
            raise pa.ArrowInvalid("no numbers in the marks of this file")
        texts = pc.replace_substring(texts, options.thousands, "") if options.thousands else texts
        texts = pc.replace_substring(texts, options.decimal, ".")
    return texts


def _as(texts: pa.StringArray, kind: pa.DataType, options: TextOptions) -> pa.Array:
    """Return texts in a type; raise ArrowInvalid if a text is not of it, or may lose digits."""
    if pa.types.is_boolean(kind):
        is_word = pc.is_in(texts.drop_null(), pa.array(_TRUTH))
        if not pc.all(is_word).as_py():
            raise pa.ArrowInvalid("another spelling, such as tRue, which a cast would take")
    try:
        values = texts.cast(kind)
    except pa.ArrowInvalid:
        if pa.types.is_timestamp(kind):  # with blanks around it, it is text in every source
            raise
        texts = pc.utf8_trim_whitespace(texts)
        if pa.types.is_integer(kind):  # a cast to decimals takes +1, and one to whole numbers none
            texts = pc.replace_substring_regex(texts, r"^\+(\d)", r"\1")
        values = texts.cast(kind)
    if pa.types.is_floating(kind):
        ends = pc.min_max(values).as_py()
        largest = 0.0 if ends["max"] is None else max(-ends["min"], ends["max"])
        if 2.0**53 <= largest < math.inf:  # what is infinite is refused as such
            raise pa.ArrowInvalid("perhaps a whole number of more digits")
        is_sure = largest >= 1000 or options.decimal != "."
        if not is_sure and _are_thousandths(values) and are_perhaps_thousands(texts):
            raise pa.ArrowInvalid("perhaps whole numbers with points as marks of thousands")
    return values


def _are_thousandths(values: pa.Array) -> bool:
    thousands = 1000 * values.drop_null().to_numpy()
    return bool((np.abs(thousands - np.rint(thousands)) < _NEARLY).all())


def _have_leading_zeros(whole_numbers: pa.StringArray) -> bool:
    digits = pc.ascii_ltrim(whole_numbers, characters="-+ \t\r\n\f\v")
    after = digits.filter(pc.starts_with(digits, "0"))
    return bool(pc.any(pc.greater(pc.binary_length(after), 1)).as_py())


def _first_bad_row(text: _Text, error: pa.ArrowInvalid) -> str:
    """Return the message for text that cannot be read; only one thread counts rows."""
    n_before = 0
    try:
        with text.stream(text.as_it_is, use_threads=False) as stream:
            for batch in stream:
                for name, column in zip(text.names, batch.columns, strict=True):
                    try:
                        column.cast(pa.string())
                    except pa.ArrowInvalid:
                        values = column.to_pylist()
                        row = next(i for i, v in enumerate(values, n_before + 1) if not _is_utf8(v))
                        return (
                            f"row {row} of column {name!r} of {text.name} is not UTF-8; "
                            f"save it as UTF-8, or give its encoding, as in {text.name}"
                            "#encoding=cp1252"
                        )
                n_before += len(batch)
    except pa.ArrowInvalid as counted:
        error = counted
    if "straddling" in str(error):
        return (
            f"a row of {text.name} is longer than {text.block} bytes; "
            "correct it, perhaps a quote is never closed"
        )
    match = re.match(r"CSV parse error: Row #(\d+): Expected (\d+) columns, got (\d+)", str(error))
    if not match:
        return f"{text.name} cannot be read ({shorten(str(error), 200)}); correct it"
    row, expected, actual = map(int, match.groups())
    row -= text.n_above
    held = "" if text.options.delimiter else "".join(text.names)
    options = (option for mark, option in DELIMITERS.items() if mark in held)
    others = "".join(f", or add #delimiter={option} to the path" for option in options)
    return (
        f"row {row - 1} of {text.name} must have {expected} fields as the header but has "
        f"{actual}; correct it, or quote fields that hold {text.delimiter!r}{others}"
    )


def _without_unnamed_index(table: pa.Table, n_rows: Mapping[str, int]) -> pa.Table:
    """Leave out the first column if its name is empty and its values are those of an index.

    `n_rows` has the number of rows of each file.
    """
    if table.column_names[0]:
        return table
    index, start = table.column(0), 0
    for name, n in n_rows.items():
        of_file = index.slice(start, n)
        is_unique = pc.count_distinct(of_file, mode="all").as_py() == n
        if not is_unique or pa.types.is_floating(index.type):
            raise InputError(f"column 1 of {name} has no name; give it one or remove it")
        start += n
    return table.remove_column(0)


def _is_utf8(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
