"""Ctrl-C is for the program that a person started, not for the helpers it has started itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def helpers_shielded() -> Iterator[None]:
    """Start helper programs in here, and none of them is interrupted by Ctrl-C, ever.

    A terminal sends Ctrl-C to every program in its foreground. Helpers that take it die at once,
    and whoever started them then waits for an answer that cannot come. What is started by a thread
    that blocks the signal keeps it blocked; this program takes it at the latest at the block's end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
