"""Return freed memory from the allocators to the operating system."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

import pyarrow as pa

_WORTH_GIVING_BACK = 32 * 2**20  # bytes


class LetGo:
    """Counts freed bytes and returns memory to the system once they are many."""

    def __init__(self) -> None:
        self._bytes = 0

    def note(self, n_bytes: int) -> None:
        self._bytes += n_bytes
        if self._bytes >= _WORTH_GIVING_BACK:
            self._bytes = 0
            give_back()


def give_back() -> None:
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
