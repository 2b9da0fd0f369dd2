"""What every kind of source and every format of files can do."""

from __future__ import annotations

from collections.abc import (
    Callable,
    Collection,
    Container,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError, about_column, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.memory import bytes_of, release_memory
from chaffinch.storage.spilled import spilled_table

_CELLS_AT_A_TIME = 2**23  # 64 MiB of numbers


@dataclass(frozen=True)
class AllBut(Container[str]):
    """Every name but some: what to `drop` where only these columns are needed."""

    names: Container[str]

    def __contains__(self, name: object) -> bool:
        return name not in self.names


class Source(Protocol):
    """A table to read: a file, objects in S3, a table in a database, a table in memory.

    A kind must define `of`, `name` and one of `load` and `open`, by which the other is. Where a
    table may be larger than memory, `open` reads some columns at a time, and `shape` lets a run
    refuse it in time; the other defaults fit a table in memory.

    Attributes
    ----------
    rereadable : bool
        Whether a second read costs little and gives the same rows.
    """

    rereadable: ClassVar[bool] = True

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        """Return the source if `data` is of this kind, otherwise None.

        `scheme` is ``s3`` for ``s3://bucket/key``, empty for a path, None for other objects.
        """

    @classmethod
    def joined(cls, sources: Sequence[Self]) -> Self:
        """Return one table of the files of all sources, in this order."""
        raise InputError(f"a list names files of one table, but {sources[0]} is no file")

    @property
    def name(self) -> str:
        """Short name, without the folder."""

    @property
    def label(self) -> str:
        """Name in errors."""
        return self.name

    @property
    def address(self) -> str | None:
        """Text that names the same source from every folder; None for a table in memory."""
        return None

    def check(self) -> None:
        """Raise the InputErrors of `read` that need no look at the content."""
        return

    def load(self, categorical: Collection[str], drop: Container[str]) -> pa.Table:
        """Read the table; `read` checks it."""
        with self.open(categorical, drop, None) as table:
            return table.load(table.names)

    def read(
        self,
        categorical: Collection[str] = (),
        *,
        drop: Container[str] = (),
        may_be_empty: bool = False,
    ) -> pa.Table:
        """Read and check the table; every column has a name of its own.

        `categorical` columns of delimited text stay as they are written; other sources have types.
        Columns to `drop` of a pandas table or a database are not converted, since they may hold
        values of several types: their values are missing. Named levels of a pandas index become the
        last columns; an unnamed index or a range is left out, also of Parquet files that pandas
        wrote.
        """
        table = self.load(categorical, drop)
        check_columns(table.column_names, self.label)
        for name, column in zip(table.column_names, table.columns, strict=True):
            if name not in drop:
                _check_values(name, column, self.label)
        if not (table.num_rows or may_be_empty):
            raise _no_rows(self.label)
        return table.replace_schema_metadata(None)

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        """Open the table to read some columns at a time; `aside` is a folder for files."""
        yield OpenTable.of(self.load(categorical, drop))

    @contextmanager
    def scan(
        self, categorical: Collection[str] = (), *, drop: Container[str] = (), aside: Path
    ) -> Iterator[Columns]:
        """Open the table as `read` does, without holding more than some of its columns."""
        with self.open(categorical, drop, aside) as table:
            check_columns(table.names, self.label)
            if not table.n_rows:
                raise _no_rows(self.label)
            yield Columns(table, self.label)

    @contextmanager
    def read_apart(self, drop: Container[str], aside: Path) -> Iterator[Source | None]:
        """Give the table as other processes read some of its columns; None where they cannot.

        It may be copied to `aside`, without columns to `drop`. InputError if it changes in the
        block.
        """
        yield None

    def columns(self) -> list[str]:
        """Return the names of the columns, in their order."""
        return list(self.read(may_be_empty=True).column_names)

    def column_bytes(self) -> Mapping[str, int]:
        """Return the size of each column in bytes, as stored, by name and in order."""
        return sizes_in_memory(self.read())

    def shape(self) -> tuple[int, int] | None:
        """Return the number of rows, possibly an estimate, and of columns; None if unknown.

        Costs little: no row is read but a sample of text.
        """
        return None

    def has_types(self) -> bool:
        """Return whether the source distinguishes text from numbers, as CSV and TSV do not."""
        return True

    def has_header(self) -> bool:
        """Return whether `columns` needs no rows, and so costs little."""
        return False

    def fingerprint(self) -> str | None:
        """Return 64 hexadecimal digits that change with the content; None if there are none."""
        return None


def _check_values(name: str, column: pa.ChunkedArray, label: str) -> None:
    try:
        column.validate(full=True)
    except pa.ArrowInvalid as error:
        with about_column(name):
            raise InputError(
                f"column {name!r} of {label} cannot be read ({error})", "correct its values"
            ) from error


def _no_rows(label: str) -> InputError:
    return InputError(f"{label} has columns but no rows; give at least one")


@dataclass(frozen=True)
class OpenTable:
    """A table of which columns can be read, each once, by `load`."""

    names: list[str]
    n_rows: int
    load: Callable[[list[str]], pa.Table]

    @classmethod
    def of(cls, table: pa.Table) -> OpenTable:
        columns = dict(zip(table.column_names, table.columns, strict=True))
        names = table.column_names
        return cls(names, len(table), lambda some: pa.table({n: columns.pop(n) for n in some}))


class ArrowSource(Source):
    """A table that a library opens, and gives in batches of Arrow.

    A kind must also define `opened`, `names` and `batches`.
    """

    def opened(self) -> AbstractContextManager[Any]:
        """Open the table, and raise errors in the block as InputError."""
        raise NotImplementedError

    def names(self, opened: Any) -> list[str]:
        """Return the names of the columns of the opened table."""
        raise NotImplementedError

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        """Return a reader of the rows of the opened table."""
        raise NotImplementedError

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self.opened() as opened, self.batches(opened) as reader:
            check_columns(reader.schema.names, self.label)
            table = spilled_table(reader, aside)
        release_memory()
        yield OpenTable.of(table)

    def columns(self) -> list[str]:
        with self.opened() as opened:
            names = self.names(opened)
        check_columns(names, self.label)
        return names

    def has_header(self) -> bool:
        return True


@dataclass(frozen=True)
class OpenFile:
    """A file of which columns can be read by `load`."""

    schema: pa.Schema
    n_rows: int
    load: Callable[[list[str]], pa.Table]


def one_after_another(
    files: Mapping[str, Path], open_file: Callable[[str, Path], OpenFile]
) -> OpenTable:
    """Open files of the same schema as one table of their rows."""
    opened = {name: open_file(name, path) for name, path in files.items()}
    first, *_ = opened
    for name, file in opened.items():
        check_same_columns(opened[first].schema, first, file.schema, name)
    return OpenTable(
        opened[first].schema.names,
        sum(file.n_rows for file in opened.values()),
        lambda some: pa.concat_tables([file.load(some) for file in opened.values()]),
    )


def check_same_columns(first: pa.Schema, first_name: str, other: pa.Schema, name: str) -> None:
    """Refuse two files of a table whose columns differ; InputError names the first that does."""
    if first.names == other.names and first.types == other.types:
        return
    for column in dict.fromkeys([*first.names, *other.names]):
        a, b = (s.field(column).type if column in s.names else None for s in (first, other))
        if a is None or b is None:
            there, lacking = (first_name, name) if b is None else (name, first_name)
            raise InputError(
                f"column {column!r} is in {there} but not in {lacking}; write both with one schema"
            )
        if a != b:
            raise InputError(
                f"column {column!r} is {a} in {first_name} but {b} in {name}; "
                "write both with one schema"
            )
    raise InputError(f"{first_name} and {name} order their columns differently; write both alike")


class Columns(MutableMapping[str, pa.ChunkedArray]):
    """Columns of an open table, which are read and checked when they are used."""

    def __init__(self, table: OpenTable, label: str) -> None:
        self._table, self._label = table, label
        self._at_a_time = max(1, _CELLS_AT_A_TIME // table.n_rows)
        self._columns: dict[str, pa.ChunkedArray | None] = dict.fromkeys(table.names)
        self._rows: pa.Array | None = None  # the rows that are kept, or all

    def keep_rows_with(self, name: str) -> tuple[int, pa.Array]:
        """Leave out the rows without a value in a column.

        Return how many these are, and the numbers of the others.
        """
        is_there = pc.invert(pc.is_null(self[name], nan_is_null=True)).combine_chunks()
        self._rows = pc.indices_nonzero(is_there)
        if not len(self._rows):
            raise InputError(f"column {name!r} of {self._label} has no value in any row")
        there = {key: column for key, column in self._columns.items() if column is not None}
        self._columns |= {key: _taken(column, self._rows) for key, column in there.items()}
        return len(is_there) - len(self._rows), self._rows.cast(pa.int64())

    def __getitem__(self, name: str) -> pa.ChunkedArray:
        if self._columns[name] is None:
            self._load(name)
        column: pa.ChunkedArray = self._columns[name]
        _check_values(name, column, self._label)
        return column

    def _load(self, first: str) -> None:
        """Read a column, and those after it that fit into memory besides."""
        names = list(self._columns)
        near = names[names.index(first) :][: self._at_a_time]
        some = [name for name in near if self._columns[name] is None]
        columns = self._table.load(some).columns
        if self._rows is not None:
            columns = [_taken(column, self._rows) for column in columns]
        self._columns |= dict(zip(some, columns, strict=True))

    def __setitem__(self, name: str, column: pa.ChunkedArray) -> None:
        self._columns[name] = column

    def __delitem__(self, name: str) -> None:
        del self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)


def _taken(column: pa.ChunkedArray, rows: pa.Array) -> pa.ChunkedArray:
    try:
        return column.take(rows)
    except pa.ArrowNotImplementedError:  # of views of text, which polars gives
        return column.cast(pa.large_string()).take(rows)


@dataclass(frozen=True)
class Format:
    """A format of files. Its functions raise InputError for content that they cannot read."""

    name: str
    listed: str  # its files, where messages list what a source may be
    endings: tuple[str, ...]  # in lower case
    columns: Callable[[Any, str], list[str]]  # of an open binary file and its name
    n_rows: Callable[[Any, str], int]  # of the same; may estimate
    # of names and paths; also of names and open files where the format `has_sizes`
    column_bytes: Callable[[Iterable[tuple[str, Any]]], Mapping[str, int]]
    # files by their names, in a folder by the paths below it; columns that stay text; and a folder
    # for files
    open: Callable[[Mapping[str, Path], Collection[str], Path | None], OpenTable]
    has_types: bool = True
    has_header: bool = True
    # the format of files that are written as options say, of this text and name; by default none
    with_options: Callable[[str, str], Format] | None = None
    has_sizes: bool = False  # of columns, so that `column_bytes` reads little of a file

    def read(self, files: Mapping[str, Path], as_text: Collection[str] = ()) -> pa.Table:
        """Return the whole table; see `open`."""
        table = self.open(files, as_text, None)
        return table.load(table.names)


@contextmanager
def readable_as(kind: str, name: str) -> Iterator[None]:
    """Raise an InputError that names the file for what pyarrow cannot read in the block."""
    try:
        yield
    except (PermissionError, InputError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise_if_out_of_memory(error)
        raise InputError(
            f"{name} is no readable {kind} file: {error}", "write or copy it again"
        ) from error


def sizes_in_memory(table: pa.Table) -> dict[str, int]:
    """Return the size of each column in memory, by name."""
    return {name: bytes_of(table.column(name)) for name in table.column_names}


def read_whole(name: str, listed: str, read: Callable[[Mapping[str, Any]], pa.Table]) -> Format:
    """Return a format of small files; `read` takes open files by their names as one table."""

    def table(files: Iterable[tuple[str, Path]]) -> pa.Table:
        with ExitStack() as stack:
            return read({name: stack.enter_context(path.open("rb")) for name, path in files})

    return Format(
        name=name,
        listed=listed,
        endings=tuple(listed.split(", ")),
        columns=lambda file, name: list(read({name: file}).column_names),
        n_rows=lambda file, name: len(read({name: file})),
        column_bytes=lambda files: sizes_in_memory(table(files)),
        open=lambda files, categorical, aside: OpenTable.of(table(files.items())),
        has_header=False,
    )


def with_whole_numbers(table: pa.Table, label: str) -> pa.Table:
    """Return a table with the columns of float64 that hold whole numbers alone as int64.

    InputError for a number beyond 2^53, whose last digits a reader of float64 may have lost.
    """
    for place, (name, column) in enumerate(zip(table.column_names, table.columns, strict=True)):
        if not pa.types.is_floating(column.type):
            continue
        is_large = pc.greater_equal(pc.abs(column), 2.0**53)
        if pc.any(pc.and_(is_large, pc.is_finite(column))).as_py():
            raise InputError(
                f"column {name!r} of {label} holds whole numbers beyond 2^53, of which the last "
                "digits are lost; write the table as CSV or Parquet"
            )
        is_whole = pc.and_(pc.is_finite(column), pc.equal(column, pc.floor(column)))
        if pc.all(is_whole).as_py():
            table = table.set_column(place, name, column.cast(pa.int64()))
    return table
