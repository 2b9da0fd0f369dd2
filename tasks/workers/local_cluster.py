"""A local Dask cluster of separate programs, closed reliably even after crashes.

Dask's own `SubprocessCluster` with two fixes for errors at closing that would fail a finished run
and leave other workers running. When it closes a worker that is restarting, it kills processes that
may have ended already, and raises. And it raises for a worker that died before it registered.

The programs load this module (Dask's preload), and end when their parent process dies.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click
import psutil
from distributed import Security, SpecCluster
from distributed.deploy.subprocess import Subprocess, SubprocessScheduler, SubprocessWorker

from chaffinch.tasks.selection.models.runtime import cores
from chaffinch.tasks.workers.signals import helpers_shielded

_HOST = "127.0.0.1"
_PRELOAD = ["chaffinch.tasks.workers.local_cluster"]
_LOGGING = "DASK_LOGGING__DISTRIBUTED"
_SECONDS_TO_LOOK = 0.01
_SECONDS_BETWEEN_LOOKS = 1.0  # whether the parent lives


class _Closable(Subprocess):
    """A program that can be closed at any time."""

    async def close(self) -> None:
        """Kill it and all its child processes.

        It is suspended first: otherwise it would restart a worker that is killed before it, and
        its programs would log each other's end.
        """
        while True:
            try:
                if self.process and self.process.returncode is None:
                    psutil.Process(self.process.pid).suspend()
                await super().close()
            except psutil.NoSuchProcess:  # it or a child ended before the kill
                await asyncio.sleep(_SECONDS_TO_LOOK)
            else:
                return


class _Scheduler(_Closable, SubprocessScheduler):
    """See `_Closable`."""


class _Worker(_Closable, SubprocessWorker):
    """See `_Closable`."""


class _Cluster(SpecCluster):
    """A cluster that ignores the end of unregistered workers."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)  # type: ignore[no-untyped-call]


@contextmanager
def local_cluster(n_workers: int) -> Iterator[SpecCluster]:
    """Run a scheduler and single-threaded workers, accessible to this program only.

    They are separate programs, so that a caller's script needs no `if __name__` guard. The key that
    all connections need, and the cluster's other files, are in a private temporary folder.
    """
    with ExitStack() as opened:
        folder = opened.enter_context(
            TemporaryDirectory(prefix="chaffinch-dask-", ignore_cleanup_errors=True)
        )
        security = _security(Path(folder))
        with helpers_shielded(), _quiet_programs(folder):  # pending signals arrive at its end
            cluster = opened.enter_context(closing(_start_cluster(n_workers, folder, security)))
        yield cluster


def _security(folder: Path) -> dict[str, Any]:
    """Write a new key and certificate, and return the `Security` arguments for them."""
    credentials = Security.temporary()
    files = {"key": credentials.tls_worker_key, "cert": credentials.tls_worker_cert}
    for name, content in files.items():
        (folder / name).touch(mode=0o600)
        (folder / name).write_text(content)
    roles = ("client", "scheduler", "worker")
    named = {f"tls_{role}_{name}": str(folder / name) for role in roles for name in files}
    return {"require_encryption": True, "tls_ca_file": str(folder / "cert"), **named}


@contextmanager
def _quiet_programs(folder: str) -> Iterator[None]:
    """Make Dask programs started in this block quiet and write to a folder only.

    They log warnings only, unless the caller configured Dask's log. Their web pages, which would
    need no key, are off. The commands that start them do not appear in the caller's log.
    """
    variables = {
        "DASK_TEMPORARY_DIRECTORY": folder,
        "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
        "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
        _LOGGING: os.environ.get(_LOGGING, "warning"),
    }
    previous = {name: os.environ[name] for name in variables if name in os.environ}
    os.environ.update(variables)
    starter = logging.getLogger("distributed.deploy.subprocess")
    level = starter.level
    if level == logging.NOTSET:
        starter.setLevel(logging.WARNING)
    try:
        yield
    finally:
        starter.setLevel(level)
        for name in variables:
            del os.environ[name]
        os.environ.update(previous)


def _start_cluster(n_workers: int, folder: str, security: dict[str, Any]) -> SpecCluster:
    # A worker has a single thread in libraries of linear algebra, whose results depend on it, and
    # its share of the cores for fits: otherwise the caller's OMP_NUM_THREADS would take effect.
    threads = {f"{library}_NUM_THREADS": "1" for library in ("MKL", "OPENBLAS", "NUMEXPR")}
    threads["OMP_NUM_THREADS"] = str(max(1, cores() // n_workers))
    preload_arguments = [[str(os.getpid()), folder]]
    scheduler = {
        "host": _HOST,
        "port": 0,
        "dashboard": False,
        "dashboard_address": f"{_HOST}:0",
        "scheduler_file": f"{folder}/scheduler.json",
        "security": security,
        "preload": _PRELOAD,
        "preload_argv": preload_arguments,
    }
    worker = {
        "host": _HOST,
        "nthreads": 1,
        "env": threads,
        "memory_limit": 0,
        "dashboard": False,
        "silence_logs": logging.WARNING,
        "security": security,
        "preload_nanny": _PRELOAD,
        "preload_nanny_argv": preload_arguments,
    }
    of_workers = {"cls": _Worker, "options": {"worker_kwargs": worker}}
    return _Cluster(  # type: ignore[no-untyped-call]
        workers=dict.fromkeys(range(n_workers), of_workers),
        scheduler={"cls": _Scheduler, "options": {"scheduler_kwargs": scheduler}},
        worker=of_workers,
        silence_logs=logging.WARNING,
        security=Security(**security),
    )


@click.command()
@click.argument("parent", type=int)
@click.argument("folder", type=click.Path(path_type=Path))
def dask_setup(program: object, parent: int, folder: Path) -> None:
    """End the scheduler or nanny that loads this module when its parent process dies.

    After `kill -9` of the parent nothing else would stop it, or remove the files of the cluster.
    """
    os.setsid()  # nannies unblock signals for workers; a new session gets none from a terminal

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
