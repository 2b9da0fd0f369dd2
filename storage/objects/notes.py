"""Which object each file of a cache folder is, so that what has not changed is not read again."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import StorageError

_SECONDS_TO_WAIT = 60.0
_TABLE = (
    "CREATE TABLE IF NOT EXISTS notes"
    " (name TEXT PRIMARY KEY, e_tag TEXT, size INTEGER, changed INTEGER, noted INTEGER)"
)
_COLUMNS = "e_tag, size, changed, noted"
_AFTER_SLASH = chr(ord("/") + 1)


@dataclass(frozen=True)
class Note:
    """The object that a file is a copy of, with the file's size and time; times are in ns."""

    e_tag: str
    size: int
    changed: int
    noted: int

    @classmethod
    def of(cls, e_tag: str, file: Path) -> Note:
        about = file.stat()
        return cls(e_tag, about.st_size, about.st_mtime_ns, time.time_ns())

    def is_of(self, file: Path) -> bool:
        """Return whether a file is there and is the one that was noted."""
        try:
            about = file.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return (about.st_size, about.st_mtime_ns) == (self.size, self.changed)


@dataclass(frozen=True)
class Notes:
    """The notes of a cache folder, in a database that its processes share."""

    path: Path

    def all(self, name: str) -> dict[str, Note]:
        """Return the notes of a name, and of the names below it."""
        with self._database() as database:
            rows = database.execute(
                f"SELECT name, {_COLUMNS} FROM notes"  # noqa: S608 - of constants
                " WHERE name = ?1 OR ?1 = '' OR (name >= ?1 || '/' AND name < ?1 || ?2)",
                (name, _AFTER_SLASH),
            ).fetchall()
        return {row[0]: Note(*row[1:]) for row in rows}

    def set(self, name: str, note: Note) -> None:
        with self._database() as database:
            _set(database, name, note)

    def exchange(
        self, name: str, seen: Note | None, note: Note | None, change: Callable[[], object]
    ) -> None:
        """Change a file and its note, unless another process has changed them since `seen`."""
        with self._database() as database:
            row = database.execute(
                f"SELECT {_COLUMNS} FROM notes WHERE name = ?",  # noqa: S608
                (name,),
            ).fetchone()
            if (None if row is None else Note(*row)) != seen:
                return
            change()
            _set(database, name, note)

    def remove(self, name: str) -> None:
        with self._database() as database:
            _set(database, name, None)

    @contextmanager
    def _database(self) -> Iterator[sqlite3.Connection]:
        """Open the database for the only process at a time."""
        try:
            with closing(
                sqlite3.connect(self.path, timeout=_SECONDS_TO_WAIT, isolation_level=None)
            ) as database:
                # after a crash of the machine the folder can be removed and is filled again
                database.execute("PRAGMA synchronous = OFF")
                database.execute("BEGIN IMMEDIATE")
                database.execute(_TABLE)
                yield database
                database.execute("COMMIT")
        except sqlite3.Error as error:
            raise StorageError(
                f"the cache {self.path.parent} cannot be used ({error}); remove it, or name "
                "another folder in CHAFFINCH_CACHE"
            ) from error


def _set(database: sqlite3.Connection, name: str, note: Note | None) -> None:
    if note is None:
        database.execute("DELETE FROM notes WHERE name = ?", (name,))
        return
    values = (name, note.e_tag, note.size, note.changed, note.noted)
    database.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?)", values)
