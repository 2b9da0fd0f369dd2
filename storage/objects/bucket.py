"""Objects below a prefix of a bucket, read and written on conditions."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.extras import require
from chaffinch.storage.sources.addresses import credentials, without
from chaffinch.storage.sources.cloud.s3 import S3Source

if TYPE_CHECKING:
    from obstore.store import S3Store

_BYTES_AT_A_TIME = 2**23  # a request for these ends within its time limit
PROBE = ".conditions"  # an object by which the storage is tried
_FILES = (".json", ".parquet", ".html", ".md")  # which are never empty
_MOST_PARTS = 9_000  # of an object; S3 takes 10,000
_MOST_SHOWN = 200
_CODE = re.compile(r"<Code>(\w+)</Code>")
_STATUS = re.compile(r"status code: (\d+)")
_FORBIDDEN = ("401", "403")
# where a machine's role is asked for, which is the last place that credentials are looked for in
_ASKED_MACHINE = re.compile(r"//169\.254\.|/latest/(?:api/token|meta-data)")


class ConflictError(Exception):
    """An object is another than a write or a read was for."""


@dataclass(frozen=True)
class Object:
    """An object as listed; `name` is its key below the prefix."""

    name: str
    e_tag: str
    size: int

    @property
    def marks_folder(self) -> bool:
        """Whether it is empty and not one of the store's files, which may be emptied by mistake."""
        return not self.size and not self.name.endswith(_FILES)


@dataclass(frozen=True)
class Content:
    """The content of a small object, and when it was written by the storage's clock."""

    data: bytes
    e_tag: str
    modified: datetime


