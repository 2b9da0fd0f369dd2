"""What is large, on the workers of a Dask cluster: a copy for each, or each thing in one place.

Whatever dies meanwhile, it is sent again, as it is here; see `over_dask`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, cast

from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.workers.distributed_masked_loss import spread_masked_loss
from chaffinch.tasks.workers.interface import Item, OnDone, Result, Shared

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.actor import ActorFuture


# Times that what every worker needs is sent, should all of them die.
SENDINGS = 3
_SECONDS_TO_RETURN = 60  # of a worker, when all have died
_SECONDS_TO_LOOK = 5  # whether a worker that has not answered yet is still there


class Placed(Generic[Shared]):
    """A large thing of which every worker holds a copy, sent anew if all of these die."""

    def __init__(self, client: Client, shared: Shared) -> None:
        self._client, self._shared = client, shared
        self.send()

    def send(self) -> None:
        """Send it to every worker; WorkersError if none takes it.

        Not by Dask's own broadcast, which never ends if a worker dies meanwhile.
        """
        from distributed import CancelledError

        for _ in range(SENDINGS):
            try:
                # hash=False: scatters of one object would share a key; forgetting one loses both
                (self.future,) = self._client.scatter([self._shared], hash=False)
                return self._copy_to_each()
            except (CancelledError, OSError, RuntimeError):
                _await_a_worker(self._client)  # it may have been a worker that died
        raise WorkersError(
            f"workers died {SENDINGS} times while rows were sent to them, most often for lack of "
            "memory; use fewer workers or give each more memory"
        )

    def _copy_to_each(self) -> None:
        """Have each worker ask another for a copy; what kills them all shows by the items."""
        from distributed import CancelledError, as_completed

        addresses = self._client.scheduler_info(n_workers=-1)["workers"]
        copies = [
            self._client.submit(
                _hold, self.future, workers=[one], allow_other_workers=True, pure=False
            )
            for one in addresses
        ]
        for copy in as_completed(copies, loop=self._client.loop):
            if copy.cancelled():  # the worker that held the only copy has died
                raise CancelledError(copy.key)


class Seat:
    """What keeps one thing on a worker, as a Dask actor, and answers questions about it."""

    def __init__(self) -> None:
        self._thing: Any = None
        self._thread = ThreadPoolExecutor(1)  # the worker's own thread has to stay reachable

    async def answer(self, function: Callable[[Any, Any], Any], question: Any, *thing: Any) -> Any:
        """Return ``function(thing, question)``; the first question brings the thing along."""
        if thing:
            (self._thing,) = thing
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, self._thing, question)


class PlacedApart:
    """Things that keep what they change in themselves, each in a seat of its own on a worker.

    A question goes straight to the seats: to have it scheduled would take ten times as long. A
    thing whose worker dies is seated anew, as it is here.
    """

    def __init__(
        self, client: Client, addresses: Callable[[], list[str]], things: Sequence[Any]
    ) -> None:
        self._client, self._addresses, self._things = client, addresses, things
        self._seats: dict[int, tuple[Future[Any], Any]] = {}  # and the actor

    def ask(self, function: Callable[[Any, Any], Any], question: Any) -> list[Any]:
        """Return ``[function(thing, question) for thing in things]``, each where the thing is."""
        answers: list[Any] = [None] * len(self._things)
        waiting = list(range(len(self._things)))
        for _ in range(SENDINGS):
            begun = {i: self._begun(i, function, question) for i in waiting}
            for i, answer in begun.items():
                try:
                    answers[i] = self._awaited(i, answer)
                    waiting.remove(i)
                except _SeatLost:
                    self._seats.pop(i, None)
            if not waiting:
                return answers
        raise WorkersError(killed(waiting[0], len(self._things)))

    def _begun(self, i: int, *question: Any) -> ActorFuture[Any] | None:
        """Ask one thing; None if its seat is lost."""
        thing = () if i in self._seats else (self._things[i],)
        if thing:
            self._seats[i] = self._new_seat(i)
        try:
            answer = self._seats[i][1].answer
        except RuntimeError:  # so says an actor whose worker has died
            return None
        return cast("ActorFuture[Any]", answer(*question, *thing))

    def _awaited(self, i: int, answer: ActorFuture[Any] | None) -> Any:
        while answer is not None:
            try:
                return answer.result(timeout=_SECONDS_TO_LOOK)
            except OSError:  # the worker does not answer: it has died, or it is at work
                if answer.done() or self._seats[i][0].status != "finished":
                    break
        raise _SeatLost

    def _new_seat(self, i: int) -> tuple[Future[Any], Any]:
        """Have a seat made on some worker, thread after thread of them."""
        from distributed import CancelledError, KilledWorker

        try:
            addresses = self._addresses()
            wish: dict[str, Any] = {}  # only a wish: a worker may die at any time
            if addresses:
                wish = {"workers": [addresses[i % len(addresses)]], "allow_other_workers": True}
            with self._client.as_current():
                made = self._client.submit(Seat, actor=True, pure=False, **wish)
                return made, made.result(timeout=_SECONDS_TO_RETURN)
        except KilledWorker as error:
            raise WorkersError(killed(i, len(self._things))) from error
        except TimeoutError as error:
            raise WorkersError(_none_came_back()) from error
        except (CancelledError, OSError, RuntimeError) as error:
            raise WorkersError(_gone(error)) from error


class _SeatLost(Exception):  # noqa: N818 - nothing is wrong: the thing is seated anew
    """The worker of a seat has died."""


def killed(start: int, n_items: int) -> str:
    """Return what is said of the batch that begins with an item and kills workers."""
    return (
        f"the batch from item {start} of {n_items} killed every worker that ran it, most often for "
        "lack of memory; use fewer workers or give each more memory"
    )


def _await_a_worker(client: Client) -> None:
    """Wait until there is a worker; WorkersError if none comes, or the scheduler is lost."""
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_RETURN)
    except TimeoutError as error:
        raise WorkersError(_none_came_back()) from error
    except (OSError, RuntimeError) as error:
        raise WorkersError(_gone(error)) from error


def _none_came_back() -> str:
    return (
        f"no Dask worker came back within {_SECONDS_TO_RETURN:g} s; finished stages are kept, so "
        "start workers and run again"
    )


def _gone(error: BaseException) -> str:
    return f"the Dask scheduler went away ({error}); finished stages are kept, so run again"


def _hold(thing: object) -> None:
    """Do nothing: whoever is to do it needs the thing."""


# Work over the workers of a Dask cluster, once there is one; see `cluster` for how it is opened.
#
# What is large is sent once; items travel in batches; results come back in the items' order; any
# worker may die.

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
        """Return the results of all items, in order, batch by batch; WorkersError as `map`."""
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
