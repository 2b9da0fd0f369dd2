"""A Dask scheduler loads this when it starts, and so ends once whoever started it has died."""

from __future__ import annotations

import os
import threading
import time

_SECONDS_BETWEEN_LOOKS = 1.0


def dask_setup(scheduler: object) -> None:
    """Watch the parent process; Dask calls this by its name.

    After `kill -9` nobody else would tell the scheduler that it is not needed any more.
    """
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        os._exit(0)

    threading.Thread(target=watch, name="watch the parent", daemon=True).start()
