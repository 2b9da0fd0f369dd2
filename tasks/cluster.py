"""Workers of a Dask cluster: processes of this machine, or whatever a scheduler has.

The only file that imports Dask. What is large is sent to each worker once; items travel in
batches; results come back in the items' order; any worker may die.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, cast

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.interrupts import helpers_shielded
from chaffinch.tasks.orphans import quiet
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.vocabulary import Floats, Mask
from chaffinch.tasks.workers import InProcess, Item, OnDone, Result, Shared, Workers

if TYPE_CHECKING:
    from distributed import Client, Future

logger = logging.getLogger(__name__)

# Batches per worker for items of equal and of unequal cost; each batch costs 3 ms of scheduling.
_EVEN, _UNEVEN = 1, 4
# Seconds of evaluation below which a batch is done sooner where it is than on other processes.
_WORTH_SPREADING = 0.02
# Times that what every worker needs is sent, should all of them die.
_SENDINGS = 3
_ORPHANS = ["chaffinch.tasks.orphans"]


class OverDask:
    """Items spread over the workers of a Dask cluster, which is started at the first use.

    Parameters
    ----------
    connect : callable
        Starts or finds the cluster and returns its client.
    """

    def __init__(self, connect: Callable[[], Client]) -> None:
        self._connect = connect
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The client, connected at the first use."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """See `Workers.map`.

        Raises
        ------
        WorkersError
            If a batch kills every worker that runs it, or the scheduler is lost.
        """
        call = partial(_call_on_each, function)
        return self.map_batches(call, Placed(self.client, shared), items, _UNEVEN, on_done)

    def masked_loss(self, engine: BlackBox) -> BlackBox:
        """Return an engine with the same numbers, computed by these workers."""
        return over_dask(engine, self)

    def map_batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        placed: Placed[Shared],
        items: Sequence[Item],
        batches_per_worker: int,
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return the results of all items, in order, computed batch by batch.

        Parameters
        ----------
        function : callable
            Takes what was placed and a list of items to the list of their results.
        placed : Placed
            What all items have in common.
        items : sequence
            Small things.
        batches_per_worker : int
            1 for items of equal cost, more for unequal ones.
        on_done : callable, optional
            See `Workers.map`.

        Raises
        ------
        WorkersError
            See `map`.
        """
        from distributed import CancelledError, as_completed

        n_workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
        size = max(1, math.ceil(len(items) / (n_workers * batches_per_worker)))
        results: list[Any] = [None] * len(items)
        waiting = list(range(0, len(items), size))
        done = 0
        for _ in range(_SENDINGS):
            start_of = {
                self.client.submit(
                    function, placed.future, list(items[start : start + size]), pure=False
                ): start
                for start in waiting
            }
            for future in as_completed(start_of, loop=self.client.loop):
                start = start_of[future]
                try:
                    batch = _result(future, start, len(items))
                except CancelledError:
                    continue  # the last worker that held what was placed has died
                results[start : start + len(batch)] = batch
                waiting.remove(start)
                done += len(batch)
                if on_done is not None:
                    on_done(done, len(items))
            if not waiting:
                return results
            placed.send()
        raise WorkersError(_killed(waiting[0], len(items)))


class Placed(Generic[Shared]):
    """A large thing of which every worker holds a copy.

    Parameters
    ----------
    client : Client
        Of the cluster.
    shared : object
        The thing; kept here as well, to be sent anew if every worker that held it dies.
    """

    def __init__(self, client: Client, shared: Shared) -> None:
        self._client = client
        self._shared = shared
        self.send()

    def send(self) -> None:
        """Send it to every worker.

        Raises
        ------
        WorkersError
            If the scheduler does not answer any more.
        """
        try:
            # hash=False: two scatters of one object would share a key; forgetting one loses both
            self.future: Future[Shared] = self._client.scatter(
                self._shared, broadcast=True, hash=False
            )
        except (OSError, RuntimeError) as error:
            raise WorkersError(
                f"the Dask scheduler went away ({error}); finished stages are kept, so run again"
            ) from error


def over_dask(engine: BlackBox, workers: OverDask) -> BlackBox:
    """Return an engine with the same numbers, bit for bit, computed by Dask workers.

    The model and the rows go to each worker once; after that only masks and losses travel. As long
    as a whole batch takes less than spreading it would, it stays in this process.

    Parameters
    ----------
    engine : BlackBox
        Holds the model and the rows.
    workers : OverDask
        The cluster.
    """
    evaluator = engine.evaluator
    seconds_per_mask = 0.0
    placed: Placed[MaskEvaluator] | None = None

    def evaluate(masks: Sequence[Mask]) -> Floats:
        nonlocal seconds_per_mask, placed
        if placed is None and seconds_per_mask * len(masks) < _WORTH_SPREADING:
            start = time.perf_counter()
            losses = evaluator(masks)
            seconds_per_mask = (time.perf_counter() - start) / len(masks)
            return losses
        if placed is None:
            logger.info("masked losses go to the workers: %.1f ms each", 1e3 * seconds_per_mask)
            placed = Placed(workers.client, evaluator)
        return np.array(workers.map_batches(_evaluate, placed, masks, _EVEN))

    return BlackBox(evaluator, evaluate)


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
            address = _local(n_workers or len(os.sched_getaffinity(0)))
            opened.append(address)
        client = _connected(address)
        opened.append(client)
        return client

    workers = OverDask(connect)
    try:
        if cluster != "local":
            workers.client  # noqa: B018 - a wrong address shows before any work is done
        yield workers
    finally:
        for closing in reversed(opened):
            closing.close()


def _local(n_workers: int) -> Any:
    from distributed.deploy.subprocess import SubprocessCluster

    # Started as programs of their own, so that a caller's script needs no `if __name__` guard.
    # One thread each, in every library: an OMP_NUM_THREADS of the caller would win otherwise.
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    parent = [[str(os.getpid())]]
    with helpers_shielded(), quiet():
        return SubprocessCluster(
            n_workers=n_workers,
            threads_per_worker=1,
            dashboard_address=cast(str, None),  # no dashboard; the annotation forgot that it may be
            scheduler_kwargs={"preload": _ORPHANS, "preload_argv": parent},
            worker_kwargs={
                "env": single,
                "memory_limit": 0,
                "dashboard": False,
                "preload_nanny": _ORPHANS,
                "preload_nanny_argv": parent,
            },
        )


def _connected(address: Any) -> Client:
    from distributed import Client

    try:
        return Client(address, set_as_default=False, timeout="10s")
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r}; start one with `dask scheduler`, or set "
            "cluster to local"
        ) from error


def _result(future: Future[list[Any]], start: int, n_items: int) -> list[Any]:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise WorkersError(_killed(start, n_items)) from error


def _killed(start: int, n_items: int) -> str:
    return (
        f"the batch from item {start} of {n_items} killed every worker that ran it, most often for "
        "lack of memory; use fewer workers or give each more memory"
    )


def _call_on_each(function: Callable[[Any, Any], Any], shared: Any, items: list[Any]) -> list[Any]:
    return [function(shared, item) for item in items]


def _evaluate(evaluator: MaskEvaluator, masks: list[Mask]) -> list[float]:
    return list(evaluator(masks).tolist())
