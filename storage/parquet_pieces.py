"""Numbers in Parquet files, read piece by piece."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.storage.parquet import WIDE, check_same_columns
from chaffinch.storage.pieces import Piece
from chaffinch.storage.row_checks import NameRow, by_names
from chaffinch.storage.shuffled_tables import check_not_shuffled
from chaffinch.storage.sources import reading

_LARGEST_WHOLE = 2**53  # that float64 holds with all those below
# A read costs as much for each column as a hundred values do, so that fewer rows are not worth it.
_VALUES_AT_A_TIME, _FEWEST_ROWS, _MOST_ROWS = 2**21, 128, 65_536


@contextmanager
def opened(path: Path) -> Iterator[Any]:
    """Open a Parquet file that somebody gave.

    Raises
    ------
    InputError
        If it is none, not there, or a table in random order already.
    """
    with reading(path):
        try:
            with pyarrow.parquet.ParquetFile(path, pre_buffer=False, **WIDE) as file:
                check_not_shuffled(file, path)
                yield file
        except (MemoryError, PermissionError, InputError):
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path.name} is no readable Parquet file: {error}") from error


def common_type(schema: pa.Schema, names: Sequence[str]) -> np.dtype[Any]:
    """Return float32 if that is what every column is, otherwise float64.

    Raises
    ------
    InputError
        If there are no columns, or one holds no numbers.
    """
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
    """Yield the rows of Parquet files of one schema, some at a time.

    Parameters
    ----------
    files : sequence of Path
    schema : pyarrow.Schema
        Of the first.
    names : sequence of str
        Columns of numbers.
    target : str
    dtype : numpy.dtype
        What the numbers become.
    sparse : bool
        Whether zeros are left out.

    Raises
    ------
    InputError
        If a file cannot be read or has other columns, a value is missing, or a whole number is one
        that float64 would change.
    """
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
    """Yield some rows with all their columns at a time."""
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
    """Yield a row group at a time, of which some columns are read after the other.

    To have all columns of a wide file open at once takes 20 kB for each.
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
    """Return a column of a batch, or of a table of one chunk, as one array."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _numbers(name: str, column: pa.Array, name_row: NameRow) -> NDArray[Any]:
    if pa.types.is_integer(column.type):
        _check_whole(name, column, name_row)
    if not pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    # what is missing becomes NaN, which is refused by name
    numbers: NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return numbers


def _check_whole(name: str, column: pa.Array, name_row: NameRow) -> None:
    """Refuse whole numbers that float64 does not hold, as identifiers often are."""
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
