"""Write a table in random order from svmlight text, Parquet files or in-memory pieces."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from chaffinch.errors import InputError
from chaffinch.storage.column_names import check_columns, check_known
from chaffinch.storage.datasets.content_hash import mix
from chaffinch.storage.files import (
    FORMAT_VERSION,
    file_to_write,
    locked,
    path_from,
    to_json,
    write_file,
)
from chaffinch.storage.shuffled.readers import common_type, opened, parquet_pieces, svmlight_pieces
from chaffinch.storage.shuffled.row_blocks import Kind, Piece
from chaffinch.storage.shuffled.table import FOOTER, FORMAT, ShuffledTable, open_shuffled
from chaffinch.storage.sources import source_of
from chaffinch.storage.sources.addresses import scheme_of
from chaffinch.storage.sources.files import FileSource, reading
from chaffinch.storage.sources.formats.parquet import begins_as_parquet, parquet_files

_BITS = 6
_MOST_BYTES = 2**26  # of a bucket; sorting holds it twice
_ORDER = "order"


_Bucket = tuple[Path, int]  # with its size in bytes


class Shuffled:
    """Rows distributed to buckets in an empty folder, to be read in random order.

    Rows are distributed to 64 buckets by the first six bits of the hash, too large buckets by the
    next six, and so on; each bucket is then sorted in memory. The order depends on the seed only,
    not on the chunks of the source or the available memory.

    A bucket of at most `most_bytes` is sorted in memory.
    """

    def __init__(self, folder: Path, seed: int, most_bytes: int = _MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._seed = mix(np.array([seed], np.uint64))
        self._buckets: list[_Bucket] = []

    def scatter(self, pieces: Iterable[dict[str, pa.Array]]) -> None:
        """Add rows; all pieces have the same columns."""
        self._buckets = self._scattered(self._numbered(pieces), self._folder, 0)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in random order, in chunks, and delete them."""
        for table in self._sorted(self._buckets, 1):
            yield table.drop_columns([_ORDER])

    def _numbered(self, pieces: Iterable[dict[str, pa.Array]]) -> Iterator[pa.RecordBatch]:
        n_rows = 0
        for columns in pieces:
            n_more = len(next(iter(columns.values())))
            numbers = np.arange(n_rows, n_rows + n_more, dtype=np.uint64)
            n_rows += n_more
            yield pa.record_batch({_ORDER: pa.array(mix(numbers + self._seed)), **columns})

    def _scattered(
        self, batches: Iterable[pa.RecordBatch], folder: Path, level: int
    ) -> list[_Bucket]:
        paths = [folder / f"{number:02}.arrow" for number in range(2**_BITS)]
        n_bytes = [0] * len(paths)
        writers: dict[int, Any] = {}
        try:
            for batch in batches:
                for number, part in _by_bucket(batch, level):
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(str(paths[number]), part.schema)
                    writers[number].write_batch(part)
                    n_bytes[number] += part.nbytes
        finally:
            for writer in writers.values():
                writer.close()
        return [(paths[number], n_bytes[number]) for number in sorted(writers)]

    def _sorted(self, buckets: list[_Bucket], level: int) -> Iterator[pa.Table]:
        for path, n_bytes in buckets:
            if n_bytes <= self._most_bytes or level * _BITS >= 64:
                yield _in_order(path)
                path.unlink()
                continue
            inner = path.with_suffix("")
            inner.mkdir()
            smaller = self._scattered(_batches_in(path), inner, level)
            path.unlink()
            yield from self._sorted(smaller, level + 1)


