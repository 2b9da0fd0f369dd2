"""The rows of each step: blocks in random order, shuffled for every round, and rows within them.

A table in memory is a single block, so that all of its rows are shuffled for each round. A step
takes at least 1,000 rows of a block, in smaller batches where these are wanted, as the paper sums
up the gradients of batches of 8 and of 100 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.dfs.estimate import check_order

FEWEST_ROWS = 1_000  # of a block that a step takes, if there are as many

# a block, and the rows of its batches in the order that counts
Batches = tuple[int, list[NDArray[np.int64]]]


@dataclass(frozen=True)
class Draws:
    """All batches of a descent, step by step.

    A step takes batches of `blocks_per_step` blocks, each of at least `batch_rows` rows, and of
    each block 1,000 rows together. Rows and blocks that are left over wait for the next round.
    """

    block_rows: tuple[int, ...]
    batch_rows: int
    blocks_per_step: int
    seed: int

    def steps(self) -> Iterator[list[Batches]]:
        """Yield, without end, the batches of each step; a block serves several steps in turn."""
        random, at_a_time = np.random.default_rng(self.seed), self.blocks_per_step
        while True:
            order = random.permutation(len(self.block_rows)).tolist()
            for first in range(0, len(order) - at_a_time + 1, at_a_time):
                shuffled = [
                    (block, random.permutation(self.block_rows[block]))
                    for block in order[first : first + at_a_time]
                ]
                counts = [
                    len(rows) // max(self.batch_rows, min(FEWEST_ROWS, len(rows)))
                    for _, rows in shuffled
                ]
                for step in range(min(counts)):
                    yield [
                        (block, self._batches(_share(rows, step, len(rows) // count)))
                        for (block, rows), count in zip(shuffled, counts, strict=True)
                    ]

    def _batches(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        size = len(rows) // (len(rows) // self.batch_rows)
        return [rows[first : first + size] for first in range(0, len(rows) - size + 1, size)]


def _share(rows: NDArray[np.int64], step: int, size: int) -> NDArray[np.int64]:
    return rows[step * size : (step + 1) * size]


def batch_size(n_rows: int, order: int, batch_rows: int | None = None) -> int:
    """Return how many rows a batch has at least; InputError if it is too small or too large.

    `n_rows` are those of the smallest block.
    """
    check_order(order, n_rows)
    if batch_rows is None:
        return min(n_rows, FEWEST_ROWS)
    if not isinstance(batch_rows, Integral) or not order < int(batch_rows) <= n_rows:
        raise InputError(
            f"batch_rows must be in {order + 1}..{n_rows} but is {batch_rows}: order {order} looks "
            f"at {order + 1} rows at once, and more than {n_rows} there are not"
        )
    return int(batch_rows)


def check_blocks(block_rows: tuple[int, ...], blocks_per_step: int, *, in_memory: bool) -> None:
    """Raise InputError if blocks are too small, or a step takes more blocks than there are."""
    smallest = min(block_rows)
    if len(block_rows) > 1 and smallest < FEWEST_ROWS:
        raise InputError(
            f"blocks must have {FEWEST_ROWS} rows at least, as the estimate of fewer varies too "
            f"much, but one has {smallest}; make them larger"
        )
    if isinstance(blocks_per_step, bool) or not isinstance(blocks_per_step, Integral):
        raise InputError(f"blocks_per_step must be a whole number but is {blocks_per_step!r}")
    n_blocks = len(block_rows)
    if not 1 <= blocks_per_step <= n_blocks:
        remedy = "leave it out" if n_blocks == 1 or blocks_per_step < 1 else "take fewer"
        if n_blocks < blocks_per_step <= sum(block_rows) // FEWEST_ROWS:
            remedy += ", or make blocks smaller"
        raise InputError(
            f"blocks_per_step must be in 1..{n_blocks}, as there are blocks, but is "
            f"{blocks_per_step}; {'a table in memory is one block' if in_memory else remedy}"
        )
