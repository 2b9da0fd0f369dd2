"""Columns and rows that are kept in memory while they are few, and else in a file."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import mkdtemp
from uuid import uuid4

import pyarrow as pa
from filelock import FileLock, Timeout

from chaffinch.storage.files import ASIDE, locked, make_folder, one_line_errors
from chaffinch.storage.memory import bytes_of

_LOCK = "lock"
MOST_BYTES = 2**27  # in memory, of each collection of columns
_MOST_BYTES_OF_ROWS = 2**25  # in memory; to join them takes as much again


@contextmanager
def spill_folder(folder: Path) -> Iterator[Path]:
    """Make a folder for files that are removed at the end of the block, inside another.

    Those of killed processes, which no longer hold their locks, are removed as well.
    """
    make_folder(folder)
    for left in folder.glob(f"{ASIDE}*/{_LOCK}"):
        with suppress(Timeout, OSError), FileLock(left, timeout=0, fallback_to_soft=False):
            shutil.rmtree(left.parent, ignore_errors=True)
    with one_line_errors(folder / ASIDE):
        inner = Path(mkdtemp(prefix=ASIDE, dir=folder))
    try:
        with locked(inner / _LOCK, str(inner)):
            yield inner
    finally:
        shutil.rmtree(inner, ignore_errors=True)


class SpilledColumns(MutableMapping[str, pa.Array]):
    """Columns of a table, each in a single chunk, in the order in which they are first set.

    A column that is set again or removed keeps its place in the file until the folder is removed.
    """

    def __init__(self, folder: Path | None = None, most_bytes: int | None = None) -> None:
        self._folder = folder
        self._path = None if folder is None else folder / f"columns-{uuid4().hex}"
        self._most_bytes = MOST_BYTES if most_bytes is None else most_bytes
        self._n_bytes = 0
        self._columns: dict[str, pa.Array | tuple[int, int]] = {}  # or its place in the file
        self._types: dict[str, pa.DataType] = {}
        self.n_rows = 0

    def empty(self) -> SpilledColumns:
        """Return a table without columns that is kept as this one is."""
        return SpilledColumns(self._folder, self._most_bytes)

    def split(self, n_columns: int) -> list[SpilledColumns]:
        """Return the columns in tables of so many; what is in a file is not copied."""
        tables: list[SpilledColumns] = []
        for number, (name, column) in enumerate(self._columns.items()):
            if number % n_columns == 0:
                tables.append(self.empty())
                tables[-1]._path, tables[-1].n_rows = self._path, self.n_rows
            tables[-1]._columns[name] = column
            tables[-1]._types[name] = self._types[name]
        return tables

    @property
    def schema(self) -> pa.Schema:
        return pa.schema(self._types.items())

    def __setitem__(self, name: str, column: pa.Array) -> None:
        self._release(name)
        self._types[name], self.n_rows = column.type, len(column)
        if self._path is None or self._n_bytes + column.nbytes <= self._most_bytes:
            self._columns[name] = column
            self._n_bytes += column.nbytes
            return
        batch = pa.record_batch([column], names=[""])
        with one_line_errors(self._path), self._path.open("ab") as file:
            start = file.tell()
            with pa.ipc.new_stream(file, batch.schema) as writer:
                writer.write_batch(batch)
            self._columns[name] = start, file.tell() - start

    def __getitem__(self, name: str) -> pa.Array:
        kept = self._columns[name]
        if not isinstance(kept, tuple):
            return kept
        with pa.OSFile(str(self._path)) as file:
            return _column_at(file, kept)

    def __delitem__(self, name: str) -> None:
        self._release(name)
        del self._columns[name], self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def kept(self, columns: Iterable[tuple[str, pa.Array]]) -> Iterator[tuple[str, pa.Array]]:
        """Set columns, and yield each of them."""
        for name, column in columns:
            self[name] = column
            yield name, column

    def slices(self, n_rows: int) -> Iterator[pa.Table]:
        """Yield the table, that many rows at a time."""
        for start in range(0, max(1, self.n_rows), n_rows):
            yield self.slice(start, n_rows)

    def slice(self, start: int, n_rows: int) -> pa.Table:
        """Return some rows, of those in the file a copy."""
        columns = [
            kept.slice(start, n_rows)
            if isinstance(kept, pa.Array)
            else self._copied(kept, start, n_rows)
            for kept in self._columns.values()
        ]
        return pa.table(columns, schema=self.schema)

    def _copied(self, place: tuple[int, int], start: int, n_rows: int) -> pa.Array:
        # mapped for this column only: all that is mapped may count as memory of the process
        with pa.memory_map(str(self._path)) as file:
            some = _column_at(file, place).slice(start, n_rows)
            return pa.concat_arrays([some, some.slice(0, 0)])

    def _release(self, name: str) -> None:
        kept = self._columns.get(name)
        if isinstance(kept, pa.Array):
            self._n_bytes -= kept.nbytes


def _column_at(file: pa.NativeFile, place: tuple[int, int]) -> pa.Array:
    start, n_bytes = place
    file.seek(start)
    return pa.ipc.open_stream(file.read_buffer(n_bytes)).read_next_batch().column(0)


class SpilledRows:
    """Batches of rows in the order in which they are added.

    `join` makes a table of tables, whose schemas it may adapt.
    """

    def __init__(
        self,
        folder: Path | None = None,
        join: Callable[[list[pa.Table]], pa.Table] = pa.concat_tables,
        most_bytes: int = _MOST_BYTES_OF_ROWS,
    ) -> None:
        self._folder, self._join, self._most_bytes = folder, join, most_bytes
        self._tables: list[pa.Table] = []
        self._waiting: list[pa.Table] = []
        self._n_bytes = self._n_files = 0

    def append(self, rows: pa.Table) -> None:
        self._waiting.append(rows)
        self._n_bytes += sum(map(bytes_of, rows.columns))
        if self._folder is not None and self._n_bytes > self._most_bytes:
            self._spill(self._folder)

    def clear(self) -> None:
        self._tables, self._waiting, self._n_bytes = [], [], 0

    def table(self) -> pa.Table:
        """Return all rows; those in files are mapped, and take no memory until they are read."""
        return self._join([*self._tables, *self._waiting])

    def _spill(self, folder: Path) -> None:
        self._n_files += 1
        path = folder / f"rows-{id(self)}-{self._n_files}"
        whole = self._join(self._waiting).combine_chunks()
        with (
            one_line_errors(path),
            pa.OSFile(str(path), "wb") as file,
            pa.ipc.new_file(file, whole.schema) as writer,
        ):
            writer.write_table(whole)
        self._waiting, self._n_bytes = [], 0
        self._tables.append(pa.ipc.open_file(pa.memory_map(str(path))).read_all())


def spilled_table(reader: pa.RecordBatchReader, folder: Path | None) -> pa.Table:
    """Read all batches as a table, which is kept in a folder for files once it is large."""
    rows = SpilledRows(folder)
    rows.append(reader.schema.empty_table())
    for batch in reader:
        rows.append(pa.Table.from_batches([batch]))
    return rows.table()
