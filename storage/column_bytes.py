"""How many bytes each column of a source takes where it is: what reading fewer of them saves."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.delimited import ENDINGS, bytes_of_columns
from chaffinch.storage.errors import InputError
from chaffinch.storage.sources import Source, kind_of_path, parquet_files, read_source


def column_bytes(source: Source) -> Mapping[str, int]:
    """Return the bytes of each column, by its name, in the source's order.

    Parameters
    ----------
    source : path, or pandas, polars or Arrow table
        See `chaffinch.storage.sources.read_source`.

    Returns
    -------
    mapping of str to int
        Of Parquet what its columns take in the files, compressed; of delimited text its unpacked
        fields, each with what parts it from the next; of a table in memory its Arrow buffers.

    Raises
    ------
    InputError
        If the source cannot be read.
    """
    if not isinstance(source, str | os.PathLike):
        table = read_source(source)
        return {name: table.column(name).nbytes for name in table.column_names}
    path = Path(source)
    kind = kind_of_path(path)
    if kind in ENDINGS:
        return bytes_of_columns(path, kind)
    return _of_parquet(parquet_files(path) if path.is_dir() else [path])


def _of_parquet(files: list[Path]) -> Mapping[str, int]:
    """Return what footers say; of a nested column, of all that it is stored as."""
    found: Counter[str] = Counter()
    for path in files:
        try:
            metadata, schema = pa.parquet.read_metadata(path), pa.parquet.read_schema(path)
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path.name} is no readable Parquet file: {error}") from error
        names = [field.name for field in schema for _ in range(_n_stored(field.type))]
        for group in map(metadata.row_group, range(metadata.num_row_groups)):
            for i, name in enumerate(names):
                found[name] += group.column(i).total_compressed_size
    return found


def _n_stored(kind: pa.DataType) -> int:
    """Return how many columns of plain values Parquet stores a column as."""
    if not pa.types.is_nested(kind):
        return 1
    return sum(_n_stored(kind.field(i).type) for i in range(kind.num_fields))
