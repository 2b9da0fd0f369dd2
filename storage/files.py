"""Atomic files, their names and their hashes.

Every file of the store is written to a temporary file in the same folder, flushed and renamed, so
that a reader never sees a partial file, even after a crash.
"""

from __future__ import annotations

import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Protocol

from filelock import FileLock, Timeout

from chaffinch.errors import InputError, LaterReleaseError, StorageError

_SHOWN = 40
GIVE_A_PATH = "give a path"


def path_from(location: str | os.PathLike[str], what: str, remedy: str = GIVE_A_PATH) -> Path:
    """Return the path that the user gave, which `what` names in the error.

    InputError if it is no path, empty text, an address such as ``s3://bucket/key``, begins with
    ``~``, or is not a valid file name; see `check_path`.
    """
    if not isinstance(location, str | os.PathLike):
        written = repr(location)
        is_short = len(written) <= _SHOWN and written.isprintable()
        value = written if is_short else f"of type {type(location).__name__}"
        raise InputError(f"{what} must be a path but is {value}; {remedy}")
    path = Path(location)
    check_named(location, what, remedy)
    if str(path).startswith("~"):  # only a shell expands it
        raise InputError(
            f"{what} must be a path written out but {_shown(path)!r} begins with '~'; give what "
            "os.path.expanduser makes of it"
        )
    check_path(path)
    return path


def file_to_write(path: Path, what: str) -> Path:
    """Return the file to write at `path`, with symbolic links resolved.

    So a link stays a link, even if its target does not exist yet.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                f"{what} must be a file but {path} leads in a circle by symbolic links; "
                "name another file"
            ) from error
        mode = None  # does not exist, or writing it raises the reason
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(f"{what} must be a file but {path} is a folder; name a file in it")
    check_regular(path, what)
    with suppress(OSError):  # e.g. no permission
        if path.is_symlink():
            return Path(os.path.realpath(path))
    return path


FileState = tuple[int, int, int]  # inode, bytes, time of change


def state_of(path: Path) -> FileState | None:
    """Return what changes with a file; None if it is missing."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_size, about.st_mtime_ns


def check_regular(path: Path, what: str, remedy: str = "name another file") -> None:
    """Refuse a device, a pipe or a socket: opening or reading it may block for ever.

    Folders and missing files are left to the caller.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{what} must be a regular file but {path} is a device, a pipe or a socket; {remedy}"
        )


def is_address(location: object) -> bool:
    """Return whether what the user named is an address, such as ``s3://bucket/key``."""
    return isinstance(location, str) and "://" in location


def check_named(location: object, what: str, remedy: str = GIVE_A_PATH) -> None:
    """Refuse empty text and addresses; see `path_from`."""
    if isinstance(location, str) and not location.strip():
        raise InputError(f"{what} must be named but is empty text; {remedy}")
    if is_address(location):  # a Path collapses the slashes
        # the message omits the address, which may hold a secret
        raise InputError(f"{what} must be on this disk but is an address; {remedy}")


def check_path(path: Path) -> None:
    """Refuse a path that cannot be a file name on this machine, whether it exists or not."""
    try:
        os.lstat(path)
    except ValueError as error:
        raise InputError(
            f"{_shown(path)!r} holds a character that no path can, such as the one of code 0; "
            "leave it out"
        ) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise too_long(path) from error


def too_long(path: Path) -> InputError:
    level = max(len(os.fsencode(part)) for part in path.parts)
    return InputError(
        f"path {_shown(path)!r} is too long, with {len(os.fsencode(path)):,} bytes and "
        f"{level:,} in one level of it; most disks take 4,095 and 255: give a shorter one"
    )


def _shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


logger = logging.getLogger(__name__)

FORMAT_VERSION = 1
_SEAL = "sha256"
_AGAIN = "remove it and run again"
ASIDE = ".aside-"
_SECONDS_OF_A_DAY = 86_400
_LONGEST = 120
LONGEST_STEM = _LONGEST - len(".json")  # of the name of a JSON file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_FULL = {
    errno.ENOSPC: "no space left on the device of",
    errno.EDQUOT: "the disk quota is used up for",
    errno.EFBIG: "no space left for a file of this size on the device of",
}
_FORBIDDEN = {errno.EACCES, errno.EPERM, errno.EROFS}


def check_name(name: str, longest: int = _LONGEST) -> str:
    """Return `name` if it can name a run or a level of a file name.

    It must be 1 to `longest` ASCII letters, digits, dots, dashes and underscores that start with a
    letter or a digit. This excludes hidden names and paths out of the folder.
    """
    if not isinstance(name, str):  # the repr of a table, for example, has many lines
        raise InputError(f"a name must be text but is of type {type(name).__name__}")
    if not is_name(name, longest):
        raise InputError(
            f"a name must be 1..{longest} of A-Z a-z 0-9 . _ - and begin with a letter or digit "
            f"but is {name!r}"
        )
    return name


