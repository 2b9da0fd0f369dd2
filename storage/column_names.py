"""What the columns of a source are called, without reading its rows."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.addresses import TEXT_ENDINGS, SqlAddress, kind_of_name, place_of
from chaffinch.storage.errors import InputError
from chaffinch.storage.headers import read_header
from chaffinch.storage.names import check_columns
from chaffinch.storage.parquet import WIDE, parquet_files, without_unnamed_index
from chaffinch.storage.sources import Source, kind_of_path, read_source, reading


def column_names(source: Source) -> list[str]:
    """Return the names of a source's columns, in their order.

    Parameters
    ----------
    source : path or address, or pandas, polars or Arrow table
        See `chaffinch.storage.sources.read_source`. Of text the header is read, of Parquet the
        footer of the first file, and of a database what it says of the table, or as it begins
        to answer a query.

    Raises
    ------
    InputError
        If there is no such source, it may not be read, or a column has no name of its own.
    """
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
    from chaffinch.storage import s3

    with closing(s3.opened(place)) as files:
        name, file = next(files)
        return _in_file(file, name, kind_of_name(name))


def _in_file(file: Any, name: str, kind: str | None) -> list[str]:
    if kind in TEXT_ENDINGS:
        return read_header(file, name, kind).names
    try:
        schema = pa.parquet.ParquetFile(file, **WIDE).schema_arrow
    except MemoryError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} is no readable Parquet file: {error}") from error
    check_columns(schema.names, name)
    return list(without_unnamed_index(schema.empty_table()).column_names)


def _in_database(place: SqlAddress) -> list[str]:
    from chaffinch.storage.sql import columns_in_database

    if place.file is None:
        return columns_in_database(place)
    with reading(place.file):
        return columns_in_database(place)
