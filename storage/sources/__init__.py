"""Sources: every table that can be read, resolved once into an object of a small class."""

from __future__ import annotations

import os
from typing import Any

from chaffinch.errors import InputError
from chaffinch.storage.sources.adbc import AdbcSource
from chaffinch.storage.sources.addresses import scheme_of, unknown_scheme
from chaffinch.storage.sources.cloud.azure import AzureSource
from chaffinch.storage.sources.cloud.gcs import GcsSource
from chaffinch.storage.sources.cloud.s3 import S3Source
from chaffinch.storage.sources.dask import DaskSource
from chaffinch.storage.sources.delta import DeltaSource
from chaffinch.storage.sources.duckdb import DuckDBSource
from chaffinch.storage.sources.files import FileSource
from chaffinch.storage.sources.iceberg import IcebergSource
from chaffinch.storage.sources.memory import MemorySource
from chaffinch.storage.sources.source import Source
from chaffinch.storage.sources.sql import SqlSource
from chaffinch.storage.sources.streams import StreamSource

__all__ = ["KINDS", "Source", "source_of"]

# The first that fits is taken: SqlSource takes the schemes of all SQLAlchemy dialects, MemorySource
# every object.
KINDS: list[type[Source]] = [
    DeltaSource,
    FileSource,
    S3Source,
    GcsSource,
    AzureSource,
    DuckDBSource,
    IcebergSource,
    AdbcSource,
    SqlSource,
    DaskSource,
    StreamSource,
    MemorySource,
]


def source_of(data: Any) -> Source:
    """Return the source that a path, an address or a table in memory stands for.

    Taken are paths to files, with ``*`` for several, or to a folder of Parquet files or a Delta
    table; addresses of files in object storage, or of a table or query in a database; lists of
    paths or addresses of files; tables of pandas, polars or Arrow, or with ``__arrow_c_stream__``.
    A `Source` is returned as it is. No row is read. InputError for empty text, the character of
    code 0, and an address that holds a secret, is malformed or of an unknown scheme.
    """
    if _is_list_of_paths(data):
        return _joined([source_of(path) for path in data])
    for kind in KINDS:
        if isinstance(data, kind):
            return data
    scheme = scheme_of(data)
    address = data.strip() if scheme else data
    for kind in KINDS:
        if (source := kind.of(address, scheme)) is not None:
            return source
    raise unknown_scheme(scheme)


def _is_list_of_paths(data: Any) -> bool:
    is_list = isinstance(data, list | tuple) and len(data) > 0
    return is_list and all(isinstance(path, str | os.PathLike) for path in data)


def _joined(sources: list[Source]) -> Source:
    """Return one table of the files of several sources."""
    first, *others = sources
    if other := next((source for source in others if type(source) is not type(first)), None):
        raise InputError(
            f"a list names files in one place, but {first} and {other} are not; copy one of them"
        )
    return type(first).joined(sources)
