"""Dask's own programs and client: quiet, and at an end once whoever started them has died."""

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
    """Let Dask's programs that are started in this block be quiet and write only into a folder.

    They report warnings only, unless the caller configured Dask's log. They have no web pages,
    which would ask for no key. The caller's log does not show the commands that start them.
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
        """Return whether the record is of anything but a task that was cancelled."""
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, asyncio.CancelledError)


@contextmanager
def quiet_client() -> Iterator[None]:
    """Spare the caller's log the tracebacks of what Dask's client itself cancels as it closes."""
    log, unheard = logging.getLogger("distributed.client"), _NotOfCancelling()
    log.addFilter(unheard)
    try:
        yield
    finally:
        log.removeFilter(unheard)


@click.command()
@click.argument("parent", type=int)
@click.argument("folder", type=click.Path(path_type=Path))
def dask_setup(program: object, parent: int, folder: Path) -> None:
    """Watch the parent process; Dask loads this file when it starts and calls this by its name.

    After `kill -9` nobody else would tell a scheduler or worker that it is not needed any more,
    nor remove the files of the cluster.

    Parameters
    ----------
    program : object
        Dask's scheduler or nanny.
    parent : int
        Process that started this one, and may be dead already.
    folder : Path
        Holds the files of the cluster.
    """
    os.setsid()  # a nanny lets its worker take signals again; a terminal's go to its own session

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
