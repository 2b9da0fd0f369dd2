"""The worker interface of a stage, and its simplest implementation: this process.

Results do not depend on which worker computes them: every implementation gives the same numbers to
the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.tasks.selection.core import FittedModel, Floats, MaskedLoss, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import masked_loss

Shared = TypeVar("Shared")
Item = TypeVar("Item")
Result = TypeVar("Result")
OnDone = Callable[[int, int], None]


@dataclass(frozen=True)
class Needs:
    """What a worker needs for each item: bytes of memory, and files that it can read.

    `about` says in words what an item is.
    """

    files: tuple[SharedFile, ...]
    n_bytes: float
    about: str


class Workers(Protocol):
    """Maps a function over many small items with a large object in common."""

    @property
    def n_threads(self) -> int:
        """Number of items processed at a time, at least 1."""
        ...

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        """Return ``[function(shared, item) for item in items]``.

        `on_done` is called with the number of items done and the number in all.
        """
        ...

    def as_done(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[tuple[int, Result], None, None]:
        """Begin all items; yield the index and result of each as soon as it is ready, in any order.

        Closing the iterator cancels the remaining items. This process begins an item once its
        result is asked for.
        """
        ...

    def on_each(self, function: Callable[[Shared], Result], shared: Shared) -> list[Result]:
        """Return ``function(shared)`` of each process."""
        ...

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, n_removals: int = 0
    ) -> MaskedLoss:
        """Return the masked loss of a model, computed by these workers.

        `n_removals` is how many features a search is to remove, in single steps.
        """
        ...


class InProcess:
    """Processes items in this process, in turn."""

    n_threads = 1

    def map(
        self,
        function: Callable[[Shared, Item], Result],
        shared: Shared,
        items: Sequence[Item],
        on_done: OnDone | None = None,
    ) -> list[Result]:
        results = []
        for item in items:
            results.append(function(shared, item))
            if on_done is not None:
                on_done(len(results), len(items))
        return results

    def as_done(
        self, function: Callable[[Shared, Item], Result], shared: Shared, items: Sequence[Item]
    ) -> Generator[tuple[int, Result], None, None]:
        for number, item in enumerate(items):
            yield number, function(shared, item)

    def on_each(self, function: Callable[[Shared], Result], shared: Shared) -> list[Result]:
        return [function(shared)]

    def masked_loss(
        self, model: FittedModel, rows: Rows, loss: Loss, baseline: Floats, n_removals: int = 0
    ) -> MaskedLoss:
        return masked_loss(model, rows, loss, baseline)
