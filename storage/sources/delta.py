"""Delta tables: folders with ``_delta_log``, of which the newest version is read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.extras import require
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.parquet import DELTA_LOG, PARQUET
from chaffinch.storage.sources.source import OpenTable, Source


@dataclass(frozen=True)
class DeltaSource(Source):
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
        with self._opened():
            pass

    def load(self, categorical: Collection[str], drop: Container[str]) -> pa.Table:
        with self.open(categorical, drop, None) as table:
            return table.load(table.names)

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._opened() as (_, dataset):
            # the dataset fixes the version and the order of its files, so that columns fit
            names, n_rows = self._names(dataset), dataset.count_rows()
            yield OpenTable(names, n_rows, lambda some: dataset.to_table(columns=some))

    def columns(self) -> list[str]:
        with self._opened() as (_, dataset):
            return self._names(dataset)

    def column_bytes(self) -> Mapping[str, int]:
        """Return compressed sizes from the footers; of partitions, those of the folders' names."""
        with self._opened() as (_, dataset):
            storage = dataset.filesystem
            files = ((name, storage.open_input_file(name)) for name in dataset.files)
            sizes = PARQUET.column_bytes(files)
            return {name: sizes.get(name, 0) for name in self._names(dataset)}

    def shape(self) -> tuple[int, int] | None:
        with self._opened() as (_, dataset):
            return dataset.count_rows(), len(dataset.schema)

    def has_header(self) -> bool:
        return True

    def fingerprint(self) -> str:
        """SHA-256 of the version's schema and files: their names, sizes and times of change."""
        with self._opened() as (table, _):
            files = pa.table(table.get_add_actions(flatten=True))
            keys = ["path", "size_bytes", "modification_time"]
            content = [
                table.schema().to_json(),
                sorted(map(list, zip(*(files[key].to_pylist() for key in keys), strict=True))),
            ]
            return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def _names(self, dataset: Any) -> list[str]:
        check_columns(dataset.schema.names, self.label)
        return list(dataset.schema.names)

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Any]]:
        """Open the newest version, and its rows as an Arrow dataset."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with reading(self.path):
            try:
                table = DeltaTable(self.path)
                yield table, table.to_pyarrow_dataset()
            except (DeltaError, FileNotFoundError, pa.ArrowException) as error:
                raise_if_out_of_memory(error)
                reason = str(error).partition("\n")[0]
                raise InputError(
                    f"{self} is no Delta table that can be read ({reason}); repair it, or write "
                    "its rows as Parquet"
                ) from error
