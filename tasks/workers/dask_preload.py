"""Dask's programs and client: quiet, and terminated when their parent process dies."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

_SECONDS_BETWEEN_LOOKS = 1.0
_LOGGING = "DASK_LOGGING__DISTRIBUTED"


@contextmanager
def dask_programs(folder: str) -> Iterator[None]:
    """Make Dask programs started in this block quiet and write to a folder only.

    They log warnings only, unless the caller configured Dask's log. Their web pages, which would
    need no key, are off. The commands that start them do not appear in the caller's log.
    """
    wanted = {
        "DASK_TEMPORARY_DIRECTORY": folder,
        "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": "[]",
        "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": "[]",
        _LOGGING: os.environ.get(_LOGGING, "warning"),
    }
    given = {name: os.environ[name] for name in wanted if name in os.environ}
    os.environ.update(wanted)
    starter = logging.getLogger("distributed.deploy.subprocess")
    level = starter.level
    if level == logging.NOTSET:
        starter.setLevel(logging.WARNING)
    try:
        yield
    finally:
        starter.setLevel(level)
        for name in wanted:
            del os.environ[name]
        os.environ.update(given)


class _NotOfCancelling(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is about anything but a cancelled task."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError)


@contextmanager
def quiet_client() -> Iterator[None]:
    """Filter tracebacks of tasks that Dask's client cancels when it closes."""
    log, silent = logging.getLogger("distributed.client"), _NotOfCancelling()
    log.addFilter(silent)
    try:
        yield
    finally:
        log.removeFilter(silent)


@click.command()
@click.argument("parent", type=int)
@click.argument("folder", type=click.Path(path_type=Path))
def dask_setup(program: object, parent: int, folder: Path) -> None:
    """Watch the parent process; Dask loads this file at the start and calls this function.

    After `kill -9` of the parent nothing else would stop a scheduler or worker, or remove the
    files of the cluster.

    Parameters
    ----------
    program : object
        Dask's scheduler or nanny.
    parent : int
        Process that started this one; may be dead already.
    folder : Path
        Folder with the files of the cluster.
    """
    os.setsid()  # nannies unblock signals for workers; a new session gets none from a terminal

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
