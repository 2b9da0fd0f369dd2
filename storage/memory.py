"""Memory that is free but still held by the allocators, handed back to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa

_WORTH_GIVING_BACK = 32 * 2**20  # bytes


class LetGo:
    """Counts what is let go piece by piece, and gives it back whenever it has become much."""

    def __init__(self) -> None:
        self._bytes = 0

    def note(self, n_bytes: int) -> None:
        """Count a piece that nobody holds any more."""
        self._bytes += n_bytes
        if self._bytes >= _WORTH_GIVING_BACK:
            self._bytes = 0
            give_back()


def give_back() -> None:
    """Hand back what Arrow and the C library keep of freed memory.

    Both keep it for the next request, but seldom for one of the other: without this a process
    holds the most that each of them ever held, one on top of the other. Costs milliseconds.
    """
    pa.default_memory_pool().release_unused()
    _trim()(0)


@cache
def _trim() -> Callable[[int], int]:
    """Return glibc's ``malloc_trim``; other C libraries give back by themselves."""
    try:
        trim: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return int
    return trim
