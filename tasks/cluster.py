"""Where evaluations run: this process, worker processes of this machine, or a Dask scheduler.

The only file that imports Dask. What is large is sent to each worker once; items travel in
batches; results come back in the items' order. A cluster is started only for work that takes
longer than starting it.
"""

from __future__ import annotations

import logging
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from chaffinch.storage.errors import InputError
from chaffinch.tasks.errors import WorkersError
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
# Seconds until the processes of a local cluster have started and imported what they compute with.
_SECONDS_TO_START = 3.0


class OverDask:
    """Items spread over the workers of a Dask cluster, which is started at the first use.

    Parameters
    ----------
    connect : callable
        Starts or finds the cluster and returns its client.
    seconds_to_start : float, optional
        What connecting costs; work that takes less is done in this process instead.
    """

    def __init__(self, connect: Callable[[], Client], seconds_to_start: float = 0.0) -> None:
        self._connect = connect
        self._client: Client | None = None
        self._seconds_to_start = seconds_to_start

    @property
    def client(self) -> Client:
        """The client, connected at the first use."""
        if self._client is None:
            self._client = self._connect()
        return self._client

    def is_worth_it(self, seconds: float) -> bool:
        """Return whether to use the cluster after so much work was done in this process.

        Waiting as long as a start takes, and then starting, is never worse than twice the best.
        """
        return self._client is not None or seconds >= self._seconds_to_start

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """See `Workers.map`; items are done in this process for as long as a start would take.

        Raises
        ------
        WorkersError
            If a batch kills every worker that runs it, or the scheduler is lost.
        """

        def tell(done: int) -> None:
            if on_done is not None:
                on_done(done, len(items))

        call = partial(_call_on_each, function)
        if self.is_worth_it(0.0):
            return self.map_batches(
                call, self.place(shared), items, _UNEVEN, lambda done, _: tell(done)
            )
        deadline = time.monotonic() + self._seconds_to_start
        thread = ThreadPoolExecutor(max_workers=1)
        try:
            futures = [thread.submit(function, shared, item) for item in items]
            for done, future in enumerate(futures, start=1):
                if not wait([future], max(0.0, deadline - time.monotonic())).done:
                    break
                future.result()
                tell(done)
            here = [future for future in futures if not future.cancel()]
            rest = items[len(here) :]
            spread: list[Result] = []
            if rest:  # while the item that has begun goes on here
                placed = self.place(shared)
                spread = self.map_batches(
                    call, placed, rest, _UNEVEN, lambda done, _: tell(len(here) - 1 + done)
                )
            results = [future.result() for future in here] + spread
            if rest:
                tell(len(items))
            return results
        finally:
            thread.shutdown(cancel_futures=True)

    def masked_loss(self, engine: BlackBox) -> BlackBox:
        """Return an engine with the same numbers, computed by these workers."""
        return over_dask(engine, self)

    def place(self, shared: Shared) -> Future[Shared]:
        """Send a large thing to every worker, once."""
        # hash=False: two scatters of one object would share a key, and forgetting one loses both
        placed: Future[Shared] = self.client.scatter(shared, broadcast=True, hash=False)
        return placed

    def map_batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        placed: Future[Shared],
        items: Sequence[Item],
        batches_per_worker: int,
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return the results of all items, in order, computed batch by batch.

        Parameters
        ----------
        function : callable
            Takes what was placed and a list of items to the list of their results.
        placed : Future
            From `place`.
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
        from distributed import as_completed

        n_workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
        size = max(1, math.ceil(len(items) / (n_workers * batches_per_worker)))
        start_of = {
            self.client.submit(
                function, placed, list(items[start : start + size]), pure=False
            ): start
            for start in range(0, len(items), size)
        }
        results: list[Any] = [None] * len(items)
        done = 0
        for future in as_completed(start_of, loop=self.client.loop):
            start = start_of[future]
            batch = _result(future, start, len(items))
            results[start : start + len(batch)] = batch
            done += len(batch)
            if on_done is not None:
                on_done(done, len(items))
        return results


def over_dask(engine: BlackBox, workers: OverDask) -> BlackBox:
    """Return an engine with the same numbers, bit for bit, computed by Dask workers.

    The model and the rows go to each worker once; after that only masks and losses travel. As long
    as spreading a batch, or starting a cluster for it, takes longer, it stays in this process.

    Parameters
    ----------
    engine : BlackBox
        Holds the model and the rows.
    workers : OverDask
        The cluster.
    """
    evaluator = engine.evaluator
    seconds = seconds_per_mask = 0.0
    placed: Future[MaskEvaluator] | None = None

    def evaluate(masks: Sequence[Mask]) -> Floats:
        nonlocal seconds, seconds_per_mask, placed
        is_long = seconds_per_mask * len(masks) >= _WORTH_SPREADING
        if placed is None and not (is_long and workers.is_worth_it(seconds)):
            start = time.perf_counter()
            losses = evaluator(masks)
            seconds += time.perf_counter() - start
            seconds_per_mask = (time.perf_counter() - start) / len(masks)
            return losses
        if placed is None:
            logger.info("masked losses go to the workers: %.1f ms each", 1e3 * seconds_per_mask)
            placed = workers.place(evaluator)
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

    try:
        yield OverDask(connect, _SECONDS_TO_START if cluster == "local" else 0.0)
    finally:
        for closing in reversed(opened):
            closing.close()


def _local(n_workers: int) -> Any:
    from distributed.deploy.subprocess import SubprocessCluster

    # Started as programs of their own, so that a caller's script needs no `if __name__` guard.
    # One thread each, in every library: an OMP_NUM_THREADS of the caller would win otherwise.
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}
    return SubprocessCluster(
        n_workers=n_workers,
        threads_per_worker=1,
        dashboard_address=cast(str, None),  # no dashboard; the annotation forgot that it may be
        worker_kwargs={"env": single, "memory_limit": 0, "dashboard": False},
    )


def _connected(address: Any) -> Client:
    from distributed import Client

    try:
        return Client(address, set_as_default=False, timeout="20s")
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {address!r}; start one with `dask scheduler`, or use "
            "--cluster local"
        ) from error


def _result(future: Future[list[Any]], start: int, n_items: int) -> list[Any]:
    from distributed import CancelledError, KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise WorkersError(
            f"the batch from item {start} of {n_items} killed every worker that ran it, most "
            "often for lack of memory; use fewer workers or give each more memory"
        ) from error
    except CancelledError as error:
        raise WorkersError(
            "the Dask scheduler went away; finished stages are kept, so run again"
        ) from error


def _call_on_each(function: Callable[[Any, Any], Any], shared: Any, items: list[Any]) -> list[Any]:
    return [function(shared, item) for item in items]


def _evaluate(evaluator: MaskEvaluator, masks: list[Mask]) -> list[float]:
    return list(evaluator(masks).tolist())
