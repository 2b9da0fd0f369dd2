"""A Parquet file, or a folder of them, as an Arrow table."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.files import check_regular
from chaffinch.storage.sources.source import Format, OpenTable

# Options of ParquetFile, which refuses a footer with lists of more than a million by default.
WIDE = {"thrift_string_size_limit": 2**31 - 1, "thrift_container_size_limit": 2**31 - 1}

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # of pandas
_MAGIC = b"PAR1"  # what a file begins with
DELTA_LOG = "_delta_log"  # the folder that makes a Delta table of a folder of Parquet files


@contextmanager
def reading_parquet(name: str) -> Iterator[None]:
    """Raise an InputError that names the file for what pyarrow cannot read in the block."""
    try:
        yield
    except (PermissionError, InputError):
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise_if_out_of_memory(error)
        raise InputError(
            f"{name} is no readable Parquet file: {error}", "write or copy it again"
        ) from error


def begins_as_parquet(path: Path) -> bool:
    """Return whether the first bytes of a file are those of Parquet; OSError if it is not there."""
    with path.open("rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def parquet_files(folder: Path) -> list[Path]:
    """Return the Parquet files of a folder in the order of their names."""
    entries = ((path.name, path.is_dir()) for path in folder.iterdir())
    files = [folder / name for name in parquet_names(str(folder), entries)]
    for file in files:
        check_regular(file, "a source", "move it elsewhere")
    return files


def parquet_names(folder: str, entries: Iterable[tuple[str, bool]]) -> list[str]:
    """Return the sorted names of the Parquet files among the entries of a folder."""
    entries = sorted(entries)
    if (DELTA_LOG, True) in entries:  # its files hold removed rows too
        raise InputError(
            f"folder {folder} is a Delta table, which is read only from this disk, by a run; copy "
            "the table here, or its rows into Parquet files"
        )
    seen = [entry for entry in entries if entry[0][0] not in "._"]
    inner = [name for name, is_folder in seen if is_folder]
    if inner:
        raise InputError(
            f"folder {folder} holds the folder {inner[0]}, and partitions are not read; "
            "name a folder that holds its Parquet files directly"
        )
    names = [name for name, _ in seen if Path(name).suffix.lower() in PARQUET.endings]
    if not names:
        raise InputError(f"folder {folder} has no .parquet files; name one that holds some")
    return names


@dataclass(frozen=True)
class _File:
    """A file and its footer, as they were when it was opened first."""

    path: Path
    schema: pa.Schema
    n_rows: int
    state: tuple[int, int]  # size and time of change

    @classmethod
    def of(cls, path: Path) -> _File:
        with _opened(path) as file:
            check_columns(file.schema_arrow.names, path.name)
            fields = [f for f in file.schema_arrow if not _UNNAMED_INDEX.fullmatch(f.name)]
            return cls(path, pa.schema(fields), file.metadata.num_rows, _state(path))

    def read(self, names: list[str]) -> pa.Table:
        with _opened(self.path) as file:
            if _state(self.path) != self.state:
                raise InputError(f"{self.path.name} has changed while it was read; run again")
            # a name may begin with another name and a dot, which would be read as well
            return file.read(columns=names).select(names).replace_schema_metadata(None)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    # ParquetFile, because read_table makes columns out of folder names such as "year=2024";
    # pre_buffer would hold the whole file besides, and a local file gains nothing by it
    with (
        reading_parquet(path.name),
        pa.parquet.ParquetFile(path, pre_buffer=False, **WIDE) as file,
    ):
        yield file


def _state(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns


def _open(paths: Sequence[Path], categorical: Collection[str], aside: Path | None) -> OpenTable:
    """Open files of the same schema in order, after checking all their footers."""
    files = [_File.of(path) for path in paths]
    first = files[0]
    for other in files[1:]:
        check_same_columns(first.schema, first.path.name, other.schema, other.path.name)
    return OpenTable(
        first.schema.names,
        sum(file.n_rows for file in files),
        lambda names: pa.concat_tables(
            [file.read(names) for file in files], promote_options="permissive"
        ),
    )


def _read(paths: Sequence[Path], categorical: Collection[str]) -> pa.Table:
    table = _open(paths, categorical, None)
    return table.load(table.names)


def _columns(file: Any, name: str) -> list[str]:
    """Return the names of the columns of an open file, from its footer."""
    with reading_parquet(name):
        schema = pa.parquet.ParquetFile(file, **WIDE).schema_arrow
    check_columns(schema.names, name)
    return list(without_unnamed_index(schema.empty_table()).column_names)


def _n_rows(file: Any, name: str) -> int:
    """Return the number of rows of an open file, from its footer."""
    with reading_parquet(name):
        return int(pa.parquet.ParquetFile(file, **WIDE).metadata.num_rows)


def _column_bytes(files: Iterable[tuple[str, Any]]) -> Mapping[str, int]:
    """Return the compressed size of each column over all files, from their footers."""
    sizes: Counter[str] = Counter()
    for name, file in files:
        with reading_parquet(name), pa.parquet.ParquetFile(file) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
        columns = [field.name for field in schema for _ in range(_n_stored(field.type))]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for i, column in enumerate(columns):
                sizes[column] += group.column(i).total_compressed_size
    return sizes


PARQUET = Format(
    name="Parquet",
    listed="Parquet",
    endings=(".parquet", ".pq"),
    read=_read,
    columns=_columns,
    column_bytes=_column_bytes,
    open=_open,
    n_rows=_n_rows,
    has_sizes=True,
)


def _n_stored(kind: pa.DataType) -> int:
    """Return how many columns of plain values Parquet stores a nested column as."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(_n_stored(kind.field(i).type) for i in range(kind.num_fields))


def without_unnamed_index(table: pa.Table) -> pa.Table:
    """Return a table that pandas wrote without the columns of an index that has no name."""
    names = enumerate(table.column_names)  # by position: a name may be there twice
    return table.select([i for i, name in names if not _UNNAMED_INDEX.fullmatch(name)])


def check_same_columns(first: pa.Schema, first_name: str, other: pa.Schema, name: str) -> None:
    """Refuse two files of a table whose columns differ; InputError names the first that does."""
    if first.names == other.names and first.types == other.types:
        return
    for column in dict.fromkeys([*first.names, *other.names]):
        a, b = (s.field(column).type if column in s.names else "missing" for s in (first, other))
        if a != b:
            raise InputError(
                f"column {column!r} is {a} in {first_name} but {b} in {name}; "
                "write both with one schema"
            )
    raise InputError(f"{first_name} and {name} order their columns differently; write both alike")
