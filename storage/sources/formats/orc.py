"""An ORC file as an Arrow table."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from chaffinch.storage.column_names import check_columns
from chaffinch.storage.sources.formats.parquet import without_unnamed_index
from chaffinch.storage.sources.source import (
    Format,
    OpenFile,
    one_after_another,
    readable_as,
    sizes_in_memory,
)


@contextmanager
def _opened(source: Any, name: str) -> Iterator[Any]:
    """Open a path or an open file."""
    from pyarrow import orc

    with readable_as("ORC", name):
        file = orc.ORCFile(source)
        check_columns(file.schema.names, name)
        yield file


def _schema(file: Any) -> pa.Schema:
    return without_unnamed_index(file.schema.empty_table()).schema


def _open(name: str, path: Path) -> OpenFile:
    with _opened(path, name) as file:
        schema, n_rows = _schema(file), file.nrows

    def load(some: list[str]) -> pa.Table:
        with _opened(path, name) as file:
            return file.read(columns=some).select(some).replace_schema_metadata(None)

    return OpenFile(schema, n_rows, load)


def _columns(file: Any, name: str) -> list[str]:
    with _opened(file, name) as opened:
        return list(_schema(opened).names)


def _n_rows(file: Any, name: str) -> int:
    with _opened(file, name) as opened:
        return int(opened.nrows)


ORC: Format = Format(
    name="ORC",
    listed=".orc",
    endings=(".orc",),
    columns=_columns,
    column_bytes=lambda files: sizes_in_memory(ORC.read(dict(files))),
    open=lambda files, categorical, aside: one_after_another(files, _open),
    n_rows=_n_rows,
)
