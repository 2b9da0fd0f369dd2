"""Three ways to a table in random order: from text in svmlight's format, Parquet, or pieces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from chaffinch.storage.errors import InputError
from chaffinch.storage.names import check_columns, check_known
from chaffinch.storage.parquet import parquet_files
from chaffinch.storage.parquet_pieces import common_type, opened, parquet_pieces
from chaffinch.storage.pieces import Kind, Piece
from chaffinch.storage.row_checks import by_names
from chaffinch.storage.shuffled_tables import ShuffledTable
from chaffinch.storage.shuffled_writing import write_shuffled
from chaffinch.storage.sources import reading
from chaffinch.storage.svmlight import svmlight_pieces


def shuffle_svmlight(
    source: str | Path,
    path: str | Path,
    *,
    zero_based: bool,
    n_columns: int | None = None,
    dtype: Literal["float32", "float64"] = "float64",
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write a text file in the format of svmlight and libsvm as a sparse table in random order.

    Parameters
    ----------
    source : path
        The file, plain or .gz; it is read once, 16 MB at a time. Labels are numbers; of classes,
        number them, and give task="classification" to whoever reads the table.
    path : path
        Where to write; what is there already is replaced, once all is written. As much again is
        needed beside it on the way.
    zero_based : bool
        Whether columns are counted from 0 in the file, or from 1.
    n_columns : int, optional
        D; by default up to the last column that has a value. Give it where several files belong
        together.
    dtype : "float32" or "float64"
        How values are kept.
    seed : int, at least 0
        Decides the order of the rows.
    block_rows : int, at least 1000, optional
        Rows of a block, at least; by default about two million values.

    Raises
    ------
    InputError
        If there is no such file, or, naming the line, it cannot be used: unsorted columns or one
        that comes twice, a column out of range, a label that is no number, a value not finite.
    StorageError
        If the device is full or fails.
    """
    source = Path(source)
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype must be float32 or float64 but is {dtype!r}")
    kind = Kind(n_columns, may_grow=True)
    with reading(source):
        _check_another_place(source, [source], path)
        pieces = svmlight_pieces(source, zero_based, np.dtype(dtype))
        return write_shuffled(pieces, kind, path, seed, block_rows)


def shuffle_parquet(
    source: str | Path,
    path: str | Path,
    *,
    target: str,
    drop: Collection[str] = (),
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write a Parquet file, or a folder of them, of numbers as a dense table in random order.

    Parameters
    ----------
    source : path
        The file or folder; it is read once, some rows at a time. Rows may be sorted as they like.
        Whole numbers and true and false are taken for numbers; where every column is float32 the
        table is.
    path, seed, block_rows
        See `shuffle_svmlight`.
    target : str
        Its column: numbers, true and false, or text.
    drop : collection of str
        Columns that are left out.

    Raises
    ------
    InputError
        If there is no such file or column, a column holds no numbers or whole ones beyond 2^53, or
        a value is missing.
    StorageError
        If the device is full or fails.
    """
    source = Path(source)
    with reading(source):
        files = parquet_files(source) if source.is_dir() else [source]
        _check_another_place(source, files, path)
        with opened(files[0]) as first:
            schema = first.schema_arrow
        check_columns(schema.names, files[0].name)
        check_known([target, *drop], schema.names)
        names = [name for name in schema.names if name != target and name not in drop]
        dtype = common_type(schema, names)
        pieces = parquet_pieces(files, schema, names, target, dtype)
        return write_shuffled(pieces, Kind(), path, seed, block_rows, names)


def shuffle_pieces(
    pieces: Iterable[tuple[Any, ArrayLike]],
    path: str | Path,
    *,
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write pieces of a table that come one after the other as a table in random order.

    Parameters
    ----------
    pieces : iterable of (X, y)
        Arrays (n, D) or scipy sparse matrices, all of one kind, with a target (n,) each. Of a
        table in memory give ``[(X, y)]``. float32 stays float32, any other number becomes float64;
        of a sparse entry that comes twice the sum counts, as in scipy.
    path, seed, block_rows
        See `shuffle_svmlight`.

    Raises
    ------
    InputError
        If a piece is no table of finite numbers, differs from the first in kind, or has not one
        target a row.
    StorageError
        If the device is full or fails.
    """
    return write_shuffled(_given_pieces(pieces), Kind(), path, seed, block_rows)


def _check_another_place(source: Path, files: Sequence[Path], path: str | Path) -> None:
    """Refuse to write where the source is read from: it has names and rows that are left out."""
    if Path(path).resolve() in {file.resolve() for file in (source, *files)}:
        raise InputError(f"{path} is the source itself, which would be lost; name another path")


def _given_pieces(pieces: Iterable[tuple[Any, ArrayLike]]) -> Iterator[Piece]:
    n_before = 0
    for X, y in pieces:
        rows = _rows_of(X)
        if rows.dtype.kind not in "biuf" or len(rows.shape) != 2:
            raise InputError(
                f"a piece must be a table of numbers but is {rows.dtype} of shape {rows.shape}; "
                "give each as (X, y)"
            )
        rows = rows.astype(np.float32 if rows.dtype == np.float32 else np.float64, copy=False)
        names = by_names(getattr(X, "columns", None))
        yield Piece(rows, np.asarray(y), partial(_row_after, n_before), names)
        n_before += rows.shape[0]


def _rows_of(X: Any) -> Any:
    """Return an array as it is, and sparse rows compressed, sorted and without doubles."""
    if not scipy.sparse.issparse(X):
        return np.asarray(X)
    given: Any = X
    rows = given.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _row_after(n_before: int, row: int) -> str:
    return f"row {n_before + row + 1}"
