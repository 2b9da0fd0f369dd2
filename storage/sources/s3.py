"""Tables in S3-compatible storage.

A table is copied and then read as a file on this disk: text is read more than once, and wide
Parquet would need a request for each column chunk. The copy is in the folder for temporary files
(``TMPDIR``) and is removed after reading. The names and sizes of Parquet columns need no copy.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Collection, Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
from pyarrow import fs

from chaffinch.storage.errors import InputError, StorageError, raise_if_out_of_memory
from chaffinch.storage.sources.addresses import check_no_secret, credentials, without
from chaffinch.storage.sources.files import FileSource, shape_of
from chaffinch.storage.sources.formats import find_format, format_of
from chaffinch.storage.sources.parquet import PARQUET, parquet_names
from chaffinch.storage.sources.source import Format, OpenTable, Source

_CREDENTIALS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_DENIED = (
    "ACCESS_DENIED",
    "EXPIRED_TOKEN",
    "INVALID_ACCESS_KEY_ID",
    "INVALID_CLIENT_TOKEN_ID",
    "MISSING_AUTHENTICATION_TOKEN",
    "SIGNATURE_DOES_NOT_MATCH",
    "UNRECOGNIZED_CLIENT",
)
_CONNECT_SECONDS, _ANSWER_SECONDS = 5.0, 30.0
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_OF_CONTENT = ("ETag", "Content-Length", "Last-Modified")


@dataclass(frozen=True)
class S3Source(Source):
    """An object, or a folder of Parquet objects, in S3-compatible storage."""

    bucket: str
    key: str  # without a slash at either end; empty for the bucket itself
    rereadable = False

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        if scheme != "s3":
            return None
        bucket, _, key = data.partition("://")[2].partition("/")
        if not bucket or "?" in data or "#" in data:
            raise InputError(
                "an address in S3 is s3://bucket/key, with no ? or #; endpoint and region are "
                "those of AWS_ENDPOINT_URL and AWS_DEFAULT_REGION in the environment"
            )
        return cls(bucket, key.strip("/"))

    def __str__(self) -> str:
        return self.address

    @property
    def address(self) -> str:
        return f"s3://{self.path}"

    @property
    def path(self) -> str:
        """Bucket and key as pyarrow takes them."""
        return f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    def load(self, categorical: Collection[str], drop: Collection[str]) -> pa.Table:
        with self._copy() as copy:
            return copy.load(categorical, drop)

    @contextmanager
    def open(
        self, categorical: Collection[str], drop: Collection[str], aside: Path | None
    ) -> Iterator[OpenTable]:
        with self._copy() as copy, copy.open(categorical, drop, aside) as table:
            yield table

    def columns(self) -> list[str]:
        with closing(self._open()) as files:
            name, file = next(files)
            return format_of(name).columns(file, name)

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
        digest = hashlib.sha256()
        with _objects(self) as objects:
            for path in objects.paths.values():
                with objects.storage.open_input_file(path) as file:
                    metadata = file.metadata()
                if not metadata.get("ETag"):
                    return None
                digest.update(f"{_endpoint()}\0{path}\0".encode())
                digest.update(b"\0".join(metadata.get(name, b"") for name in _OF_CONTENT) + b"\n")
        return digest.hexdigest()

    @property
    def _format(self) -> Format:
        """The format by the name alone; a folder holds Parquet."""
        return find_format(self.name) or PARQUET

    @contextmanager
    def _copy(self) -> Iterator[FileSource]:
        """Give a copy of the object, or of the folder's Parquet files, as long as needed."""
        with tempfile.TemporaryDirectory(prefix="chaffinch-") as folder:
            with _objects(self) as objects:
                for name, path in objects.paths.items():
                    fs.copy_files(path, f"{folder}/{name}", objects.storage, fs.LocalFileSystem())
            yield FileSource(Path(folder) / ("" if objects.is_folder else self.name))

    def _open(self) -> Generator[tuple[str, Any], None, None]:
        """Yield the name of each object, and the object as a file that can be read in parts."""
        with _objects(self) as objects:
            for name, path in objects.paths.items():
                with objects.storage.open_input_file(path) as file:
                    yield name, file


@dataclass(frozen=True)
class _Objects:
    """The path of each object by its name."""

    storage: fs.S3FileSystem
    paths: dict[str, str]
    is_folder: bool


@contextmanager
def _objects(source: S3Source) -> Iterator[_Objects]:
    """Find the objects of a source, and raise errors inside as InputError or StorageError."""
    secrets = credentials(*_CREDENTIALS)
    try:
        yield _found(source, _storage(source, secrets))
    except InputError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise_if_out_of_memory(error)
        if getattr(error, "errno", None) in _FULL:
            raise StorageError(
                f"no space left for a copy of {source} in {tempfile.gettempdir()}: free some, or "
                "name another folder in TMPDIR"
            ) from error
        raise InputError(without(_explain(source, str(error)), secrets)) from error


def _storage(source: S3Source, secrets: tuple[str | None, ...]) -> fs.S3FileSystem:
    key, secret, token = secrets
    if key and not secret:
        raise InputError(
            "AWS_ACCESS_KEY_ID is there but AWS_SECRET_ACCESS_KEY is not; set both, or neither"
        )
    endpoint = _endpoint()
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(source.bucket)
    return fs.S3FileSystem(
        access_key=key,
        secret_key=secret,
        session_token=token,
        endpoint_override=endpoint,
        region=region,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_ANSWER_SECONDS,
    )


def _endpoint() -> str | None:
    """Return the URL of the service; None for Amazon."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return None
    check_no_secret(endpoint, "AWS_ENDPOINT_URL")
    return endpoint.rstrip("/")


def _found(source: S3Source, storage: fs.S3FileSystem) -> _Objects:
    kind = storage.get_file_info(source.path).type
    if kind == fs.FileType.NotFound:
        is_bucket = storage.get_file_info(source.bucket).type != fs.FileType.NotFound
        missing = f"{source}; look into the bucket" if is_bucket else f"bucket {source.bucket!r}"
        raise InputError(f"there is no {missing}")
    if kind == fs.FileType.Directory:
        inside = storage.get_file_info(fs.FileSelector(source.path))
        entries = ((info.base_name, info.type == fs.FileType.Directory) for info in inside)
        names = parquet_names(str(source), entries)
        return _Objects(storage, {name: f"{source.path}/{name}" for name in names}, True)
    format_of(source.name)
    return _Objects(storage, {source.name: source.path}, False)


def _explain(source: S3Source, error: str) -> str:
    code = re.search(r"AWS Error (\w+)", error)
    if code and code[1] in _DENIED:
        return (
            f"reading {source} is not allowed ({code[1]}); check AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment, and what they may do with the bucket"
        )
    if code and code[1] == "NETWORK_CONNECTION":
        who = _endpoint() or "Amazon S3"
        return f"{who} does not answer for {source}; check AWS_ENDPOINT_URL and the network"
    return f"{source} cannot be read ({error.splitlines()[0]}); correct that and try again"
