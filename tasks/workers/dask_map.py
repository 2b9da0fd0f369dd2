"""Mapping over the workers of a Dask cluster, any of which may die.

Large objects are sent once: replicated to every worker, or an object per worker. Items are sent in
batches. Objects lost with a worker are sent again from this process. `dask_cluster` opens clusters.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, Generic, cast
from uuid import uuid4

from chaffinch.errors import InputError, StorageError, WorkersError
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import EvaluateMasks, MaskEvaluator
from chaffinch.tasks.settings.identity import versions
from chaffinch.tasks.workers.distributed_masked_loss import spread_masked_loss, spread_masks
from chaffinch.tasks.workers.interface import Item, Needs, OnDone, Result, Shared

if TYPE_CHECKING:
    from distributed import Client, Future
    from distributed.actor import ActorFuture

logger = logging.getLogger(__name__)

_ATTEMPTS = 3  # to send an object that every worker needs, if all of them die
_SECONDS_TO_RETURN = 60  # wait for a worker to return, if all have died
_MOST_WITH_EACH = 2**18  # bytes of a shared object that is sent with each batch
_SECONDS_TO_LOOK = 5  # between checks whether a silent worker is alive
# Batches per worker for items of equal and of unequal cost; each batch costs 3 ms of scheduling.
_EVEN, _UNEVEN = 1, 4
# Errors of a client without its scheduler; a closed client looks for an attribute of None.
_LOST = (AttributeError, OSError, RuntimeError)
_LESS_MEMORY = "most often for lack of memory; use fewer workers or give each more memory"


class OverDask:
    """Workers of a Dask cluster, which `connect` starts at the first use.

    Methods raise WorkersError if an item kills every worker that runs it, too few workers start, or
    the scheduler is lost.
    """

    def __init__(self, connect: Callable[[], Client], needs: Needs | None = None) -> None:
        self._connect, self._needs = connect, needs
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = self._connect()
        return self._client

    def check(self) -> None:
        """Raise InputError for a worker of other versions, or that lacks what an item needs."""
        from distributed.comm.core import CommClosedError

        files = () if self._needs is None else self._needs.files
        described = self.client.run(_describe_worker, files, on_error="return")
        for address, worker in described.items():
            if isinstance(worker, CommClosedError):  # lost since; another may take its place
                continue
            if isinstance(worker, BaseException):
                raise worker
            for name, version in versions().items():
                if (other := worker["versions"].get(name)) != version:
                    has = f"{name} {other}" if other else f"no {name}"
                    raise InputError(
                        f"worker {address} has {has} but this process {version}; install the same "
                        "versions on both, as the result depends on them"
                    )
            for reason in worker["unreadable"]:
                raise InputError(f"worker {address} cannot read the rows of this run: {reason}")
            has_bytes, needs = worker["memory_limit"], self._needs
            if needs is not None and 0 < has_bytes < needs.n_bytes:
                raise InputError(
                    f"{needs.about} needs about {needs.n_bytes / 1e9:.1f} GB but worker {address} "
                    f"has {has_bytes / 1e9:.1f} GB of memory; give workers more, drop columns, or "
                    "set cluster to none"
                )

    @property
    def n_threads(self) -> int:
        return max(1, len(self._address_of_each_thread()))

    def _address_of_each_thread(self) -> list[str]:
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        return [address for address, worker in workers.items() for _ in range(worker["nthreads"])]

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        call = partial(_call_on_each, function)
        return self.map_batches(call, self._sent(shared), items, _UNEVEN, on_done)

    def as_done(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[tuple[int, Result], None, None]:
        call = partial(_call_on_each, function)
        batches = self._batches(call, self._sent(shared), items, 1)
        return _of_each(batches)

    def on_each(self, function: Callable[[Shared], Result], shared: Shared) -> list[Result]:
        from distributed.comm.core import CommClosedError

        results = self.client.run(function, shared, on_error="return").values()
        answers = [result for result in results if not isinstance(result, CommClosedError)]
        for answer in answers:  # of the workers that are not lost since
            if isinstance(answer, BaseException):
                raise answer
        return answers

    def _sent(self, shared: Shared) -> _Replicated[Shared] | _WithEachBatch[Shared]:
        """Send an object to every worker, or with each batch if it is small, as rows in files are.

        A copy to every worker waits for those that are in the middle of a long fit.
        """
        from distributed.protocol.pickle import dumps

        if self._needs is not None and len(dumps(shared)) <= _MOST_WITH_EACH:
            return _WithEachBatch(shared)
        return _Replicated(self.client, shared)

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, n_removals: int = 0
    ) -> MaskedLoss:
        return spread_masked_loss(model, rows, loss, baseline, self)

    def evaluating(self, evaluator: MaskEvaluator, seconds_per_mask: float) -> EvaluateMasks:
        """Return a function that evaluates masks, in long batches on the workers."""
        return spread_masks(evaluator, self, seconds_per_mask)

    def for_batches(self, shared: Any) -> Callable[[Callable[..., Any], Sequence[Any]], list[Any]]:
        """Send an object to every worker; return a function that maps over items in batches.

        The mapped function takes the object and a list of items, and returns their results.
        """
        replicated = _Replicated(self.client, shared)

        def run(function: Callable[..., Any], items: Sequence[Any]) -> list[Any]:
            return self.map_batches(function, replicated, items, _EVEN)

        return run

    def for_each(self, things: Sequence[Any]) -> Callable[[Callable[..., Any], Any], list[Any]]:
        """Send each object to a worker; return a function that sends a request to all of them.

        The called function takes an object and the request. An object keeps changes to itself
        until its worker dies.
        """
        return _ActorPerObject(self.client, self._address_of_each_thread, things).send

    def map_batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        replicated: _Replicated[Shared] | _WithEachBatch[Shared],
        items: Sequence[Item],
        batches_per_worker: int,
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return the results of all items, in order."""
        n_workers = max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))
        size = max(1, math.ceil(len(items) / (n_workers * batches_per_worker)))
        results: list[Any] = [None] * len(items)
        done = 0
        for start, batch in self._batches(function, replicated, items, size):
            results[start : start + len(batch)] = batch
            done += len(batch)
            if on_done is not None:
                on_done(done, len(items))
        return results

    def _batches(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        replicated: _Replicated[Shared] | _WithEachBatch[Shared],
        items: Sequence[Item],
        size: int,
    ) -> Generator[tuple[int, list[Result]], None, None]:
        """Begin all batches; yield the first index and the results of each as they are ready."""
        submit = partial(self._submit, function, replicated, items, size)
        waiting = list(range(0, len(items), size))
        return self._ready(submit, replicated, waiting, submit(waiting), len(items))

    def _submit(
        self,
        function: Callable[[Shared, list[Item]], list[Result]],
        replicated: _Replicated[Shared] | _WithEachBatch[Shared],
        items: Sequence[Item],
        size: int,
        starts: Sequence[int],
    ) -> dict[Future[Any], int]:
        """Return the future of each batch, with its first index."""
        from distributed.protocol.pickle import dumps

        start_of = {}
        for start in starts:
            # pickled: otherwise the scheduler would import their modules
            call = dumps((function, list(items[start : start + size]), *replicated.with_batch))
            name = _name_of(function)
            key = f"chaffinch-{name}-{start}-{uuid4().hex}"  # as the dashboard shows it
            n_bytes = 0.0 if self._needs is None else self._needs.n_bytes
            future = self.client.submit(_call, call, n_bytes, *replicated.futures, key=key)
            start_of[future] = start
        return start_of

    def _ready(
        self,
        submit: Callable[[Sequence[int]], dict[Future[Any], int]],
        replicated: _Replicated[Shared] | _WithEachBatch[Shared],
        waiting: list[int],
        start_of: dict[Future[Any], int],
        n_items: int,
    ) -> Generator[tuple[int, list[Any]], None, None]:
        """Yield the results of batches that were begun; begin again those that are lost."""
        from distributed import CancelledError, KilledWorker, as_completed
        from distributed.comm.core import CommClosedError

        for attempt in range(_ATTEMPTS):
            if attempt:
                replicated.send()
                start_of = submit(waiting)
            try:
                for future in as_completed(start_of, loop=self.client.loop):
                    start = start_of[future]
                    try:
                        batch = future.result()
                    except KilledWorker as error:
                        raise WorkersError(_killing_batch(start, n_items)) from error
                    except (CancelledError, CommClosedError):
                        continue  # lost object or scheduler: `send` raises for the latter
                    waiting.remove(start)
                    yield start, batch
            finally:
                self.client.cancel([future for future in start_of if not future.done()])
            if not waiting:
                return
        raise WorkersError(_killing_batch(waiting[0], n_items))


