"""A cluster of this machine is closed for good, whatever ends while it is being closed."""

import asyncio
import logging
import os
import subprocess
import sys
from http.client import HTTPException
from urllib.request import urlopen

import psutil
import pytest

from chaffinch.tasks.workers.dask_cluster import open_workers, without_tracebacks
from chaffinch.tasks.workers.local_cluster import local_cluster
from tests.flows.cli.programs import eventually

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


@pytest.mark.e2e
def test_what_ends_before_it_is_killed_stops_nothing(monkeypatch) -> None:
    seen = psutil.Process.children
    gone = [ended(), ended()]  # as where a worker is being started again

    def seen_too_early(process: psutil.Process, *, recursive: bool) -> list[psutil.Process]:
        return [gone.pop()] if gone else seen(process, recursive=recursive)

    others = {*psutil.Process().children(recursive=True)}
    with open_workers("local", 2) as workers:
        workers.map(same, None, [1, 2])  # starts them
        programs = [*{*psutil.Process().children(recursive=True)} - others]
        assert len(programs) > 4  # scheduler, nannies, workers
        monkeypatch.setattr(psutil.Process, "children", seen_too_early)
    assert not gone
    assert eventually(lambda: all(map(is_dead, programs)), 10)


@pytest.mark.e2e
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
    with local_cluster(1) as cluster:
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

    with without_tracebacks("distributed.client", asyncio.CancelledError):
        fail_by(asyncio.CancelledError())
        assert not caplog.records
        fail_by(OSError("no route"))
    fail_by(asyncio.CancelledError())
    assert len(caplog.records) == 2


# It drops its rights after the imports: another user may not be allowed to read the interpreter.
# No garbage collection: a refused client collected while Dask starts the next one is a deadlock.
VISITOR = """
import gc, os, sys
from distributed import Client, Security

gc.disable()
user, address, key, *files = sys.argv[1:]
os.setgroups([]), os.setgid(int(user)), os.setuid(int(user)), os.chdir("/")
for file in files:
    try:
        open(file, "rb").read()
        print("read", file)
    except OSError:
        print("refused")
named = {f"tls_client_{name}": key.replace("key", name) for name in ("key", "cert")}
own = Security(require_encryption=True, tls_ca_file=named["tls_client_cert"], **named)
for security in (own, True, None):  # the cluster's own certificate, another one, none
    for to in dict.fromkeys((address, address.replace("tls:", "tcp:"))):
        try:
            client = Client(to, timeout="2s", security=security)
            print("became", client.run_on_scheduler(os.getuid))
        except Exception as error:
            print("refused")
"""


@pytest.mark.e2e
@pytest.mark.skipif(os.getuid() != 0, reason="only root can run a program as another user")
def test_no_other_user_can_use_the_cluster_or_read_its_key() -> None:
    def visit(user: int) -> list[str]:
        command = [sys.executable, "-c", VISITOR, str(user), address, key, *files]
        visitor = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
        return visitor.stdout.splitlines()

    with open_workers("local", 1) as workers:
        workers.map(same, None, [1])
        address = workers.client.scheduler_info()["address"]
        programs = psutil.Process().children(recursive=True)
        key = workers.client.security.tls_client_key or "key"
        files = [key, *(f"/proc/{program.pid}/environ" for program in programs)]
        assert "PRIVATE KEY" not in str([program.cmdline() for program in programs])
        assert set(visit(65534)) == {"refused"}
        assert visit(0) == [f"read {file}" for file in files] + ["became 0"] + ["refused"] * 5
        ports = [
            one.laddr.port
            for program in programs
            for one in program.net_connections()
            if one.status == psutil.CONN_LISTEN
        ]
        assert len(ports) > 3
        for port in ports:
            with pytest.raises((OSError, HTTPException)):
                urlopen(f"http://127.0.0.1:{port}/info/main/workers.html", timeout=10)
