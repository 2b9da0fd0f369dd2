"""A Dask cluster, on this machine or elsewhere, opened for the length of a run.

Dask is imported here, in `local_cluster`, `over_dask` and `placing`, and nowhere else.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.interrupts import helpers_shielded
from chaffinch.tasks.orphans import quiet, quiet_client
from chaffinch.tasks.over_dask import OverDask
from chaffinch.tasks.workers import InProcess, Workers

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

_ORPHANS = ["chaffinch.tasks.orphans"]
_SECONDS_TO_START = 120
_SECONDS_TO_LOOK = 1  # whether a worker that has not come has died
_SECONDS_TO_JOIN = 30  # workers of a cluster that grows when it is asked


@contextmanager
def open_workers(cluster: str, n_workers: int | None = None) -> Iterator[Workers]:
    """Open the workers for the length of a run.

    Parameters
    ----------
    cluster : str
        ``"none"``, ``"local"`` or a scheduler's address.
    n_workers : int, optional
        Worker processes of a local cluster; by default one per core.

    Raises
    ------
    InputError
        If no scheduler answers at the address.
    """
    if cluster == "none":
        yield InProcess()
        return
    opened: list[Any] = []

    def connect() -> Client:
        address: Any = cluster
        if cluster == "local":
            n_processes = n_workers or len(os.sched_getaffinity(0))
            address = _local(n_processes)
            opened.append(address)
        client = _connected(address, is_direct=cluster == "local")
        opened.append(client)
        if cluster == "local":
            _wait_for(client, address, n_processes)  # rows go to those that are there
        else:
            _require_workers(client, cluster)
        return client

    workers = OverDask(connect)
    try:
        if cluster != "local":
            workers.client  # noqa: B018 - a wrong address shows before any work is done
        yield workers
    finally:
        with quiet_client():
            for closing in reversed(opened):
                closing.close()


def _local(n_workers: int) -> Any:
    from chaffinch.tasks.local_cluster import local_cluster

    # One thread each, in every library: an OMP_NUM_THREADS of the caller would win otherwise.
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    parent = [[str(os.getpid())]]
    of_scheduler = {"preload": _ORPHANS, "preload_argv": parent}
    of_workers: dict[str, Any] = {
        "env": single,
        "memory_limit": 0,
        "dashboard": False,
        "preload_nanny": _ORPHANS,
        "preload_nanny_argv": parent,
    }
    try:
        with helpers_shielded(), quiet():
            return local_cluster(
                n_workers, scheduler_options=of_scheduler, worker_options=of_workers
            )
    except (OSError, RuntimeError) as error:
        raise WorkersError(_not_started(error)) from error


def _connected(address: Any, *, is_direct: bool) -> Client:
    """Return a client; it talks to the workers through the scheduler where it may have to."""
    from distributed import Client

    try:
        return Client(address, set_as_default=False, timeout="10s", direct_to_workers=is_direct)
    except (OSError, ValueError) as error:
        if is_direct:
            raise WorkersError(_not_started(error)) from error
        raise InputError(
            f"no Dask scheduler answers at {address!r}; start one with `dask scheduler`, or set "
            "cluster to local"
        ) from error


def _not_started(error: BaseException | str) -> str:
    return (
        f"the local Dask cluster did not start ({error}); finished stages are kept, so run again, "
        "or set cluster to none"
    )


def _require_workers(client: Client, address: str) -> None:
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_JOIN)
    except TimeoutError as error:
        raise InputError(
            f"the Dask scheduler at {address!r} has no workers; start some with "
            f"`dask worker {address}`"
        ) from error


def _wait_for(client: Client, started: Any, n_processes: int) -> None:
    """Wait for all workers; what a worker that died as it started was to do, the others do."""
    end = time.monotonic() + _SECONDS_TO_START
    while time.monotonic() < end:
        programs = [worker.process for worker in started.workers.values()]
        n_coming = n_processes - sum(program.returncode is not None for program in programs)
        if not n_coming:
            raise WorkersError(_not_started("no worker survived its start"))
        try:
            client.wait_for_workers(n_coming, timeout=_SECONDS_TO_LOOK)
        except TimeoutError:
            continue
        if n_coming < n_processes:
            logger.warning("%d of %d workers started, the others died", n_coming, n_processes)
        return
    raise WorkersError(
        f"{n_processes} workers must start within {_SECONDS_TO_START} s but did not; use fewer"
    )
