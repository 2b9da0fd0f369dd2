"""Workers that begin in this process, and start a local cluster once a step is long enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence

from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.workers.interface import InProcess, Item, OnDone, Result, Shared, Workers

logger = logging.getLogger(__name__)

_SECONDS_WORTH_STARTING = 15.0  # saved in one step; a cluster starts in 3 to 5


class OnDemand:
    """Workers of this process, or of a cluster from the first step on that gains by it.

    Parameters
    ----------
    cluster : Workers
        Workers that start at their first use.
    n_workers : int
        How many they are, at least 2.
    """

    def __init__(self, cluster: Workers, n_workers: int) -> None:
        self._cluster, self._n_workers = cluster, n_workers
        self._present: Workers = InProcess()

    @property
    def n_threads(self) -> int:
        return self._present.n_threads

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        results: list[Result] = []
        for result in self._here(function, shared, items):
            results.append(result)
            if on_done is not None:
                on_done(len(results), len(items))
        n_here = len(results)
        if n_here == len(items):
            return results

        def on_more(done: int, _: int) -> None:
            if on_done is not None:
                on_done(n_here + done, len(items))

        return results + self._present.map(function, shared, items[n_here:], on_more)

    def as_done(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[tuple[int, Result], None, None]:
        n_here = 0
        for result in self._here(function, shared, items):
            yield n_here, result
            n_here += 1
        for number, result in self._present.as_done(function, shared, items[n_here:]):
            yield n_here + number, result

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats
    ) -> MaskedLoss:
        return self._present.masked_loss(model, rows, loss, baseline)

    def _here(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[Result, None, None]:
        """Yield results computed in this process, until a cluster gains enough by the others."""
        wall = cpu = 0.0
        for number, item in enumerate(items):
            if self._present is self._cluster or self._gains(wall, cpu, number, len(items)):
                self._present = self._cluster
                return
            began = time.perf_counter(), time.process_time()
            result = function(shared, item)
            wall += time.perf_counter() - began[0]
            cpu += time.process_time() - began[1]
            yield result

    def _gains(self, wall: float, cpu: float, n_done: int, n_items: int) -> bool:
        """Return whether a cluster saves enough; fits may use several cores here already."""
        n_left = n_items - n_done
        if n_done == 0 or n_left < 2 or cpu / n_done * n_left < _SECONDS_WORTH_STARTING:
            return False
        n_workers = min(self._n_workers, n_left)
        n_cores_here = max(1.0, cpu / wall)
        saved = cpu / n_done * n_left * (1 / n_cores_here - 1 / n_workers)
        if saved < _SECONDS_WORTH_STARTING:
            return False
        logger.info("starting %d workers, which save about %.0f s in this step", n_workers, saved)
        return True
