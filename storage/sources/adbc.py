"""Tables and queries in databases by ADBC drivers, which give Arrow batches.

``adbc:postgresql://host/database#orders`` is the address of PostgreSQL by the driver in the package
adbc-driver-postgresql, and so for others. A driver finds credentials itself, such as PGPASSWORD.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns
from chaffinch.storage.extras import lacks
from chaffinch.storage.sources.database import DatabaseSource
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.source import OpenTable
from chaffinch.storage.spilled import spilled_table

_PREFIX, _SQLITE = "adbc:", "sqlite:///"
_READ_ONLY = "options=-c%20default_transaction_read_only%3Don"


@dataclass(frozen=True)
class AdbcSource(DatabaseSource):
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
        path = self._file
        url = self.url if path is None else f"{_SQLITE}{path.absolute()}"
        return f"{_PREFIX}{url}#{self.query}"

    def check(self) -> None:
        with self._reading():
            pass

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._result(self._statement) as reader:
            check_columns(reader.schema.names, self.label)
            table = spilled_table(reader, aside)
        yield OpenTable.of(table)

    def columns(self) -> list[str]:
        none = f"SELECT * FROM (\n{self._statement}\n) AS chosen WHERE 1 = 0"  # noqa: S608
        with self._result(none) as reader:
            names = list(reader.schema.names)
        check_columns(names, self.label)
        return names

    def has_header(self) -> bool:
        return True

    @property
    def _statement(self) -> str:
        if self.is_query:
            return self.query.rstrip("; \n")
        return f"SELECT * FROM {self.query}"  # noqa: S608

    @property
    def _file(self) -> Path | None:
        """The file of SQLite."""
        path = self.url.partition("://")[2].removeprefix("/")
        return Path(path) if self.backend == "sqlite" else None

    @property
    def _to_read(self) -> str:
        """What the driver connects to; PostgreSQL and SQLite refuse to write."""
        if self._file is not None:
            return f"file:{quote(str(self._file.absolute()))}?mode=ro"
        if self.backend == "postgresql" and "options=" not in self.url:
            return f"{self.url}{'&' if '?' in self.url else '?'}{_READ_ONLY}"
        return self.url

    def _reading(self) -> Any:
        return nullcontext() if self._file is None else reading(self._file)

    @contextmanager
    def _result(self, statement: str) -> Iterator[Any]:
        """Give a reader of the result, and raise errors inside as InputError; nothing is kept."""
        dbapi = import_module(f"adbc_driver_{self.backend}.dbapi")
        with self._reading():
            try:
                with dbapi.connect(self._to_read) as connection, connection.cursor() as cursor:
                    cursor.execute(statement)
                    with cursor.fetch_record_batch() as reader:
                        yield reader
            except (dbapi.Error, pa.ArrowException, OSError) as error:
                raise_if_out_of_memory(error)
                reason = str(error).strip().partition("\n")[0]
                raise InputError(
                    f"{self.label} cannot be read from {self} ({reason}); correct it"
                ) from error
