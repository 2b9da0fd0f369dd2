"""An Arrow IPC file, which Feather files are too, as an Arrow table."""

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
def _opened(source: Any, name: str, included: list[int] | None = None) -> Iterator[Any]:
    """Open a path or an open file; read the fields at these positions, or all."""
    options = pa.ipc.IpcReadOptions(included_fields=included)
    with readable_as("Arrow", name), pa.ipc.open_file(source, options=options) as file:
        yield file


def _schema(file: Any, name: str) -> pa.Schema:
    check_columns(file.schema.names, name)
    return without_unnamed_index(file.schema.empty_table()).schema


def _open(name: str, path: Path) -> OpenFile:
    with pa.memory_map(str(path)) as mapped, _opened(mapped, path.name) as file:
        every, schema = file.schema.names, _schema(file, path.name)
        n_rows = _n_rows(mapped, path.name)

    def load(some: list[str]) -> pa.Table:
        included = sorted(map(every.index, some))
        with pa.memory_map(str(path)) as mapped, _opened(mapped, path.name, included) as file:
            return file.read_all().select(some).replace_schema_metadata(None)

    return OpenFile(schema, n_rows, load)


def _columns(file: Any, name: str) -> list[str]:
    with _opened(file, name) as opened:
        return list(_schema(opened, name).names)


def _n_rows(file: Any, name: str) -> int:
    with _opened(file, name, [0]) as opened:
        batches = map(opened.get_batch, range(opened.num_record_batches))
        return sum(batch.num_rows for batch in batches)


IPC: Format = Format(
    name="Arrow IPC",
    listed=".arrow, .feather",
    endings=(".arrow", ".feather"),
    columns=_columns,
    # a file may compress batches, of all columns
    column_bytes=lambda files: sizes_in_memory(IPC.read(dict(files))),
    open=lambda files, categorical, aside: one_after_another(files, _open),
    n_rows=_n_rows,
)