def _of_each(
    batches: Generator[tuple[int, list[Result]], None, None],
) -> Generator[tuple[int, Result], None, None]:
    """Yield the results of batches of one item."""
    with closing(batches):
        for number, results in batches:
            yield number, results[0]


def _call(call: bytes, n_bytes: float, *replicated: Any) -> Any:
    """Call a pickled function on a worker, on pickled items that need so much memory."""
    from distributed.protocol.pickle import loads

    called: tuple[Any, ...] = loads(call)
    function, items, *with_batch = called
    (shared,) = (*with_batch, *replicated)
    with _room_for(n_bytes):
        return function(shared, items)


def _name_of(function: Callable[..., Any]) -> str:
    """Return what is called, in words."""
    while isinstance(function, partial):
        function = function.args[0] if function.args else function.func
    return getattr(function, "__name__", "call").strip("_").replace("_", "-")


def _room_for(n_bytes: float) -> AbstractContextManager[Any]:
    """Wait until the memory of this worker has room for another item."""
    from distributed import get_worker

    if not n_bytes or not (limit := _memory_limit(get_worker())):
        return nullcontext()
    with _LOCK:
        return _ROOM.setdefault(n_bytes, BoundedSemaphore(max(1, int(limit // n_bytes))))


_LOCK, _ROOM = Lock(), dict[float, BoundedSemaphore]()


def _memory_limit(worker: Any) -> int:
    """Return the bytes of memory that a worker may use; 0 without a limit."""
    return worker.memory_manager.memory_limit or 0


def _describe_worker(files: Sequence[SharedFile], dask_worker: Any) -> dict[str, Any]:
    """Return versions and memory of the worker that runs this, and why it cannot read files."""
    unreadable = []
    for file in files:
        try:
            file.here()
        except (InputError, StorageError) as error:
            unreadable.append(str(error))
    limit = _memory_limit(dask_worker)
    return {"versions": versions(), "unreadable": unreadable, "memory_limit": limit}


def _call_on_each(function: Callable[[Any, Any], Any], shared: Any, items: list[Any]) -> list[Any]:
    return [function(shared, item) for item in items]


class _WithEachBatch(Generic[Shared]):
    """A small object that is sent with each batch."""

    futures: tuple[Future[Any], ...] = ()

    def __init__(self, shared: Shared) -> None:
        self.with_batch = (shared,)

    def send(self) -> None:
        """Do nothing: each batch has it."""


class _Replicated(Generic[Shared]):
    """A large object replicated to every worker, and sent again if all of them die."""

    with_batch: tuple[Shared, ...] = ()

    def __init__(self, client: Client, shared: Shared) -> None:
        self._client, self._shared = client, shared
        self.send()

    @property
    def futures(self) -> tuple[Future[Any], ...]:
        return (self.future,)

    def send(self) -> None:
        """Send the object to every worker; WorkersError if none receives it.

        Dask's own broadcast is not used: it never ends if a worker dies meanwhile.
        """
        from distributed import CancelledError

        for _ in range(_ATTEMPTS):
            try:
                # hash=False: scatters of an object would share a key, and to forget it loses both
                (self.future,) = self._client.scatter([self._shared], hash=False)
                return self._copy_to_each()
            except (CancelledError, *_LOST):  # a worker may have died
                logger.warning("waiting for a Dask worker, at most %g s", _SECONDS_TO_RETURN)
                try:
                    self._client.wait_for_workers(1, timeout=_SECONDS_TO_RETURN)
                except TimeoutError as error:
                    raise WorkersError(_no_worker_returned()) from error
                except _LOST as error:
                    raise WorkersError(_lost_scheduler(error)) from error
        raise WorkersError(
            f"workers died {_ATTEMPTS} times while rows were sent to them, {_LESS_MEMORY}"
        )

    def _copy_to_each(self) -> None:
        """Copy the object from worker to worker; an object that kills them fails later."""
        from distributed import CancelledError, as_completed

        addresses = self._client.scheduler_info(n_workers=-1)["workers"]
        copies = [
            self._client.submit(
                _fetch,
                self.future,
                workers=[address],
                allow_other_workers=True,
                key=f"chaffinch-send-{uuid4().hex}",
            )
            for address in addresses
        ]
        for copy in as_completed(copies, loop=self._client.loop):
            if copy.cancelled():  # the worker with the only copy has died
                raise CancelledError(copy.key)


def _fetch(thing: object) -> None:
    """Do nothing, so that the worker fetches the object."""


class _ActorSlot:
    """Dask actor that keeps an object on a worker and answers requests to it."""

    def __init__(self) -> None:
        self._thing: Any = None
        self._thread = ThreadPoolExecutor(1)  # the worker's own thread must stay responsive

    async def answer(self, function: Callable[[Any, Any], Any], request: Any, *thing: Any) -> Any:
        """Return ``function(thing, request)``; the first request includes the thing."""
        if thing:
            (self._thing,) = thing
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, function, self._thing, request)


class _SlotLost(Exception):  # noqa: N818 - no error: the object is placed again
    """The worker of an actor has died."""


class _ActorPerObject:
    """Objects with mutable state, each in an actor of its own on a worker.

    Requests go directly to the actors: scheduling would take ten times as long. An object whose
    worker dies is placed again, with the state it has in this process.
    """

    def __init__(
        self, client: Client, addresses: Callable[[], list[str]], things: Sequence[Any]
    ) -> None:
        self._client, self._addresses, self._things = client, addresses, things
        self._slots: dict[int, tuple[Future[Any], Any]] = {}  # future and actor

    def send(self, function: Callable[[Any, Any], Any], request: Any) -> list[Any]:
        """Return ``[function(thing, request) for thing in things]``, computed by the actors."""
        answers: list[Any] = [None] * len(self._things)
        waiting = list(range(len(self._things)))
        for _ in range(_ATTEMPTS):
            begun = {i: self._submit(i, function, request) for i in waiting}
            for i, answer in begun.items():
                try:
                    answers[i] = self._wait_for(i, answer)
                    waiting.remove(i)
                except _SlotLost:
                    self._slots.pop(i, None)
            if not waiting:
                return answers
        raise WorkersError(_killing_batch(waiting[0], len(self._things)))

    def _submit(self, i: int, *request: Any) -> ActorFuture[Any] | None:
        """Send a request to an object; None if its actor is lost."""
        thing = () if i in self._slots else (self._things[i],)
        if thing:
            self._slots[i] = self._new_slot(i)
        try:
            answer = self._slots[i][1].answer
        except RuntimeError:  # raised by an actor whose worker has died
            return None
        return cast("ActorFuture[Any]", answer(*request, *thing))

    def _wait_for(self, i: int, answer: ActorFuture[Any] | None) -> Any:
        while answer is not None:
            try:
                return answer.result(timeout=_SECONDS_TO_LOOK)
            except OSError:  # no answer: the worker has died, or is busy
                if answer.done() or self._slots[i][0].status != "finished":
                    break
        raise _SlotLost

    def _new_slot(self, i: int) -> tuple[Future[Any], Any]:
        """Create an actor on some worker, in turn over their threads."""
        from distributed import CancelledError, KilledWorker

        try:
            addresses = self._addresses()
            wish: dict[str, Any] = {}  # only a preference: a worker may die at any time
            if addresses:
                wish = {"workers": [addresses[i % len(addresses)]], "allow_other_workers": True}
            with self._client.as_current():
                made = self._client.submit(_ActorSlot, actor=True, pure=False, **wish)
                return made, made.result(timeout=_SECONDS_TO_RETURN)
        except KilledWorker as error:
            raise WorkersError(_killing_batch(i, len(self._things))) from error
        except TimeoutError as error:
            raise WorkersError(_no_worker_returned()) from error
        except (CancelledError, *_LOST) as error:
            raise WorkersError(_lost_scheduler(error)) from error


def _killing_batch(start: int, n_items: int) -> str:
    return (
        f"the batch from item {start} of {n_items} killed every worker that ran it, {_LESS_MEMORY}"
    )


def _no_worker_returned() -> str:
    return (
        f"no Dask worker came back within {_SECONDS_TO_RETURN:g} s; finished stages are kept, so "
        "start workers and run again"
    )


def _lost_scheduler(error: BaseException) -> str:
    why = "the connection is closed" if isinstance(error, AttributeError) else error
    return f"the Dask scheduler went away ({why}); finished stages are kept, so run again"
