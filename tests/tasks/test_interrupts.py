"""Shielded helpers outlive Ctrl-C; their parent still takes it."""

import signal
import subprocess
import sys

import pytest

from chaffinch.tasks.interrupts import helpers_shielded

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


def said_after_an_interrupt(program: subprocess.Popen[str]) -> str:
    with program:
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        said, _ = program.communicate("\n", timeout=20)
    return said


def test_a_helper_started_inside_is_not_interrupted():
    with helpers_shielded():
        program = helper()
    assert said_after_an_interrupt(program) == "alive\n"


def test_a_helper_started_outside_is():
    with helpers_shielded():
        pass
    assert said_after_an_interrupt(helper()) == ""


def test_the_parent_takes_interrupts_again_whatever_happened_inside():
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    with pytest.raises(OSError, match="no such helper"), helpers_shielded():
        raise OSError("no such helper")
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before
