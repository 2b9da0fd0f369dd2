"""Tables in S3-compatible storage: what is there, a copy of it on disk, or its footers alone.

A whole table is copied and then read as any on this disk: text is read more than once, and wide
Parquet would ask for each of its column chunks by itself. The copy goes into the folder for
temporary files (``TMPDIR``) and is gone when the table is read.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import fs

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.sources.addresses import (
    TAKEN,
    S3Address,
    check_no_secret,
    credentials,
    kind_of_name,
    without,
)
from chaffinch.storage.sources.parquet import parquet_names

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


@contextmanager
def local_copy(address: S3Address) -> Iterator[Path]:
    """Give the path of a copy of an object, or of a folder's Parquet files, for as long as needed.

    Raises
    ------
    InputError
        If there is no such bucket or key, its ending is unknown, the storage does not answer, or it
        does not let these credentials read.
    StorageError
        If there is no space for the copy.
    """
    with tempfile.TemporaryDirectory(prefix="chaffinch-") as temporary:
        with _objects(address) as objects:
            for name, path in objects.paths.items():
                fs.copy_files(path, f"{temporary}/{name}", objects.storage, fs.LocalFileSystem())
        yield Path(temporary) / ("" if objects.is_folder else address.name)


def fingerprint(address: S3Address) -> str | None:
    """Return 64 hexadecimal digits over what the storage says of each object's content.

    These are its ETag, length and time of change; None where a storage has no ETag.
    """
    digest = hashlib.sha256()
    with _objects(address) as objects:
        for path in objects.paths.values():
            with objects.storage.open_input_file(path) as file:
                said = file.metadata()
            if not said.get("ETag"):
                return None
            digest.update(f"{_endpoint()}\0{path}\0".encode())
            digest.update(b"\0".join(said.get(name, b"") for name in _OF_CONTENT) + b"\n")
    return digest.hexdigest()


def opened(address: S3Address) -> Generator[tuple[str, Any], None, None]:
    """Yield the name of each object, and the object as a file of which parts can be read."""
    with _objects(address) as objects:
        for name, path in objects.paths.items():
            with objects.storage.open_input_file(path) as file:
                yield name, file


@dataclass(frozen=True)
class _Objects:
    """What is at an address: the path of each object by its name."""

    storage: fs.S3FileSystem
    paths: dict[str, str]
    is_folder: bool


@contextmanager
def _objects(address: S3Address) -> Iterator[_Objects]:
    """Find what is at an address; errors inside are said in one line as well."""
    secrets = credentials(*_CREDENTIALS)
    try:
        yield _found(address, _storage(address, secrets))
    except (InputError, MemoryError):
        raise
    except (OSError, pa.ArrowException) as error:
        if getattr(error, "errno", None) in _FULL:
            raise StorageError(
                f"no space left for a copy of {address} in {tempfile.gettempdir()}: free some, or "
                "name another folder in TMPDIR"
            ) from error
        raise InputError(without(_in_words(address, str(error)), secrets)) from error


def _storage(address: S3Address, secrets: tuple[str | None, ...]) -> fs.S3FileSystem:
    key, secret, token = secrets
    if key and not secret:
        raise InputError(
            "AWS_ACCESS_KEY_ID is there but AWS_SECRET_ACCESS_KEY is not; set both, or neither"
        )
    endpoint = _endpoint()
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(address.bucket)
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
    """Return who is asked; None for Amazon."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if not endpoint:
        return None
    check_no_secret(endpoint, "AWS_ENDPOINT_URL")
    return endpoint.rstrip("/")


def _found(address: S3Address, storage: fs.S3FileSystem) -> _Objects:
    kind = storage.get_file_info(address.path).type
    if kind == fs.FileType.NotFound:
        is_bucket = storage.get_file_info(address.bucket).type != fs.FileType.NotFound
        missing = f"{address}; look into the bucket" if is_bucket else f"bucket {address.bucket!r}"
        raise InputError(f"there is no {missing}")
    if kind == fs.FileType.Directory:
        inside = storage.get_file_info(fs.FileSelector(address.path))
        entries = ((info.base_name, info.type == fs.FileType.Directory) for info in inside)
        names = parquet_names(str(address), entries)
        return _Objects(storage, {name: f"{address.path}/{name}" for name in names}, True)
    if kind_of_name(address.name) is None:
        raise InputError(f"{address.name} has no known ending; give {TAKEN}")
    return _Objects(storage, {address.name: address.path}, False)


def _in_words(address: S3Address, said: str) -> str:
    code = re.search(r"AWS Error (\w+)", said)
    if code and code[1] in _DENIED:
        return (
            f"reading {address} is not allowed ({code[1]}); check AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY in the environment, and what they may do with the bucket"
        )
    if code and code[1] == "NETWORK_CONNECTION":
        who = _endpoint() or "Amazon S3"
        return f"{who} does not answer for {address}; check AWS_ENDPOINT_URL and the network"
    return f"{address} cannot be read ({said.splitlines()[0]}); mend that and try again"
