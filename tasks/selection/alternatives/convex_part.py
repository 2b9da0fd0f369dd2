"""What of the pair costs is convex, so that sets are bounded by more than pairs at their cheapest.

To count each pair of a set at the cheapest that either of its features has is a weak bound where
features are alike: the cheapest partners of a feature are not cheap with each other. With a matrix
Q, and the rest R = costs - 2 Q, the sum of the pair costs of a set T of t features is

    T'QT - sum over T of Q_jj + sum over pairs of T of R_ij,

and if d'Qd >= 0 for every d that sums to 0, the first term lies above its tangents among all
weights that sum to t. That is so for any such Q, whatever the gains are, and whatever is added to
the pair costs. The best Q is that of the dual of a semidefinite program (Billionnet, Elloumi and
Plateau 2009; with entries at least 0, Burer 2009): over Y, a matrix of n + 1 rows,

    most of  gains'y - 1/2 costs . Y[1:, 1:],  y = Y[0, 1:] = diagonal of Y[1:, 1:],  Y[0, 0] = 1,
    sum of y = k,  Y (k, -1, ..., -1)' = 0,  0 <= Y <= 1,  Y positive semidefinite.

It is solved by alternating directions between matrices that are semidefinite and those that have
the rest (Oliveira, Wolkowicz and Xu 2018). Each step is the eigenvalues of one matrix, and each
has a Q; more steps make it a better one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_STEPS = 120  # at a time
_PENALTY, _LENGTH = 1.0, 1.6  # of what the two matrices differ by; of a step of the multipliers
_HALVINGS = 50  # of an interval, to make weights sum to k
_EPSILON = float(np.finfo(np.float64).eps)


@dataclass
class _Directions:
    """Two matrices that are to be one, and the multipliers of their difference."""

    entries: Floats
    multipliers: Floats


class Convexity:
    """What searches have found out of some pair costs, better and better the longer they take.

    Attributes
    ----------
    work : float
        How much has been done in searches since the part was last made better.
    patience : float
        How much a search may do before the part is tried.
    is_quicker : bool
        Whether the last search that tried it came to its end with it.
    """

    def __init__(self) -> None:
        self.work = 0.0
        self.patience = 0.0
        self.is_quicker = False
        self._features = np.empty(0, dtype=np.int64)
        self._part = np.empty((0, 0))
        self._directions: _Directions | None = None

    def part(self, features: Integers) -> Floats | None:
        """Return Q of some features, in order; None if it is not known."""
        places = np.searchsorted(self._features, features)
        if not len(self._features) or places.max() == len(self._features):
            return None
        if not np.array_equal(self._features[places], features):
            return None
        return self._part[np.ix_(places, places)]

    def improve(
        self, features: Integers, gains: Floats, costs: Floats, k: int, deadline: float | None
    ) -> None:
        """Find a better part for sets of k that are worth their gains less their pair costs.

        Parameters
        ----------
        features : ndarray of int64, shape (n,)
            In order; what the rest is about.
        gains : ndarray, shape (n,)
        costs : ndarray, shape (n, n)
            Symmetric; inf where two features must not be together.
        k : int in 2..n - 1
        deadline : float or None
        """
        is_allowed = np.isfinite(costs)
        target = np.zeros((len(gains) + 1, len(gains) + 1))
        target[1:, 1:] = np.where(is_allowed, costs, 0.0) / 2
        target[0, 1:] = target[1:, 0] = -gains / 2
        np.fill_diagonal(target, 0.0)
        scale = float(np.abs(target).max()) or 1.0
        if self._directions is None or not np.array_equal(features, self._features):
            self._directions = _first(len(gains), k)
        with threadpool_limits(limits=1):  # one result, however many threads there are
            part = _steps(target / scale, is_allowed, k, self._directions, deadline)
            self._part = _made_convex(scale * part)
        self._features, self.work = features, 0.0


def _first(n: int, k: int) -> _Directions:
    """Return the mean of all sets, and no multipliers."""
    entries = np.full((n + 1, n + 1), k * (k - 1) / (n * (n - 1)))
    entries[0, :] = entries[:, 0] = k / n
    np.fill_diagonal(entries, k / n)
    entries[0, 0] = 1.0
    return _Directions(entries, np.zeros_like(entries))


def _steps(
    target: Floats, is_allowed: Mask, k: int, at: _Directions, deadline: float | None
) -> Floats:
    """Take some steps; return the Q of the last."""
    n = len(target) - 1
    normal = np.concatenate([[k], -np.ones(n)]) / np.sqrt(k * k + n)
    for _ in range(_STEPS):
        wanted = _within(at.entries + at.multipliers / _PENALTY, normal)
        values, vectors = np.linalg.eigh(wanted)
        first = int(np.searchsorted(values, 0.0))
        semidefinite = (vectors[:, first:] * values[first:]) @ vectors[:, first:].T
        dual = _PENALTY * (semidefinite - wanted)
        dual -= at.multipliers - _within(at.multipliers, normal)
        entries = semidefinite - (target + at.multipliers) / _PENALTY
        weights = _summing_to(k, (2 * entries[0, 1:] + np.diag(entries)[1:]) / 3)
        entries = np.clip(entries, 0.0, 1.0)
        entries[1:, 1:] *= is_allowed
        np.fill_diagonal(entries, np.concatenate([[1.0], weights]))
        entries[0, 1:] = entries[1:, 0] = weights
        at.multipliers = at.multipliers + _LENGTH * _PENALTY * (entries - semidefinite)
        at.entries = entries
        if is_late(deadline):
            break
    part: Floats = dual[1:, 1:]
    return part


def _within(matrix: Floats, normal: Floats) -> Floats:
    """Return a symmetric matrix where what is along a unit vector is taken out."""
    along = matrix @ normal
    across = np.outer(normal, along - (normal @ along) / 2 * normal)
    within: Floats = matrix - across - across.T
    return within


def _summing_to(k: int, weights: Floats) -> Floats:
    """Return the weights in 0..1 that sum to k and are nearest to some."""
    low, high = float(weights.min()) - 1, float(weights.max())
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if np.clip(weights - middle, 0.0, 1.0).sum() > k:
            low = middle
        else:
            high = middle
    return np.clip(weights - low, 0.0, 1.0)


def _made_convex(matrix: Floats) -> Floats:
    """Return a matrix with so much on its diagonal that it is convex where weights sum to 0."""
    matrix = (matrix + matrix.T) / 2
    n = len(matrix)
    lowest = float(np.linalg.eigvalsh(_within(matrix, np.full(n, 1 / np.sqrt(n))))[0])
    rounding = 8 * n * _EPSILON * float(np.linalg.norm(matrix))
    return matrix + (max(0.0, -lowest) + rounding) * np.eye(n)
