"""Sources: every table that can be read, resolved once into an object of a small class.

A new kind of source is one file with a subclass of `Source`, and one line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa

from chaffinch.storage.sources.addresses import scheme_of, unknown_scheme
from chaffinch.storage.sources.files import FileSource
from chaffinch.storage.sources.memory import MemorySource
from chaffinch.storage.sources.s3 import S3Source
from chaffinch.storage.sources.source import Source
from chaffinch.storage.sources.sql import SqlSource

__all__ = ["KINDS", "Source", "read_source", "source_of"]

# The first that fits is taken; MemorySource accepts every object.
KINDS: list[type[Source]] = [FileSource, S3Source, SqlSource, MemorySource]


def source_of(data: Any) -> Source:
    """Return the source that a path, an address or a table in memory stands for.

    A `Source` is returned as it is. Nothing is read. Raises InputError for empty text, the
    character of code 0, and an address that holds a secret, is malformed or of an unknown scheme.
    """
    for kind in KINDS:
        if isinstance(data, kind):
            return data
    scheme = scheme_of(data)
    given = data.strip() if scheme else data
    for kind in KINDS:
        if (source := kind.of(given, scheme)) is not None:
            return source
    raise unknown_scheme(scheme)


def read_source(
    data: Any,
    categorical: Collection[str] = (),
    *,
    drop: Collection[str] = (),
    may_be_empty: bool = False,
) -> pa.Table:
    """Read a table from wherever it is.

    Parameters
    ----------
    data : str, os.PathLike, or table
        A path to UTF-8 text ending in .csv, .tsv or .txt, each plain or .gz; to a .parquet or .pq
        file; or to a folder of Parquet files of one schema, taken in the order of their names.
        Or, as text, the address of such a file or folder in S3-compatible storage,
        ``s3://bucket/key``; see `chaffinch.storage.sources.s3`. Or that of a table or query in a
        database, ``postgresql://host/database#table`` or ``sqlite:///file.db#SELECT ...``; see
        `chaffinch.storage.sources.sql`. Or a table in memory: pandas, polars, Arrow, or anything
        with ``__arrow_c_stream__``. Of a pandas index, named levels become columns, the last ones;
        an unnamed index or a range is left out. Parquet files that pandas wrote are read by the
        same rule.
    categorical : collection of str
        Columns of delimited text that are categories, and so stay as they are written. Other
        sources have types of their own.
    drop : collection of str
        Columns that the caller drops. Of a pandas table they are not converted, since Arrow cannot
        hold every one of them, and their values are missing.
    may_be_empty : bool
        Whether a table without a row is one.

    Returns
    -------
    pyarrow.Table
        Every column has a name of its own.

    Raises
    ------
    InputError
        If there is no such file, it is damaged or empty, or it is no table.

    Notes
    -----
    In text a field is missing if it is empty or one of the words that pandas takes for it, such
    as NA, NaN, None and null. A column's type is the narrowest that all its rows allow, but whole
    numbers with leading zeros, such as 00500, stay text.
    """
    return source_of(data).read(categorical, drop=drop, may_be_empty=may_be_empty)
