"""`chaffinch shuffle`, and `chaffinch.shuffle_pieces`: tables in random order on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from chaffinch.errors import InputError, as_input_error
from chaffinch.storage.shuffled.row_blocks import Kind, Piece, by_names
from chaffinch.storage.shuffled.table import ShuffledTable
from chaffinch.storage.shuffled.writer import (
    are_parquet,
    shuffle_parquet,
    shuffle_svmlight,
    write_shuffled,
)
from chaffinch.storage.sources.formats.file_name import find_format
from chaffinch.storage.sources.formats.parquet import PARQUET
from chaffinch.storage.sources.formats.svmlight import SVMLIGHT
from chaffinch.tasks.pipeline.progress import OnProgress, as_progress, no_progress
from chaffinch.tasks.selection.dfs.sources import read_rows
from chaffinch.tasks.selection.input_checks import read_target
from chaffinch.tasks.settings.descent import ShuffleSettings

SHUFFLE = "shuffle_rows"
_PARQUET, _SVMLIGHT = "Parquet", "text in the format of svmlight"
_FOR = {
    _PARQUET: ("target", "drop", "sparse"),
    _SVMLIGHT: ("zero_based", "n_columns", "dtype"),
}


def shuffle_files(
    files: Sequence[str],
    path: str | Path,
    settings: ShuffleSettings,
    *,
    on_progress: OnProgress = no_progress,
) -> ShuffledTable:
    """Write files as a table in random order; their first bytes decide how they are read."""
    parquet = are_parquet(files)
    if not parquet:
        _refuse_other_formats(files)
    _check_for(_PARQUET if parquet else _SVMLIGHT, settings)
    with as_progress(on_progress).stage(SHUFFLE):
        if parquet:
            table = shuffle_parquet(
                files,
                path,
                target=str(settings.target),
                drop=settings.drop,
                sparse=settings.sparse,
                seed=settings.seed,
                block_rows=settings.block_rows,
            )
        else:
            table = shuffle_svmlight(
                files,
                path,
                zero_based=bool(settings.zero_based),
                n_columns=settings.n_columns,
                dtype=settings.dtype or "float64",
                seed=settings.seed,
                block_rows=settings.block_rows,
            )
    return table


def _refuse_other_formats(files: Sequence[str]) -> None:
    """Refuse files of another format by their names; .txt is svmlight, too."""
    for file in files:
        name = Path(file).name
        format_ = None if name.lower().endswith((".txt", ".txt.gz")) else find_format(name)
        if format_ not in (None, PARQUET, SVMLIGHT):
            raise InputError(
                f"{name} is {format_.name} by its name, but shuffle reads Parquet and {_SVMLIGHT}; "
                "write it as Parquet"
            )


def _check_for(form: str, settings: ShuffleSettings) -> None:
    """Refuse settings of the other format, and missing ones that the files do not have."""
    if form == _PARQUET and settings.target is None:
        raise InputError(
            "target must be named, as the files are Parquet; name the column to predict, as in "
            "--target price"
        )
    if form == _SVMLIGHT and settings.zero_based is None:
        raise InputError(
            f"zero_based must be given, as {_SVMLIGHT} does not show it: give --zero-based where "
            "columns are counted from 0, or --one-based"
        )
    (other,) = set(_FOR) - {form}
    for name in _FOR[other]:
        if getattr(settings, name) != ShuffleSettings.model_fields[name].default:
            raise InputError(f"{name} is for {other} but the files are {form}; leave it out")


def shuffle_pieces(
    pieces: Iterable[tuple[Any, ArrayLike]],
    path: str | Path,
    *,
    seed: int = 0,
    block_rows: int | None = None,
) -> ShuffledTable:
    """Write a table that comes in pieces as a table in random order.

    Parameters
    ----------
    pieces : iterable of (X, y)
        Arrays (n, D) or scipy sparse matrices, all of one kind, each with a target (n,). For a
        table in memory pass ``[(X, y)]``. float32 stays float32, any other number becomes
        float64; duplicate sparse entries are summed, as in scipy.
    path, seed, block_rows
        See `shuffle_svmlight`.

    Returns
    -------
    ShuffledTable
        See `open_shuffled`.

    Raises
    ------
    InputError
        If a piece is no (X, y), no table of finite numbers, has masked values, differs from the
        first in kind or column names, or has not one target per row.
    StorageError
        If the device is full or fails.
    """
    return write_shuffled(_given_pieces(pieces), Kind(), path, seed, block_rows)


def _given_pieces(pieces: Iterable[tuple[Any, ArrayLike]]) -> Iterator[Piece]:
    n_before, first_names = 0, None
    for number, (X, y) in enumerate(_pairs(pieces), 1):
        columns = getattr(X, "columns", None)
        if columns is not None:
            first_names = _check_same(list(columns), first_names)
        if getattr(X, "shape", (1,))[:1] == (0,):
            continue
        with as_input_error(f"piece {number}: "):
            rows = read_rows(X)
            target = read_target(y, rows.shape[0])
        yield Piece(rows, target, partial(_row_after, n_before), by_names(columns))
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
    """Return the names of the first piece that has any, if these are equal to them."""
    if first is None or names == first or len(names) != len(first):
        return first or names  # a different number of columns is refused with the rows
    at = next(i for i, (name, other) in enumerate(zip(names, first, strict=True)) if name != other)
    raise InputError(
        f"column {at} of a piece is {names[at]!r} but {first[at]!r} in the first; give every piece "
        "the same columns in the same order"
    )


def _row_after(n_before: int, row: int) -> str:
    return f"row {n_before + row + 1}"
