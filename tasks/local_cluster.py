"""A Dask cluster of programs on this machine, closed whatever becomes of them meanwhile.

Dask's own `SubprocessCluster`, but for two things that would end a run that was done in an error,
and leave the other workers. To close a worker that is just being started again, it kills processes
that may have ended since it looked for them, and fails of it. And of a worker that died before the
cluster had heard of it, it knows no name, which it says when it is closed.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import psutil
from distributed import SpecCluster
from distributed.deploy.subprocess import Subprocess, SubprocessScheduler, SubprocessWorker

_HOST = "127.0.0.1"
_SECONDS_TO_LOOK = 0.01


class _Closed(Subprocess):
    """A program that is closed for good."""

    async def close(self) -> None:
        """Kill it and all that it has started.

        It is halted first: it would start another worker in place of one that is killed before it,
        and its programs would complain of each other's end.
        """
        while True:
            try:
                if self.process and self.process.returncode is None:
                    psutil.Process(self.process.pid).suspend()
                await super().close()
            except psutil.NoSuchProcess:  # one of them ended between the look and the kill
                await asyncio.sleep(_SECONDS_TO_LOOK)
            else:
                return


class _Scheduler(_Closed, SubprocessScheduler):
    """See `_Closed`."""


class _Worker(_Closed, SubprocessWorker):
    """See `_Closed`."""


class _Cluster(SpecCluster):
    """One that takes no notice of the end of workers that it has not heard of."""

    def _update_worker_status(self, op: str, msg: Any) -> None:
        if op != "remove" or msg in self.scheduler_info["workers"]:
            super()._update_worker_status(op, msg)  # type: ignore[no-untyped-call]


def local_cluster(
    n_workers: int, *, scheduler_options: dict[str, Any], worker_options: dict[str, Any]
) -> SpecCluster:
    """Start a scheduler and workers of one thread each, reached from this machine alone.

    They are programs of their own, so that a caller's script needs no `if __name__` guard.

    Parameters
    ----------
    n_workers : int, at least 1
        Worker processes.
    scheduler_options : dict
        Of `distributed.Scheduler`; it has no dashboard.
    worker_options : dict
        Of `distributed.Nanny`.

    Raises
    ------
    OSError, RuntimeError
        If they do not start.
    """
    scheduler = {"host": _HOST, "port": 0, "dashboard": False, "dashboard_address": None}
    worker = {"host": _HOST, "nthreads": 1, "silence_logs": logging.WARNING}
    of_workers = {"cls": _Worker, "options": {"worker_kwargs": worker | worker_options}}
    return _Cluster(  # type: ignore[no-untyped-call]
        workers=dict.fromkeys(range(n_workers), of_workers),
        scheduler={
            "cls": _Scheduler,
            "options": {"scheduler_kwargs": scheduler | scheduler_options},
        },
        worker=of_workers,
        silence_logs=logging.WARNING,
    )
