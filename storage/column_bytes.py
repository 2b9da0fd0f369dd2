"""How many bytes each column of a source takes where it is: what reading fewer of them saves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.addresses import TEXT_ENDINGS, S3Address, SqlAddress, kind_of_name, place_of
from chaffinch.storage.delimited import bytes_of_columns
from chaffinch.storage.errors import InputError
from chaffinch.storage.parquet import parquet_files
from chaffinch.storage.sources import Source, kind_of_path, on_this_disk, read_source


def column_bytes(source: Source) -> Mapping[str, int]:
    """Return the bytes of each column, by its name, in the source's order.

    Parameters
    ----------
    source : path or address, or pandas, polars or Arrow table
        See `chaffinch.storage.sources.read_source`.

    Returns
    -------
    mapping of str to int
        Of Parquet what its columns take in the files, compressed; of delimited text its unpacked
        fields, each with what parts it from the next; of what is in a database or in memory its
        Arrow buffers.

    Raises
    ------
    InputError
        If the source cannot be read.
    """
    place = place_of(source)
    if place is None or isinstance(place, SqlAddress):
        table = read_source(source)
        return {name: table.column(name).nbytes for name in table.column_names}
    if isinstance(place, S3Address) and kind_of_name(place.name) not in TEXT_ENDINGS:
        from chaffinch.storage import s3

        return _of_parquet(s3.opened(place))  # footers alone: no copy
    with on_this_disk(place) as path:
        kind = kind_of_path(path)
        if kind in TEXT_ENDINGS:
            return bytes_of_columns(path, kind)
        files = parquet_files(path) if path.is_dir() else [path]
        return _of_parquet((file.name, file) for file in files)


def _of_parquet(files: Iterable[tuple[str, Any]]) -> Mapping[str, int]:
    """Return what footers say; of a nested column, of all that it is stored as.

    Parameters
    ----------
    files : iterable of (str, Path or file)
        Each with its name, for the errors.
    """
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
