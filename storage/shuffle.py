"""Three ways to a table in random order: from text in svmlight's format, Parquet, or pieces."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from chaffinch.storage.addresses import place_of
from chaffinch.storage.errors import InputError
from chaffinch.storage.given_arrays import check_no_mask, target_array
from chaffinch.storage.names import check_columns, check_known
from chaffinch.storage.parquet import begins_as_parquet, parquet_files
from chaffinch.storage.parquet_pieces import common_type, opened, parquet_pieces
from chaffinch.storage.paths import path_from
from chaffinch.storage.pieces import Kind, Piece
from chaffinch.storage.row_checks import by_names
from chaffinch.storage.shuffled_tables import ShuffledTable
from chaffinch.storage.shuffled_writing import write_shuffled
from chaffinch.storage.sources import reading, source_name
from chaffinch.storage.svmlight import svmlight_pieces

Sources = str | Path | Sequence[str | Path]


def shuffle_svmlight(
    source: Sources,
    path: str | Path,
    *,
    zero_based: bool,
    n_columns: int | None = None,
    dtype: Literal["float32", "float64"] = "float64",
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write text in the format of svmlight and libsvm as a sparse table in random order.

    Parameters
    ----------
    source : path, or sequence of paths
        Files, plain or .gz, one after the other; each is read once, 16 MB at a time. Labels are
        numbers; of classes, number them, and give task="classification" to whoever reads the table.
    path : path
        Where to write; what is there already is replaced, once all is written. As much again is
        needed beside it on the way.
    zero_based : bool
        Whether columns are counted from 0 in the file, or from 1.
    n_columns : int, optional
        D; by default up to the last column that has a value. Give it where several tables belong
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
    files = _paths(source)
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype must be float32 or float64 but is {dtype!r}")
    kind = Kind(n_columns, may_grow=True)
    _check_another_place(files, path)
    pieces = _of_texts(files, zero_based, np.dtype(dtype))
    counted_from: Literal[0, 1] = 0 if zero_based else 1
    return write_shuffled(pieces, kind, path, seed, block_rows, counted_from=counted_from)


def shuffle_parquet(
    source: Sources,
    path: str | Path,
    *,
    target: str,
    drop: Collection[str] = (),
    sparse: bool = False,
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write Parquet files, or folders of them, of numbers as a table in random order.

    Parameters
    ----------
    source : path, or sequence of paths
        Files or folders, all of one schema; each is read once, some rows at a time. Rows may be
        sorted as they like. Whole numbers and true and false are taken for numbers; where every
        column is float32 the table is.
    path, seed, block_rows
        See `shuffle_svmlight`.
    target : str
        Its column: numbers, true and false, or text.
    drop : collection of str
        Columns that are left out.
    sparse : bool
        Whether zeros are left out: for tables that are wide and mostly zeros, of which a block
        would otherwise take 1,024 D numbers of memory at least.

    Raises
    ------
    InputError
        If there is no such file or column, it is a table in random order already, the target is
        dropped, a column holds no numbers or whole ones beyond 2^53, or a value is missing.
    StorageError
        If the device is full or fails.
    """
    sources = _paths(source)
    files: list[Path] = []
    for one in sources:
        with reading(one):
            files += parquet_files(one) if one.is_dir() else [one]
    _check_another_place([*sources, *files], path)
    with opened(files[0]) as first:
        schema = first.schema_arrow
    check_columns(schema.names, files[0].name)
    check_known([target, *drop], schema.names)
    if target in drop:
        raise InputError(f"{target!r} is the target and cannot be dropped; leave it out of drop")
    names = [name for name in schema.names if name != target and name not in drop]
    dtype = common_type(schema, names)
    pieces = parquet_pieces(files, schema, names, target, dtype, sparse=sparse)
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
        If pieces are no (X, y), or one is no table of finite numbers, has masked values, differs
        from the first in kind or in the names of its columns, or has not one target a row.
    StorageError
        If the device is full or fails.
    """
    return write_shuffled(_given_pieces(pieces), Kind(), path, seed, block_rows)


def are_parquet(source: Sources) -> bool:
    """Return whether files begin as Parquet does, or are folders, rather than text.

    Parameters
    ----------
    source
        See `shuffle_svmlight`.

    Raises
    ------
    InputError
        If some are and some are not, or one cannot be read.
    """
    files = _paths(source)
    found = [_is_parquet(file) for file in files]
    if len(set(found)) > 1:
        yes, no = files[found.index(True)], files[found.index(False)]
        raise InputError(f"{yes.name} is Parquet but {no.name} is not; give files of one format")
    return found[0]


def _is_parquet(path: Path) -> bool:
    with reading(path):
        return path.is_dir() or begins_as_parquet(path)


def _paths(source: Sources) -> list[Path]:
    """Return one path or several as paths on this disk, all of which are there.

    Raises
    ------
    InputError
        If there are none, one is elsewhere, or there is no such file.
    """
    given = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not given:
        raise InputError("the source must be at least one file but is none; name one")
    files: list[Path] = []
    for one in given:
        place = place_of(one)
        if not isinstance(place, Path):
            raise InputError(
                f"{source_name(one)} must be a file on this disk, as it is read piece by piece, "
                "but is elsewhere or none; copy it here first"
            )
        with reading(place):
            files.append(place)
    return files


def _check_another_place(files: Sequence[Path], path: str | Path) -> None:
    """Refuse to write where the source is read from: it has names and rows that are left out."""
    if path_from(path, "the table").resolve() in {file.resolve() for file in files}:
        raise InputError(f"{path} is the source itself, which would be lost; name another path")


def _of_texts(files: Iterable[Path], zero_based: bool, dtype: np.dtype[Any]) -> Iterator[Piece]:
    for file in files:
        with reading(file):
            yield from svmlight_pieces(file, zero_based, dtype)


def _given_pieces(pieces: Iterable[tuple[Any, ArrayLike]]) -> Iterator[Piece]:
    n_before, first_names = 0, None
    for X, y in _pairs(pieces):
        rows, columns = _rows_of(X), getattr(X, "columns", None)
        if columns is not None:
            first_names = _check_same(list(columns), first_names)
        if rows.dtype.kind not in "biuf" or len(rows.shape) != 2 or not rows.shape[1]:
            raise InputError(
                f"a piece must be a table of numbers but is {rows.dtype} of shape {rows.shape}; "
                "give each as (X, y)"
            )
        rows = rows.astype(np.float32 if rows.dtype == np.float32 else np.float64, copy=False)
        yield Piece(rows, target_array(y), partial(_row_after, n_before), by_names(columns))
        n_before += rows.shape[0]


def _pairs(pieces: Iterable[tuple[Any, ArrayLike]]) -> Iterator[tuple[Any, ArrayLike]]:
    must = "pieces must be several (X, y), each a table and its target, but"
    remedy = "of one table give [(X, y)]"
    if isinstance(pieces, str) or not isinstance(pieces, Iterable):
        raise InputError(f"{must} are of type {type(pieces).__name__}; {remedy}")
    for piece in pieces:
        if not isinstance(piece, tuple | list) or len(piece) != 2:
            length = f" of length {len(piece)}" if isinstance(piece, tuple | list) else ""
            raise InputError(f"{must} one is of type {type(piece).__name__}{length}; {remedy}")
        yield piece[0], piece[1]


def _check_same(names: list[object], first: list[object] | None) -> list[object]:
    """Return the names of the first piece that has any, if these are the same."""
    if first is None or names == first or len(names) != len(first):
        return first or names  # other numbers of columns are refused with the rows
    at = next(i for i, (one, other) in enumerate(zip(names, first, strict=True)) if one != other)
    raise InputError(
        f"column {at} of a piece is {names[at]!r} but {first[at]!r} in the first; give every piece "
        "the same columns in the same order"
    )


def _rows_of(X: Any) -> Any:
    """Return an array as it is, and sparse rows compressed, sorted and without doubles."""
    if not scipy.sparse.issparse(X):
        remedy = "leave out those rows, or fill them with a value of yours, as by X.filled(0.0)"
        check_no_mask("X of a piece", X, remedy)
        return np.asarray(X)
    given: Any = X
    rows = given.tocsr()
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _row_after(n_before: int, row: int) -> str:
    return f"row {n_before + row + 1}"
