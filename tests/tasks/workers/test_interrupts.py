"""Shielded helpers outlive what stops their parent; the parent takes it, and tidies up."""

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from chaffinch.tasks.workers.signals import (
    OutOfTime,
    Stopped,
    helpers_shielded,
    raised_again_where_lost,
    stopped_after,
    stopped_by_signals,
)

STOPPING = pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name
)


@pytest.fixture(autouse=True)
def signals_as_a_program_starts_with_them() -> Iterator[None]:
    """Whatever other tests, or who started them, have done to them, as by a shell's `&`."""
    usual = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), signal.SIG_DFL)
    usual |= {signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


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


LOSES_IT = """
import signal, sys, time
from chaffinch.tasks.workers.signals import Stopped, stopped_by_signals

class Request:
    def __del__(self):  # whatever is raised in here is ignored
        signal.raise_signal(int(sys.argv[1]))

try:
    with stopped_by_signals():
        Request()
        print("lost", flush=True)
        time.sleep(60)
except KeyboardInterrupt as error:
    sys.exit(128 + getattr(error, "signal", signal.SIGINT))
"""


@STOPPING
def test_a_stop_that_is_lost_is_raised_again(number):
    ended = subprocess.run(
        (sys.executable, "-c", LOSES_IT, str(int(number))),
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.stderr, ended.returncode) == ("lost\n", "", 128 + number)


class Ended(BaseException):
    """What the handler of a signal raises, as Prefect's does."""


@pytest.fixture
def ending():
    def end(number, frame):
        raise Ended

    before = signal.signal(signal.SIGTERM, end)
    yield ctypes.CFUNCTYPE(None)(lambda: os.kill(os.getpid(), signal.SIGTERM))
    signal.signal(signal.SIGTERM, before)


def raised_again(function):
    with raised_again_where_lost(signal.SIGTERM, Ended):
        function()


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_stop_that_a_callback_of_compiled_code_lost_is_raised_again(ending, is_replaced):
    """Where the handler is not replaced, its owner finds it in place meanwhile."""
    owners = signal.getsignal(signal.SIGTERM)

    def loses_it_and_goes_on():
        assert (signal.getsignal(signal.SIGTERM) is owners) == (not is_replaced)
        ending()
        time.sleep(50)

    again = raised_again_where_lost(signal.SIGTERM, Ended, is_replaced=is_replaced)
    with pytest.raises(Ended), again:
        loses_it_and_goes_on()
    assert signal.getsignal(signal.SIGTERM) is owners


def test_a_stop_that_was_lost_comes_before_the_error_that_follows_from_it(ending):
    def fails():
        raise ValueError("rows are missing")

    def loses_it_and_fails():
        ending()
        fails()

    with pytest.raises(Ended):
        raised_again(loses_it_and_fails)
    with pytest.raises(ValueError, match="rows are missing"):
        raised_again(fails)


def test_any_other_error_that_is_lost_is_told(monkeypatch):
    class Fails:
        def __del__(self) -> None:
            raise OSError("not closed")

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(str(lost.exc_value)))
    before = sys.unraisablehook
    with stopped_by_signals():
        Fails()
    assert told == ["not closed"]
    assert sys.unraisablehook is before


def tidied_after_ctrl_c(meanwhile) -> list[str]:
    """Return what was tidied up by a block that Ctrl-C has stopped."""
    tidied = []

    def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            meanwhile()
            tidied.append("all")

    with pytest.raises(KeyboardInterrupt), stopped_by_signals():
        work()
    return tidied


def test_ctrl_c_that_was_not_lost_is_not_raised_again_while_it_tidies_up():
    assert tidied_after_ctrl_c(lambda: time.sleep(0.8)) == ["all"]


def test_a_person_breaks_off_the_tidying_up_by_another_ctrl_c():
    assert tidied_after_ctrl_c(lambda: os.kill(os.getpid(), signal.SIGINT)) == []


def test_a_stop_while_a_module_is_imported_waits_for_it(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import signal\n"
        "class Field:\n"
        "    def __set_name__(self, owner, name): signal.raise_signal(signal.SIGHUP)\n"
        "class Task:\n"
        "    field = Field()\n"
        "print('imported', flush=True)\n"
    )
    program = (
        "import sys, time\n"
        "from chaffinch.tasks.workers.signals import Stopped, stopped_by_signals\n"
        "try:\n"
        "    with stopped_by_signals():\n"
        "        import slow\n"
        "        time.sleep(60)\n"
        "except Stopped as error:\n"
        "    sys.exit(128 + error.signal)\n"
    )
    ended = subprocess.run(
        (sys.executable, "-c", program), cwd=tmp_path,
        capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip
    assert (ended.stdout, ended.returncode) == ("imported\n", 128 + signal.SIGHUP)


@STOPPING
def test_a_helper_started_inside_is_not_stopped(number):
    with helpers_shielded():
        program = helper()
    assert said_after(number, program) == "alive\n"


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


def work_for(seconds: float) -> None:
    """Compute in the interpreter, as a search does between its fits."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))


def test_what_goes_on_for_too_long_is_stopped_as_by_ctrl_c():
    with pytest.raises(KeyboardInterrupt) as stopped, stopped_after(0.05, "too long"):
        work_for(30)
    assert isinstance(stopped.value, OutOfTime)
    assert stopped.value.message == "too long"


def test_what_ends_in_time_is_left_alone_and_nothing_is_due_any_more():
    before, due = signal.getsignal(signal.SIGALRM), signal.getitimer(signal.ITIMER_REAL)[0]
    with stopped_after(30, "too long"):
        pass
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL)[0] <= due  # what pytest itself has set, if anything


def inside_one_another(outer: float, inner: float, tidying: float = 0) -> None:
    with stopped_after(outer, "outer"):
        try:
            with stopped_after(inner, "inner"):
                work_for(30)
        finally:
            work_for(tidying)


@pytest.mark.parametrize(("outer", "inner", "first"), [(0.05, 30, "outer"), (30, 0.05, "inner")])
def test_of_one_time_inside_another_the_first_to_be_over_counts(outer, inner, first):
    with pytest.raises(OutOfTime, match=first):
        inside_one_another(outer, inner)


def test_the_outer_time_goes_on_where_many_inner_ones_are_kept():
    def work_on() -> None:
        with stopped_after(0.3, "outer"):
            while True:
                with stopped_after(30, "inner"):
                    work_for(0.05)

    with pytest.raises(OutOfTime, match="outer"):
        work_on()
