"""A store in object storage, by way of a folder on this disk.

The objects are the store and the folder is a cache of them. A file is uploaded before it takes its
name in the folder, so that the folder is never ahead; it is behind until `refresh`.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from socket import gethostname
from uuid import getnode, uuid4

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.files import (
    ASIDE,
    FORMAT_VERSION,
    attach,
    has_sha256,
    is_address,
    is_name,
    locked_here,
    mirror_of,
    one_line_errors,
    path_from,
    read_json,
    sweep_old,
    to_json,
    write_file,
)
from chaffinch.storage.objects.bucket import Bucket, ConflictError, Object
from chaffinch.storage.objects.cache_limit import room_for
from chaffinch.storage.objects.lease import Lease
from chaffinch.storage.objects.notes import Note, Notes
from chaffinch.storage.sources.addresses import check_no_secret
from chaffinch.storage.sources.cloud.s3 import S3Source

_CACHE = "CHAFFINCH_CACHE"
_NOTES, _ABOUT = ".objects.sqlite", ".address.json"
_AT_A_TIME = 8  # downloads
_TRIES = 5  # of an object that is replaced while it is read
_SCHEME = re.compile(r"\s*([A-Za-z][A-Za-z0-9+.-]*):/")
_LEVEL = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


def source_of_store(address: str) -> S3Source:
    """Return where the store of an address is; InputError if it is no such address."""
    check_no_secret(address, "the address of the store")
    match = _SCHEME.match(address)
    scheme = "" if match is None else match[1].lower()
    if scheme != S3Source.scheme:
        raise InputError(
            f"a store must be a folder or an address in S3 but is one of {scheme or 'nothing'}; "
            "give s3://bucket/prefix"
        )
    bucket, _, key = address.strip().partition("://")[2].partition("/")
    levels = key.strip("/").split("/") if key.strip("/") else []
    if not all(map(_LEVEL.fullmatch, (bucket, *levels))):
        raise InputError(
            "the address of a store must be s3://bucket/prefix with levels of A-Z a-z 0-9 . _ - "
            f"but is {address!r:.60}; give another"
        )
    return S3Source(bucket, "/".join(levels))


def local_folder(location: Path | str) -> Path:
    """Return the folder of a store: itself, or the cache of one in object storage."""
    if is_address(location):
        return mirror_at(str(location)).folder
    return attached(path_from(location, "store").absolute())


def attached(folder: Path) -> Path:
    """Return a folder, after attaching its mirror if it is a cache and has none in this process."""
    if mirror_of(folder) is not None:
        return folder
    try:
        about = read_json(folder / _ABOUT, {"address": str})
    except (OSError, ValueError):
        return folder
    mirror = mirror_at(about["address"])
    if mirror.folder != folder:
        raise InputError(
            f"{folder} is a cache of {mirror.address} from another endpoint or cache folder; name "
            "the address"
        )
    return folder


def _cache_folder() -> Path:
    if named := os.environ.get(_CACHE):
        return path_from(named, _CACHE).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    try:
        return (Path(base) if base else Path.home() / ".cache").absolute() / "chaffinch"
    except RuntimeError as error:  # no home folder
        raise InputError(f"there is no folder for a cache; name one in {_CACHE}") from error


def mirror_at(address: str) -> BucketMirror:
    """Return the mirror of an address in this process, with the present credentials."""
    source = source_of_store(address)
    bucket = Bucket(source)
    digest = hashlib.sha256(f"{source.endpoint or ''}\0{source}".encode()).hexdigest()
    folder = _cache_folder() / "stores" / digest[:16]
    known = mirror_of(folder / _ABOUT)
    if isinstance(known, BucketMirror):
        known.bucket = bucket
        return known
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    except OSError as error:
        raise InputError(
            f"no cache of {source} can be made at {folder} ({error.strerror}); name another folder "
            f"in {_CACHE}"
        ) from error
    about = {"format_version": FORMAT_VERSION, "address": str(source)}
    write_file(folder / _ABOUT, to_json(about))
    mirror = BucketMirror(bucket, folder)
    attach(mirror)
    return mirror


class BucketMirror:
    """A cache folder and the objects that it is of; see `chaffinch.storage.files.Mirror`."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self.bucket, self.folder = bucket, folder
        self._notes = Notes(folder / _NOTES)
        self._held: dict[str, Lease] = {}  # by the name of what they guard
        self._is_conditional = False

    @property
    def address(self) -> str:
        return str(self.bucket)

    def check_conditions(self) -> None:
        """Raise InputError for storage that ignores the conditions of a write; asks it once."""
        if not self._is_conditional:
            self.bucket.check_conditions()
            self._is_conditional = True

    def keep(self, path: Path, file: Path, *, is_exchange: bool = False) -> None:
        """Upload the file that is about to take its place at `path`.

        `is_exchange`: only in place of the object that was last read, or if there was none.
        """
        name = self._guarded_name(path)
        if is_exchange:
            e_tag = self._exchanged(name, file.read_bytes())
        else:
            with room_for(name, file.stat().st_size, self.folder):
                e_tag = self.bucket.write(name, file)
        self._notes.set(name, Note.of(e_tag, file))

    def _exchanged(self, name: str, content: bytes) -> str:
        seen = self._notes.all(name).get(name)
        try:
            if seen is None:
                return self.bucket.create(name, content)
            return self.bucket.replace(name, content, seen.e_tag)
        except ConflictError as error:
            raise StorageError(
                f"{self.address}/{name} was changed by another process meanwhile; try again"
            ) from error

    def remove(self, path: Path) -> None:
        """Remove the objects of a file or folder, before it is removed itself."""
        name = self._guarded_name(path)
        names = list(self._notes.all(name))
        self.bucket.remove(names)
        for removed in names:
            self._notes.remove(removed)

    @contextmanager
    def lease(self, path: Path, what: str) -> Iterator[None]:
        """Hold the lease of a lock file: ``.lock`` is of its folder, ``.NAME.lock`` of NAME."""
        name = PurePosixPath(self._name(path))
        guarded = str(name.parent / name.name.removesuffix("lock").strip("."))
        lease = Lease(self.bucket, str(name), what, _identity(self.folder))
        with lease.hold():
            self._held[guarded] = lease
            try:
                yield
            finally:
                del self._held[guarded]

    def refresh(self, path: Path, wanted: Callable[[str], bool], *, is_file: bool = False) -> None:
        """Make files equal to their objects, at `path` or below it; removes those without one.

        Of the others only those with a `wanted` name, which is below `path`, are downloaded.
        """
        began, name = time.time_ns(), self._name(path)
        if is_file:
            stored = self.bucket.find(name)
            listed = [] if stored is None else [stored]
        else:
            listed = self.bucket.below(name)
        notes, folder = self._notes.all(name), PurePosixPath(name)
        there = {stored.name: stored for stored in listed if _is_of_store(stored.name)}
        for known in notes.keys() - there.keys():
            self._forget(known, notes[known], began)
        stale = [
            stored
            for stored in there.values()
            if is_file or wanted(str(PurePosixPath(stored.name).relative_to(folder)))
            if not _is_fresh(stored, notes.get(stored.name), self.folder / stored.name)
        ]
        if len(stale) <= 1:
            for stored in stale:
                self._download(stored, notes)
            return
        with ThreadPoolExecutor(min(_AT_A_TIME, len(stale))) as threads:
            for _ in threads.map(partial(self._download, notes=notes), stale):
                pass

    def fetch(self, path: Path, sha256: str) -> None:
        """Download the object of a file, unless a file of this SHA-256 is at `path`.

        StorageError if the object is missing, or has another; then nothing is left here.
        """
        name = self._name(path)
        # processes that share the folder download it once
        with locked_here(path.with_name(f".{path.name}.lock"), f"the cache of {name}"):
            if has_sha256(path, sha256):
                return
            sweep_old(path.parent)
            if (stored := self.bucket.find(name)) is not None:
                self._download(stored, self._notes.all(name), sha256)
            if stored is None or not path.is_file():
                raise StorageError(f"{self.address}/{name} is missing; run again")

    def _forget(self, name: str, seen: Note, began: int) -> None:
        """Remove a file without an object, unless it was uploaded after the objects were listed."""
        path = self.folder / name
        if seen.noted < began:
            self._notes.exchange(name, seen, None, partial(path.unlink, missing_ok=True))

    def _download(self, listed: Object, notes: Mapping[str, Note], sha256: str = "") -> None:
        path, seen = self.folder / listed.name, notes.get(listed.name)
        aside = path.with_name(f"{ASIDE}{uuid4().hex}{path.suffix}")
        stored = listed
        with one_line_errors(path), room_for(listed.name, listed.size, self.folder):
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                for _ in range(_TRIES):
                    try:
                        digest = self.bucket.download(stored, aside)
                    except ConflictError:  # it was replaced since it was listed
                        present = self.bucket.find(listed.name)
                        if present is None:
                            return  # removed, which the next listing shows
                        stored = present
                        continue
                    if sha256 and digest != sha256:
                        raise StorageError(
                            f"{self.address}/{listed.name} is damaged or was replaced, as its "
                            "SHA-256 is another; run again"
                        )
                    note = Note.of(stored.e_tag, aside)
                    self._notes.exchange(stored.name, seen, note, partial(aside.replace, path))
                    return
            finally:
                aside.unlink(missing_ok=True)
        raise StorageError(f"{self.address}/{listed.name} changes while it is read; try again")

    def _guarded_name(self, path: Path) -> str:
        """Return the name of a path; StorageError if a lease of it that was held is lost."""
        name = self._name(path)
        for guarded, lease in list(self._held.items()):
            if name == guarded or name.startswith(f"{guarded}/"):
                lease.check()
        return name

    def _name(self, path: Path) -> str:
        name = path.absolute().relative_to(self.folder).as_posix()
        return "" if name == "." else name


def _identity(folder: Path) -> str:
    """Return what no other folder has, not even a copy on another machine or in a container."""
    about, boot = folder.stat(), Path("/proc/sys/kernel/random/boot_id")
    machine = boot.read_text() if boot.exists() else str(getnode())
    text = f"{gethostname()}\0{machine}\0{about.st_dev}\0{about.st_ino}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _is_of_store(name: str) -> bool:
    return all(map(is_name, name.split("/")))


def _is_fresh(listed: Object, note: Note | None, file: Path) -> bool:
    return note is not None and note.e_tag == listed.e_tag and note.is_of(file)
