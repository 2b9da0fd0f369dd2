"""Helpers started while interrupts are held outlive Ctrl-C; their parent still takes it."""

import os
import signal
import subprocess
import sys

import pytest

from chaffinch.tasks.interrupts import interrupts_held

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
    with interrupts_held():
        program = helper()
    assert said_after_an_interrupt(program) == "alive\n"


def test_a_helper_started_outside_is():
    with interrupts_held():
        pass
    assert said_after_an_interrupt(helper()) == ""


def test_an_interrupt_that_comes_inside_is_taken_on_the_way_out():
    reached = []

    def interrupted() -> None:
        with interrupts_held():
            os.kill(os.getpid(), signal.SIGINT)
            reached.append("the end of the block")

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupted()
    finally:
        signal.signal(signal.SIGINT, before)
    assert reached == ["the end of the block"]
