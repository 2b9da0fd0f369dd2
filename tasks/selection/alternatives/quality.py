"""Quality of a feature set, from known numbers.

Bach, arXiv 2307.11607v3, sections 3.3.1 and A.2; n features, sets S of k of them.

====================================================================  ============
paper                                                                 here
====================================================================  ============
sum of q_j, eq 11                                                     `Univariate`
the same; no i, j with q(i, y) <= q(j, i), eq 12 (FCBF)               `FCBF`
mean of q(j, y) less mean of q(i, j) over i != j, eq 13-14 (mRMR)     `MRMR`
sum of q(j, y) / sqrt(k + sum of q(i, j) over i != j), eq 20 (CFS)    `CFS`
====================================================================  ============

The matrix of q(i, j) may be asymmetric: both directions of a pair count. Its diagonal is ignored.
To judge a set on other rows, compute a second quality from them: `held_out.value(indices)`.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.alternatives.validation import (
    check_names,
    check_numbers,
    check_sizes,
)
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.input_checks import read_floats
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

_ROWS = 512
_NEIGHBOURS = 64  # listed for each feature, besides those that a set needs


class Pairs(NamedTuple):
    """Pair costs of some features, and the smallest of each."""

    costs: Floats  # (n, n)
    neighbours: NDArray[np.int64]  # (n, l), features of the smallest pair costs, the smallest first
    halves: Floats  # (n, k), half the sum of the t smallest, t < k
    largest: float  # finite and absolute


@dataclass(frozen=True)
class Form:
    """A quality for a fixed size of sets: sum of gains minus sum of pair costs."""

    gains: Floats  # (n,), finite
    pair_costs: Floats | None = None  # (n, n), symmetric with a zero diagonal; inf for a conflict
    _pairs: dict[tuple[int, bytes], Pairs] = field(default_factory=dict, compare=False, repr=False)

    def pairs(self, features: NDArray[np.int64], k: int) -> Pairs | None:
        """Return the pair costs of some features for sets of k; None if there are none.

        The last answer is kept: sorting a wide table takes longer than the search of a set.
        """
        if self.pair_costs is None:
            return None
        key = k, features.tobytes()
        if key not in self._pairs:
            self._pairs.clear()
            self._pairs[key] = _pairs_of(self.pair_costs, features, k)
        return self._pairs[key]

    def value(self, features: Collection[int]) -> float:
        """Return the value of a set of indices, rounded once; -inf if two are in conflict."""
        chosen = sorted(features)
        terms = self.gains[chosen].tolist()
        if self.pair_costs is not None:
            among = self.pair_costs[np.ix_(chosen, chosen)]
            terms += (-among[np.tril_indices(len(chosen), -1)]).tolist()
        return math.fsum(terms)


@runtime_checkable
class Quality(Protocol):
    """Interface of a quality: higher is better.

    Attributes
    ----------
    names : tuple of str, length n, or None
    n_features : int
        n, number of features.
    """

    @property
    def names(self) -> Sequence[str] | None:
        """Names of the features, or None."""
        ...

    @property
    def n_features(self) -> int:
        """n, number of features."""
        ...

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices."""
        ...


@runtime_checkable
class QualityWithForm(Quality, Protocol):
    """A quality that is a form once the size of sets is fixed."""

    def form(self, k: int) -> Form:
        """Return the form for sets of k features."""
        ...


class Univariate:
    """The sum of the features' values.

    Parameters
    ----------
    values : array of float, shape (n,)
        Higher is better; they may be negative.
    names : sequence of str, length n, optional

    Raises
    ------
    InputError
        If a value is not finite or too large, or the names do not fit.
    """

    def __init__(self, values: ArrayLike, names: Sequence[str] | None = None) -> None:
        self.values = check_numbers("values", values)
        self.names = check_names(names, len(self.values))

    @property
    def n_features(self) -> int:
        """n, number of features."""
        return len(self.values)

    def form(self, k: int) -> Form:
        """Return the form, equal for every size."""
        return Form(self.values)

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices."""
        return self.form(len(features)).value(features)


class _OfPairs:
    """Relevance of each feature, and redundancy of each pair."""

    def __init__(
        self, relevance: ArrayLike, redundancy: ArrayLike, names: Sequence[str] | None = None
    ) -> None:
        self.relevance = check_numbers("relevance", relevance)
        n = len(self.relevance)
        matrix = read_floats(redundancy, "redundancy", "give a float for each pair")
        if matrix.shape != (n, n):
            raise InputError(f"redundancy must have the shape ({n}, {n}) but has {matrix.shape}")
        np.fill_diagonal(matrix, 0.0)
        if not np.isfinite(matrix).all():
            i, j = np.argwhere(~np.isfinite(matrix))[0]
            raise InputError(
                f"redundancy must be finite but is {matrix[i, j]} for the features {i} and {j}"
            )
        check_sizes("redundancy", matrix)
        self.redundancy = matrix
        self.names = check_names(names, n)

    @property
    def n_features(self) -> int:
        """n, number of features."""
        return len(self.relevance)


class FCBF(_OfPairs):
    """The sum of relevances of features, none of which makes another redundant.

    Two features are in conflict if q(i, y) <= q(j, i) in either direction.

    Parameters
    ----------
    relevance : array of float, shape (n,)
        q(j, y) of each feature.
    redundancy : array of float, shape (n, n)
        q(i, j) in row i.
    names : sequence of str, length n, optional

    Raises
    ------
    InputError
        If a number is not finite or too large, or shapes do not fit.
    """

    def form(self, k: int) -> Form:
        """Return the form, equal for every size."""
        is_redundant = self.relevance <= self.redundancy  # row j, column i: q(i, y) <= q(j, i)
        costs = np.where(is_redundant | is_redundant.T, math.inf, 0.0)
        np.fill_diagonal(costs, 0.0)
        return Form(self.relevance, costs)

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices; -inf if two are in conflict."""
        return self.form(len(features)).value(features)


