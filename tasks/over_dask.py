"""Work over the workers of a Dask cluster, once there is one; see `cluster` for how it is opened.

What is large is sent once; items travel in batches; results come back in the items' order; any
worker may die.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.placing import SENDINGS, Placed, PlacedApart, killed
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.spreading import spread_masked_loss
from chaffinch.tasks.workers import Item, OnDone, Result, Shared

if TYPE_CHECKING:
    from distributed import Client, Future

# Batches per worker for items of equal and of unequal cost; each batch costs 3 ms of scheduling.
_EVEN, _UNEVEN = 1, 4


class OverDask:
    """Items spread over the workers of a Dask cluster, which `connect` starts at the first use."""

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
            If a batch kills every worker that runs it, too few start, or the scheduler is lost.
        """
        call = partial(_call_on_each, function)
        return self.map_batches(call, Placed(self.client, shared), items, _UNEVEN, on_done)

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats
    ) -> MaskedLoss:
        """See `Workers.masked_loss`."""
        return spread_masked_loss(model, rows, loss, baseline, self)

    @property
    def n_threads(self) -> int:
        """Of all workers together, at least 1."""
        return max(1, len(self._address_of_each_thread()))

    def _address_of_each_thread(self) -> list[str]:
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, worker in workers.items() for _ in range(worker["nthreads"])]

    def for_batches(self, shared: Any) -> Callable[[Callable[..., Any], Sequence[Any]], list[Any]]:
        """See `Cluster.for_batches`."""
        placed = Placed(self.client, shared)

        def run(function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
            return self.map_batches(function, placed, items, _EVEN)

        return run

    def for_each(self, things: Sequence[Any]) -> Callable[[Callable[..., Any], Any], list[Any]]:
        """See `Cluster.for_each`."""
        return PlacedApart(self.client, self._address_of_each_thread, things).ask

    def as_done(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[tuple[int, Result], None, None]:
        """See `Workers.as_done`; WorkersError as `map`."""
        call = partial(_call_on_each, function)
        for number, results in self._batches(call, Placed(self.client, shared), items, 1):
            yield number, results[0]

    def map_batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        placed: Placed[Shared],
        items: Sequence[Item],
        batches_per_worker: int,
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return the results of all items, in order, batch by batch; WorkersError as `map`.

        Parameters
        ----------
        function, placed, items, on_done
            See `Workers.map`; the function takes what was placed and a list of items to the list
            of their results.
        batches_per_worker : int
            1 for items of equal cost, more for unequal ones.
        """
        n_workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
        size = max(1, math.ceil(len(items) / (n_workers * batches_per_worker)))
        results: list[Any] = [None] * len(items)
        done = 0
        for start, batch in self._batches(function, placed, items, size):
            results[start : start + len(batch)] = batch
            done += len(batch)
            if on_done is not None:
                on_done(done, len(items))
        return results

    def _batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        placed: Placed[Shared],
        items: Sequence[Item],
        size: int,
    ) -> Iterator[tuple[int, list[Result]]]:
        """Yield the number of each batch's first item, and the batch's results, as they come."""
        from distributed import CancelledError, as_completed
        from distributed.comm.core import CommClosedError

        waiting = list(range(0, len(items), size))
        for _ in range(SENDINGS):
            start_of = {
                self.client.submit(
                    function, placed.future, list(items[start : start + size]), pure=False
                ): start
                for start in waiting
            }
            try:
                for future in as_completed(start_of, loop=self.client.loop):
                    start = start_of[future]
                    try:
                        batch = _result(future, start, len(items))
                    except (CancelledError, CommClosedError):
                        continue  # what was placed is lost, or the scheduler is: sending tells
                    waiting.remove(start)
                    yield start, batch
            finally:
                self.client.cancel([future for future in start_of if not future.done()])
            if not waiting:
                return
            placed.send()
        raise WorkersError(killed(waiting[0], len(items)))


def _result(future: Future[list[Any]], start: int, n_items: int) -> list[Any]:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise WorkersError(killed(start, n_items)) from error


def _call_on_each(function: Callable[[Any, Any], Any], shared: Any, items: list[Any]) -> list[Any]:
    return [function(shared, item) for item in items]
