"""Signals that stop a run, handled by the main program and not by its helper processes."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C; termination, e.g. by a service manager; hang-up of the terminal.
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SOON = 0.001  # seconds: a timer of 0 would be off
_MEANWHILE = 0.05  # seconds until a deferred signal is sent again
_LOST_AFTER = 0.5  # seconds until an exception without effect is considered lost


class Stopped(KeyboardInterrupt):
    """A signal to stop the program; code that handles Ctrl-C handles this too."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.signal = number


class OutOfTime(Stopped):
    """The time limit of a block was reached; the message describes the limit in a sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(signal.SIGALRM)
        self.message = message

    def __str__(self) -> str:
        return self.message


@contextmanager
def stopped_after(seconds: float, message: str) -> Iterator[None]:
    """Raise `OutOfTime` in the block after a number of seconds; of nested blocks the earliest.

    For the main thread. Compiled code, such as a single fit, is not interrupted.
    """
    is_over = False

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_over:
            raise OutOfTime(message)

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
def raised_again_where_lost(
    number: int, kind: type[BaseException], *, is_replaced: bool = True
) -> Iterator[None]:
    """Raise a signal's exception again if it was lost, e.g. in a callback of compiled code.

    It replaces an error that follows from it. With `is_replaced`, the handler in the block lets no
    second signal interrupt the cleanup; without, the handler's owner finds it in place. For the
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
        _call_later(_MEANWHILE, send_again)

    if is_replaced:
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
        if is_replaced:
            signal.signal(number, handler)


@contextmanager
def stopped_by_signals() -> Iterator[None]:
    """Make SIGTERM and SIGHUP raise `Stopped` in the block instead of ending the process.

    Only the first signal does: nothing but another Ctrl-C may interrupt the cleanup. A signal that
    was ignored at the start, e.g. by `nohup`, stays ignored. During an import the signals are
    deferred: it could turn them into another error. A lost exception is raised again. For the
    main thread.
    """
    stopping = is_over = is_ours = False

    def send_again(number: int, seconds: float) -> None:
        def send() -> None:
            nonlocal is_ours
            if not is_over:
                is_ours = True
                os.kill(os.getpid(), number)

        _call_later(seconds, send)

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

    previous_hook = sys.unraisablehook

    def unless_a_stop(lost: sys.UnraisableHookArgs) -> None:
        if not isinstance(lost.exc_value, KeyboardInterrupt):
            previous_hook(lost)

    before = {number: signal.getsignal(number) for number in _STOPPING}
    taken = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in taken:
        signal.signal(number, stop)
    sys.unraisablehook = unless_a_stop
    try:
        yield
    finally:
        is_over = True
        sys.unraisablehook = previous_hook
        for number, old in taken.items():
            signal.signal(number, old)


def _call_later(seconds: float, action: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, action)
    timer.daemon = True
    timer.start()


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib."):
            return True
        frame = frame.f_back
    return False


def _is_unwinding(kind: type[BaseException] = KeyboardInterrupt) -> bool:
    error = sys.exception()
    while error is not None and not isinstance(error, kind):
        error = error.__context__
    return error is not None


def stop_once() -> None:
    """Ignore further stop signals: this program is ending and cleans up."""
    for number in _STOPPING:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def helpers_shielded() -> Iterator[None]:
    """Protect helper programs started in this block from signals that stop this program.

    A terminal sends Ctrl-C to every program in its foreground, a service manager SIGTERM to every
    program of the service. Programs inherit blocked signals from the thread that starts them; this
    program receives them at the end of the block, and ends its helpers.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPPING)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