class MRMR(_OfPairs):
    """The mean relevance of a set minus the mean redundancy of its pairs.

    Parameters
    ----------
    relevance, redundancy, names
        See `FCBF`; a single feature has no redundancy.

    Raises
    ------
    InputError
        If a number is not finite or too large, or shapes do not fit.
    """

    def form(self, k: int) -> Form:
        """Return the form for sets of k features."""
        if k < 2:
            return Form(self.relevance)
        of_pairs = self.redundancy + self.redundancy.T
        of_pairs /= k * (k - 1)  # in place: a second table would double the time
        return Form(self.relevance / k, of_pairs)

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices."""
        return self.form(len(features)).value(features)


class CFS(_OfPairs):
    """The correlation of a set's sum with the target, from correlations of single features.

    Parameters
    ----------
    relevance, redundancy, names
        See `FCBF`; at least 0.

    Raises
    ------
    InputError
        If a number is not finite, too large or below 0, or shapes do not fit.
    """

    def __init__(
        self, relevance: ArrayLike, redundancy: ArrayLike, names: Sequence[str] | None = None
    ) -> None:
        super().__init__(relevance, redundancy, names)
        for name, numbers in (("relevance", self.relevance), ("redundancy", self.redundancy)):
            if (numbers < 0).any():
                raise InputError(
                    f"the {name} of CFS must be at least 0 but is {numbers.min()}; "
                    "take absolute correlations"
                )

    def parts(self, features: Collection[int]) -> tuple[float, float]:
        """Return the sum of relevances, and size + sum of redundancies both ways, of a set."""
        chosen = sorted(features)
        among = self.redundancy[np.ix_(chosen, chosen)]
        return (
            math.fsum(self.relevance[chosen].tolist()),
            math.fsum([len(chosen), *among.ravel().tolist()]),
        )

    def value(self, features: Collection[int]) -> float:
        """Return the quality of a set of indices; 0 for no features."""
        relevance, spread = self.parts(features)
        return relevance / math.sqrt(spread) if spread else 0.0


def _pairs_of(pair_costs: Floats, features: NDArray[np.int64], k: int) -> Pairs:
    is_all = len(features) == len(pair_costs)
    costs = np.ascontiguousarray(pair_costs if is_all else pair_costs[np.ix_(features, features)])
    n = len(costs)
    n_nearest = min(n - 1, k + _NEIGHBOURS) if k > 1 else 0
    neighbours = np.empty((n, n_nearest), dtype=np.int64)
    halves = np.zeros((n, k))
    for first in range(0, n if n_nearest else 0, _ROWS):  # few at a time, for memory
        rows = costs[first : first + _ROWS].copy()
        here = np.arange(len(rows))
        rows[here, first + here] = math.inf
        near = np.sort(np.argpartition(rows, n_nearest - 1, axis=1)[:, :n_nearest], axis=1)
        nearest = np.take_along_axis(rows, near, axis=1)
        order = np.argsort(nearest, axis=1, kind="stable")
        neighbours[first : first + _ROWS] = np.take_along_axis(near, order, axis=1)
        smallest = np.take_along_axis(nearest, order[:, : k - 1], axis=1)
        halves[first : first + _ROWS, 1:] = np.cumsum(smallest, axis=1) / 2
    largest = float(np.abs(costs[np.isfinite(costs)]).max(initial=0.0))
    return Pairs(costs, neighbours, halves, largest)


_HIDDEN = 1e-9  # as a share of the terms of the sets


def is_hidden(form: Form, sets: Sequence[Sequence[int]], rounding: float) -> bool:
    """Return whether rounding may hide a better set, by more than a small share of a set's terms.

    Sums are rounded by a share of the largest numbers in them: a value of -1e12 for "never" would
    hide all others. Such sets are *feasible*, with a bound.
    """
    sizes = [_size(form, list(indices)) for indices in sets]
    return rounding > _HIDDEN * max(min(sizes), _median_magnitude(form)) > 0


def _median_magnitude(form: Form) -> float:
    """Return the median absolute gain other than 0, else that of pair costs; or 0."""
    gains = form.gains
    if form.pair_costs is not None and not gains.any():
        gains = form.pair_costs[np.isfinite(form.pair_costs)]
    return float(np.median(np.abs(gains[gains != 0]))) if gains.any() else 0.0


def _size(form: Form, chosen: list[int]) -> float:
    """Return the sum of the absolute terms of a set's value."""
    size = float(np.abs(form.gains[chosen]).sum())
    if form.pair_costs is not None:
        size += float(np.abs(form.pair_costs[np.ix_(chosen, chosen)]).sum()) / 2
    return size


def worths(form: Form, sets: NDArray[np.integer]) -> Floats:
    """Return the values of sets (N, k), shape (N,), up to rounding."""
    costs = np.empty((0, 0)) if form.pair_costs is None else form.pair_costs
    return _worths(form.gains, costs, np.ascontiguousarray(sets, dtype=np.int64))


@compiled
def _worths(gains: Floats, costs: Floats, sets: NDArray[np.integer]) -> Floats:
    worth = np.empty(len(sets))
    for s in range(len(sets)):
        total = 0.0
        for i in range(sets.shape[1]):
            total += gains[sets[s, i]]
            if len(costs):
                for j in range(i):
                    total -= costs[sets[s, i], sets[s, j]]
        worth[s] = total
    return worth
