"""Tables in object storage: S3, Google Cloud Storage, Azure.

A table is copied and then read as a file on this disk: text is read more than once, and wide
Parquet would need a request for each column chunk. The copy is in the folder for temporary files
(``TMPDIR``) and is removed after reading. The names and sizes of Parquet columns need no copy.
"""

from __future__ import annotations

import errno
import hashlib
import re
import tempfile
from collections.abc import Collection, Container, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa
from pyarrow import fs

from chaffinch.errors import InputError, StorageError, raise_if_out_of_memory
from chaffinch.storage.sources.addresses import credentials, without
from chaffinch.storage.sources.files import FileSource, shape_of
from chaffinch.storage.sources.formats import find_format, format_of, join_options, split_options
from chaffinch.storage.sources.parquet import PARQUET, parquet_names
from chaffinch.storage.sources.source import Format, OpenTable, Source

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# names of S3 and Azure, and of Google
_TAG = ("ETag", "etag")
_OF_CONTENT = (*_TAG, "Content-Length", "size", "Last-Modified", "updated")


@dataclass(frozen=True)
class ObjectSource(Source):
    """An object, or a folder of Parquet objects; a subclass for each kind of storage.

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
        return cls(bucket, key.strip("/"), options)

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
        return self.address

    @property
    def address(self) -> str:
        return join_options(f"{self.scheme}://{self.bucket}/{self.key}".rstrip("/"), self.options)

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
        return self.path.rpartition("/")[2]

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
        with closing(self._open()) as files:
            name, file = next(files)
            return format_of(name, self.options).columns(file, name)

    def column_bytes(self) -> Mapping[str, int]:
        if self._format.has_sizes:
            return self._format.column_bytes(self._open())
        with self._copy() as copy:
            return copy.column_bytes()

    def shape(self) -> tuple[int, int] | None:
        with closing(self._open()) as files:
            return shape_of(self._format, files)

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
        """The format by the name alone; a folder holds Parquet."""
        return format_of(self.name, self.options) if find_format(self.name) else PARQUET

    @contextmanager
    def _copy(self) -> Iterator[FileSource]:
        """Give a copy of the object, or of the folder's Parquet files, as long as needed."""
        with tempfile.TemporaryDirectory(prefix="chaffinch-") as folder:
            with _objects(self) as objects:
                for name, path in objects.paths.items():
                    file = Path(folder, name)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    fs.copy_files(path, str(file), objects.storage, fs.LocalFileSystem())
            copy = Path(folder) / ("" if objects.is_folder else self.name)
            yield FileSource(copy, self.options)

    def _open(self) -> Generator[tuple[str, Any], None, None]:
        """Yield the name of each object, and the object as a file that can be read in parts."""
        with _objects(self) as objects:
            for name, path in objects.paths.items():
                with objects.storage.open_input_file(path) as file:
                    yield name, file


@dataclass(frozen=True)
class _Objects:
    """The path of each object by its name."""

    storage: fs.FileSystem
    paths: dict[str, str]
    is_folder: bool


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
        raise InputError(without(source.explain(str(error)), secrets)) from error


def _found(source: ObjectSource, storage: fs.FileSystem) -> _Objects:
    kind = storage.get_file_info(source.path).type
    if kind == fs.FileType.NotFound:
        is_bucket = storage.get_file_info(source.root).type != fs.FileType.NotFound
        missing = f"{source}; look into the bucket" if is_bucket else f"bucket {source.bucket!r}"
        raise InputError(f"there is no {missing}")
    if kind == fs.FileType.Directory:
        inside = storage.get_file_info(fs.FileSelector(source.path, recursive=True))
        entries = (
            (info.path[len(source.path) + 1 :], info.type == fs.FileType.Directory)
            for info in inside
        )
        names = parquet_names(str(source), entries)
        return _Objects(storage, {name: f"{source.path}/{name}" for name in names}, True)
    format_of(source.name, source.options)
    return _Objects(storage, {source.name: source.path}, False)
