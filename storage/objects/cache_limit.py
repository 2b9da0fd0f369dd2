"""A limit of the caches of this machine: files of rows that were not used for longest leave first.

Only files of rows count, as others are small. A process that has such a file open reads on when it
leaves, and fetches it again at its next use.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path, PurePosixPath

from filelock import FileLock

from chaffinch.errors import InputError
from chaffinch.storage.files import locked_here

LIMIT = "CHAFFINCH_CACHE_GB"
_OF_ROWS = ("datasets/*/table*.parquet", "runs/*/rows/*.bits")  # below a store's folder


@contextmanager
def room_for(name: str, n_bytes: int, store: Path) -> Iterator[None]:
    """Remove other files of rows until one of `n_bytes` fits, and keep its room in the block.

    `name` is its name in the store, whose folder is beside those of other stores. InputError if it
    is larger than the limit.
    """
    most = _limit()
    if most is None or not any(map(PurePosixPath(name).match, _OF_ROWS)):
        yield
        return
    if n_bytes > most:
        raise InputError(
            f"{name} has {n_bytes:,} bytes, but {LIMIT} lets the cache have {most:,.0f}; raise it, "
            "or unset it for no limit"
        )
    with locked_here(store.parent / ".room.lock", "the cache"):
        _remove_unused(store.parent, most - n_bytes)
        yield


def mark_used(path: Path) -> None:
    """Note that a file of rows is used now, where disks do not note it themselves."""
    with suppress(OSError):  # it has left, or is another user's
        os.utime(path, ns=(time.time_ns(), path.stat().st_mtime_ns))


def _limit() -> float | None:
    """Return the bytes that files of rows may take; None without a limit."""
    if not (text := os.environ.get(LIMIT)):
        return None
    try:
        n_gigabytes = float(text)
    except ValueError:
        n_gigabytes = math.nan
    if not 0 < n_gigabytes < math.inf:
        raise InputError(
            f"{LIMIT} must be a number of gigabytes above 0 but is {text!r:.40}; correct it, or "
            "unset it for no limit"
        )
    return 1e9 * n_gigabytes


def _remove_unused(stores: Path, most: float) -> None:
    """Remove the files of rows that were not used for longest, until the others take `most`."""
    used: list[tuple[int, int, Path]] = []
    for path in (path for pattern in _OF_ROWS for path in stores.glob(f"*/{pattern}")):
        with suppress(FileNotFoundError):
            about = path.stat()
            used.append((about.st_atime_ns, about.st_size, path))
    total = sum(size for _, size, _ in used)
    for _, size, path in sorted(used):
        if total <= most:
            return
        lock = path.parent.with_name(f".{path.parent.name}.lock")  # of who writes the dataset
        # errors of the system: the lock is held; on Windows, the file is open
        with suppress(OSError), FileLock(lock, timeout=0) if lock.exists() else nullcontext():
            path.unlink()
            total -= size
