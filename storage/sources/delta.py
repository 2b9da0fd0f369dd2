"""Delta tables: folders with ``_delta_log``, of which the newest version is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import unquote

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.extras import require
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.formats.parquet import DELTA_LOG, PARQUET
from chaffinch.storage.sources.source import ArrowSource

_STORED_AS = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class DeltaSource(ArrowSource):
    """The newest version of a Delta table in a folder of this disk."""

    path: Path

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        # os.path.isdir is False, without an error, for text that cannot be a path
        if scheme != "" or not os.path.isdir(Path(data) / DELTA_LOG):  # noqa: PTH112
            return None
        require("deltalake", "a Delta table")
        return cls(Path(data))

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name.removesuffix(".delta")

    @property
    def label(self) -> str:
        return self.path.name

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    def check(self) -> None:
        with self.opened():
            pass

    def names(self, opened: Any) -> list[str]:
        return [field.name for field in opened.schema().fields]

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        """Return the rows that are not deleted; those of a version always have one order."""
        from deltalake import QueryBuilder

        # DeltaTable.scan reads several files at a time, in any order
        one_by_one = {"datafusion.execution.target_partitions": "1"}
        query = QueryBuilder(one_by_one).register("newest", opened)
        return pa.RecordBatchReader.from_stream(query.execute("SELECT * FROM newest"))

    def column_bytes(self) -> Mapping[str, int]:
        """Return compressed sizes from the footers; of partitions, those of the folders' names."""
        with self.opened() as table:
            sizes = PARQUET.column_bytes((name, self.path / name) for name in self.files())
            return {
                field.name: sizes.get(field.metadata.get(_STORED_AS, field.name), 0)
                for field in table.schema().fields
            }

    def files(self) -> list[str]:
        """Return the files of the newest version, by their paths below the folder."""
        with self.opened() as table:
            return [unquote(path) for path in _files(table)["path"].to_pylist()]

    def shape(self) -> tuple[int, int] | None:
        with self.opened() as table:
            return table.count(), len(table.schema().fields)

    def fingerprint(self) -> str:
        """SHA-256 of the version, its schema and files: their names, sizes and times of change."""
        with self.opened() as table:
            files = _files(table)
            keys = ["path", "size_bytes", "modification_time"]
            content = [
                table.version(),  # rows may be deleted without a new file
                json.loads(table.schema().to_json()),
                sorted(map(list, zip(*(files[key].to_pylist() for key in keys), strict=True))),
            ]
            return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the newest version."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with reading(self.path):
            try:
                yield DeltaTable(self.path)
            except (DeltaError, FileNotFoundError, pa.ArrowException) as error:
                raise_if_out_of_memory(error)
                reason = str(error).partition("\n")[0]
                raise InputError(
                    f"{self.label} is no Delta table that can be read ({reason}); repair it, or "
                    "write its rows as Parquet"
                ) from error


def _files(table: Any) -> pa.Table:
    return pa.table(table.get_add_actions(flatten=True))
