"""Signals that stop a run are for the program that a person started, not for its helpers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; asked to end, as by a service manager; the terminal is gone.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """The program was told to stop by a signal; whatever minds Ctrl-C minds this as well.

    Attributes
    ----------
    signal : int
        Its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class _Told:
    """Which signal told this program to stop, if one did."""

    number: int | None = None


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise `Stopped` in the block, which otherwise would end it at once.

    Only the first does: what is sent again must not break off the tidying up. A signal that this
    program was started to ignore, as by `nohup`, stays ignored. For the main thread only.

    Raises
    ------
    Stopped
        Wherever the block is when the signal arrives.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        if _Told.number is None:
            _Told.number = number
            raise Stopped(number)

    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    taken = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, old in taken.items():
            signal.signal(number, old)
        _Told.number = None


def stop_if_told() -> None:
    """Stop now, if a signal in `stopped_by_signals` said so and what it raised was lost.

    Libraries that import or load others in the middle of a call take it for a failure of these.

    Raises
    ------
    Stopped
        If so.
    """
    if _Told.number is not None:
        raise Stopped(_Told.number)


def stop_once() -> None:
    """Ignore every further signal to stop: this program is ending, and tidies up."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def helpers_shielded() -> Iterator[None]:
    """Start helper programs in here, and no signal that stops this one stops them, ever.

    A terminal sends Ctrl-C to every program in its foreground, a service manager SIGTERM to every
    program of the service. Helpers that take it die at once, and whoever started them then waits
    for an answer that cannot come. What is started by a thread that blocks the signals keeps them
    blocked; this program takes them at the latest at the block's end, and ends its helpers.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
