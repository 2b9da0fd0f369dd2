"""Adam over the relaxed mask s = sigma(2 v), on batches of rows in an order that is drawn anew.

The state is a few arrays of D numbers, in the type of the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs import adam_kernels as kernels
from chaffinch.tasks.selection.dfs.coefficients import chain_weights
from chaffinch.tasks.selection.dfs.residual_variance import dense_z, sparse_z
from chaffinch.tasks.selection.dfs.table import DenseTable, Table
from chaffinch.tasks.selection.vocabulary import Floats

_RATE, _LONGEST = 0.1, 1.0
_OLD, _OLD_SQUARE = 0.9, 0.999
_DECAY = 0.75  # of a peak, each step
_OLD_PRESSURE = 0.7  # with 0.9 the first steps still show after sixty


@dataclass(frozen=True)
class Step:
    """What one step saw.

    Attributes
    ----------
    loss : float
        The estimated share of the target's variance that is left, and the penalty.
    kept : float
        sum s, before the step.
    penalty : float
        lambda, of the term lambda / D sum s.
    """

    loss: float
    kept: float
    penalty: float


class Descent:
    """A relaxed mask on its way down.

    Parameters
    ----------
    table : Table
        N rows of D features.
    outputs : ndarray of float64, shape (N, C)
        See `read_target`.
    order : int in 1..8
        Of the estimate.
    batch_rows : int in order + 1..N
        Rows of a step, at least; those of N that are over go to some batch of the next round.
    seed : int
        Draws the order of the rows.

    Attributes
    ----------
    v, kept : ndarray, shape (D,)
        The mask, and s.
    """

    def __init__(
        self, table: Table, outputs: Floats, order: int, batch_rows: int, seed: int
    ) -> None:
        self._table, self._outputs = table, outputs
        self._size = len(outputs) // (len(outputs) // batch_rows)
        self._alphas = chain_weights(order, self._size)
        self._batches = self._drawn(np.random.default_rng(seed))
        n_features, kind = table.shape[1], table.values.dtype
        self.v, self._mean, self._mean_square, self._slopes = np.zeros((4, n_features), kind)
        self.kept = np.full(n_features, 0.5, kind)
        self._room, self._peaks = np.empty(n_features, kind), np.zeros(n_features, kind)
        self._squares = np.zeros(n_features, kind)
        if not isinstance(table, DenseTable):
            self._squares[:] = table.shift**2
            self._number = np.full(n_features, -1, np.int32)
        self._n_steps, self._total = 0, 0.5 * n_features
        self._everywhere = 0.5 * float(np.sum(self._squares, dtype=np.float64))
        self._pressure: float | None = None

    def _drawn(self, random: np.random.Generator) -> Iterator[NDArray[np.int64]]:
        n_rows, size = len(self._outputs), self._size
        while True:
            rows = random.permutation(n_rows)
            for first in range(0, n_rows - size + 1, size):
                yield rows[first : first + size]

    def forget(self) -> None:
        """Start the means of Adam and of the penalty afresh, but go on from this mask."""
        self._mean[:], self._mean_square[:] = 0, 0
        self._peaks[:] = 0
        self._n_steps, self._pressure = 0, None

    def step(self, *, penalty: float | None = None, n_features: int = 1) -> Step:
        """Go one step down.

        Parameters
        ----------
        penalty : float, optional
            lambda; by default what parts the `n_features` steepest features from the others, as a
            moving average.
        n_features : int in 1..D
            How many are to be left.
        """
        z, for_all = self._estimate(next(self._batches))
        if penalty is not None:
            self._pressure = penalty / len(self.v)
        else:
            steep = self._steepness(for_all, n_features)
            before = steep if self._pressure is None else self._pressure
            self._pressure = _OLD_PRESSURE * before + (1 - _OLD_PRESSURE) * steep
        seen = Step(1 - z + self._pressure * self._total, self._total, self._pressure * len(self.v))
        self._move(for_all)
        return seen

    def _estimate(self, rows: NDArray[np.int64]) -> tuple[float, float]:
        """Return z of a batch and what the squares count for; leave its slopes."""
        table, outputs = self._table, self._outputs[rows]
        if isinstance(table, DenseTable):
            z, self._slopes[:] = dense_z(table, rows, self.kept, outputs, self._alphas)
            return z, 0.0
        everywhere = self._everywhere / len(rows)
        z, for_all, touched, slopes = sparse_z(
            table, rows, self.kept, outputs, self._alphas, everywhere, self._number
        )
        self._slopes[touched] = slopes
        return z, for_all

    def _steepness(self, for_all: float, n_features: int) -> float:
        """Return the n-th largest peak of dz/ds, from those alone that may be it, if they suffice.

        Of a feature that tells much, dz/ds falls to 0 well below s = 1, where the polynomial has
        its first summit: without a memory of what it was, features of noise would be level with it.
        """
        kind = self.kept.dtype.type
        now = (self._slopes, self._squares, kind(for_all), self._peaks, kind(_DECAY))
        guess = -np.inf if self._pressure is None else self._pressure / 2
        peaks = self._room[: kernels.peaks_above(*now, kind(guess), self._room)]
        if len(peaks) < n_features:
            peaks = self._peaks
        return float(np.partition(peaks, len(peaks) - n_features)[len(peaks) - n_features])

    def _move(self, for_all: float) -> None:
        self._n_steps += 1
        kind, t = self.kept.dtype.type, self._n_steps
        slope = (self._slopes, self._squares, self.kept, kind(for_all), kind(self._pressure))
        length = np.sqrt(kernels.squared_length(*slope))
        forward, root = _RATE / (1 - _OLD**t), 1 / np.sqrt(1 - _OLD_SQUARE**t)
        clip = min(1.0, _LONGEST / length) if length else 1.0
        shares = (clip, _OLD, 1 - _OLD, _OLD_SQUARE, 1 - _OLD_SQUARE, forward, root)
        state = (self.v, self._mean, self._mean_square, np.array(shares, kind))
        self._total, self._everywhere = kernels.adam_step(*slope, *state)
