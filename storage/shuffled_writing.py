"""Writing a table in random order: whole or not at all, in bounded memory, whatever the source."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.errors import InputError
from chaffinch.storage.files import FORMAT_VERSION, locked, to_json, write_file
from chaffinch.storage.paths import file_to_write, path_from
from chaffinch.storage.pieces import Kind, Piece
from chaffinch.storage.shuffled_tables import FOOTER, FORMAT, ShuffledTable, open_shuffled
from chaffinch.storage.shuffling import Shuffled

_VALUES_PER_BLOCK, _FEWEST_ROWS, _MOST_ROWS = 2**21, 1_024, 65_536
_FEWEST_ASKED = 1_000


def write_shuffled(
    pieces: Iterable[Piece],
    kind: Kind,
    path: str | Path,
    seed: int,
    block_rows: int | None,
    columns: Sequence[str] | None = None,
    counted_from: Literal[0, 1] = 0,
) -> ShuffledTable:
    """Write pieces of a table, in a random order, as one file.

    Parameters
    ----------
    pieces : iterable of Piece
        Taken once, one at a time.
    kind : Kind
        What they have in common; fresh.
    path : path
        The file, behind a symbolic link its target; what is there already is replaced, once all is
        written.
    seed : int, at least 0
        Decides the order.
    block_rows : int, at least 1000, optional
        Rows of a block, at least, if there are as many. By default about two million values make
        one, and 1,024 to 65,536 rows.
    columns : sequence of str, optional
        Names.
    counted_from : 0 or 1
        What number the first column has in the source.

    Raises
    ------
    InputError
        If a row cannot be used, there is none, or the folder cannot be written to.
    StorageError
        If the device is full or fails.
    """
    path = file_to_write(path_from(path, "the table"), "the table")
    _check_whole_number("seed", seed, 0)
    if block_rows is not None:
        _check_whole_number("block_rows", block_rows, _FEWEST_ASKED)
    aside = path.with_name(f".aside-{path.name}")

    def write(target: Path) -> None:
        shutil.rmtree(aside, ignore_errors=True)  # of a writer that was killed
        aside.mkdir()
        try:
            shuffled = Shuffled(aside, seed)
            shuffled.scatter(kind.arrow(part) for piece in pieces for part in piece.small_enough())
            named = {"columns": None if columns is None else list(columns)}
            said = {**named, "counted_from": counted_from, "seed": seed}
            _write(shuffled.tables(), kind, block_rows, said, aside / target.name)
            (aside / target.name).replace(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)

    with locked(path.with_name(f".{path.name}.lock"), str(path)):
        write_file(path, write)
    return open_shuffled(path)


def _write(
    tables: Iterator[pa.Table],
    kind: Kind,
    block_rows: int | None,
    said: dict[str, Any],
    path: Path,
) -> None:
    if not kind.n_rows or not kind.n_columns:
        raise InputError("the source has no rows or no columns; give at least one of each")
    digest = hashlib.sha256()
    blocks = _blocks(tables, _sizes(kind, block_rows))
    first = next(blocks)
    schema = pa.schema([field.with_nullable(False) for field in first.schema])
    with pyarrow.parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=["target"], write_page_checksum=True
    ) as writer:
        for block in _with_first(first, blocks):
            writer.write_table(block.cast(schema), row_group_size=block.num_rows)
            _add(digest, block)
        found = {
            "format_version": FORMAT_VERSION,
            "format": FORMAT,
            "form": "sparse" if kind.is_sparse else "dense",
            "n_rows": kind.n_rows,
            "n_columns": kind.n_columns,
            "labels": kind.labels,
        }
        footer = to_json({**found, **said, "hash": digest.hexdigest()})
        writer.add_key_value_metadata({FOOTER: footer})


def _sizes(kind: Kind, block_rows: int | None) -> Iterator[int]:
    """Yield how many rows each block has: as good as equally many, and none too few."""
    if block_rows is None:
        per_row = max(1.0, kind.n_values / kind.n_rows)
        block_rows = min(max(int(_VALUES_PER_BLOCK / per_row), _FEWEST_ROWS), _MOST_ROWS)
    n_blocks = max(1, kind.n_rows // block_rows)
    size, over = divmod(kind.n_rows, n_blocks)
    return (size + (number < over) for number in range(n_blocks))


def _blocks(tables: Iterator[pa.Table], sizes: Iterator[int]) -> Iterator[pa.Table]:
    """Yield the same rows cut anew."""
    waiting: list[pa.Table] = []
    n_waiting = 0
    for size in sizes:
        while n_waiting < size:
            waiting.append(next(tables))
            n_waiting += waiting[-1].num_rows
        whole = pa.concat_tables(waiting)
        yield whole.slice(0, size).combine_chunks()
        waiting, n_waiting = [whole.slice(size)], n_waiting - size


def _with_first(first: pa.Table, others: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from others


def _add(digest: Any, block: pa.Table) -> None:
    """Add a block's rows to what is known of the content."""
    digest.update(f"{block.num_rows}\n".encode())
    for name in block.column_names:
        column = block[name].combine_chunks()
        if pa.types.is_list(column.type):
            digest.update((column.offsets.to_numpy() - column.offsets[0].as_py()).data)
        if pa.types.is_list(column.type) or pa.types.is_fixed_size_list(column.type):
            digest.update(column.flatten().to_numpy())
        elif pa.types.is_string(column.type):
            digest.update("\0".join(column.to_pylist()).encode())
        else:
            digest.update(column.to_numpy(zero_copy_only=False))


def _check_whole_number(name: str, value: object, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{name} must be a whole number, at least {least}, but is {value!r}")