def is_name(name: str, longest: int = _LONGEST) -> bool:
    return _NAME.fullmatch(name) is not None and len(name) <= longest


def path_in(folder: Path, name: str) -> Path:
    """Return the path of the file `name` inside `folder`; ``/`` separates its levels.

    InputError if a level is not a valid name, or a symbolic link leads out of the folder.
    """
    path = folder.joinpath(*map(check_name, name.split("/")))
    # unlike Path.resolve, realpath accepts circular links
    if not Path(os.path.realpath(path)).is_relative_to(folder.resolve()):
        raise InputError(f"{name!r} leads out of {folder} by a symbolic link; remove the link")
    return path


class Mirror(Protocol):
    """What keeps the files of a folder in another place, of which the folder is a cache.

    Names that begin with a dot are in the folder alone, but for leases.
    """

    folder: Path

    @property
    def address(self) -> str:
        """The other place, as users name it."""

    def keep(self, path: Path, file: Path, *, is_exchange: bool = False) -> None:
        """Keep the file that is about to take its place at `path`; see `write_file`."""

    def remove(self, path: Path) -> None:
        """Remove a file or folder that is about to be removed here."""

    def lease(self, path: Path, what: str) -> AbstractContextManager[None]:
        """Hold a lock file for all machines."""

    def refresh(self, path: Path, wanted: Callable[[str], bool], *, is_file: bool = False) -> None:
        """Make files here those of the other place; see `refresh` and `refresh_file`."""


_mirrors: dict[Path, Mirror] = {}  # of this process, by their folders


def attach(mirror: Mirror) -> None:
    """Let a mirror keep what is written below its folder from now on, in this process."""
    _mirrors[mirror.folder] = mirror


def mirror_of(path: Path) -> Mirror | None:
    """Return the mirror that a path is below, if any; temporary files are below none."""
    path = path.absolute()
    for folder, mirror in tuple(_mirrors.items()):  # another thread may attach one
        if path.is_relative_to(folder):
            inside = path.relative_to(folder).parts
            return None if any(part.startswith(ASIDE) for part in inside) else mirror
    return None


def shown(path: Path) -> str:
    """Return a path as users know it: the address where it is a cache of one."""
    mirror = mirror_of(path)
    if mirror is None:
        return str(path)
    return "/".join([mirror.address, *path.absolute().relative_to(mirror.folder).parts])


def refresh(folder: Path, wanted: Callable[[str], bool] = lambda name: True) -> None:
    """Bring a folder up to date where it is a cache, in names that are `wanted`; else do nothing.

    `wanted` is given names below the folder, such as ``stages/split.json``.
    """
    if (mirror := mirror_of(folder)) is not None:
        mirror.refresh(folder, wanted)


def refresh_file(path: Path) -> None:
    """Bring a file up to date where it is in a cache; else do nothing."""
    if (mirror := mirror_of(path)) is not None:
        mirror.refresh(path, lambda name: True, is_file=True)


