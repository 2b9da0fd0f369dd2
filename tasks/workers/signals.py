"""Signals that stop a run are for the program that a person started, not for its helpers."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; asked to end, as by a service manager; the terminal is gone.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON = 0.001  # seconds: a timer of 0 would be none
_MEANWHILE = 0.05  # seconds after which a signal that must wait is sent again
_LOST_AFTER = 0.5  # seconds after which an exception that stopped nothing is taken for lost


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


class OutOfTime(Stopped):
    """The time that a block was given is over.

    Attributes
    ----------
    said : str
        Which time that was, in a sentence.
    """

    def __init__(self, said: str) -> None:
        super().__init__(signal.SIGALRM)
        self.said = said

    def __str__(self) -> str:
        """Return what is said."""
        return self.said


@contextmanager
def stopped_after(seconds: float, said: str) -> Iterator[None]:
    """Have `OutOfTime` raised in the block once it has gone on for so long.

    One may stand inside another: whichever is over first counts. What computes without asking the
    interpreter, such as a single fit, is not broken off before it returns. For the main thread.
    """
    is_over = False

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_over:
            raise OutOfTime(said)

    begun = time.monotonic()
    outer, _ = signal.setitimer(signal.ITIMER_REAL, 0)
    if 0 < outer <= seconds:
        signal.setitimer(signal.ITIMER_REAL, outer)
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        is_over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left = outer - (time.monotonic() - begun)
            signal.setitimer(signal.ITIMER_REAL, max(left, _SOON))


@contextmanager
def raised_again_where_lost(number: int, kind: type[BaseException]) -> Iterator[None]:
    """Raise the exception of a signal again where it was lost, as in a callback of compiled code.

    Nothing is printed about the lost one. An error that follows from it gives way to it. For the
    main thread, and a signal whose handler raises `kind`.
    """
    handler = signal.getsignal(number)
    if not callable(handler):
        yield
        return
    report_lost = sys.unraisablehook
    is_over = is_lost = False

    def send_again() -> None:
        if not is_over:
            os.kill(os.getpid(), number)

    def handle(number: int, frame: FrameType | None) -> None:
        if not _is_unwinding(kind):
            handler(number, frame)

    def note_lost(lost: sys.UnraisableHookArgs) -> None:
        nonlocal is_lost
        if not isinstance(lost.exc_value, kind):
            report_lost(lost)
            return
        is_lost = True
        later = threading.Timer(_MEANWHILE, send_again)
        later.daemon = True
        later.start()

    signal.signal(number, handle)
    sys.unraisablehook = note_lost
    try:
        yield
    except Exception:
        if is_lost:
            handler(number, None)
        raise
    finally:
        is_over = True
        sys.unraisablehook = report_lost
        signal.signal(number, handler)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise `Stopped` in the block, which otherwise would end it at once.

    Only the first does: what is sent again must not break off the tidying up, which only a person
    does by another Ctrl-C. A signal that this program was started to ignore, as by `nohup`, stays
    ignored. While a module is imported, these and Ctrl-C wait until it is: an import may make
    another error of them. Where the exception is lost, as in compiled code that asks Python
    something, nothing is said of that, and it is raised again. For the main thread only.
    """
    stopping = is_over = is_ours = False

    def send_again(number: int, seconds: float) -> None:
        def send() -> None:
            nonlocal is_ours
            if not is_over:
                is_ours = True
                os.kill(os.getpid(), number)

        later = threading.Timer(seconds, send)
        later.daemon = True
        later.start()

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopping, is_ours
        by_a_person, is_ours = number == signal.SIGINT and not is_ours, False
        if _is_importing(frame):
            send_again(number, _MEANWHILE)
        elif by_a_person or not stopping or not _is_unwinding():
            if not stopping:
                send_again(number, _LOST_AFTER)
            stopping = True
            raise KeyboardInterrupt if number == signal.SIGINT else Stopped(number)

    say_lost = sys.unraisablehook

    def unless_a_stop(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            say_lost(lost)

    before = {number: signal.getsignal(number) for number in _STOPPING}
    taken = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, stop)
    sys.unraisablehook = unless_a_stop
    try:
        yield
    finally:
        is_over = True
        sys.unraisablehook = say_lost
        for number, old in taken.items():
            signal.signal(number, old)


def _is_importing(frame: FrameType | None) -> bool:
    """Return whether a module is being imported where a signal arrives."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            return True
        frame = frame.f_back
    return False


def _is_unwinding(kind: type[BaseException] = KeyboardInterrupt) -> bool:
    """Return whether a stop is being dealt with where a signal arrives."""
    error = sys.exception()
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


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
