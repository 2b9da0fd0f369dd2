"""Iceberg tables, of which the newest snapshot is read, in the catalogs of pyiceberg's settings."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.extras import lacks, require
from chaffinch.storage.sources.source import ArrowSource

_SCHEME = "iceberg"
_ADDRESS = re.compile(r"([^/?#.]+)/([^/?#.]+(?:\.[^/?#.]+)+)")
_N_ROWS = "total-records"


@dataclass(frozen=True)
class IcebergSource(ArrowSource):
    """The newest snapshot of a table in a catalog."""

    catalog: str
    table: str  # with its namespace
    rereadable: ClassVar[bool] = False

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != _SCHEME:
            return None
        address = _ADDRESS.fullmatch(data.partition("://")[2])
        if address is None:
            raise InputError(
                "an Iceberg table is named by its catalog, namespace and name, as in "
                "iceberg://default/shop.orders; the catalog is one of .pyiceberg.yaml, or of "
                "PYICEBERG_CATALOG__DEFAULT__URI in the environment"
            )
        require("pyiceberg", "an Iceberg table")
        return cls(*address.groups())

    def __str__(self) -> str:
        return self.address

    @property
    def name(self) -> str:
        return self.table.rpartition(".")[2]

    @property
    def label(self) -> str:
        return self.table

    @property
    def address(self) -> str:
        return f"{_SCHEME}://{self.catalog}/{self.table}"

    def names(self, opened: Any) -> list[str]:
        return [field.name for field in opened.schema().fields]

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        return opened.scan().to_arrow_batch_reader()

    def column_bytes(self) -> Mapping[str, int]:
        """Return compressed sizes, as the manifests have them."""
        with self.opened() as table:
            sizes: Counter[int] = Counter()
            for of_file in table.inspect.data_files()["column_sizes"].to_pylist():
                sizes.update(dict(of_file or ()))
            return {field.name: sizes[field.field_id] for field in table.schema().fields}

    def shape(self) -> tuple[int, int] | None:
        """Return what the snapshot counts; rows that were deleted since may be among them."""
        with self.opened() as table:
            snapshot = table.current_snapshot()
            n_rows = None if snapshot is None else snapshot.summary[_N_ROWS]
            return None if n_rows is None else (int(n_rows), len(table.schema().fields))

    def fingerprint(self) -> str:
        """SHA-256 of the address of the table's metadata, which every change replaces."""
        with self.opened() as table:
            place = f"{table.metadata.table_uuid} {table.metadata_location}"
            return hashlib.sha256(place.encode()).hexdigest()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Load the table's metadata."""
        from pyiceberg.catalog import load_catalog
        from pyiceberg.exceptions import NoSuchTableError

        try:
            yield load_catalog(self.catalog).load_table(self.table)
        except NoSuchTableError as error:
            raise InputError(
                f"there is no table {self.table!r} in the catalog {self.catalog!r}; name another"
            ) from error
        except _errors() as error:
            raise_if_out_of_memory(error)
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"{self} cannot be read ({reason}); correct that") from error


def _errors() -> tuple[type[Exception], ...]:
    """Return what pyiceberg raises; its own errors have no class in common."""
    from pyiceberg import exceptions

    own = [kind for kind in vars(exceptions).values() if isinstance(kind, type)]
    if not lacks("sqlalchemy"):  # which some catalogs use
        from sqlalchemy.exc import SQLAlchemyError

        own.append(SQLAlchemyError)
    return (*own, ValueError, OSError, ImportError, pa.ArrowException)