def write_file(
    path: Path, data: bytes | Callable[[Path], None], *, is_exchange: bool = False
) -> None:
    """Write a file atomically; its folder is created if missing.

    `is_exchange`: in object storage only in place of the object that was last read here, so that
    nothing is lost should a lease be.
    """
    mirror = mirror_of(path)
    aside = path.with_name(f"{ASIDE}{uuid.uuid4().hex}{path.suffix}")
    with one_line_errors(path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(data, bytes):
                aside.write_bytes(data)
            else:
                data(aside)
            _flush(aside)
            if mirror is not None:
                mirror.keep(path, aside, is_exchange=is_exchange)
            aside.replace(path)
        finally:
            aside.unlink(missing_ok=True)
        _flush(path.parent)


def make_folder(path: Path) -> Path:
    with one_line_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Hold the lock file `path`, so that only one process at a time works on `what`.

    In object storage a lease is held as well, else see `locked_here`.
    """
    mirror = mirror_of(path)
    with ExitStack() as held:
        held.enter_context(locked_here(path, what))
        if mirror is not None:
            held.enter_context(mirror.lease(path, what))
        yield


@contextmanager
def locked_here(path: Path, what: str) -> Iterator[None]:
    """Hold a lock file for the processes that see it.

    Another process logs one warning and waits. The operating system releases the lock of a dead
    process; the empty file stays. Raises the errors of `write_file`, and StorageError where the
    file system has no locks.
    """
    make_folder(path.parent)
    # a soft lock tests whether the file exists, which is always true here
    lock = FileLock(path, fallback_to_soft=False)
    with one_line_errors(path):
        if not path.exists():
            path.touch()  # otherwise a file that cannot be created looks like a held lock
        try:
            lock.acquire(timeout=0)
        except Timeout:
            logger.warning("waiting for another process that works on %s", what)
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def sweep(folder: Path) -> None:
    """Remove temporary files of killed writers in `folder`; call it only while none is writing."""
    with suppress(FileNotFoundError):  # the folder was removed meanwhile
        for path in folder.rglob(f"{ASIDE}*"):
            path.unlink(missing_ok=True)


def sweep_old(folder: Path) -> None:
    """Remove temporary files directly in `folder` that are older than a day.

    For folders without a lock: no writer needs a day for a file.
    """
    yesterday = time.time() - _SECONDS_OF_A_DAY
    with suppress(FileNotFoundError):  # the folder was removed meanwhile
        for path in folder.glob(f"{ASIDE}*"):
            with suppress(FileNotFoundError):  # another process sweeps too
                if path.stat().st_mtime < yesterday and not path.is_dir():
                    path.unlink()


def remove_file(path: Path) -> None:
    if (mirror := mirror_of(path)) is not None:
        mirror.remove(path)
    with one_line_errors(path):
        path.unlink(missing_ok=True)


def remove_folder(path: Path) -> None:
    """Remove a folder with all that is in it; raises OSError and StorageError."""
    if (mirror := mirror_of(path)) is not None:
        mirror.remove(path)
    shutil.rmtree(path)


def sha256_of_file(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def has_sha256(path: Path, sha256: str) -> bool:
    """Return whether a file can be read and has this SHA-256."""
    try:
        return sha256_of_file(path) == sha256
    except OSError:
        return False


def sha256_of_written(path: Path) -> str:
    """Return the SHA-256 of a file that was just written; raises the errors of `write_file`."""
    with one_line_errors(path):
        return sha256_of_file(path)


def to_json(data: dict[str, Any]) -> bytes:
    """Return JSON in the format of the store: keys in order, exact floats, no NaN."""
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False)
    return f"{text}\n".encode()


def sealed(data: dict[str, Any]) -> bytes:
    """Return JSON whose last field is the SHA-256 of all the others, to detect changes."""
    return to_json({**data, _SEAL: _seal_of(data)})


def is_sealed(data: Mapping[str, Any]) -> bool:
    """Return whether an object written by `sealed` is unchanged."""
    content = {field: value for field, value in data.items() if field != _SEAL}
    return data.get(_SEAL) == _seal_of(content)


def _seal_of(data: dict[str, Any]) -> str:
    return hashlib.sha256(to_json(data)).hexdigest()


def read_json(
    path: Path, fields: Mapping[str, type], remedy: str = _AGAIN, latest: int = FORMAT_VERSION
) -> dict[str, Any]:
    try:
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        raise
    except OSError as error:
        raise StorageError(f"{shown(path)} cannot be read ({error.strerror}); {remedy}") from error
    return parse_json(content, path, fields, remedy, latest)


def parse_json(
    content: bytes,
    path: Path,
    fields: Mapping[str, type],
    remedy: str = _AGAIN,
    latest: int = FORMAT_VERSION,
) -> dict[str, Any]:
    """Return the object in the bytes of a JSON file of the store; see `read_json`.

    `latest` is the last version of its format that this release reads.
    """
    try:
        data = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise StorageError(f"{shown(path)} is damaged (nested too deeply); {remedy}") from error
    except ValueError as error:
        raise StorageError(f"{shown(path)} is damaged ({error}); {remedy}") from error
    version = data.get("format_version") if isinstance(data, dict) else None
    if isinstance(version, int) and version > latest:
        raise LaterReleaseError(
            f"{shown(path)} was written by a later release (format {version!s:.40}); "
            f"this one reads up to {latest}; update chaffinch"
        )
    if version not in range(FORMAT_VERSION, latest + 1):
        raise StorageError(
            f"{shown(path)} must have format_version {FORMAT_VERSION} but has {version!s:.40}; "
            f"{remedy}"
        )
    for field, kind in fields.items():
        if not isinstance(data.get(field), kind):
            raise StorageError(f"{shown(path)} is damaged (no {kind.__name__} {field}); {remedy}")
    return dict(data)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _flush(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # some file systems, such as SMB, cannot flush folders
        if error.errno != errno.EINVAL or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


@contextmanager
def one_line_errors(path: Path) -> Iterator[None]:
    """Convert operating system errors while writing `path` into InputError and StorageError."""
    check_path(path)
    try:
        yield
    except (InputError, StorageError):
        raise
    except OSError as error:
        name, folder = path.name, path.parent
        if error.errno == errno.ENAMETOOLONG:  # in a folder that did not exist yet
            raise too_long(path) from error
        if error.errno == errno.ENOSYS:
            raise StorageError(
                f"the file system of {folder} has no file locks (flock); mount it with them, as "
                "Lustre with -o flock, or name another place"
            ) from error
        if error.errno in _FULL:
            raise StorageError(
                f"{_FULL[error.errno]} {folder} while writing {name}: "
                "free some or name another place"
            ) from error
        if error.errno in _FORBIDDEN:
            raise InputError(
                f"writing {name} in {folder} is not allowed; "
                "make the folder writable or name another place"
            ) from error
        raise StorageError(
            f"cannot write {name} in {folder}: {error.strerror or error}; "
            "correct it or name another place"
        ) from error