def _by_bucket(batch: pa.RecordBatch, level: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = batch.column(_ORDER).to_numpy()
    left = max(0, 64 - _BITS * (level + 1))
    numbers = (order >> np.uint64(left)) & np.uint64(2**_BITS - 1)
    by_number = np.argsort(numbers, kind="stable")
    together = batch.take(pa.array(by_number))
    ends = np.searchsorted(numbers[by_number], np.arange(2**_BITS + 1, dtype=np.uint64))
    for number, (first, last) in enumerate(pairwise(ends.tolist())):
        if first < last:
            yield number, together.slice(first, last - first)


def _in_order(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        table = stream.read_all()
    order = np.argsort(table[_ORDER].to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


def _batches_in(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        yield from stream


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
    path = file_to_write(path_from(path, "the table"), "the table")
    _check_whole_number("seed", seed, 0)
    if block_rows is not None:
        _check_whole_number("block_rows", block_rows, _FEWEST_ASKED)
    aside = path.with_name(f".aside-{path.name}")

    def write(target: Path) -> None:
        shutil.rmtree(aside, ignore_errors=True)  # left by a killed writer
        aside.mkdir()
        try:
            shuffled = Shuffled(aside, seed)
            shuffled.scatter(kind.arrow(part) for piece in pieces for part in piece.small_enough())
            named = {"columns": None if columns is None else list(columns)}
            metadata = {**named, "counted_from": counted_from, "seed": seed}
            _write(shuffled.tables(), kind, block_rows, metadata, aside / target.name)
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
    metadata: dict[str, Any],
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
        for block in chain([first], blocks):
            writer.write_table(block.cast(schema), row_group_size=block.num_rows)
            _add(digest, block)
        content = {
            "format_version": FORMAT_VERSION,
            "format": FORMAT,
            "form": "sparse" if kind.is_sparse else "dense",
            "n_rows": kind.n_rows,
            "n_columns": kind.n_columns,
            "labels": kind.labels,
        }
        footer = to_json({**content, **metadata, "hash": digest.hexdigest()})
        writer.add_key_value_metadata({FOOTER: footer})


def _sizes(kind: Kind, block_rows: int | None) -> Iterator[int]:
    """Yield the number of rows per block: nearly equal, and none below the minimum."""
    if block_rows is None:
        per_row = max(1.0, kind.n_values / kind.n_rows)
        block_rows = min(max(int(_VALUES_PER_BLOCK / per_row), _FEWEST_ROWS), _MOST_ROWS)
    n_blocks = max(1, kind.n_rows // block_rows)
    size, over = divmod(kind.n_rows, n_blocks)
    return (size + (number < over) for number in range(n_blocks))


def _blocks(tables: Iterator[pa.Table], sizes: Iterator[int]) -> Iterator[pa.Table]:
    """Yield the same rows split into blocks of these sizes."""
    waiting: list[pa.Table] = []
    n_waiting = 0
    for size in sizes:
        while n_waiting < size:
            waiting.append(next(tables))
            n_waiting += waiting[-1].num_rows
        whole = pa.concat_tables(waiting)
        yield whole.slice(0, size).combine_chunks()
        waiting, n_waiting = [whole.slice(size)], n_waiting - size


def _add(digest: Any, block: pa.Table) -> None:
    """Add a block's rows to the content hash."""
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
    """Write text in the svmlight (libsvm) format as a sparse table in random order.

    Parameters
    ----------
    source : path, or sequence of paths
        Files, plain or .gz; each is read once, 16 MB at a time. Labels are numbers; for
        classes, number them and pass task="classification" when the table is used.
    path : path
        Output file. An existing file is replaced once all is written. The same amount of disk
        space is needed next to it meanwhile.
    zero_based : bool
        Whether the file counts columns from 0 rather than from 1.
    n_columns : int, optional
        D; by default the last column that has a value. Set it where several tables belong
        together.
    dtype : "float32" or "float64"
        Type of the stored values.
    seed : int, at least 0
        Seed of the row order.
    block_rows : int, at least 1000, optional
        Minimum rows per block; by default a block has about two million values.

    Returns
    -------
    ShuffledTable
        See `open_shuffled`.

    Raises
    ------
    InputError
        If the file does not exist, or a line is invalid: columns unsorted, repeated or out of
        range, a label that is no number, a value not finite. The message names the line.
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
    """Write Parquet files, or folders of them, with numeric columns as a table in random order.

    Parameters
    ----------
    source : path, or sequence of paths
        Files or folders, all of one schema; each is read once, in chunks. Rows may be sorted in
        any way. Integers and booleans are converted to numbers; the table is float32 if every
        column is.
    path, seed, block_rows
        See `shuffle_svmlight`.
    target : str
        Target column: numbers, booleans or text.
    drop : collection of str
        Columns to leave out.
    sparse : bool
        Whether to omit zeros: for wide tables that are mostly zeros. A dense block takes at
        least 1,024 D numbers of memory.

    Returns
    -------
    ShuffledTable
        See `open_shuffled`.

    Raises
    ------
    InputError
        If a file or column does not exist, the source is already in random order, the target is
        dropped, a column is not numeric or has integers beyond 2^53, or a value is missing.
    StorageError
        If the device is full or fails.
    """
    sources = _paths(source)
    files: list[Path] = []
    for place in sources:
        with reading(place):
            files += parquet_files(place).values() if place.is_dir() else [place]
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


def are_parquet(source: Sources) -> bool:
    """Return whether the sources are folders or start as Parquet does, rather than text."""
    files = _paths(source)
    is_parquet = [_is_parquet(file) for file in files]
    if len(set(is_parquet)) > 1:
        yes, no = files[is_parquet.index(True)], files[is_parquet.index(False)]
        raise InputError(f"{yes.name} is Parquet but {no.name} is not; give files of one format")
    return is_parquet[0]


def _is_parquet(path: Path) -> bool:
    with reading(path):
        return path.is_dir() or begins_as_parquet(path)


def _paths(source: Sources) -> list[Path]:
    """Return a path or several as a list of existing paths."""
    paths = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not paths:
        raise InputError("the source must be at least one file but is none; name one")
    files: list[Path] = []
    for path in paths:
        file = FileSource.of(path, scheme_of(path))
        if file is None:
            raise InputError(
                f"{source_of(path).name} must be a file on this disk, as it is read piece by "
                "piece, but is elsewhere or none; copy it here first"
            )
        with reading(file.path):
            files.append(file.path)
    return files


def _check_another_place(files: Sequence[Path], path: str | Path) -> None:
    """Refuse to write over the source, whose names and other columns would be lost."""
    if path_from(path, "the table").resolve() in {file.resolve() for file in files}:
        raise InputError(f"{path} is the source itself, which would be lost; name another path")


def _of_texts(files: Iterable[Path], zero_based: bool, dtype: np.dtype[Any]) -> Iterator[Piece]:
    for file in files:
        with reading(file):
            yield from svmlight_pieces(file, zero_based, dtype)
