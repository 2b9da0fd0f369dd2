"""Tables in object storage: S3, Google Cloud Storage, Azure.

A table is copied and then read as a file on this disk: text is read more than once, and wide
Parquet would need a request for each column chunk. Of a Delta table, only the log and the files of
the newest version are copied. The copy is in the folder for temporary files
(``TMPDIR``) and is removed after reading. The names and sizes of Parquet columns need no copy.
"""

from __future__ import annotations

import errno
import hashlib
import re
import tempfile
from collections.abc import Collection, Container, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyarrow import fs

from chaffinch.errors import InputError, StorageError, UnreachableError, raise_if_out_of_memory
from chaffinch.storage.extras import require
from chaffinch.storage.sources import several
from chaffinch.storage.sources.addresses import credentials, without
from chaffinch.storage.sources.delta import DeltaSource
from chaffinch.storage.sources.files import FileSource, shape_of
from chaffinch.storage.sources.formats.file_name import (
    find_format,
    format_of,
    format_of_all,
    join_options,
    split_options,
)
from chaffinch.storage.sources.formats.parquet import (
    DELTA_LOG,
    PARQUET,
    check_partitions,
    parquet_names,
)
from chaffinch.storage.sources.source import Format, OpenTable, Source

NO_ANSWER = "does not answer for"  # in the message of what may be reached later
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# names of S3 and Azure, and of Google
_TAG = ("ETag", "etag")
_OF_CONTENT = (*_TAG, "Content-Length", "size", "Last-Modified", "updated")


