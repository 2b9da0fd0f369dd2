"""Tables and queries in databases by ADBC drivers, which give Arrow batches.

``adbc:postgresql://host/database#orders`` is the address of PostgreSQL by the driver in the package
adbc-driver-postgresql, and so for others. A driver finds credentials itself, such as PGPASSWORD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.extras import lacks
from chaffinch.storage.sources.database import DatabaseSource
from chaffinch.storage.sources.source import ArrowSource

_PREFIX, _SQLITE = "adbc:", "sqlite:///"
_MISMATCH = re.compile(r"Type mismatch in column (\d+): expected (\S+) but got (\S+)")
_READ_ONLY = "options=-c%20default_transaction_read_only%3Don"


@dataclass(frozen=True)
class AdbcSource(DatabaseSource, ArrowSource):
    """A table, or the result of a query, of a database that has an ADBC driver."""

    url: str  # without adbc:
    query: str

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme is None or not scheme.startswith(_PREFIX):
            return None
        url, _, query = data[len(_PREFIX) :].partition("#")
        source = cls(url, query.strip())
        driver = f"adbc_driver_{source.backend}"
        if not source.backend.isidentifier() or lacks(driver):
            package = f"adbc-driver-{source.backend}"
            raise InputError(
                f"{_PREFIX}{source.backend} needs the package {package}, which is not installed; "
                f'run pip install "chaffinch[adbc]" {package}'
            )
        source.check_query()
        return source

    def __str__(self) -> str:
        return f"{_PREFIX}{self.url}"

    @property
    def backend(self) -> str:
        return self.url.partition(":")[0].lower()

    @property
    def database(self) -> str:
        return self.url.partition("?")[0].rpartition("/")[2]

    @property
    def address(self) -> str:
        path = self.file
        url = self.url if path is None else f"{_SQLITE}{path.absolute()}"
        return f"{_PREFIX}{url}#{self.query}"

    def names(self, opened: Any) -> list[str]:
        opened.execute(f"SELECT * FROM (\n{self._statement}\n) AS chosen WHERE 1 = 0")  # noqa: S608
        with opened.fetch_record_batch() as reader:
            return list(reader.schema.names)

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        opened.execute(self._statement)
        return opened.fetch_record_batch()

    @property
    def _statement(self) -> str:
        if self.is_query:
            return self.query.rstrip("; \n")
        return f"SELECT * FROM {self.query}"  # noqa: S608

    @property
    def file(self) -> Path | None:
        path = self.url.partition("://")[2].removeprefix("/")
        return Path(path) if self.backend == "sqlite" else None

    @property
    def _to_read(self) -> str:
        """What the driver connects to; PostgreSQL and SQLite refuse to write."""
        if self.file is not None:
            return f"file:{quote(str(self.file.absolute()))}?mode=ro"
        if self.backend == "postgresql" and "options=" not in self.url:
            return f"{self.url}{'&' if '?' in self.url else '?'}{_READ_ONLY}"
        return self.url

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Connect, and give a cursor; nothing is kept."""
        dbapi = import_module(f"adbc_driver_{self.backend}.dbapi")
        with self.reading():
            try:
                with dbapi.connect(self._to_read) as connection, connection.cursor() as cursor:
                    yield cursor
            except (dbapi.Error, pa.ArrowException, OSError) as error:
                raise_if_out_of_memory(error)
                raise InputError(self._explain(error)) from error

    def _explain(self, error: Exception) -> str:
        reason = str(error).strip().partition("\n")[0]
        # the driver of SQLite takes the type of a column from its first rows
        if self.file is None or (mismatch := _MISMATCH.search(reason)) is None:
            return f"{self.label} cannot be read from {self} ({reason}); correct it"
        place, first, later = mismatch.groups()
        return (
            f"column {self.columns()[int(place)]!r} of {self.label} is {first} by its first rows "
            f"but holds {later} later, which ADBC cannot read; read it by {_SQLITE}, or order the "
            "rows so that such a value comes first"
        )
