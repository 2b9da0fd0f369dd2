"""What an engine shares with other threads, with a forked child and with a copy of itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, NoReturn


class Alone:
    """A lock for one thread at a time, which may take it again.

    A forked child has a free one, whoever held it; so has a copy.
    """

    def __init__(self) -> None:
        self._lock, self._process = threading.RLock(), os.getpid()

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The lock of this process, to be used with ``with``."""
        if self._process != os.getpid():
            self._lock, self._process = threading.RLock(), os.getpid()
        return self._lock

    def __copy__(self) -> Alone:
        """Leave the lock behind: a copy begins with one of its own."""
        return Alone()

    def __deepcopy__(self, _: dict[int, Any]) -> Alone:
        return Alone()

    def __reduce__(self) -> NoReturn:
        """Refuse, as not every engine holds only what a pickle can."""
        raise TypeError("a masked loss cannot be pickled; make it again from the model")


class Threads:
    """Threads that work through pieces; none is at work any more once pieces are asked for anew.

    Those of a pool are kept from one call to the next. A forked child, which has none of them, and
    a copy start their own.

    Parameters
    ----------
    count : int, at least 1
        How many.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool: ThreadPoolExecutor | None = None
        self._process, self._is_at_work = os.getpid(), False

    def each(self, work: Callable[[Any], None], pieces: Sequence[Any]) -> None:
        """Call ``work(piece)`` for every piece, in no order, and return when all is done."""
        self._finish()
        if self.count == 1 or len(pieces) == 1:
            for piece in pieces:
                work(piece)
            return
        left = iter(pieces)  # shared: each thread takes the next one

        def take() -> None:
            for piece in left:
                work(piece)

        self._is_at_work = True
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.count)
        try:
            for thread in [self._pool.submit(take) for _ in range(self.count)]:
                thread.result()
            self._is_at_work = False
        finally:
            self._finish()

    def _finish(self) -> None:
        """Wait for threads that were left at work when something interrupted who waited."""
        if self._process != os.getpid():
            self._pool, self._process, self._is_at_work = None, os.getpid(), False
        if self._is_at_work and self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        self._is_at_work = False

    def __reduce__(self) -> tuple[type[Threads], tuple[int]]:
        """Leave the pool behind."""
        return Threads, (self.count,)
