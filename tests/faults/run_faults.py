"""Faults of the run itself: it is killed, its disk is full, another one is there."""

from __future__ import annotations

import ctypes
import errno
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from tests.faults import checks
from tests.faults.ground import kill
from tests.faults.starter import Running
from tests.faults.trial import Trial

_DISK = 64 * 2**20
_AT_ONCE = 2**20


def with_workers(trial: Trial) -> Running:
    """Start the run with workers of its own."""
    return trial.run(cluster="local")


def with_server(trial: Trial) -> Running:
    """Start the run with workers and a Prefect server of its own."""
    return trial.run(cluster="local", url="")


def alone(trial: Trial) -> Running:
    """Start the run in one process."""
    return trial.run(cluster="none")


def on_small_disk(trial: Trial) -> Running:
    """Start the run with its store on a small disk, where that is allowed."""
    if not trial.store.parent.exists():
        trial.parts.enter_context(_mounted(trial.store.parent))
    return alone(trial)


def by_another_method(trial: Trial) -> Running:
    """Start another run of the same table in the same store."""
    return trial.run("--method", "gbmo", cluster="none")


def run_killed(trial: Trial, seconds: float) -> None:
    """Kill the process of the run alone; its workers and its server must not stay."""
    running = with_server(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(running.kill)
    _goes_on(trial, running, with_server)


def all_killed(trial: Trial, seconds: float) -> None:
    """Kill the run and all that it has started at once, as when the machine stops."""
    running = with_workers(trial)
    trial.wait_for_moment(running, seconds)

    def kill_all() -> None:
        for process in [psutil.Process(running.pid), *checks.processes_of(trial.mark)]:
            kill(process)

    trial.strike(kill_all)
    _goes_on(trial, running, with_workers)


def disk_full(trial: Trial, seconds: float) -> None:
    """Fill the disk of the store, and free it when the run has ended."""
    running = on_small_disk(trial)
    trial.wait_for_moment(running, seconds)
    ballast = trial.store.parent / "ballast"
    is_mounted = trial.store.parent.is_mount()
    trial.strike(lambda: _fill(ballast) if is_mounted else _limit_files(running))
    code = running.wait()
    ballast.unlink(missing_ok=True)
    trial.missed_if(code == 0)  # it had nothing more to write
    trial.expect(code == 1, f"it ended with {code}")
    trial.expect_one_line(running, "no space left on the device", "no space left for a file")
    _goes_on(trial, running, on_small_disk)


def two_at_once(trial: Trial, seconds: float) -> None:
    """Give the same command twice; one does the work, the other waits and finds it done."""
    first = alone(trial)
    trial.wait_for_moment(first, seconds)
    second = trial.strike(lambda: alone(trial))
    trial.expect_success(first)
    trial.expect_success(second)
    trial.expect_done_once(first, second)


def two_at_once_and_one_killed(trial: Trial, seconds: float) -> None:
    """Likewise, and kill the one that works; the one that waits takes over."""
    first = alone(trial)
    second = alone(trial)
    trial.wait_for_moment(first, seconds)
    trial.strike(first.kill)
    trial.missed_if(first.code == 0)
    trial.expect_success(second)


def two_methods_at_once(trial: Trial, seconds: float) -> None:
    """Run two methods on the same table at once."""
    first = alone(trial)
    trial.wait_for_moment(first, seconds)
    second = trial.strike(lambda: by_another_method(trial))
    trial.expect_success(first)
    trial.expect_success(second)


def _goes_on(trial: Trial, running: Running, start: Callable[[Trial], Running]) -> None:
    """See that nothing of a run that ended stays, and that it continues by the same command."""
    trial.missed_if(running.wait() == 0)
    trial.expect_nothing_runs()
    trial.look_at_what_is_left()
    trial.go_on(lambda: start(trial))


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    """Mount a small disk at a folder; only make the folder where mounting is not allowed."""
    folder.mkdir(parents=True)
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.mount(b"none", bytes(folder), b"tmpfs", 0, f"size={_DISK}".encode())
    try:
        yield
    finally:
        if not failed:
            libc.umount(bytes(folder))


def _fill(ballast: Path) -> None:
    """Write a file until there is no space for one more byte."""
    with ballast.open("wb", buffering=0) as file:
        size = _AT_ONCE
        while size:
            try:
                file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
                size //= 2


def _limit_files(running: Running) -> None:
    """Let the system say of every further file that there is no space for it."""
    resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
