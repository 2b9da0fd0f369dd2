"""Sources: any table a person has at hand, read into one Arrow table.

A path to delimited text or Parquet, or a table in memory. Nothing is typed or reordered here;
see `chaffinch.storage.columns` for what the columns become.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.delimited import ENDINGS, read_delimited
from chaffinch.storage.errors import InputError
from chaffinch.storage.files import sha256_of_file
from chaffinch.storage.names import check_columns, nearest

Source = Any  # a path, or a table in memory; see read_source

_TAKEN = (
    "a path to .csv, .tsv, .txt (each plain or .gz) or Parquet, a folder of Parquet files, or a "
    "table of pandas, polars or Arrow"
)
_PARQUET = (".parquet", ".pq")


def read_source(
    source: Source, categorical: Collection[str] = (), *, may_be_empty: bool = False
) -> pa.Table:
    """Read a table from wherever it is.

    Parameters
    ----------
    source : str, os.PathLike, or table
        A path to UTF-8 text ending in .csv, .tsv or .txt, each plain or .gz; to a .parquet or .pq
        file; or to a folder of Parquet files of one schema, taken in the order of their names.
        Or a table in memory: pandas, polars, Arrow, or anything with ``__arrow_c_stream__``.
        Of a pandas index, named levels become columns, the last ones; an unnamed index or a
        range is left out. Parquet files that pandas wrote are read by the same rule.
    categorical : collection of str
        Columns of delimited text that are categories, and so stay as they are written. Other
        sources have types of their own.
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
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        with reading(path):
            table = _from_path(path, categorical)
        where = path.name
    else:
        table, where = _from_memory(source), "the table"
    check_columns(table.column_names, where)
    if not (table.num_rows or may_be_empty):
        raise InputError(f"{where} has columns but no rows; give at least one")
    return table.replace_schema_metadata(None)


def check_source(source: Source) -> None:
    """Refuse at once what `read_source` would refuse without a look inside.

    Raises
    ------
    InputError
        If there is no such file or folder, its ending is unknown, or it is no table.
    """
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        kind_of_path(path)


def says_what_is_text(source: Source) -> bool:
    """Return whether a source tells text from numbers by itself, as CSV and TSV do not."""
    if not isinstance(source, str | os.PathLike):
        return True
    return kind_of_path(Path(source)) not in ENDINGS


def source_fingerprint(source: Source) -> str | None:
    """Return the SHA-256 of a source's bytes, 64 hexadecimal digits; None for a table in memory.

    For a folder of Parquet files it covers their names and bytes in the order of the names.

    Raises
    ------
    InputError
        If there is no such file, or the folder has no Parquet files.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    path = Path(source)
    with reading(path):
        if not path.is_dir():
            return sha256_of_file(path)
        digest = hashlib.sha256()
        for part in parquet_files(path):
            digest.update(f"{part.name}\0{sha256_of_file(part)}\n".encode())
        return digest.hexdigest()


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise InputError for a path that is missing or may not be read, and say so."""
    try:
        if not path.exists():
            folder = path.parent
            known = (p.name for p in folder.iterdir()) if folder.is_dir() else ()
            raise InputError(f"there is no file {path}{nearest(path.name, known)}")
        yield
    except PermissionError as error:
        raise InputError(f"reading {path} is not allowed; change its permissions") from error


def _from_path(path: Path, categorical: Collection[str]) -> pa.Table:
    kind = _kind_of(path)
    if kind in ENDINGS:
        return read_delimited(path, kind, categorical)
    return _read_parquet(parquet_files(path) if path.is_dir() else [path])


def kind_of_path(path: Path) -> str:
    """Return the ending that says how a path is read; a folder is one of Parquet files.

    Raises
    ------
    InputError
        If its ending is unknown, or the folder has no Parquet files.
    """
    with reading(path):
        return _kind_of(path)


def _kind_of(path: Path) -> str:
    if path.is_dir():
        parquet_files(path)
        return _PARQUET[0]
    endings = [ending.lower() for ending in path.suffixes]
    kind = endings[-2:-1] if endings[-1:] == [".gz"] else endings[-1:]
    if kind and (kind[0] in ENDINGS or endings[-1] in _PARQUET):
        return kind[0]
    raise InputError(f"{path.name} has no known ending; give {_TAKEN}")


def _from_memory(source: Any) -> pa.Table:
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(source, pandas.DataFrame):
        check_columns([str(name) for name in source.columns], "the table")
        with warnings.catch_warnings():
            # names of mixed types become text, as every name does here
            warnings.filterwarnings("ignore", "The DataFrame has column names of mixed type")
            try:
                return _without_unnamed_index(pa.Table.from_pandas(source))
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise InputError(_unreadable(error)) from error
    if hasattr(source, "__arrow_c_stream__"):
        try:
            return pa.table(source)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(_unreadable(error)) from error
    raise InputError(f"a source must be {_TAKEN} but is {type(source).__name__}")


def _unreadable(error: Exception) -> str:
    reasons = "; ".join(str(reason) for reason in error.args)
    return f"the table cannot be read ({reasons}); give each column values of one type"


def _without_unnamed_index(table: pa.Table) -> pa.Table:
    named = [n for n in table.column_names if not re.fullmatch(r"__index_level_\d+__", n)]
    return table.select(named)


def parquet_files(folder: Path) -> list[Path]:
    """Return a folder's Parquet files by their names; InputError if it has none, or folders."""
    seen = sorted(p for p in folder.iterdir() if p.name[0] not in "._")
    inner = [p.name for p in seen if p.is_dir()]
    if inner:
        raise InputError(
            f"folder {folder} holds the folder {inner[0]}, and partitions are not read; "
            "name a folder that holds its Parquet files directly"
        )
    files = [p for p in seen if p.suffix.lower() in _PARQUET]
    if not files:
        raise InputError(f"folder {folder} has no .parquet files; name one that holds some")
    return files


def _read_parquet(files: Sequence[Path]) -> pa.Table:
    tables: list[pa.Table] = []
    for path in files:
        try:
            # ParquetFile, because read_table makes columns out of folder names such as "year=2024";
            # pre_buffer would hold the whole file besides, and a local one gains nothing by it
            with pa.parquet.ParquetFile(path, pre_buffer=False) as file:
                check_columns(file.schema_arrow.names, path.name)
                table = _without_unnamed_index(file.read()).replace_schema_metadata(None)
        except PermissionError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path.name} is no readable Parquet file: {error}") from error
        if tables:
            check_same_columns(tables[0].schema, files[0].name, table.schema, path.name)
        tables.append(table)
    return pa.concat_tables(tables, promote_options="permissive")


def check_same_columns(first: pa.Schema, first_name: str, other: pa.Schema, name: str) -> None:
    """Refuse two files of one table whose columns differ; InputError names the first that does."""
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
