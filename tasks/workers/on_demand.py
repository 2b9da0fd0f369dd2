"""Workers that begin in this process, and start a local cluster once a step is long enough."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Protocol

import numpy as np

from chaffinch.tasks.selection.core import FittedModel, Floats, Mask, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, EvaluateMasks, MaskEvaluator
from chaffinch.tasks.workers.distributed_masked_loss import seconds_of_a_step
from chaffinch.tasks.workers.interface import InProcess, Item, OnDone, Result, Shared, Workers

logger = logging.getLogger(__name__)

_SECONDS_WORTH_STARTING = 15.0  # saved in a step; a cluster starts in 3 to 5
_MASKS_AT_LOOKS = (1, 5)  # numbers of masks after which a batch is interrupted to decide


class Cluster(Workers, Protocol):
    """Workers that also evaluate the masks of a model without an engine of its own."""

    def evaluating(self, evaluator: MaskEvaluator, seconds_per_mask: float) -> EvaluateMasks:
        """Return a function that evaluates masks, each of which takes so long."""
        ...


class _SpentTime:
    """Wall and CPU seconds of the items that this process has done."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.n_items = 0

    @contextmanager
    def on(self, n_items: int) -> Iterator[None]:
        """Add the seconds of the block."""
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu
        self.n_items += n_items


class OnDemand:
    """Workers of this process; of a cluster from the first step that gains by it.

    Parameters
    ----------
    cluster : Cluster
        Workers that start at their first use.
    n_workers : int
        How many they are, at least 2.
    """

    def __init__(self, cluster: Cluster, n_workers: int) -> None:
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
        for result in self._run_here(function, shared, items):
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
        for result in self._run_here(function, shared, items):
            yield n_here, result
            n_here += 1
        for number, result in self._present.as_done(function, shared, items[n_here:]):
            yield n_here + number, result

    def on_each(self, function: Callable[[Shared], Result], shared: Shared) -> list[Result]:
        return self._present.on_each(function, shared)

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, n_removals: int = 0
    ) -> MaskedLoss:
        inputs = model, rows, loss, baseline
        engine = self._present.masked_loss(*inputs, n_removals)
        if self._present is self._cluster:
            return engine
        if isinstance(engine, BlackBox):
            d = rows.X.shape[1]
            n_masks = n_removals * d - n_removals * (n_removals - 1) // 2
            return BlackBox(engine.evaluator, self._evaluating(engine.evaluator, n_masks))
        if n_removals > 1:
            spent = _SpentTime()
            spent.wall = spent.cpu = seconds_of_a_step(engine, *inputs)
            spent.n_items = 1
            if self._pays_off(spent, n_removals // 2):  # the last removals evaluate few features
                self._present = self._cluster
                return self._cluster.masked_loss(*inputs, n_removals)
        return engine

    def _evaluating(self, evaluator: MaskEvaluator, n_masks: int) -> EvaluateMasks:
        """Return a function that evaluates masks in this process until a cluster pays off.

        About `n_masks` are to come in all; the function is not thread-safe.
        """
        spent, n_done = _SpentTime(), 0
        there: EvaluateMasks | None = None

        def evaluate(masks: Sequence[Mask]) -> Floats:
            nonlocal n_done, there
            losses: list[float] = []
            looks = [n - n_done for n in _MASKS_AT_LOOKS if n_done < n < n_done + len(masks)]
            for start, stop in pairwise([0, *looks, len(masks)]):
                n_left = max(len(masks) - start, n_masks - n_done)
                if there is None and (
                    self._present is self._cluster or self._pays_off(spent, n_left)
                ):
                    self._present = self._cluster
                    there = self._cluster.evaluating(evaluator, spent.cpu / max(1, spent.n_items))
                if there is not None:
                    return np.array([*losses, *there(masks[start:])])
                # the first mask is not timed: it prepares the model for predictions
                with (spent if n_done else _SpentTime()).on(stop - start):
                    losses += evaluator(masks[start:stop]).tolist()
                n_done += stop - start
            return np.array(losses)

        return evaluate

    def _run_here(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[Result, None, None]:
        """Yield results computed in this process, until a cluster pays off."""
        spent = _SpentTime()
        for item in items:
            if self._present is self._cluster or self._pays_off(spent, len(items) - spent.n_items):
                self._present = self._cluster
                return
            with spent.on(1):
                result = function(shared, item)
            yield result

    def _pays_off(self, spent: _SpentTime, n_left: int) -> bool:
        """Return whether a cluster saves enough; fits may use several cores of this process."""
        if spent.n_items == 0 or n_left < 2:
            return False
        cpu_left = spent.cpu / spent.n_items * n_left
        if cpu_left < _SECONDS_WORTH_STARTING:
            return False
        n_workers = min(self._n_workers, n_left)
        n_cores_here = max(1.0, spent.cpu / spent.wall)
        saved = cpu_left * (1 / n_cores_here - 1 / n_workers)
        if saved < _SECONDS_WORTH_STARTING:
            return False
        logger.info("starting %d workers, which save about %.0f s in this step", n_workers, saved)
        return True
