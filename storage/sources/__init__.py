"""Sources: any table a person has at hand, read into one Arrow table.

A path to delimited text or Parquet, such a file in S3, a table or query in a database, or a table
in memory. Nothing is typed or reordered here; see `chaffinch.storage.datasets.column_types` for
what the columns become.
"""

from __future__ import annotations

import hashlib
import sys
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any

import pyarrow as pa

from chaffinch.storage.datasets.column_names import check_columns, nearest, text_of_label
from chaffinch.storage.datasets.column_types import whole_number_too_large
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import check_path, check_regular, sha256_of_file
from chaffinch.storage.sources.addresses import (
    PARQUET_ENDINGS,
    TAKEN,
    TEXT_ENDINGS,
    S3Address,
    SqlAddress,
    kind_of_name,
    place_of,
)
from chaffinch.storage.sources.csv import read_delimited
from chaffinch.storage.sources.parquet import parquet_files, read_parquet, without_unnamed_index

Source = Any  # a path, an address, or a table in memory; see read_source


def read_source(
    source: Source,
    categorical: Collection[str] = (),
    *,
    drop: Collection[str] = (),
    may_be_empty: bool = False,
) -> pa.Table:
    """Read a table from wherever it is.

    Parameters
    ----------
    source : str, os.PathLike, or table
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
    place = place_of(source)
    if place is None:
        table, where = _from_memory(source, drop), "the table"
    elif isinstance(place, SqlAddress):
        table, where = _from_database(place), place.what
    else:
        with on_this_disk(place) as path:
            table, where = _from_path(path, categorical), place.name
    check_columns(table.column_names, where)
    for name, column in zip(table.column_names, table.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise InputError(
                f"column {name!r} of {where} cannot be read ({error}); correct its values, or "
                "leave the column out"
            ) from error
    if not (table.num_rows or may_be_empty):
        raise InputError(f"{where} has columns but no rows; give at least one")
    return table.replace_schema_metadata(None)


def check_source(source: Source) -> None:
    """Refuse at once what `read_source` would refuse without a look inside."""
    place = place_of(source)
    if isinstance(place, Path):
        with reading(place):
            kind_of_path(place)
    elif isinstance(place, SqlAddress) and place.file is not None:
        with reading(place.file):
            pass


def says_what_is_text(source: Source) -> bool:
    """Return whether a source tells text from numbers by itself, as CSV and TSV do not."""
    place = place_of(source)
    if isinstance(place, Path):
        with reading(place):
            return kind_of_path(place) not in TEXT_ENDINGS
    return not isinstance(place, S3Address) or kind_of_name(place.name) not in TEXT_ENDINGS


def is_elsewhere(source: Source) -> bool:
    """Return whether a source is neither in memory nor on this disk, so that reading costs more."""
    return isinstance(place_of(source), S3Address | SqlAddress)


def source_name(source: Source) -> str:
    """Return a short name for a source, without its folder, which may hold more than it should.

    Raises
    ------
    InputError
        If it is an address that cannot be one, or holds a secret.
    """
    place = place_of(source)
    return type(source).__name__ if place is None else place.name


def source_fingerprint(source: Source) -> str | None:
    """Return 64 hexadecimal digits that change with a source's bytes; None where it has none.

    The SHA-256 of a file's bytes; for a folder of Parquet files it covers their names and bytes in
    the order of the names. Of objects in S3 it covers what the storage says of them; None if that
    does not tell one content from another. None for a database and a table in memory.
    """
    place = place_of(source)
    if place is None or isinstance(place, SqlAddress):
        return None
    if isinstance(place, S3Address):
        from chaffinch.storage.sources import s3

        return s3.fingerprint(place)
    with reading(place):
        if not place.is_dir():
            return sha256_of_file(place)
        digest = hashlib.sha256()
        for part in parquet_files(place):
            digest.update(f"{part.name}\0{sha256_of_file(part)}\n".encode())
        return digest.hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Say what is wrong with a path that can be none, is missing, no file or cannot be read."""
    check_path(path)
    try:
        if not path.exists():
            folder = path.parent
            known = (p.name for p in folder.iterdir()) if folder.is_dir() else ()
            raise InputError(f"there is no file {path}{nearest(path.name, known)}")
        check_regular(path, "a source")
        yield
    except PermissionError as error:
        raise InputError(f"reading {path} is not allowed; change its permissions") from error
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); check its disk, or name another"
        ) from error


