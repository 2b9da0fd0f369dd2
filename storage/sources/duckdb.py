"""Tables and queries in DuckDB files, which give Arrow batches.

A file is opened read-only. Queries cannot open other files or addresses, load extensions or see
variables of this program.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.column_names import check_columns, nearest_or_all
from chaffinch.storage.extras import require
from chaffinch.storage.sources.database import DatabaseSource
from chaffinch.storage.sources.source import ArrowSource

if TYPE_CHECKING:
    import duckdb

_SCHEME = "duckdb"
_OPTIONS: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",  # a name in a query is no variable of Python
}
_SEAL = "SET enable_external_access = false; SET lock_configuration = true"
_CELLS = 1_000_000  # of a batch


@dataclass(frozen=True)
class DuckDBSource(DatabaseSource, ArrowSource):
    """A table in a DuckDB file, or the result of a query."""

    path: Path
    query: str
    backend = _SCHEME

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != _SCHEME:
            return None
        before, _, query = data.partition("#")
        path = before.partition("://")[2].removeprefix("/")
        if not path or path == ":memory:" or "?" in path:
            raise InputError(
                "duckdb must name a file, with no ?, as in duckdb:///shop.duckdb#orders"
            )
        require("duckdb", "a DuckDB file")
        source = cls(Path(path), query.strip())
        source.check_query()
        return source

    def __str__(self) -> str:
        return f"duckdb:///{self.path}"

    @property
    def database(self) -> str:
        return str(self.path)

    @property
    def address(self) -> str:
        return f"duckdb:///{self.path.absolute()}#{self.query}"

    @property
    def file(self) -> Path:
        return self.path

    def names(self, opened: duckdb.DuckDBPyConnection) -> list[str]:
        """Return the names of the columns; a query is not run."""
        return list(self._relation(opened).columns)

    def batches(self, opened: duckdb.DuckDBPyConnection) -> pa.RecordBatchReader:
        relation = self._relation(opened)
        check_columns(relation.columns, self.label)
        return relation.to_arrow_reader(max(1, _CELLS // len(relation.columns)))

    def shape(self) -> tuple[int, int] | None:
        """Return what the database counts; None for a query, which would be run twice."""
        if self.is_query:
            return None
        with self.opened() as connection:
            relation = self._relation(connection)
            ((n_rows,),) = relation.count("*").fetchall()
            return n_rows, len(relation.columns)

    @contextmanager
    def opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Connect to read only."""
        import duckdb

        # a folder of its own, as queries can read and write the one for temporary files
        with self.reading(), tempfile.TemporaryDirectory(prefix="chaffinch-") as folder:
            options = {"temp_directory": folder, **_OPTIONS}
            try:
                with duckdb.connect(self.path, read_only=True, config=options) as connection:
                    connection.execute(_SEAL)
                    yield connection
            except duckdb.OutOfMemoryException as error:
                raise MemoryError(str(error)) from error
            except (duckdb.Error, pa.ArrowException) as error:
                raise_if_out_of_memory(error)
                raise InputError(self._explain(error)) from error

    def _relation(self, connection: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyRelation:
        import duckdb

        if self.is_query:
            return connection.sql(self.query)
        try:
            return connection.table(".".join(map(_quoted, self.query.split("."))))
        except duckdb.CatalogException as error:
            known = [str(name) for (name,) in connection.sql("SHOW TABLES").fetchall()]
            there_are = nearest_or_all(self.query, known)
            raise InputError(f"there is no table {self.query!r} in {self}{there_are}") from error

    def _explain(self, error: Exception) -> str:
        import duckdb

        reason = str(error).strip().partition("\n")[0]
        if "lock on file" in reason:
            return f"{self} is open for writing in another program ({reason}); close it there"
        if isinstance(error, duckdb.ConnectionException):
            return f"{self} is open in this program ({reason}); close that connection first"
        if isinstance(error, duckdb.PermissionException):
            return f"{self.label} asks for more than {self} holds ({reason}); leave that out"
        return f"{self.label} cannot be read from {self} ({reason}); correct it"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
