"""How many bytes each column of a source takes where it is: what reading fewer of them saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.datasets.column_names import check_columns
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import Source, kind_of_path, on_this_disk, read_source, reading
from chaffinch.storage.sources.addresses import (
    TEXT_ENDINGS,
    S3Address,
    SqlAddress,
    kind_of_name,
    place_of,
)
from chaffinch.storage.sources.csv import bytes_of_columns, read_header
from chaffinch.storage.sources.parquet import WIDE, parquet_files, without_unnamed_index


def column_bytes(source: Source) -> Mapping[str, int]:
    """Return the bytes of each column, by its name, in the source's order."""
    place = place_of(source)
    if place is None or isinstance(place, SqlAddress):
        table = read_source(source)
        return {name: table.column(name).nbytes for name in table.column_names}
    if isinstance(place, S3Address) and kind_of_name(place.name) not in TEXT_ENDINGS:
        from chaffinch.storage.sources import s3

        return _of_parquet(s3.opened(place))  # footers alone: no copy
    with on_this_disk(place) as path:
        kind = kind_of_path(path)
        if kind in TEXT_ENDINGS:
            return bytes_of_columns(path, kind)
        files = parquet_files(path) if path.is_dir() else [path]
        return _of_parquet((file.name, file) for file in files)


def _of_parquet(files: Iterable[tuple[str, Any]]) -> Mapping[str, int]:
    """Return what footers say; of a nested column, of all that it is stored as."""
    found: Counter[str] = Counter()
    for name, file in files:
        try:
            with pa.parquet.ParquetFile(file) as parquet:
                metadata, schema = parquet.metadata, parquet.schema_arrow
        except (MemoryError, PermissionError):
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{name} is no readable Parquet file: {error}") from error
        columns = [field.name for field in schema for _ in range(_n_stored(field.type))]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for i, column in enumerate(columns):
                found[column] += group.column(i).total_compressed_size
    return found


def _n_stored(kind: pa.DataType) -> int:
    """Return how many columns of plain values Parquet stores a column as."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(_n_stored(kind.field(i).type) for i in range(kind.num_fields))


def column_names(source: Source) -> list[str]:
    """Return the names of a source's columns, in their order."""
    place = place_of(source)
    if place is None:
        return list(read_source(source, may_be_empty=True).column_names)
    if isinstance(place, SqlAddress):
        return _in_database(place)
    if isinstance(place, Path):
        with reading(place):
            kind = kind_of_path(place)
            path = parquet_files(place)[0] if place.is_dir() else place
            with path.open("rb") as file:
                file.peek()  # a disk that fails is not a damaged file
                return _in_file(file, path.name, kind)
    from chaffinch.storage.sources import s3

    with closing(s3.opened(place)) as files:
        name, file = next(files)
        return _in_file(file, name, kind_of_name(name))


def _in_file(file: Any, name: str, kind: str | None) -> list[str]:
    if kind in TEXT_ENDINGS:
        return read_header(file, name, kind).columns
    try:
        schema = pa.parquet.ParquetFile(file, **WIDE).schema_arrow
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is no readable Parquet file: {error}") from error
    check_columns(schema.names, name)
    return list(without_unnamed_index(schema.empty_table()).column_names)


def _in_database(place: SqlAddress) -> list[str]:
    from chaffinch.storage.sources.sql import columns_in_database

    if place.file is None:
        return columns_in_database(place)
    with reading(place.file):
        return columns_in_database(place)
