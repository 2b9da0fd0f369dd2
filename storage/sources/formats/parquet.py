"""A Parquet file, or a folder of them, as an Arrow table."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet

from chaffinch.errors import InputError
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.files import check_regular
from chaffinch.storage.sources.source import Format, OpenTable, check_same_columns, readable_as

# Options of ParquetFile, which refuses a footer with lists of more than a million by default.
_WIDE = {"thrift_string_size_limit": 2**31 - 1, "thrift_container_size_limit": 2**31 - 1}

_UNNAMED_INDEX = re.compile(r"__index_level_\d+__")  # of pandas
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
DELTA_LOG = "_delta_log"  # the folder that makes a Delta table of a folder of Parquet files


def _reading(name: str) -> AbstractContextManager[None]:
    """Raise an InputError that names the file for what pyarrow cannot read in the block."""
    return readable_as("Parquet", name)


def parquet_files(folder: Path) -> dict[str, Path]:
    """Return the Parquet files of a folder by their paths below it, in their order."""
    files = {name: folder / name for name in parquet_names(str(folder), _entries(folder))}
    for file in files.values():
        check_regular(file, "a source", "move it elsewhere")
    return files


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """Yield what is in a folder and its partitions; other folders, which are refused, stay shut."""
    for path, inner, outer in os.walk(folder):
        for name in (*inner, *outer):
            yield (Path(path) / name).relative_to(folder).as_posix(), name in inner
        inner[:] = [name for name in inner if "=" in name]


def parquet_names(folder: str, entries: Iterable[tuple[str, bool]]) -> list[str]:
    """Return the sorted names of the Parquet files among the entries at any depth of a folder.

    Entries are pairs of a path below the folder, and whether it is a folder itself. Folders such as
    ``year=2024``, as Hive and Spark write them, are partitions; others are refused.
    """
    seen = [e for e in sorted(entries) if not any(part[0] in "._" for part in e[0].split("/"))]
    inner = [name for name, is_folder in seen if is_folder]
    if other := [name for name in inner if "=" not in name.rpartition("/")[2]]:
        raise InputError(
            f"folder {folder} holds the folder {other[0]}, which is no partition such as "
            "year=2024; name a folder that holds its Parquet files directly"
        )
    files = [name for name, is_folder in seen if not is_folder]
    names = [name for name in files if _is_parquet(name)]
    if not names:
        raise InputError(f"folder {folder} has no .parquet files; name one that holds some")
    if other_tables := [name for name in files if _is_other_table(name)]:
        pattern = "**/*" if "/" in names[0] else "*"
        raise InputError(
            f"folder {folder} holds {other_tables[0]} beside Parquet files, which alone would be "
            f"read; name the files of one format, as in {folder}/{pattern}{Path(names[0]).suffix}"
        )
    check_partitions(folder, names)
    return names


def check_partitions(folder: str, names: Sequence[str]) -> None:
    """Refuse files of a folder whose paths below it give values to different columns."""
    for name in names[1:]:
        if [*partitions_of(name)] != [*partitions_of(names[0])]:
            raise InputError(
                f"folder {folder} has partitions of different columns, {names[0]} and {name}; "
                "name one whose files all lie in folders of the same columns"
            )


def _is_other_table(name: str) -> bool:
    """Return whether a name is that of a table in another format; plain text may be anything."""
    from chaffinch.storage.sources.formats.file_name import find_format  # which imports this module

    return find_format(name) is not None and not name.lower().endswith((*PARQUET.endings, ".txt"))


def _is_parquet(name: str) -> bool:
    return Path(name).suffix.lower() in PARQUET.endings


def partitions_of(name: str) -> dict[str, str | None]:
    """Return the values that the path of a file below its folder gives to columns, as text."""
    parts = (part.partition("=") for part in name.split("/")[:-1] if "=" in part)
    return {unquote(key): None if value == _NO_VALUE else unquote(value) for key, _, value in parts}


@dataclass(frozen=True)
class _File:
    """A file and its footer."""

    path: Path
    schema: pa.Schema
    n_rows: int
    partitions: Mapping[str, str | None]

    @classmethod
    def of(cls, name: str, path: Path) -> _File:
        partitions = partitions_of(name)
        with _opened(path) as file:
            check_columns([*file.schema_arrow.names, *partitions], path.name)
            fields = [f for f in file.schema_arrow if not _UNNAMED_INDEX.fullmatch(f.name)]
            n_rows = file.metadata.num_rows
            return cls(path, pa.schema(fields), n_rows, partitions)

    def read(self, names: list[str], kinds: Mapping[str, pa.DataType]) -> pa.Table:
        """Read columns; those of partitions have one value each, of these types."""
        stored = [name for name in names if name not in kinds]
        with _opened(self.path) as file:
            # a name may begin with another name and a dot, which would be read as well
            table = file.read(columns=stored).select(stored)
        columns = dict(zip(stored, table.columns, strict=True))
        for name in kinds.keys() & {*names}:
            value = pa.scalar(self.partitions[name]).cast(kinds[name])
            columns[name] = pa.repeat(value, self.n_rows)
        return pa.table({name: columns[name] for name in names})


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    # ParquetFile, because read_table makes columns out of folder names such as "year=2024";
    # pre_buffer would hold the whole file besides, and a local file gains nothing by it
    with (
        _reading(path.name),
        pa.parquet.ParquetFile(path, pre_buffer=False, **_WIDE) as file,
    ):
        yield file


def _open(files: Mapping[str, Path], categorical: Collection[str], aside: Path | None) -> OpenTable:
    """Open files of the same schema in order, after checking all their footers."""
    opened = [_File.of(name, path) for name, path in files.items()]
    first, first_name = opened[0], next(iter(files))
    for name, other in zip(files, opened, strict=True):
        check_same_columns(first.schema, first_name, other.schema, name)
    kinds = {
        key: _kind_of_partitions(file.partitions[key] for file in opened)
        for key in first.partitions
    }
    return OpenTable(
        [*first.schema.names, *kinds],
        sum(file.n_rows for file in opened),
        lambda names: pa.concat_tables(
            [file.read(names, kinds) for file in opened], promote_options="permissive"
        ),
    )


def _kind_of_partitions(values: Iterable[str | None]) -> pa.DataType:
    """Return int64 for whole numbers without leading zeros, as Spark and Arrow do, else text."""
    is_whole = all(v is None or re.fullmatch(r"0|-?[1-9]\d{0,17}", v) for v in values)
    return pa.int64() if is_whole else pa.string()


def _columns(file: Any, name: str) -> list[str]:
    """Return the names of the columns of an open file, from its footer and its name."""
    with _reading(name):
        schema = pa.parquet.ParquetFile(file, **_WIDE).schema_arrow
    check_columns([*schema.names, *partitions_of(name)], name)
    stored = without_unnamed_index(schema.empty_table()).column_names
    return [*stored, *partitions_of(name)]


def _n_rows(file: Any, name: str) -> int:
    """Return the number of rows of an open file, from its footer."""
    with _reading(name):
        return int(pa.parquet.ParquetFile(file, **_WIDE).metadata.num_rows)


def _column_bytes(files: Iterable[tuple[str, Any]]) -> Mapping[str, int]:
    """Return the compressed size of each column over all files, from their footers."""
    sizes: Counter[str] = Counter()
    for name, file in files:
        with _reading(name), pa.parquet.ParquetFile(file) as parquet:
            metadata, schema = parquet.metadata, parquet.schema_arrow
        columns = [field.name for field in schema for _ in range(_n_stored(field.type))]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for i, column in enumerate(columns):
                if not _UNNAMED_INDEX.fullmatch(column):
                    sizes[column] += group.column(i).total_compressed_size
        for key, value in partitions_of(name).items():
            sizes[key] += len(f"{key}={value}/")
    return sizes


PARQUET = Format(
    name="Parquet",
    listed="Parquet",
    endings=(".parquet", ".pq"),
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
