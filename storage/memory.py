"""Free memory of the machine and its containers; freed memory back to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

import psutil
import pyarrow as pa

from chaffinch.errors import TableTooLargeError

_WORTH_GIVING_BACK = 32 * 2**20  # bytes

_CACHE = ("inactive_file", "active_file")  # in memory.stat; the kernel frees it when needed
_CGROUPS = (  # controller, folder, limit, usage
    ("", "", "memory.max", "memory.current"),  # version 2
    ("memory", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)


def bytes_of(column: pa.ChunkedArray) -> int:
    """Return the bytes of a column's values."""
    try:
        return int(column.nbytes)
    except pa.ArrowTypeError:  # pyarrow before 22 cannot count those of views of text
        return int(column.get_total_buffer_size())


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes that this process can still take: of the machine, its cgroups, its limit."""
    free: int = psutil.virtual_memory().available
    return min([free, *_left_in_cgroups(root), *_left_of_own_limit()])


def check_fits_as_dense(what: str, shape: tuple[int, int], remedy: str) -> None:
    """Raise TableTooLargeError for a sparse table that is too large as a dense one."""
    needed, free = 8 * shape[0] * shape[1], free_memory()
    if needed > free:
        raise TableTooLargeError(
            f"{what} has {shape[0]:,} rows x {shape[1]:,} columns, which take {needed / 1e9:,.1f} "
            f"GB as a dense table but {free / 1e9:,.1f} GB of memory is free; {remedy}"
        )


def _left_of_own_limit() -> Iterator[int]:
    """Yield what the limit of this process's data (ulimit -d) leaves; nothing without a limit."""
    process = psutil.Process()
    if hasattr(process, "rlimit"):  # Linux
        most, _ = process.rlimit(psutil.RLIMIT_DATA)
        if most != psutil.RLIM_INFINITY:
            yield max(0, most - process.memory_info().data)


def _left_in_cgroups(root: Path) -> Iterator[int]:
    """Yield what the limit of each cgroup around this process leaves; none where there is none."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller, folder, limit, usage in _CGROUPS:
            if controller not in controllers.split(","):
                continue
            mounted = root / "sys/fs/cgroup" / folder
            inner = Path(path.lstrip("/"))
            # inside a container the path may be that of the host: then the mount is the cgroup
            for group in {mounted / level for level in (inner, *inner.parents)}:
                with suppress(OSError, ValueError):  # not there, or "max": no limit
                    most, used = (int((group / name).read_text()) for name in (limit, usage))
                    stat = dict(map(str.split, (group / "memory.stat").read_text().splitlines()))
                    # version 1 counts the groups inside in total_...
                    file = sum(int(stat.get(f"total_{name}", stat[name])) for name in _CACHE)
                    yield max(0, most - used + file)


class FreedBytes:
    """Counts freed bytes and returns memory to the system once they are many."""

    def __init__(self) -> None:
        self._bytes = 0

    def note(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        if self._bytes >= _WORTH_GIVING_BACK:
            self._bytes = 0
            release_memory()


def release_memory() -> None:
    """Return the freed memory that Arrow and the C library keep to the operating system.

    Each keeps it for its own later requests. Without this, a process holds the peak of both
    allocators at once. Takes milliseconds.
    """
    pa.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """Return glibc's ``malloc_trim``; other C libraries return memory by themselves."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return int
    return trim
