"""Read numbers from Parquet and svmlight files in chunks."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.shuffled.row_blocks import MOST_COLUMNS, NameRow, Piece, by_names
from chaffinch.storage.shuffled.table import check_not_shuffled
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.formats.parquet import WIDE, reading_parquet
from chaffinch.storage.sources.source import check_same_columns

_LARGEST_WHOLE = 2**53  # largest n such that float64 holds 0..n exactly
# Each read has an overhead of about a hundred values per column, so fewer rows are not worth it.
_VALUES_AT_A_TIME, _FEWEST_ROWS, _MOST_ROWS = 2**21, 128, 65_536


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file of the user."""
    with (
        reading(path),
        reading_parquet(path.name),
        pyarrow.parquet.ParquetFile(path, pre_buffer=False, **WIDE) as file,
    ):
        check_not_shuffled(file, path)
        yield file


def common_type(schema: pa.Schema, names: Sequence[str]) -> np.dtype[Any]:
    """Return float32 if every column is float32, otherwise float64."""
    if not names:
        raise InputError("the table has no columns but the target; give at least one")
    for name in names:
        kind = schema.field(name).type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        if not (is_number or pa.types.is_boolean(kind) or pa.types.is_decimal(kind)):
            raise InputError(
                f"column {name!r} must hold numbers but is {kind}; make numbers of it, or drop it"
            )
    return np.dtype("f4" if all(schema.field(n).type == pa.float32() for n in names) else "f8")


def parquet_pieces(
    files: Sequence[Path],
    schema: pa.Schema,
    names: Sequence[str],
    target: str,
    dtype: Any,
    *,
    sparse: bool,
) -> Iterator[Piece]:
    """Yield the rows of Parquet files with the same schema, in chunks."""
    pieces = _sparse if sparse else _dense
    for path in files:
        n_before = 0
        with opened(path) as file:
            check_same_columns(schema, files[0].name, file.schema_arrow, path.name)
            for X, y in pieces(file, names, target, dtype, path.name):
                yield Piece(X, y, partial(_row, path.name, n_before), by_names(names))
                n_before += len(y)