class Bucket:
    """Objects below a prefix.

    Methods raise InputError for credentials or a bucket that the user can correct, and StorageError
    for anything else.
    """

    def __init__(self, source: S3Source) -> None:
        require("obstore", f"a store in {source}")
        self._source = source
        self._secrets = credentials(*source.variables)

    def __str__(self) -> str:
        return str(self._source)

    @cached_property
    def _store(self) -> S3Store:
        from obstore.store import S3Store

        source = self._source
        key, secret, token = source.checked(self._secrets)
        try:
            region = source.region
        except OSError as error:  # it is asked for where the environment has none
            if "not found" in str(error):
                raise self._no_bucket() from error
            raise StorageError(source.no_answer(str(self))) from error
        settings: dict[str, Any] = {
            "access_key_id": key,
            "secret_access_key": secret,
            "session_token": token,
            "endpoint": source.endpoint,
            "region": region,
        }
        return S3Store(
            source.bucket,
            prefix=source.key or None,
            config={name: value for name, value in settings.items() if value is not None},  # type: ignore[arg-type]
            client_options={"allow_http": True, "connect_timeout": "5s", "timeout": "60s"},
            retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=60)},
        )

    def below(self, prefix: str) -> list[Object]:
        """Return the objects below a prefix, which ends a level of their names.

        Those by which other programs mark folders are left out.
        """
        import obstore

        with self._in_one_line("listing", prefix):
            chunks = obstore.list(self._store, prefix=prefix or None)
            listed = (_listed(meta) for chunk in chunks for meta in chunk)
            return [stored for stored in listed if not stored.marks_folder]

    def find(self, name: str) -> Object | None:
        """Return an object as it is now; None if there is none, or it marks a folder."""
        import obstore

        with self._in_one_line("reading", name):
            try:
                stored = _listed(obstore.head(self._store, name))
                return None if stored.marks_folder else stored
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def read(self, name: str) -> Content | None:
        """Return the content of a small object; None if there is none."""
        import obstore

        with self._in_one_line("reading", name):
            try:
                answer = obstore.get(self._store, name)
                meta = answer.meta
                return Content(bytes(answer.bytes()), str(meta["e_tag"]), meta["last_modified"])
            except FileNotFoundError as error:
                self._check_bucket(error)
                return None

    def download(self, listed: Object, path: Path) -> str:
        """Write an object to a file, and return its SHA-256.

        ConflictError if it is no longer the one that was listed.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        def parts() -> Iterator[bytes]:
            for start in range(0, listed.size, _BYTES_AT_A_TIME):
                stop = min(start + _BYTES_AT_A_TIME, listed.size)
                answer = obstore.get(
                    self._store,
                    listed.name,
                    options={"if_match": listed.e_tag, "range": (start, stop)},
                )
                content = bytes(answer.bytes())
                if len(content) != stop - start:
                    raise StorageError(
                        f"{self}/{listed.name} is truncated: {start + len(content):,} of "
                        f"{listed.size:,} bytes came; try again, or write it again"
                    )
                yield content

        digest = hashlib.sha256()
        with self._in_one_line("reading", listed.name):
            try:
                with path.open("wb") as file:
                    for part in parts():
                        file.write(part)
                        digest.update(part)
            except (PreconditionError, FileNotFoundError) as error:
                raise ConflictError from error
        return digest.hexdigest()

    def write(self, name: str, content: bytes | Path) -> str:
        """Write an object, and return its e_tag."""
        return self._put(name, content, "overwrite")

    def create(self, name: str, content: bytes) -> str:
        """Write an object, and return its e_tag; ConflictError if there is one of this name."""
        return self._put(name, content, "create")

    def replace(self, name: str, content: bytes, e_tag: str) -> str:
        """Write an object in place of another, and return its e_tag; ConflictError if that is gone.

        One whose answer was lost is taken for written.
        """
        return self._put(name, content, {"e_tag": e_tag})

    def now(self) -> datetime:
        """Return the time of the storage's clock, by writing an object."""
        import obstore

        self.write(PROBE, b"now")
        with self._in_one_line("reading", PROBE):
            return obstore.head(self._store, PROBE)["last_modified"]

    def check_conditions(self) -> None:
        """Raise InputError for storage that ignores the conditions of a write."""
        with suppress(ConflictError):
            self.create(PROBE, b"first")
        for refused in (
            partial(self.create, PROBE, b"again"),
            partial(self.replace, PROBE, b"other", '"none"'),
        ):
            with suppress(ConflictError):
                refused()
                raise InputError(
                    f"the storage of {self} ignores the conditions of writes "
                    "(If-None-Match, If-Match), which a store needs; name a store elsewhere"
                )

    def remove(self, names: list[str]) -> None:
        """Remove objects; those that are missing are left out."""
        import obstore

        for name in names:
            with self._in_one_line("removing", name):
                obstore.delete(self._store, name)

    def _put(self, name: str, content: bytes | Path, mode: Any) -> str:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        size = content.stat().st_size if isinstance(content, Path) else len(content)
        part = max(_BYTES_AT_A_TIME, size // _MOST_PARTS + 1)
        with self._in_one_line("writing", name):
            try:
                written = obstore.put(self._store, name, content, mode=mode, chunk_size=part)
                return str(written["e_tag"])
            except (AlreadyExistsError, PreconditionError) as error:
                conflict = error
        present = self.read(name)
        if present is not None and present.data == content:  # an answer was lost
            return present.e_tag
        raise ConflictError from conflict

    def _check_bucket(self, error: Exception) -> None:
        if "NoSuchBucket" in str(error):
            raise self._no_bucket() from error

    def _no_bucket(self) -> InputError:
        return InputError(
            f"there is no bucket {self._source.bucket!r}; make it, or name another store"
        )

    @contextmanager
    def _in_one_line(self, doing: str, name: str) -> Iterator[None]:
        """Raise errors of the storage as InputError or StorageError, without secrets."""
        from obstore.exceptions import (
            AlreadyExistsError,
            BaseError,
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        try:
            yield
        except (AlreadyExistsError, PreconditionError):
            raise
        except (BaseError, FileNotFoundError) as error:
            self._check_bucket(error)
            text, what = str(error), f"{doing} {self}/{name}".rstrip("/")
            if _ASKED_MACHINE.search(text.partition("\n")[0]):
                raise InputError(
                    f"there are no credentials for {self}; set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY in the environment, or give the machine a role"
                ) from error
            code, status = _CODE.search(text), _STATUS.search(text)
            is_denied = isinstance(error, PermissionDeniedError | UnauthenticatedError)
            if is_denied or (status is not None and status[1] in _FORBIDDEN):
                raise InputError(self._source.denied(what, code[1] if code else "403")) from error
            if status is None and "HTTP error" in text:
                raise StorageError(self._source.no_answer(str(self))) from error
            first = without(text.splitlines()[0], self._secrets)[:_MOST_SHOWN]
            why = code[1] if code else first
            raise StorageError(f"{what} failed ({why}); correct that and try again") from error


def _listed(meta: Any) -> Object:
    return Object(str(meta["path"]), str(meta["e_tag"]), int(meta["size"]))
