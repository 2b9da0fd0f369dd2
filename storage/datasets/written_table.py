"""A table in memory as a file of the store, so that a path can stand for it."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pyarrow as pa

from chaffinch.storage.files import one_line_errors, sha256_of_written, write_file
from chaffinch.storage.sources.data_set_name import name_of_written
from chaffinch.storage.sources.source import Source
from chaffinch.storage.spilled import spill_folder

_ROWS_PER_BATCH = 131_072


def write_table(source: Source, folder: Path) -> Path:
    """Write a table as it is read to a file in `folder`, and return the file.

    It is an Arrow IPC file, which has every type that a table in memory may have, and is named by
    the hash of its bytes: the same table again is the same file.
    """
    table = source.read()
    with spill_folder(folder) as aside:
        made = aside / "table.arrow"
        with (
            one_line_errors(made),
            pa.OSFile(str(made), "wb") as sink,
            pa.ipc.new_file(
                sink, table.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)
            ) as writer,
        ):
            writer.write_table(table, _ROWS_PER_BATCH)
        written = folder / name_of_written(source, sha256_of_written(made))
        write_file(written, partial(os.replace, made))
    return written
