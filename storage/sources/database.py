"""What tables and queries in databases have in common."""

from __future__ import annotations

import hashlib
import re
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import ClassVar

from chaffinch.errors import InputError
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.source import Source

_TABLE = re.compile(r"[^\s.@\"'`;()]+(\.[^\s.@\"'`;()]+)?")
_QUERY = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with)\b", re.IGNORECASE | re.DOTALL)

_WITH_BLANKS = 'ask for a name with blanks as SELECT * FROM "my table"'


class DatabaseSource(Source):
    """A table in a database, or the result of a query.

    Attributes
    ----------
    query : str
        A table, as in ``shop.orders``, or a SELECT.
    """

    rereadable: ClassVar[bool] = False
    query: str

    @property
    def backend(self) -> str:
        """The kind of database, such as ``postgresql``."""
        raise NotImplementedError

    @property
    def database(self) -> str:
        """Name or path of the database; empty if there is none."""
        raise NotImplementedError

    @property
    def file(self) -> Path | None:
        """The file that holds the database; None for a server."""
        return None

    def check(self) -> None:
        with self.reading():
            pass

    def reading(self) -> AbstractContextManager[None]:
        """Raise InputError for a file that is missing or cannot be read."""
        return nullcontext() if self.file is None else reading(self.file)

    @property
    def label(self) -> str:
        return "the query" if self.is_query else self.query

    @property
    def is_query(self) -> bool:
        """Whether the source is a SELECT rather than a table."""
        return _TABLE.fullmatch(self.query) is None

    @property
    def name(self) -> str:
        """The table; for a query the database, and digits that distinguish queries."""
        if not self.is_query:
            return self.query.rpartition(".")[2]
        database = Path(self.database or self.backend).stem
        return f"{database}-{hashlib.sha256(self.query.encode()).hexdigest()[:6]}"

    def check_query(self) -> None:
        """Raise InputError for a query that is missing or no SELECT."""
        if not self.query:
            raise InputError(
                f"{self} is a whole database; put a table or a SELECT behind it, as in "
                f"{self}#orders"
            )
        if self.is_query and not _QUERY.match(self.query):
            raise InputError(
                f"what is asked of {self} must be a table, such as shop.orders, or begin with "
                f"SELECT or WITH, but begins with {self.query.split()[0][:20]!r}; {_WITH_BLANKS}"
            )