@dataclass(frozen=True)
class ObjectSource(Source):
    """An object, several, or a folder of Parquet objects; a subclass for each kind of storage.

    Attributes
    ----------
    scheme : str
        Scheme of the addresses.
    form, hint : str
        What an address looks like, and where the rest is set, in words.
    variables : tuple of str
        Variables that hold credentials. All are needed in one place, and hidden in errors.
    places : re.Pattern
        What may stand before the first slash of an address.
    """

    bucket: str
    key: str  # without a slash at either end; empty for the bucket itself
    options: str = ""  # how delimited text is written
    inside: tuple[str, ...] = ()  # several objects: their names, or patterns, below the key
    rereadable = False
    scheme: ClassVar[str]
    form: ClassVar[str]
    hint: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    places: ClassVar[re.Pattern[str]] = re.compile(r".+")

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != cls.scheme:
            return None
        address, options = split_options(data)
        bucket, _, key = address.partition("://")[2].partition("/")
        if not cls.places.fullmatch(bucket) or "?" in address or "#" in address:
            raise InputError(f"an address in {cls.form}, with no ? or #; {cls.hint}")
        folder, inside = several.place_of(key.strip("/"))
        return cls(bucket, folder.strip("/"), options, inside)

    @classmethod
    def joined(cls, sources: Sequence[Self]) -> Self:
        bucket, *others = dict.fromkeys(source.bucket for source in sources)
        if others:
            raise InputError(
                f"a list names files in one bucket, but {bucket} and {others[0]} are two; copy the "
                "files of one of them"
            )
        key, inside = several.joined([(source.key, source.inside) for source in sources])
        return cls(bucket, key, several.options_of(source.options for source in sources), inside)

    def connect(self, secrets: tuple[str | None, ...]) -> fs.FileSystem:
        """Return the storage from the values of `variables`."""
        raise NotImplementedError

    @property
    def endpoint(self) -> str | None:
        """URL of the service; None for the provider's own."""
        return None

    def explain(self, error: str) -> str:
        """Return an error of the storage as a line with its remedy."""
        return f"{self} cannot be read ({error.splitlines()[0]}); correct that and try again"

    def __str__(self) -> str:
        return self.address or f"{self.label} in {self._folder}"

    @property
    def _folder(self) -> str:
        return f"{self.scheme}://{self.bucket}/{self.key}".rstrip("/")

    @property
    def address(self) -> str | None:
        if len(self.inside) > 1:
            return None
        return join_options("/".join([self._folder, *self.inside]), self.options)

    @property
    def root(self) -> str:
        """The bucket as pyarrow takes it."""
        return self.bucket

    @property
    def path(self) -> str:
        """Bucket and key as pyarrow takes them."""
        return f"{self.root}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        folder = self.path.rpartition("/")[2]
        return several.name_of(folder, self.inside) if self.inside else folder

    @property
    def label(self) -> str:
        return several.label_of(self.inside) if self.inside else self.name

    def load(self, categorical: Collection[str], drop: Container[str]) -> pa.Table:
        with self._copy() as copy:
            return copy.load(categorical, drop)

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Container[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._copy() as copy, copy.open(categorical, drop, aside) as table:
            yield table

    def columns(self) -> list[str]:
        with _objects(self) as objects:
            if objects.rows is None:
                with closing(_opened(objects)) as files:
                    name, file = next(files)
                    return format_of(name, self.options).columns(file, name)
        with self._copy(with_rows=False) as copy:
            return copy.columns()

    def column_bytes(self) -> Mapping[str, int]:
        with _objects(self) as objects:
            if objects.rows is None and self._format.has_sizes:
                return self._format.column_bytes(_opened(objects))
        with self._copy() as copy:
            return copy.column_bytes()

    def shape(self) -> tuple[int, int] | None:
        with _objects(self) as objects:
            if objects.rows is None:
                with closing(_opened(objects)) as files:
                    return shape_of(self._format, files)
        with self._copy(with_rows=False) as copy:
            return copy.shape()

    def has_types(self) -> bool:
        return self._format.has_types

    def has_header(self) -> bool:
        return self._format.has_header

    def fingerprint(self) -> str | None:
        """Hash of the ETag, length and time of each object; None where a storage has no ETag."""
        digest = hashlib.sha256(self.options.encode())
        with _objects(self) as objects:
            for path in objects.paths.values():
                with objects.storage.open_input_file(path) as file:
                    metadata = file.metadata()
                if not any(map(metadata.get, _TAG)):
                    return None
                digest.update(f"{self.endpoint}\0{path}\0".encode())
                digest.update(b"\0".join(metadata.get(name, b"") for name in _OF_CONTENT) + b"\n")
        return digest.hexdigest()

    @property
    def _format(self) -> Format:
        """The format by the names alone; a folder holds Parquet."""
        for name in self.inside:
            if find_format(name):
                return format_of(name, self.options)
        return format_of(self.name, self.options) if find_format(self.name) else PARQUET

    @contextmanager
    def _copy(self, *, with_rows: bool = True) -> Iterator[Source]:
        """Give a copy of the object, or of a folder's files, as long as needed.

        Of a Delta table the log is enough to know its columns.
        """
        with tempfile.TemporaryDirectory(prefix="chaffinch-") as folder:
            copy = Path(folder, self.path.rpartition("/")[2])
            with _objects(self) as objects:
                place = copy if objects.is_folder else copy.parent
                _copy_files(objects.storage, objects.paths, place)
                if objects.rows is not None and with_rows:
                    newest = {*DeltaSource(copy).files()}
                    needed = {
                        name: path
                        for name, path in objects.rows.items()
                        if name in newest or name.endswith(".bin")  # deletion vectors
                    }
                    _copy_files(objects.storage, needed, copy)
            if objects.rows is not None:
                yield DeltaSource(copy)
            else:
                yield FileSource(copy, self.options, tuple(objects.paths) if self.inside else ())


@dataclass(frozen=True)
class _Objects:
    """The path of each object by its name; of a Delta table those of its log, and of all rows."""

    storage: fs.FileSystem
    paths: dict[str, str]
    is_folder: bool
    rows: dict[str, str] | None = None


def _copy_files(storage: fs.FileSystem, paths: Mapping[str, str], folder: Path) -> None:
    for name, path in paths.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        fs.copy_files(path, str(file), storage, fs.LocalFileSystem())


def _opened(objects: _Objects) -> Generator[tuple[str, Any], None, None]:
    """Yield the name of each object, and the object as a file that can be read in parts."""
    for name, path in objects.paths.items():
        with objects.storage.open_input_file(path) as file:
            yield name, file


@contextmanager
def _objects(source: ObjectSource) -> Iterator[_Objects]:
    """Find the objects of a source, and raise errors inside as InputError or StorageError."""
    secrets = credentials(*source.variables) if source.variables else ()
    try:
        yield _found(source, source.connect(secrets))
    except InputError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise_if_out_of_memory(error)
        if getattr(error, "errno", None) in _FULL:
            raise StorageError(
                f"no space left for a copy of {source} in {tempfile.gettempdir()}: free some, or "
                "name another folder in TMPDIR"
            ) from error
        message = without(source.explain(str(error)), secrets)
        raise (UnreachableError if NO_ANSWER in message else InputError)(message) from error


def _found(source: ObjectSource, storage: fs.FileSystem) -> _Objects:
    if source.inside:
        names = _names_inside(source, storage)
        return _Objects(storage, {name: f"{source.path}/{name}" for name in names}, True)
    kind = storage.get_file_info(source.path).type
    if kind == fs.FileType.NotFound:
        is_bucket = storage.get_file_info(source.root).type != fs.FileType.NotFound
        missing = f"{source}; look into the bucket" if is_bucket else f"bucket {source.bucket!r}"
        raise InputError(f"there is no {missing}")
    if kind == fs.FileType.Directory:
        entries = _entries(source, storage)
        if (DELTA_LOG, True) in entries:
            require("deltalake", "a Delta table")
            files = {name: f"{source.path}/{name}" for name, is_folder in entries if not is_folder}
            log = {name: path for name, path in files.items() if name.startswith(f"{DELTA_LOG}/")}
            return _Objects(storage, log, True, rows=files)
        names = parquet_names(str(source), entries)
        return _Objects(storage, {name: f"{source.path}/{name}" for name in names}, True)
    format_of(source.name, source.options)
    return _Objects(storage, {source.name: source.path}, False)


def _entries(source: ObjectSource, storage: fs.FileSystem) -> list[tuple[str, bool]]:
    """Return the paths below a source, and whether each is a folder."""
    inside = storage.get_file_info(fs.FileSelector(source.path, recursive=True))
    n = len(source.path) + 1
    return [(info.path[n:], info.type == fs.FileType.Directory) for info in inside]


def _names_inside(source: ObjectSource, storage: fs.FileSystem) -> list[str]:
    """Return the names of several objects below the key; a pattern stands for all of its names."""
    entries = dict(_entries(source, storage)) if any("*" in name for name in source.inside) else {}
    if any(f"/{name}".endswith(f"/{DELTA_LOG}") for name in entries):
        raise InputError(f"{source} are files of a Delta table, which hold removed rows too")
    names: list[str] = []
    for name in source.inside:
        if "*" in name:
            known = (path for path, is_folder in entries.items() if not is_folder)
            names += several.expanded(name, known, source._folder)
        elif storage.get_file_info(f"{source.path}/{name}").is_file:
            names.append(name)
        else:
            raise InputError(f"there is no file {source._folder}/{name}")
    format_of_all(names, source.options)
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{twice} is named twice; give each file once")
    check_partitions(source._folder, names)
    return names
