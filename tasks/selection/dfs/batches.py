"""The rows of each step, in an order that is drawn for every round through the table.

A step takes at least 1,000 rows, in smaller batches where these are wanted, as the paper sums up
the gradients of batches of 8 and of 100 rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.dfs.estimate import check_order

_FEWEST_ROWS = 1_000  # that a step takes, if there are as many

Batches = list[NDArray[np.int64]]  # the rows of each, in the order that counts


@dataclass(frozen=True)
class Draws:
    """All batches of a descent, step by step.

    A step takes batches of at least `batch_rows` rows, and 1,000 rows together. Rows that are left
    over wait for the next round.
    """

    n_rows: int
    batch_rows: int
    seed: int

    def steps(self) -> Iterator[Batches]:
        """Yield the batches of each step, without end."""
        random = np.random.default_rng(self.seed)
        n_steps = self.n_rows // max(self.batch_rows, min(_FEWEST_ROWS, self.n_rows))
        size = self.n_rows // n_steps
        while True:
            order = random.permutation(self.n_rows)
            for step in range(n_steps):
                yield self._batches(order[step * size : (step + 1) * size])

    def _batches(self, rows: NDArray[np.int64]) -> Batches:
        size = len(rows) // (len(rows) // self.batch_rows)
        return [rows[first : first + size] for first in range(0, len(rows) - size + 1, size)]


def batch_size(n_rows: int, order: int, batch_rows: int | None = None) -> int:
    """Return how many rows a batch has at least; InputError if it is too small or too large."""
    check_order(order, n_rows)
    if batch_rows is None:
        return min(n_rows, _FEWEST_ROWS)
    if not isinstance(batch_rows, Integral) or not order < int(batch_rows) <= n_rows:
        raise InputError(
            f"batch_rows must be in {order + 1}..{n_rows} but is {batch_rows}: order {order} looks "
            f"at {order + 1} rows at once, and more than {n_rows} there are not"
        )
    return int(batch_rows)
