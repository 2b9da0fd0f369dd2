"""Typed Parquet dataset, identified by a hash of its content.

The same values give the same row order and the same hash, whether they came as CSV, Parquet,
pandas or polars, and in any row order.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from numpy.typing import NDArray

from chaffinch.errors import StorageError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_known
from chaffinch.storage.datasets.column_types import (
    CATEGORY,
    one_chunk,
    sorted_categories,
    type_columns,
)
from chaffinch.storage.datasets.content_hash import TYPES, column_types, shuffle_rows
from chaffinch.storage.datasets.steps import (
    VERSION_OF_PARTS,
    OnDone,
    OpenWorkers,
    PlacedColumns,
    Reading,
    hash_of,
    ignored,
    rows_per_part,
    split_columns,
    steps_of,
    write_part,
)
from chaffinch.storage.files import (
    FORMAT_VERSION,
    locked,
    read_json,
    refresh,
    refresh_file,
    sha256_of_file,
    shown,
    sweep,
    to_json,
    write_file,
)
from chaffinch.storage.memory import release_memory
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.storage.sources.source import Source
from chaffinch.storage.spilled import SpilledColumns, spill_folder

__all__ = ["Dataset", "ingest", "shuffle_rows", "type_columns", "write_dataset"]

logger = logging.getLogger(__name__)

_MANIFEST = "dataset.json"
_ROW = "row"
_FIELDS = {"hash": str, "n_rows": int, "columns": dict, "files": dict}
_READING = 8  # version of the reading rules; raise it if a source reads differently
_CELLS_AT_A_TIME = 2**22  # of a `LazyTable`: 32 MiB of numbers
_COLUMNS_AT_A_TIME = 8  # decoded but not yet combined
_READ_AHEAD = 2**16  # bytes of a column that are read from the file at once


@dataclass(frozen=True)
class Dataset:
    """A typed, shuffled table on disk.

    `path` is the folder with ``dataset.json`` and the table, in one file or several parts; `hash`
    has 64 hexadecimal digits over names, types, categories and values; `columns` has the type of
    each column, in table order: float64, int64, bool, category, timestamp or other. `files` are
    those of the table, which a process that the dataset is sent to finds or fetches.
    `source_order` is the file of the row numbers in the source; None if the dataset was not opened
    for a source. `n_left_out` rows of the source have no target, and are not in the dataset.
    `zoned` are the columns whose times have a zone in the source; None where that is not known.
    """

    path: Path
    hash: str
    n_rows: int
    columns: dict[str, str]
    files: tuple[SharedFile, ...] = field(compare=False, repr=False)
    source_order: Path | None = field(default=None, compare=False)
    n_left_out: int = field(default=0, compare=False)
    zoned: frozenset[str] | None = field(default=None, compare=False)

    @classmethod
    def open(cls, folder: Path, hash: str) -> Dataset:  # noqa: A002
        """Return the dataset with that hash after checking its files."""
        path = _home(folder, hash)
        refresh(path)
        try:
            manifest = read_json(path / _MANIFEST, _FIELDS, latest=VERSION_OF_PARTS)
            whole = manifest["hash"] == hash and _is_intact(path, manifest["files"])
        except FileNotFoundError as error:
            raise StorageError(
                f"dataset {hash[:16]} is not in {shown(folder)}; select again with this store"
            ) from error
        except StorageError:
            raise
        except OSError as error:
            raise StorageError(
                f"dataset {shown(path)} cannot be read ({error.strerror}); run on its source again"
            ) from error
        if not whole:
            raise StorageError(f"dataset {shown(path)} is damaged; run on its source again")
        files = _shared(path, manifest["files"])
        return cls(path, hash, manifest["n_rows"], manifest["columns"], files)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the table, or only these columns in this order; other columns are not read."""
        names = list(self.columns if columns is None else columns)
        check_known(names, self.columns)
        columns_read: list[pa.Array] = []
        with self._open_parts() as parts:
            for start in range(0, len(names), _COLUMNS_AT_A_TIME):
                some = names[start : start + _COLUMNS_AT_A_TIME]
                table = pa.concat_tables(part.read(columns=some).select(some) for part in parts)
                columns_read += map(_in_one_chunk, table.columns)
        return pa.table(columns_read, names=names)

    def batches(
        self, columns: Sequence[str], rows: NDArray[np.int64], most_rows: int
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield these columns of at most so many rows at a time, with the number of the first.

        Batches without any of `rows`, ascending row numbers, are left out.
        """
        names, begin = list(columns), 0
        check_known(names, self.columns)
        with self._open_parts() as parts:
            for part, group in ((p, g) for p in parts for g in range(p.num_row_groups)):
                n_rows = part.metadata.row_group(group).num_rows
                if np.searchsorted(rows, begin) < np.searchsorted(rows, begin + n_rows):
                    start = begin
                    for batch in part.iter_batches(most_rows, row_groups=[group], columns=names):
                        stop = start + batch.num_rows
                        if np.searchsorted(rows, start) < np.searchsorted(rows, stop):
                            yield start, pa.Table.from_batches([batch])
                        start = stop
                begin += n_rows

    @contextmanager
    def _open_parts(self) -> Iterator[list[pa.parquet.ParquetFile]]:
        """Open the files of the table; StorageError where one is damaged or missing."""
        # pre_buffer would also hold the whole file, without gain for a local file
        opened = partial(
            pa.parquet.ParquetFile,
            pre_buffer=False,
            buffer_size=_READ_AHEAD,
            page_checksum_verification=True,
        )
        folder = self.files[0].here().parent
        try:
            with ExitStack() as parts:
                yield [parts.enter_context(file.use(opened)) for file in self.files]
        except (pa.ArrowException, OSError) as error:
            raise_if_out_of_memory(error)
            raise StorageError(
                f"dataset {folder} is damaged: {error}; run on its source again"
            ) from error

    @property
    def manifest(self) -> SharedFile:
        """A small file, by which a process can tell that it can read this dataset."""
        path = self.path / _MANIFEST
        return SharedFile.of(path, sha256_of_file(path))

    def rows_in_source(self) -> NDArray[np.int64]:
        """Return which row of the source each row was, shape (n,)."""
        with _reading_note(self.source_order):
            rows: NDArray[np.int64] = pa.parquet.read_table(self.source_order)[_ROW].to_numpy()
        return rows

    def in_source_order(self) -> pa.Table:
        """Return the table with its rows in the order of the source."""
        return self.read().take(pa.array(np.argsort(self.rows_in_source())))


class LazyTable:
    """A dataset as a pyarrow.Table shows it, with each column read when it is used."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset, self.num_rows = dataset, dataset.n_rows
        self.column_names = list(dataset.columns)

    def __len__(self) -> int:
        return self.num_rows

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        return self._dataset.read([name]).column(0)

    def column(self, position: int) -> pa.ChunkedArray:
        return self[self.column_names[position]]

    @property
    def columns(self) -> Iterator[pa.ChunkedArray]:
        at_a_time = max(1, _CELLS_AT_A_TIME // self.num_rows)
        for start in range(0, len(self.column_names), at_a_time):
            yield from self._dataset.read(self.column_names[start : start + at_a_time]).columns

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema((name, TYPES[kind]) for name, kind in self._dataset.columns.items())


def ingest(
    source: Source,
    folder: Path,
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    ordered: Collection[str] = (),
    drop: Collection[str] = (),
    labels: str | None = None,
    optional: Collection[str] = (),
    rows_with: str | None = None,
    whole_dates: Collection[str] | None = None,
    open_workers: OpenWorkers | None = None,
    on_done: OnDone = ignored,
) -> Dataset:
    """Read a table, type its columns, shuffle its rows and store it as a dataset in `folder`.

    Rows without a value in the column `rows_with` are left out. Parts of dates become columns,
    unless `whole_dates`, the columns whose dates have another role, is None. A table of more than
    one part is read by the workers of `open_workers`, as far as they see it; the dataset is the
    same. `on_done` is called with how much is done, and of how much.

    The result is cached by the SHA-256 of the file, the arguments and the version of the reading
    rules, so that a file is parsed once. A table in memory is converted each time.
    """
    fingerprint, note = source.fingerprint(), None
    zoned: frozenset[str] | None
    if labels in numeric or not source.has_types():
        labels = None  # a source without types gives it none of its own
    if fingerprint is not None:
        roles = [sorted(set(names)) for names in (categorical, numeric, ordered, drop)]
        rows = [] if rows_with is None else [{"rows_with": rows_with}]
        dates = [] if whole_dates is None else [{"whole_dates": sorted(whole_dates)}]
        given = [] if labels is None else [[labels]]
        note = _note(folder, [fingerprint, *roles, *given, *rows, *dates])
        refresh_file(note)
        try:
            dataset_hash, n_left_out, zoned = _read_note(note)
            known = Dataset.open(folder, dataset_hash)
            return replace(known, source_order=note, n_left_out=n_left_out, zoned=zoned)
        except FileNotFoundError:
            logger.debug("%s is to be read: no such file was read before", source)
        except StorageError as error:
            # the message has a remedy after a semicolon, which this is
            logger.warning("%s, and is made again from %s", str(error).split("; ")[0], source)
    with spill_folder(folder) as aside:
        reading = Reading(
            source,
            aside.absolute(),
            categorical=categorical,
            numeric=numeric,
            ordered=ordered,
            drop=drop,
            labels=labels,
            optional=optional,
            rows_with=rows_with,
            whole_dates=whole_dates,
        )
        with steps_of(reading, open_workers, on_done) as steps:
            typed = steps.typed()
            order = steps.order(typed)
            placed = steps.placed(typed, order)
            dataset = _store(placed, len(order), folder, partial(steps.written, placed))
        del placed
        order = typed[0].in_source(order)
    release_memory()
    if note is None:  # such a source is always read; equal rows in the same order share a note
        note = _note(folder, [dataset.hash, hashlib.sha256(order.to_numpy().data).hexdigest()])
    n_left_out, zoned = typed[0].n_left_out, frozenset[str]().union(*(some.zoned for some in typed))
    _write_note(note, dataset.hash, order, n_left_out, zoned)
    return replace(dataset, source_order=note, n_left_out=n_left_out, zoned=zoned)


def _note(folder: Path, key: list[Any]) -> Path:
    digest = hashlib.sha256(json.dumps([_READING, *key]).encode()).hexdigest()
    return folder / f"source-{digest[:16]}.parquet"


def _write_note(
    path: Path, dataset_hash: str, order: pa.Array, n_left_out: int, zoned: Iterable[str]
) -> None:
    """Write which dataset a source became, and which row of the source each of its rows was."""
    about = {"format_version": str(FORMAT_VERSION), "hash": dataset_hash}
    if n_left_out:
        about["n_left_out"] = str(n_left_out)
    about["zoned"] = json.dumps(sorted(zoned))
    rows = pa.table({_ROW: order}).replace_schema_metadata(about)
    encoding = {"use_dictionary": False, "column_encoding": "DELTA_BINARY_PACKED"}
    write_file(path, lambda file: pa.parquet.write_table(rows, file, **encoding))


@contextmanager
def _reading_note(path: Path | None) -> Iterator[None]:
    """Raise StorageError for a damaged note; a missing note stays FileNotFoundError."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        raise StorageError(f"{path} is damaged ({error}); remove it") from error


def _read_note(path: Path) -> tuple[str, int, frozenset[str] | None]:
    """Return the hash of a source's dataset, its rows that were left out, and what has a zone."""
    with _reading_note(path):
        metadata: dict[bytes, bytes] = pa.parquet.read_schema(path).metadata or {}
    n_left_out = metadata.get(b"n_left_out", b"0").decode(errors="replace")
    if not n_left_out.isdecimal():
        raise StorageError(f"{path} is damaged (its number of rows); remove it")
    try:
        zoned = json.loads(metadata.get(b"zoned", b"null"))  # a note of an earlier release
    except ValueError:
        zoned = ""
    if zoned is not None and not isinstance(zoned, list):
        raise StorageError(f"{path} is damaged (its zones); remove it")
    dataset_hash = metadata.get(b"hash", b"").decode(errors="replace")
    return dataset_hash, int(n_left_out), None if zoned is None else frozenset(zoned)


def write_dataset(table: pa.Table, folder: Path) -> Dataset:
    """Store a table as a dataset in `folder`, or return the dataset there if it is intact."""
    n_rows = table.num_rows
    columns = ((name, one_chunk(table[name])) for name in table.column_names)
    placed = [split_columns(columns, SpilledColumns, rows_per_part(n_rows))]
    with spill_folder(folder) as aside:
        return _store(
            placed, n_rows, folder, lambda: [write_part(aside, [part]) for part in placed[0].parts]
        )


def _store(
    placed: Sequence[PlacedColumns],
    n_rows: int,
    folder: Path,
    written: Callable[[], Sequence[tuple[Path, str]]],
) -> Dataset:
    """Store columns whose parts are `written` to files, unless the dataset is there and intact."""
    types = column_types(pa.schema([of for share in placed for of in share.parts[0].schema]))
    dataset_hash = hash_of(types, n_rows, placed)
    home = _home(folder, dataset_hash)
    with locked(folder / f".{home.name}.lock", f"dataset {home.name}"):
        try:
            return Dataset.open(folder, dataset_hash)
        except StorageError:
            sweep(home)
        made = written()
        files = {}
        for name, (path, sha256) in zip(_part_names(len(made)), made, strict=True):
            write_file(home / name, partial(os.replace, path))
            files[name] = sha256
        manifest = {
            "format_version": FORMAT_VERSION if len(files) == 1 else VERSION_OF_PARTS,
            "hash": dataset_hash,
            "n_rows": n_rows,
            "columns": types,
            "files": files,
        }
        write_file(home / _MANIFEST, to_json(manifest))
    return Dataset(home, dataset_hash, n_rows, types, _shared(home, files))


def _in_one_chunk(column: pa.ChunkedArray) -> pa.Array:
    # Parquet numbers the categories of each row group separately
    return sorted_categories(column) if column.type == CATEGORY else column.combine_chunks()


def _part_names(n_parts: int) -> list[str]:
    """Return the names of the files of a dataset of so many parts."""
    if n_parts == 1:
        return ["table.parquet"]
    return [f"table-{number:05}.parquet" for number in range(n_parts)]


def _is_intact(home: Path, files: Mapping[str, str]) -> bool:
    """Return whether these are the files of a dataset, and have their SHA-256."""
    return list(files) == _part_names(max(1, len(files))) and all(
        _sha256_of_part(home / name) == sha256 for name, sha256 in files.items()
    )


def _sha256_of_part(path: Path) -> str:
    try:
        return sha256_of_file(path)
    except FileNotFoundError:  # if it left the cache, it is there again
        refresh(path.parent)
        return sha256_of_file(path)


def _shared(home: Path, files: Mapping[str, str]) -> tuple[SharedFile, ...]:
    return tuple(SharedFile.of(home / name, sha256) for name, sha256 in files.items())


def _home(folder: Path, dataset_hash: str) -> Path:
    return folder / dataset_hash[:16]
