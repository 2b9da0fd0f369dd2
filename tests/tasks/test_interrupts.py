"""Shielded helpers outlive what stops their parent; the parent takes it, and tidies up."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from chaffinch.tasks.interrupts import Stopped, helpers_shielded, stop_if_told, stopped_by_signals

STOPPING = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)
# Uninterrupted it says so; the handler is set as servers set theirs.
HELPER = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "print('ready', flush=True); input(); print('alive')"
)


def helper() -> subprocess.Popen[str]:
    return subprocess.Popen(
        (sys.executable, "-c", HELPER),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def said_after(number: int, program: subprocess.Popen[str]) -> str:
    with program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(number)
        said, _ = program.communicate("\n", timeout=20)
    return said


@STOPPING
def test_a_helper_started_inside_is_not_stopped(number):
    with helpers_shielded():
        program = helper()
    assert said_after(number, program) == "alive\n"


@STOPPING
def test_a_helper_started_outside_is(number):
    with helpers_shielded():
        pass
    assert said_after(number, helper()) == ""


def test_the_parent_takes_interrupts_again_whatever_happened_inside():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(OSError, match="no such helper"), helpers_shielded():
        raise OSError("no such helper")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_stopping_signal_is_taken_as_ctrl_c_is(number):
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as stopped, stopped_by_signals():
        os.kill(os.getpid(), number)
    assert isinstance(stopped.value, Stopped)
    assert stopped.value.signal == number
    assert signal.getsignal(number) is before


def test_one_that_a_library_has_lost_is_taken_where_somebody_asks():
    def work() -> None:
        stop_if_told()  # nothing was said yet
        with suppress(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGTERM)
        stop_if_told()

    with pytest.raises(Stopped) as stopped, stopped_by_signals():
        work()
    assert stopped.value.signal == signal.SIGTERM
    stop_if_told()  # it was taken


def test_what_is_sent_again_does_not_break_off_the_tidying_up():
    tidied = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGHUP)
            tidied.append("all")

    with pytest.raises(Stopped), stopped_by_signals():
        work()
    assert tidied == ["all"]


def test_what_the_program_was_started_to_ignore_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as `nohup` does
    try:
        with stopped_by_signals():
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)
