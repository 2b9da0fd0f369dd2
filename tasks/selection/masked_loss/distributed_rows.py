"""A masked loss with distributed rows: each part keeps its rows and state, and returns sums.

A step sends the removals so far to each part, and returns a few vectors of sums. The state of a
part depends on its rows and the removals only, so that a lost part can be rebuilt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from chaffinch.errors import NotCovered
from chaffinch.tasks.selection.core import Floats, Mask, Predictor, Rows
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import exact_engine
from chaffinch.tasks.selection.masked_loss.row_blocks import (
    PartialSums,
    Question,
    RowSums,
    nodes_of,
    root_of,
    runs_of_blocks,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Request:
    """A request to every part."""

    question: Question  # see `RowSums.block_sums`
    removed: tuple[int, ...]  # all so far, in order
    masks: Mask | None  # (m, d)


class RowPart:
    """A run of blocks of rows, and the engine that is made of them at the first request."""

    def __init__(
        self, model: Predictor, rows: Rows, loss: Loss, baseline: Floats, first: int, n_blocks: int
    ) -> None:
        self._made_of = model, rows, loss, baseline
        self._first, self._n_blocks = first, n_blocks
        self._engine: RowSums | None = None
        self._removed: tuple[int, ...] = ()

    def answer(self, request: Request) -> PartialSums:
        """Return the highest nodes of this part's sums; NotCovered if no engine covers its rows."""
        engine, self._engine = self._engine, None  # an interrupted call leaves no engine
        if engine is None or request.removed[: len(self._removed)] != self._removed:
            made = exact_engine(*self._made_of)  # it was checked to suit all rows
            if not isinstance(made, RowSums):
                raise NotCovered("some rows are not covered")
            engine, self._removed = made, ()
        for feature in request.removed[len(self._removed) :]:
            engine.remove(feature)
        self._engine, self._removed = engine, request.removed
        sums = engine.block_sums(request.question, request.masks)
        return nodes_of(sums, self._first, self._n_blocks)

    def __getstate__(self) -> dict[str, Any]:
        # the engine is larger than what it is made of
        return {**self.__dict__, "_engine": None, "_removed": ()}


def parts_of(
    model: Predictor, rows: Rows, loss: Loss, baseline: Floats, rows_in_block: int, n_parts: int
) -> list[RowPart]:
    """Divide rows into at most `n_parts` parts of whole blocks; see `RowPart`."""
    n_blocks = -(-len(rows) // rows_in_block)
    parts = []
    for first, stop in runs_of_blocks(n_blocks, n_parts):
        of_part = rows.take(slice(first * rows_in_block, stop * rows_in_block))
        parts.append(RowPart(model, of_part, loss, baseline, first, n_blocks))
    return parts


class PartedLoss(RowSums):
    """`MaskedLoss` over parts: the numbers of the engine of all rows, to the last bit.

    `like` is an engine of some of the rows, with every feature kept; `total_weight` and `n_blocks`
    are those of all rows; `ask` takes a question to the answers of all parts.
    """

    def __init__(
        self,
        like: RowSums,
        total_weight: float,
        n_blocks: int,
        ask: Callable[[Request], list[PartialSums]],
        exactly: Callable[[Mask], Floats] | None = None,
    ) -> None:
        super().__init__(like.name, like.relevant, total_weight, exactly)
        self.settles_ties = like.settles_ties
        self._n_blocks, self._ask = n_blocks, ask
        self._removed: tuple[int, ...] = ()
        self._is_size_logged = False

    def _after_removal(self, feature: int) -> None:
        self._removed = (*self._removed, int(feature))

    def _rebuild(self) -> None:
        known = set(self._removed)
        self._removed += tuple(f for f in np.flatnonzero(~self._mask).tolist() if f not in known)

    def _totals(self, question: Question, masks: Mask | None) -> Floats:
        self._make_whole()
        answers = self._ask(Request(question, self._removed, masks))
        if question == "without each" and not self._is_size_logged:
            moved = sum(node.nbytes for nodes in answers for node in nodes.values())
            logger.info("each step brings %.1f kB from %d parts", moved / 1e3, len(answers))
            self._is_size_logged = True
        return root_of(answers, self._n_blocks)
