"""A Dask cluster, local or remote, opened for the duration of a run."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Any

from chaffinch.errors import InputError, WorkersError, short_repr
from chaffinch.storage.extras import lacks, require
from chaffinch.tasks.selection.models.runtime import cores
from chaffinch.tasks.settings.base import STARTED_HERE
from chaffinch.tasks.workers.dask_map import OverDask
from chaffinch.tasks.workers.interface import InProcess, Needs, Workers
from chaffinch.tasks.workers.on_demand import OnDemand

if TYPE_CHECKING:
    from distributed import Client

logger = logging.getLogger(__name__)

_SECONDS_TO_START = 120
_SECONDS_TO_LOOK = 1  # between checks for workers that died at their start
_SECONDS_TO_JOIN = 30  # for workers of a cluster that scales on demand


@contextmanager
def open_workers(
    cluster: str, n_workers: int | None = None, needs: Needs | None = None
) -> Iterator[Workers]:
    """Open the workers of a setting; a local cluster has `n_workers`, by default one per core.

    InputError for workers that lack what an item needs, or have other versions than this process.
    """
    n_processes = n_workers or cores()
    if cluster == "none" or (cluster == "auto" and (n_processes == 1 or lacks("distributed"))):
        yield InProcess()
        return
    require("distributed", f"cluster {cluster}")
    opened = ExitStack()

    def connect() -> Client:
        if cluster not in STARTED_HERE:
            client = opened.enter_context(closing(_connect(cluster, is_direct=False)))
            _wait_for_any(client, f"at {cluster!r}", f"start some with `dask worker {cluster}`")
            return client
        from chaffinch.tasks.workers.local_cluster import local_cluster

        if cluster != "auto":  # it has said so
            logger.info("starting %d workers", n_processes)
        try:
            started = opened.enter_context(local_cluster(n_processes))
        except (OSError, RuntimeError) as error:
            raise WorkersError(_not_started(error)) from error
        client = opened.enter_context(closing(_connect(started, is_direct=True)))
        _wait_for(client, started, n_processes)  # rows are sent to the present workers
        return client

    workers = OverDask(connect, needs)
    try:
        if cluster not in STARTED_HERE:
            workers.check()  # before any work
        # a lost scheduler ends the run in a single line
        with without_tracebacks("distributed.batched", OSError):
            yield OnDemand(workers, n_processes) if cluster == "auto" else workers
    finally:
        with without_tracebacks("distributed.client", asyncio.CancelledError):
            opened.close()


@contextmanager
def workers_of(client: Client, needs: Needs | None = None) -> Iterator[Workers]:
    """Open the workers of a client, which stays open; see `open_workers`."""
    if client.asynchronous:
        raise InputError(
            "cluster is an asynchronous client of Dask; give one without asynchronous=True"
        )
    if client.status != "running":
        raise InputError(f"cluster is a client of Dask that is {client.status}; give a new one")
    _wait_for_any(client, f"of {short_repr(client)}", "start some, or let the cluster adapt")
    workers = OverDask(lambda: client, needs)
    workers.check()
    with without_tracebacks("distributed.batched", OSError):
        yield workers


def _wait_for_any(client: Client, where: str, remedy: str) -> None:
    """Wait for a worker; a cluster that adapts to its work starts one for the first task."""
    try:
        client.submit(int, pure=False).result(timeout=_SECONDS_TO_JOIN)
    except TimeoutError as error:
        raise InputError(f"the Dask scheduler {where} has no workers; {remedy}") from error


@contextmanager
def without_tracebacks(name: str, kind: type[BaseException]) -> Iterator[None]:
    """Drop the tracebacks of an expected error from a log of Dask in the block."""

    def is_unexpected(record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], kind))

    log = logging.getLogger(name)
    log.addFilter(is_unexpected)
    try:
        yield
    finally:
        log.removeFilter(is_unexpected)


def _connect(address: Any, *, is_direct: bool) -> Client:
    """Return a client that connects to workers directly, or through the scheduler."""
    from distributed import Client

    if not is_direct:
        _check_certificates(address)
    try:
        return Client(address, set_as_default=False, timeout="10s", direct_to_workers=is_direct)
    except (OSError, ValueError) as error:
        if is_direct:
            raise WorkersError(_not_started(error)) from error
        taking = " that takes the certificates in Dask's configuration" * _is_tls(address)
        raise InputError(
            f"no Dask scheduler{taking} answers at {address!r}; start one with `dask scheduler`, "
            f"{'' if taking else 'give tls:// where it takes certificates, '}or set cluster to "
            "local"
        ) from error


def _is_tls(address: str) -> bool:
    return address.startswith(("tls:", "wss:"))


def _check_certificates(address: str) -> None:
    """Raise InputError for a TLS address if Dask's configuration has no certificates for it."""
    import dask
    from distributed import Security

    if not _is_tls(address) or dask.config.get("distributed.client.security-loader"):
        return
    try:
        arguments = Security().get_connection_args("client")
        problem = "" if arguments["ssl_context"] else "none are named"
    except OSError as error:
        problem = f"they cannot be used ({error.strerror or error})"
    if problem:
        variables = ", ".join(
            f"DASK_DISTRIBUTED__COMM__TLS__{name}"
            for name in ("CA_FILE", "CLIENT__CERT", "CLIENT__KEY")
        )
        raise InputError(
            f"the scheduler at {address!r} needs certificates, but {problem}; set {variables} "
            "to their files"
        )


def _not_started(error: BaseException | str) -> str:
    return (
        f"the local Dask cluster did not start ({error}); finished stages are kept, so run again, "
        "or set cluster to none"
    )


def _wait_for(client: Client, started: Any, n_processes: int) -> None:
    """Wait for all workers; a worker that died at its start is left out."""
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
