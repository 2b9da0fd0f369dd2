"""Files on this disk: delimited text, Parquet, and folders of Parquet files."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from chaffinch.storage.datasets.column_names import nearest
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import check_path, check_regular, sha256_of_file
from chaffinch.storage.sources.addresses import TAKEN
from chaffinch.storage.sources.csv import (
    TEXT_ENDINGS,
    read_delimited,
    read_header,
    text_column_bytes,
)
from chaffinch.storage.sources.parquet import (
    PARQUET_ENDINGS,
    parquet_column_bytes,
    parquet_columns,
    parquet_files,
    read_parquet,
)
from chaffinch.storage.sources.source import Source


@dataclass(frozen=True)
class FileSource(Source):
    """A file, or a folder of Parquet files, on this disk."""

    path: Path
    has_header = True

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        return cls(Path(data)) if scheme == "" else None

    def __str__(self) -> str:
        return str(self.path)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def address(self) -> str:
        return str(self.path.absolute())

    def check(self) -> None:
        with self._files():
            pass

    def load(self, categorical: Collection[str], drop: Collection[str]) -> pa.Table:
        with self._files() as (kind, files):
            if kind in TEXT_ENDINGS:
                return read_delimited(self.path, kind, categorical)
            return read_parquet(files)

    def columns(self) -> list[str]:
        with self._files() as (_, files), files[0].open("rb") as file:
            file.peek()  # a disk that fails is not a damaged file
            return columns_of_file(file, files[0].name)

    def column_bytes(self) -> Mapping[str, int]:
        with self._files() as (kind, files):
            if kind in TEXT_ENDINGS:
                return text_column_bytes(self.path, kind)
            return parquet_column_bytes((file.name, file) for file in files)

    def has_types(self) -> bool:
        with self._files() as (kind, _):
            return kind not in TEXT_ENDINGS

    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes; for a folder, of the names and hashes of its files."""
        with self._files() as (_, files):
            if files == [self.path]:
                return sha256_of_file(self.path)
            digest = hashlib.sha256()
            for part in files:
                digest.update(f"{part.name}\0{sha256_of_file(part)}\n".encode())
            return digest.hexdigest()

    @contextmanager
    def _files(self) -> Iterator[tuple[str, list[Path]]]:
        """Give the ending that determines the format, and the files."""
        with reading(self.path):
            files = parquet_files(self.path) if self.path.is_dir() else [self.path]
            yield format_of(files[0].name), files


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise InputError for a path that is invalid, missing, no file or cannot be read."""
    check_path(path)
    try:
        if not path.exists():
            folder = path.parent
            known = (p.name for p in folder.iterdir()) if folder.is_dir() else ()
            raise InputError(f"there is no file {path}{nearest(path.name, known)}")
        check_regular(path, "a source")
        yield
    except PermissionError as error:
        raise InputError(f"reading {path} is not allowed; change its permissions") from error
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); check its disk, or name another"
        ) from error


def format_of(name: str) -> str:
    """Return the ending that determines how a file is read; InputError if it is unknown."""
    endings = [ending.lower() for ending in Path(name).suffixes]
    if is_text(name):
        return endings[-2] if endings[-1] == ".gz" else endings[-1]
    if endings and endings[-1] in PARQUET_ENDINGS:
        return endings[-1]
    raise InputError(f"{name} has no known ending; give {TAKEN}")


def is_text(name: str) -> bool:
    """Return whether a file of that name is delimited text, plain or compressed."""
    return Path(name.lower().removesuffix(".gz")).suffix in TEXT_ENDINGS


def columns_of_file(file: Any, name: str) -> list[str]:
    """Return the names of the columns of an open file, without its rows."""
    kind = format_of(name)
    if kind in TEXT_ENDINGS:
        return read_header(file, name, kind).columns
    return parquet_columns(file, name)
