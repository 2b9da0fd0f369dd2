"""A dask.dataframe, which Dask writes as Parquet files."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import shorten
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns, text_of_label
from chaffinch.storage.memory import release_memory
from chaffinch.storage.sources.files import FileSource
from chaffinch.storage.sources.memory import MemorySource, named_levels
from chaffinch.storage.sources.source import OpenTable, Source


@dataclass(frozen=True, eq=False)
class DaskSource(MemorySource):
    """A dask.dataframe: a folder of Parquet files, of which no process needs all rows at once."""

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        is_frame = hasattr(data, "to_parquet") and hasattr(data, "partitions")
        return cls(data) if scheme is None and is_frame else None

    def check(self) -> None:
        check_columns(self._names, self.label)

    @property
    def _names(self) -> list[str]:
        return [text_of_label(label) for label in self.table.columns]

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._written(drop, aside) as source, source.open(categorical, drop, None) as table:
            yield table

    @contextmanager
    def read_apart(self, drop: Container[str], aside: Path) -> Iterator[Source | None]:
        with self._written(drop, aside) as source:
            yield source

    @contextmanager
    def _written(self, drop: Container[str], aside: Path | None) -> Iterator[FileSource]:
        """Give the files that Dask's present client, or else this process, writes to `aside`."""
        with TemporaryDirectory(dir=aside, prefix="partitions-") as folder:
            self._write(folder, drop)
            release_memory()  # of partitions
            if not any(Path(folder).iterdir()):
                raise InputError(
                    f"the workers that computed the table wrote it to {folder}, which is another "
                    "folder here; put the store, or CHAFFINCH_CACHE for one in object storage, "
                    "in a folder that all workers see"
                )
            names = zip(self._names, self.table.dtypes, strict=True)
            categories = [name for name, dtype in names if dtype == "category"]
            yield _Partitions(Path(folder), categories=frozenset(categories))

    def _write(self, folder: str, drop: Container[str]) -> None:
        names = self._names
        frame = self.table.rename(columns=dict(zip(self.table.columns, names, strict=True)))
        dropped = [name for name in frame.columns if name in drop]
        index = frame.index.name if frame.index.name is None else text_of_label(frame.index.name)
        if index in names and index not in drop:
            frame = frame.map_partitions(_with_equal_index, meta=frame.dtypes.to_dict())
        frame = frame.assign(**dict.fromkeys(dropped, math.nan))  # they may hold anything
        try:
            frame.to_parquet(folder, write_index=index is not None and index not in names)
        except InputError:
            raise
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise_if_out_of_memory(error)
            reason = shorten(str(error), 200, placeholder="...")
            raise InputError(
                f"the table cannot be read ({reason})", "give each column values of one type"
            ) from error


@dataclass(frozen=True)
class _Partitions(FileSource):
    """The files of a dask.dataframe, which errors do not name.

    `categories` are the columns of its categories, of which Parquet knows those of text alone.
    """

    categories: frozenset[str] = frozenset()

    label = DaskSource.label

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with super().open(categorical, drop, aside) as table:
            yield replace(table, load=lambda names: self._with_categories(table.load(names)))

    def _with_categories(self, table: pa.Table) -> pa.Table:
        for place, name in enumerate(table.column_names):
            column = table.column(place)
            if name in self.categories and not pa.types.is_dictionary(column.type):
                table = table.set_column(place, name, column.dictionary_encode())
        return table


def _with_equal_index(partition: Any) -> Any:
    """Return a partition; InputError if its index is not the column of that name."""
    named_levels(partition)
    return partition
