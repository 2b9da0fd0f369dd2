"""A cluster of this machine is closed for good, whatever ends while it is being closed."""

import asyncio
import logging
import subprocess
import sys

import psutil
import pytest

from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.local_cluster import local_cluster
from chaffinch.tasks.orphans import quiet_client
from tests.flows.programs import eventually

pytestmark = pytest.mark.xdist_group("dask")


def same(shared: None, item: int) -> int:
    return item


def ended() -> psutil.Process:
    """Return a process that was there when it was looked for, and is not any more."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as program:
        return psutil.Process(program.pid)


def is_dead(program: psutil.Process) -> bool:
    try:
        return not program.is_running() or program.status() == "zombie"
    except psutil.NoSuchProcess:
        return True


def test_what_ends_before_it_is_killed_stops_nothing(monkeypatch) -> None:
    seen = psutil.Process.children
    gone = [ended(), ended()]  # as where a worker is being started anew

    def seen_too_early(process: psutil.Process, *, recursive: bool) -> list[psutil.Process]:
        return [gone.pop()] if gone else seen(process, recursive=recursive)

    with open_workers("local", 2) as workers:
        workers.map(same, None, [1, 2])  # starts them
        programs = psutil.Process().children(recursive=True)
        assert len(programs) > 4  # scheduler, nannies, workers
        monkeypatch.setattr(psutil.Process, "children", seen_too_early)
    assert not gone
    assert eventually(lambda: all(map(is_dead, programs)), 10)


def test_who_starts_workers_is_halted_before_they_are_killed(monkeypatch) -> None:
    """Else it starts another, or says on the caller's terminal that something died."""
    kill, n_halted = psutil.Process.kill, 0

    def seen(process: psutil.Process) -> None:
        nonlocal n_halted
        for one in process.parents():
            if one.pid in programs:  # told to halt, it does so as soon as it is its turn
                n_halted += eventually(lambda one=one: one.status() == "stopped", 10)
        kill(process)

    with open_workers("local", 1) as workers:
        workers.map(same, None, [1])
        programs = {one.pid for one in psutil.Process().children()}  # scheduler, nanny
        monkeypatch.setattr(psutil.Process, "kill", seen)
    assert n_halted


def test_nor_does_a_worker_that_died_before_it_was_heard_of() -> None:
    with local_cluster(1, scheduler_options={}, worker_options={"dashboard": False}) as cluster:
        known = set(cluster.scheduler_info["workers"])
        cluster._update_worker_status("remove", "tcp://127.0.0.1:1")
        assert set(cluster.scheduler_info["workers"]) == known


def test_what_a_client_cancels_as_it_closes_is_not_told(caplog) -> None:
    log = logging.getLogger("distributed.client")

    def fail_by(error: BaseException) -> None:
        try:
            raise error
        except (asyncio.CancelledError, OSError):
            log.exception("")

    with quiet_client():
        fail_by(asyncio.CancelledError())
        assert not caplog.records
        fail_by(OSError("no route"))
    fail_by(asyncio.CancelledError())
    assert len(caplog.records) == 2
