"""Dask's own programs and client: quiet, and at an end once whoever started them has died."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import click

_SECONDS_BETWEEN_LOOKS = 1.0
_LOGGING = "DASK_LOGGING__DISTRIBUTED"


@contextmanager
def quiet() -> Iterator[None]:
    """Start Dask's programs in here, and they report warnings only, unless the caller says else.

    The caller's own log is spared the long commands that start them.
    """
    given = os.environ.get(_LOGGING)
    os.environ.setdefault(_LOGGING, "warning")
    starter = logging.getLogger("distributed.deploy.subprocess")
    level = starter.level
    if level == logging.NOTSET:
        starter.setLevel(logging.WARNING)
    try:
        yield
    finally:
        starter.setLevel(level)
        if given is None:
            del os.environ[_LOGGING]


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
def dask_setup(program: object, parent: int) -> None:
    """Watch the parent process; Dask loads this file when it starts and calls this by its name.

    After `kill -9` nobody else would tell a scheduler or worker that it is not needed any more.

    Parameters
    ----------
    program : object
        Dask's scheduler or nanny.
    parent : int
        Process that started this one, and may be dead already.
    """
    os.setsid()  # a nanny lets its worker take signals again; a terminal's go to its own session

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