def _dense(
    file: Any, names: Sequence[str], target: str, dtype: Any, called: str
) -> Iterator[tuple[Any, NDArray[Any]]]:
    n_at_a_time = min(max(_FEWEST_ROWS, _VALUES_AT_A_TIME // len(names)), _MOST_ROWS)
    n_before = 0
    columns = [*names, target]
    for batch in file.iter_batches(n_at_a_time, columns=columns, use_threads=False):
        X = _filled(batch, names, dtype, partial(_row, called, n_before))
        yield X, _target(batch.column(target))
        n_before += batch.num_rows


def _sparse(
    file: Any, names: Sequence[str], target: str, dtype: Any, called: str
) -> Iterator[tuple[Any, NDArray[Any]]]:
    """Yield row groups; columns are read a few at a time.

    Opening all columns of a wide file at once takes 20 kB per column.
    """
    n_before = 0
    for group in range(file.num_row_groups):
        n_rows = file.metadata.row_group(group).num_rows
        n_at_a_time = max(1, _VALUES_AT_A_TIME // max(1, n_rows))
        parts = []
        for first in range(0, len(names), n_at_a_time):
            some = names[first : first + n_at_a_time]
            table = file.read_row_group(group, columns=some, use_threads=False).combine_chunks()
            X = _filled(table, some, dtype, partial(_row, called, n_before))
            parts.append(scipy.sparse.csr_array(X))
        y = file.read_row_group(group, columns=[target], use_threads=False).combine_chunks()
        yield scipy.sparse.hstack(parts, format="csr"), _target(_whole(y.column(target)))
        n_before += n_rows


def _filled(rows: Any, names: Sequence[str], dtype: Any, name_row: NameRow) -> NDArray[Any]:
    X = np.empty((rows.num_rows, len(names)), dtype)
    for place, name in enumerate(names):
        X[:, place] = _numbers(name, _whole(rows.column(name)), name_row)
    return X


def _whole(column: Any) -> pa.Array:
    """Return a column of a batch, or of a one-chunk table, as an array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _numbers(name: str, column: pa.Array, name_row: NameRow) -> NDArray[Any]:
    if pa.types.is_integer(column.type):
        _check_whole(name, column, name_row)
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    # missing values become NaN, which is refused with the column name
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _check_whole(name: str, column: pa.Array, name_row: NameRow) -> None:
    """Refuse whole numbers that float64 cannot hold; identifiers are often that large."""
    ends = pc.min_max(column).as_py()
    if not any(end is not None and abs(end) > _LARGEST_WHOLE for end in ends.values()):
        return
    values = enumerate(column.to_pylist())
    row, value = next((i, v) for i, v in values if v is not None and abs(v) > _LARGEST_WHOLE)
    raise InputError(
        f"{name_row(row)} has {value} in column {name!r}, a whole number beyond {_LARGEST_WHOLE} "
        "that would be rounded; drop the column if it is an identifier, or write it as float64"
    )


def _target(column: pa.Array) -> NDArray[Any]:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    target: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return target


def _row(name: str, n_before: int, row: int) -> str:
    return f"row {n_before + row + 1} of {name}"


_BYTES_AT_A_TIME = 2**24
_SHOWN = 80
_GZIP = b"\x1f\x8b"
_COMPRESSED = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\3\4": "zip"}
_UNUSABLE = (ValueError, OverflowError, IndexError)  # raised by scikit-learn for a bad line


def svmlight_pieces(source: Path, zero_based: bool, dtype: np.dtype[Any]) -> Iterator[Piece]:
    """Yield the rows of a file, plain or .gz, about 16 MB of text at a time."""
    n_before = 0
    for lines in _whole_lines(source):
        try:
            X, y = _parsed(lines, zero_based, dtype)
        except _UNUSABLE as error:
            where, why = _first_unusable(lines, zero_based, dtype)
            raise InputError(f"line {n_before + where} of {source.name} {why}") from error
        names = _Names(source.name, lines, n_before)
        if not np.isfinite(X.data).all() and dtype == np.float32:
            _check_fits(X, _parsed(lines, zero_based, np.float64)[0], names, zero_based)
        yield Piece(scipy.sparse.csr_array(X), y, names, partial(_number, zero_based))
        n_before += lines.count(b"\n")


class _Names:
    """Names the line of a row in the source file."""

    def __init__(self, name: str, lines: bytes, n_before: int) -> None:
        self._name, self._lines, self._n_before = name, lines, n_before

    def __call__(self, row: int) -> str:
        lines = enumerate(self._lines.split(b"\n"), start=1)
        of_rows = (number for number, line in lines if line.partition(b"#")[0].split())
        number = next(islice(of_rows, row, None))
        return f"line {self._n_before + number} of {self._name}"


def _number(zero_based: bool, column: int) -> str:
    """Return a column number as the file counts it."""
    return str(column + (not zero_based))


def _whole_lines(source: Path) -> Iterator[bytes]:
    try:
        with _opened(source) as file:
            rest = b""
            while part := file.read(_BYTES_AT_A_TIME):
                whole, newline, rest_of_part = part.rpartition(b"\n")
                if not newline:
                    rest += part
                    continue
                yield rest + whole + newline
                rest = rest_of_part
            if rest:
                yield rest
    except (gzip.BadGzipFile, EOFError, IsADirectoryError, zlib.error) as error:
        raise InputError(f"{source} is no readable text or .gz: {error}") from error


def _opened(source: Path) -> Any:
    """Open text, with gzip if its first bytes or its suffix indicate it."""
    with source.open("rb") as file:
        begins = file.read(8)
    for magic, name in _COMPRESSED.items():
        if begins.startswith(magic):
            raise InputError(f"{source} is compressed by {name}; unpack it, or give it as .gz")
    is_gzip = begins.startswith(_GZIP) or source.suffix.lower() == ".gz"
    return gzip.open(source, "rb") if is_gzip else source.open("rb")


def _parsed(lines: bytes, zero_based: bool, dtype: Any) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(BytesIO(lines), dtype=dtype, zero_based=zero_based)
    return X, y


def _first_unusable(text: bytes, zero_based: bool, dtype: Any) -> tuple[int, str]:
    """Return the 1-based number of the first line that cannot be parsed, and the reason."""
    lines, n_before = text.splitlines(keepends=True), 0
    while len(lines) > 1:
        half = len(lines) // 2
        try:
            _parsed(b"".join(lines[:half]), zero_based, dtype)
        except _UNUSABLE:
            lines = lines[:half]
        else:
            lines, n_before = lines[half:], n_before + half
    try:
        _parsed(lines[0], zero_based, dtype)
    except _UNUSABLE as error:
        return n_before + 1, _why(lines[0], zero_based, str(error))
    return n_before + 1, _why(lines[0], zero_based, "")


def _why(line: bytes, zero_based: bool, message: str) -> str:
    """Return why a line is invalid; scikit-learn's own message names no cause."""
    least = int(not zero_based)
    most = MOST_COLUMNS - 1 + least
    entries = [entry.partition(b":")[0] for entry in line.partition(b"#")[0].split()[1:]]
    for column in (entry.lstrip(b"0") or b"0" for entry in entries if entry.isdigit()):
        if column == b"0" and not zero_based:
            return (
                "has column 0 but columns are counted from 1; set zero_based, by --zero-based, if "
                "they begin at 0"
            )
        if len(column) > len(str(most)) or int(column) > most:
            return (
                f"has column {_shown(column.decode())} but columns must be in {least}..{most}; "
                "correct it"
            )
    return (
        f"cannot be read ({_shown(message)}), as in `1 {least}:0.5`: a label that is a number, "
        "then columns that ascend, each once, with their values; correct it, and number classes"
    )


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _check_fits(X: Any, exact: Any, names: _Names, zero_based: bool) -> None:
    """Refuse values that overflow float32; non-finite values are refused later."""
    wrong = np.isfinite(exact.data) & ~np.isfinite(X.data)
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise InputError(
            f"{names(row)} has {exact.data[entry]:g} in column "
            f"{_number(zero_based, X.indices[entry])}, which float32 cannot hold; set dtype to "
            "float64"
        )