@contextmanager
def on_this_disk(place: Path | S3Address) -> Iterator[Path]:
    """Give the path of a file or folder, or of a copy of what is elsewhere, as long as needed."""
    if isinstance(place, Path):
        with reading(place):
            yield place
    else:
        from chaffinch.storage.sources import s3

        with s3.local_copy(place) as path:
            yield path


def _from_database(place: SqlAddress) -> pa.Table:
    from chaffinch.storage.sources.sql import read_sql

    if place.file is None:
        return read_sql(place)
    with reading(place.file):
        return read_sql(place)


def _from_path(path: Path, categorical: Collection[str]) -> pa.Table:
    kind = kind_of_path(path)
    if kind in TEXT_ENDINGS:
        return read_delimited(path, kind, categorical)
    return read_parquet(parquet_files(path) if path.is_dir() else [path])


def kind_of_path(path: Path) -> str:
    """Return the ending that says how a path is read; a folder is one of Parquet files."""
    if path.is_dir():
        parquet_files(path)
        return PARQUET_ENDINGS[0]
    kind = kind_of_name(path.name)
    if kind is None:
        raise InputError(f"{path.name} has no known ending; give {TAKEN}")
    return kind


def _from_memory(source: Any, drop: Collection[str]) -> pa.Table:
    try:
        table = _as_arrow(source, drop)
    except (InputError, MemoryError):
        raise
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, OverflowError) and (name := _beyond_int64(source)) is not None:
            raise InputError(whole_number_too_large(name)) from error
        reasons = "; ".join(shorten(str(reason), 200, placeholder="...") for reason in error.args)
        raise InputError(
            f"the table cannot be read ({reasons}); give each column values of one type, or "
            "drop the column"
        ) from error
    # Arrow may fail to join a column that has empty chunks
    columns = [
        pa.chunked_array([chunk for chunk in column.chunks if len(chunk)], column.type)
        for column in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def _as_arrow(source: Any, drop: Collection[str]) -> pa.Table:
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if isinstance(source, pa.Table):
        return source
    if pandas is not None and isinstance(source, pandas.DataFrame):
        if named := [name for name in source.columns if isinstance(name, bytes)]:
            raise InputError(f"a column is named by bytes, {named[0]!r}; name it by text")
        check_columns([str(name) for name in source.columns], "the table")
        with warnings.catch_warnings():
            # names of mixed types become text, as every name does here
            warnings.filterwarnings("ignore", "The DataFrame has column names of mixed type")
            warnings.filterwarnings("ignore", "The DataFrame has non-str index name")
            dropped = [name for name in map(text_of_label, source.columns) if name in drop]
            rest = source.loc[:, [text_of_label(name) not in drop for name in source.columns]]
            table = without_unnamed_index(pa.Table.from_pandas(rest))
            for name in dropped:
                table = table.append_column(name, pa.nulls(len(rest)))
            return table
    if polars is not None and isinstance(source, polars.DataFrame):
        names = repr(source.schema)
        if "\\x00" in names:  # to export such a name would end the process
            raise InputError("a column name holds the character of code 0; rename the column")
    if hasattr(source, "__arrow_c_stream__"):
        return pa.table(source)
    raise InputError(f"a source must be {TAKEN} but is {type(source).__name__}")


def _beyond_int64(source: Any) -> str | None:
    """Return the first column of a pandas table that holds a whole number beyond int64."""
    for name, column in source.items():
        if column.dtype == object and any(
            isinstance(value, int) and not -(2**63) <= value < 2**63 for value in column
        ):
            return str(name)
    return None
