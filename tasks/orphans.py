"""Dask's programs load this when they start, and so end once whoever started them has died."""

from __future__ import annotations

import os
import threading
import time

import click

_SECONDS_BETWEEN_LOOKS = 1.0


@click.command()
@click.argument("parent", type=int)
def dask_setup(program: object, parent: int) -> None:
    """Watch the parent process; Dask calls this by its name.

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
