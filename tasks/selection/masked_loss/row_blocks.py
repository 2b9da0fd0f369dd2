"""Losses that are means over rows, summed independently of how rows are distributed.

Rows come in blocks of a fixed number. The sums of the blocks are the leaves of a binary tree: each
node is the sum of the two below it, or the left node if the right is missing. A run of whole
blocks is summed up to the highest nodes that lie inside it; the nodes of several runs meet above.
So additions are the same for any number of runs, and the root is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.base import MaskState, check_finite
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled
from chaffinch.tasks.selection.masked_loss.rounding import least_loss

Question = Literal["present", "without each", "moved", "under", "coarseness"]

_TIE = 1e-13  # of a loss: far more than the order of a sum changes, far less than data differ by
# (level, number): the node above the blocks number * 2^level to (number + 1) * 2^level - 1
PartialSums = dict[tuple[int, int], Floats]


@compiled
def _add_pairs(sums: Any) -> None:
    """Write rows 0 + 1, 2 + 3 and so on over the first half of an array's rows."""
    for k in range(len(sums) // 2):
        for i in range(sums.shape[1]):
            sums[k, i] = sums[2 * k, i] + sums[2 * k + 1, i]


def nodes_of(sums: Floats, first: int, n_blocks: int) -> PartialSums:
    """Return the highest nodes of a run of blocks; overwrites their sums (b, m)."""
    nodes: PartialSums = {}
    level, last_is_ours = 0, first + len(sums) == n_blocks
    while len(sums):
        if first % 2:
            nodes[level, first] = sums[0].copy()
            first, sums = first + 1, sums[1:]
        if first == 0 and last_is_ours and len(sums) == 1:
            nodes[level, 0] = sums[0]
            break
        n_pairs, is_odd = divmod(len(sums), 2)
        if is_odd and not last_is_ours:
            nodes[level, first + 2 * n_pairs] = sums[-1].copy()
        _add_pairs(sums)
        if is_odd and last_is_ours:  # without a sibling
            sums[n_pairs] = sums[-1]
            n_pairs += 1
        sums = sums[:n_pairs]
        level, first = level + 1, first // 2
    return nodes


def root_of(runs: Iterable[PartialSums], n_blocks: int) -> Floats:
    """Return the sum of all blocks, shape (m,), from the nodes of runs that cover them."""
    nodes = {place: node for run in runs for place, node in run.items()}
    level, width = 0, n_blocks
    while width > 1:
        for number in sorted(number for at, number in nodes if at == level and number % 2 == 0):
            left = nodes.pop((level, number))
            is_alone = number + 1 == width
            right = None if is_alone else nodes.pop((level, number + 1))
            nodes[level + 1, number // 2] = left if right is None else left + right
        level, width = level + 1, -(-width // 2)
    return nodes[level, 0]


def runs_of_blocks(n_blocks: int, n_runs: int) -> list[tuple[int, int]]:
    """Return up to n_runs runs of nearly the same length, (first, stop), that make few nodes."""
    grain = 1 << max(0, (n_blocks // (32 * n_runs)).bit_length() - 1)
    bounds = {grain * round(i * n_blocks / n_runs / grain) for i in range(n_runs)} | {n_blocks}
    ascending = sorted(bounds)
    return list(pairwise(ascending))


class RowSums(MaskState):
    """The masked loss as a mean over rows, from sums over them.

    `relevant` (d,): features that can change a prediction. `exactly` takes masks (m, d) to their
    losses (m,) where rounding may show in them (`coarseness` decides), and where two are lowest but
    for rounding; by default they are computed as for any masks.
    """

    is_summed = True  # whether the loss is such a mean; an engine may know others as well
    settles_ties = True  # by `exactly`, whose losses then differ by the order of a sum alone
    rows_in_block: int

    def __init__(
        self,
        name: str,
        relevant: Mask,
        total_weight: float,
        exactly: Callable[[Mask], Floats] | None = None,
    ) -> None:
        super().__init__(len(relevant))
        self.name, self.relevant, self.total_weight = name, relevant, total_weight
        self.exactly = exactly
        self._least: Floats | None = None
        self._settled: tuple[Mask, Mask, float] | None = None  # see _exactly_present

    @property
    def loss(self) -> float:
        """Loss under the present mask."""
        with self._lock.of_process:
            return float(self._losses("present", self._mask.sum())[0])

    def without_each(self) -> Floats:
        """Losses of masking another feature each, shape (d,); inf where already masked."""
        with self._lock.of_process:
            losses = self._losses("without each", self._mask.sum() - 1)
            everywhere = np.where(self._mask, losses[-1], np.inf)
            everywhere[self._mask & self.relevant] = losses[:-1]
            self._settle_ties(everywhere)
            return everywhere

    def _settle_ties(self, losses: Floats) -> None:
        """Replace the losses of those features that may be the first to leave by exact ones.

        Losses (d,) of integers, as absolute errors of votes are, often tie. Which of them is lowest
        then depends on the order of a sum, and that is to be the predictions' own. What changes no
        row has the present loss, in any order.
        """
        if self.exactly is None or not (self.is_summed and self.settles_ties):
            return
        lowest = float(losses[losses.argmin()])
        is_near = losses <= lowest + _TIE * abs(lowest)
        if np.count_nonzero(is_near) < 2 or lowest == np.inf:
            return
        moves = self._mask & self.relevant
        if np.count_nonzero(is_near & moves) + np.any(is_near & ~moves) < 2:
            return
        moves[moves] = self._totals("moved", None)[:-1] > 0
        moving, unmoved = np.flatnonzero(is_near & moves), np.flatnonzero(is_near & ~moves)
        if len(unmoved):
            losses[unmoved] = self._exactly_present(self.exactly, moves)
        if len(moving):
            masks = np.repeat(self._mask[np.newaxis], len(moving), axis=0)
            masks[np.arange(len(moving)), moving] = False
            losses[moving] = self.exactly(masks)

    def _exactly_present(self, exactly: Callable[[Mask], Floats], moves: Mask) -> float:
        """Return the exact loss of the present mask; removing what moves no row leaves it."""
        loss = None
        if self._settled is not None:
            mask, moved, known = self._settled
            removed = mask & ~self._mask
            if removed.sum() <= 1 and not (removed & moved).any() and (self._mask <= mask).all():
                loss = known
        if loss is None:
            loss = float(exactly(self._mask[np.newaxis])[0])
        self._settled = self._mask.copy(), moves, loss
        return loss

    def __call__(self, masks: Sequence[Mask] | Mask) -> Floats:
        """Losses of arbitrary masks (m, d), shape (m,), independent of the present mask."""
        seen = self._as_masks(masks)
        if not len(seen):
            return np.empty(0)
        with self._lock.of_process:
            return self._losses("under", seen.sum(axis=1).min(), seen)

    def block_sums(self, question: Question, masks: Mask | None = None) -> Floats:
        """Return the weighted sums of every block's losses, shape (n_blocks, m).

        "present": of the present mask. "without each": without each kept and relevant feature, in
        ascending order, and last of the present mask. "moved": likewise, but whether a row's
        prediction changes, 1 or 0. "under": of each of `masks` (m, d). "coarseness": by how much
        rounding may change the losses without each of all d features, and last any other; or one
        sum for all of these.
        """
        raise NotImplementedError

    def _losses(self, question: Question, n_kept: int, masks: Mask | None = None) -> Floats:
        losses = self._means(question, masks)
        if self.is_summed:
            doubtful = (losses < self._least_losses(question)).nonzero()[0]
            if len(doubtful):
                losses[doubtful] = self._recomputed(self._masks_of(question, masks, doubtful))
        check_finite(self.name, losses, n_kept, len(self._mask))
        return losses

    def _least_losses(self, question: Question) -> Floats:
        """Return the least of each requested loss in which rounding does not show, (1,) or (m,)."""
        if self._least is None:
            mean = self._totals("coarseness", None) / self.total_weight
            self._least = least_loss(self.name, mean)
        if question != "without each" or len(self._least) == 1:
            return self._least[-1:]
        least: Floats = self._least[np.append(self._mask & self.relevant, True)]
        return least

    def _masks_of(self, question: Question, masks: Mask | None, which: NDArray[np.int64]) -> Mask:
        if masks is not None:
            return masks[which]
        some = np.repeat(self._mask[np.newaxis], len(which), axis=0)
        if question == "without each":
            features = np.append(np.flatnonzero(self._mask & self.relevant), -1)[which]
            some[np.arange(len(which)), features] &= features < 0  # the last is the present mask
        return some

    def _recomputed(self, masks: Mask) -> Floats:
        return self._means("under", masks) if self.exactly is None else self.exactly(masks)

    def _means(self, question: Question, masks: Mask | None) -> Floats:
        return self._totals(question, masks) / self.total_weight

    def _totals(self, question: Question, masks: Mask | None) -> Floats:
        sums = self.block_sums(question, masks)
        return root_of([nodes_of(sums, 0, len(sums))], len(sums))
