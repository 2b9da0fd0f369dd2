"""Files on this disk: of any format, several as one table, and folders of Parquet files."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.files import check_path, check_regular, sha256_of_file, state_of
from chaffinch.storage.sources import several
from chaffinch.storage.sources.formats.file_name import (
    format_of_all,
    join_options,
    split_options,
)
from chaffinch.storage.sources.formats.parquet import DELTA_LOG, check_partitions, parquet_files
from chaffinch.storage.sources.source import Format, OpenTable, Source


@dataclass(frozen=True)
class FileSource(Source):
    """A file, several files, or a folder of Parquet files, on this disk."""

    path: Path  # of several files the folder that holds them
    options: str = ""  # how delimited text is written
    inside: tuple[str, ...] = ()  # several files: their names, or patterns, below the folder

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != "":
            return None
        path, options = split_options(os.fspath(data))
        if options and Path(data).exists():  # the mark is part of its name
            path, options = os.fspath(data), ""
        folder, inside = several.place_of(path)
        if inside and not Path(path).exists():
            return cls(Path(folder), options, inside)
        return cls(Path(path), options)

    @classmethod
    def joined(cls, sources: Sequence[Self]) -> Self:
        """Return one table of the files of all sources, in this order."""
        places = [(str(source.path.absolute()), source.inside) for source in sources]
        folder, inside = several.joined(places)
        return cls(Path(folder), several.options_of(s.options for s in sources), inside)

    def __str__(self) -> str:
        if len(self.inside) > 1:
            return f"{self.label} in {self.path}"
        return join_options(str(self.path.joinpath(*self.inside)), self.options)

    @property
    def name(self) -> str:
        if self.inside:
            return several.name_of(str(self.path.absolute()), self.inside)
        return self.path.name

    @property
    def label(self) -> str:
        return several.label_of(self.inside) if self.inside else self.name

    @property
    def address(self) -> str | None:
        if len(self.inside) > 1:
            return None
        return join_options(str(self.path.absolute().joinpath(*self.inside)), self.options)

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

    @contextmanager
    def read_apart(self, drop: Container[str], aside: Path) -> Iterator[Source | None]:
        with self._files() as (form, _):
            yield replace(self, path=self.path.absolute()) if form.has_sizes else None

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
            if self.inside:
                files = _files_inside(path, self.inside)
            else:
                files = parquet_files(path) if path.is_dir() else {path.name: path}
            with _unchanged(files.values()):
                yield format_of_all(files, self.options), files


@contextmanager
def _unchanged(paths: Iterable[Path]) -> Iterator[None]:
    """Raise InputError if a file changes in the block, also in place of an error of the block."""
    before = {path: state_of(path) for path in paths}
    try:
        yield
    finally:
        for path, state in before.items():
            if state_of(path) != state:
                raise InputError(f"{path.name} has changed while it was read; run again")


def _files_inside(folder: Path, inside: Iterable[str]) -> dict[str, Path]:
    """Return files by their names below a folder; a pattern stands for all of its names."""
    files: dict[str, Path] = {}
    resolved: dict[Path, str] = {}
    for entry in inside:
        for name in _expanded(folder, entry):
            path = folder / name
            check_there(path)
            if path.is_dir():
                raise InputError(f"{name} is a folder; name its files, as in {name}/*.parquet")
            if (first := resolved.setdefault(path.resolve(), name)) != name or name in files:
                raise InputError(f"{first} and {name} are one file; give each file once")
            files[name] = path
    check_partitions(str(folder), list(files))
    return files


def _expanded(folder: Path, name: str) -> list[str]:
    if "*" not in name or (folder / name).exists():
        return [name]
    pattern = re.sub(r"([?[])", r"[\1]", name)  # which are marks to glob alone
    known = (path.relative_to(folder).as_posix() for path in folder.glob(pattern))
    names = several.expanded(name, known, str(folder))
    for below in {parent for found in names for parent in Path(found).parents}:
        if (folder / below / DELTA_LOG).is_dir():  # its files hold removed rows too
            raise InputError(f"{folder / below} is a Delta table; give that folder as the table")
    return names


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
        check_there(path)
        yield
    except PermissionError as error:
        raise InputError(f"reading {path} is not allowed; change its permissions") from error
    except StorageError:
        raise
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror or error}); check its disk, or name another"
        ) from error


def check_there(path: Path) -> None:
    """Raise InputError for a path that is missing or no file."""
    if not path.exists():
        folder = path.parent
        known = (p.name for p in folder.iterdir()) if folder.is_dir() else ()
        raise InputError(f"there is no file {path}{nearest(path.name, known)}")
    check_regular(path, "a source")
