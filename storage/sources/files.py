"""Files on this disk: delimited text, Parquet, and folders of Parquet files."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.files import check_path, check_regular, sha256_of_file
from chaffinch.storage.sources.formats import format_of, join_options, split_options
from chaffinch.storage.sources.parquet import parquet_files
from chaffinch.storage.sources.source import Format, OpenTable, Source


@dataclass(frozen=True)
class FileSource(Source):
    """A file, or a folder of Parquet files, on this disk."""

    path: Path
    options: str = ""  # how delimited text is written

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != "":
            return None
        path, options = split_options(os.fspath(data))
        if options and Path(data).exists():  # the mark is part of its name
            path, options = os.fspath(data), ""
        return cls(Path(path), options)

    def __str__(self) -> str:
        return join_options(str(self.path), self.options)

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def address(self) -> str:
        return join_options(str(self.path.absolute()), self.options)

    def check(self) -> None:
        with self._files():
            pass

    def load(self, categorical: Collection[str], drop: Container[str]) -> pa.Table:
        with self._files() as (form, files):
            return form.read(files, self._text_columns(categorical, drop))

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._files() as (form, files):
            yield form.open(files, self._text_columns(categorical, drop), aside)

    def columns(self) -> list[str]:
        with self._files() as (form, files):
            name, path = next(iter(files.items()))
            with path.open("rb") as file:
                file.peek()  # a disk that fails is not a damaged file
                return form.columns(file, name)

    def column_bytes(self) -> Mapping[str, int]:
        with self._files() as (form, files):
            return form.column_bytes(files.items())

    def shape(self) -> tuple[int, int] | None:
        with self._files() as (form, files):
            return shape_of(form, files.items())

    def has_types(self) -> bool:
        with self._files() as (form, _):
            return form.has_types

    def has_header(self) -> bool:
        with self._files() as (form, _):
            return form.has_header

    def fingerprint(self) -> str:
        """SHA-256 of the file's bytes; also of its options, or of the files' names in a folder."""
        with self._files() as (_, files):
            if self.path.is_file() and not self.options:
                return sha256_of_file(self.path)
            digest = hashlib.sha256(self.options.encode())
            for name, path in files.items():
                digest.update(f"{name}\0{sha256_of_file(path)}\n".encode())
            return digest.hexdigest()

    def _text_columns(self, categorical: Collection[str], drop: Container[str]) -> Collection[str]:
        """Return the columns that stay text: also those to drop, whose numbers may be any."""
        if not self.options:
            return categorical
        return [*categorical, *(name for name in self.columns() if name in drop)]

    @contextmanager
    def _files(self) -> Iterator[tuple[Format, Mapping[str, Path]]]:
        """Give the format, and the files by their names or, in a folder, the paths below it."""
        with reading(self.path):
            path = self.path
            files = parquet_files(path) if path.is_dir() else {path.name: path}
            yield format_of(next(iter(files)), self.options), files


def shape_of(form: Format, files: Iterable[tuple[str, Any]]) -> tuple[int, int]:
    """Return the shape of a table in files, pairs of a name and a path or an open file."""
    n_rows = n_columns = 0
    for name, opened in files:
        with opened.open("rb") if isinstance(opened, Path) else nullcontext(opened) as file:
            n_columns = n_columns or len(form.columns(file, name))
            file.seek(0)
            n_rows += form.n_rows(file, name)
    return n_rows, n_columns


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
