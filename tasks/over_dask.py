"""Work over the workers of a Dask cluster, once there is one; see `cluster` for how it is opened.

What is large is sent once; items travel in batches; results come back in the items' order; any
worker may die.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, cast

from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.spreading import spread_masked_loss
from chaffinch.tasks.workers import Item, OnDone, Result, Shared

if TYPE_CHECKING:
    from distributed import Client, Future

# Batches per worker for items of equal and of unequal cost; each batch costs 3 ms of scheduling.
_EVEN, _UNEVEN = 1, 4
# Times that what every worker needs is sent, should all of them die.
_SENDINGS = 3


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
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        return max(1, sum(int(worker["nthreads"]) for worker in workers))

    def for_batches(self, shared: Any) -> Callable[[Callable[..., Any], Sequence[Any]], list[Any]]:
        """See `Cluster.for_batches`."""
        placed = Placed(self.client, shared)

        def run(function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
            return self.map_batches(function, placed, items, _EVEN)

        return run

    def for_each(self, things: Sequence[Any]) -> Callable[[Callable[..., Any], Any], list[Any]]:
        """See `Cluster.for_each`."""
        return PlacedApart(self.client, things).ask

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
    """A large thing of which every worker holds a copy, sent anew if all of these die."""

    def __init__(self, client: Client, shared: Shared) -> None:
        self._client, self._shared = client, shared
        self.send()

    def send(self) -> None:
        """Send it to every worker."""
        (self.future,) = _sent(self._client, [self._shared], broadcast=True)


class PlacedApart:
    """Things that keep what they change in themselves, each with one worker; see `Placed`."""

    def __init__(self, client: Client, things: Sequence[Any]) -> None:
        self._client, self._things = client, things
        self._placed: dict[int, tuple[Future[Any], list[str]]] = {}  # and the worker's address
        self._send(range(len(things)))

    def ask(self, function: Callable[[Any, Any], Any], question: Any) -> list[Any]:
        """Return ``[function(thing, question) for thing in things]``, each where the thing is.

        Raises
        ------
        WorkersError
            See `OverDask.map`.
        """
        from distributed import CancelledError, as_completed

        answers: list[Any] = [None] * len(self._things)
        waiting = list(range(len(self._things)))
        for _ in range(_SENDINGS):
            place_of = {self._submit(function, i, question): i for i in waiting}
            for future in as_completed(place_of, loop=self._client.loop):
                i = place_of[future]
                try:
                    answers[i] = _result(future, i, len(self._things))
                except CancelledError:
                    continue  # its worker has died
                waiting.remove(i)
            if not waiting:
                return answers
            self._send(waiting)
        raise WorkersError(_killed(waiting[0], len(self._things)))

    def _send(self, places: Sequence[int]) -> None:
        sent = _sent(self._client, [self._things[i] for i in places], broadcast=False)
        holders = self._client.who_has(sent)
        for i, future in zip(places, sent, strict=True):
            self._placed[i] = future, list(holders.get(future.key, ()))

    def _submit(self, function: Callable[[Any, Any], Any], i: int, question: Any) -> Future[Any]:
        thing, holder = self._placed[i]
        return self._client.submit(
            function, thing, question, workers=holder, allow_other_workers=True, pure=False
        )


def _sent(client: Client, things: list[Any], *, broadcast: bool) -> list[Future[Any]]:
    """Send things to every worker, or to one after the other; WorkersError if none answers."""
    try:
        # hash=False: two scatters of one object would share a key; forgetting one loses both
        sent = client.scatter(things, broadcast=broadcast, hash=False)
    except (OSError, RuntimeError) as error:
        raise WorkersError(
            f"the Dask scheduler went away ({error}); finished stages are kept, so run again"
        ) from error
    return cast("list[Future[Any]]", sent)


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
