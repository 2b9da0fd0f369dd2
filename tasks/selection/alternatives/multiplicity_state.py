"""What the search for multiplicities searches, and where it is: the arrays its kernels share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.bar_kernels import Bars
from chaffinch.tasks.selection.alternatives.use_table import NONE
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers


class Problem(NamedTuple):
    """What is searched: m sets of k of p features, any two with at most K in common.

    Attributes
    ----------
    units : ndarray of int64, shape (p,)
        The features' worth, descending.
    sums : ndarray of int64, shape (p + 1,)
        Of the first ones.
    table : ndarray of int64, shape (p + 1, m k + 1, m (m - 1) / 2 K + 1)
        The most that the features from one on promise, by places left and by pairs of sets that
        can still share a feature.
    scale : int
        More than the pairs that there are.
    blur : int
        What is worth no more than this above the best is not looked for.
    size, overlap : int
        k and K.
    most_uses : int
        In how many sets a feature may be.
    bars : Bars
        What does not go together.
    is_free : bool
        Whether that is nothing, so that no feature is in more sets than a better one.
    """

    units: Integers
    sums: Integers
    table: Integers
    scale: int
    blur: int
    size: int
    overlap: int
    most_uses: int
    bars: Bars
    is_free: bool


FREE = Bars.none(), True  # what ends a `Problem` in which any features go together


class State(NamedTuple):
    """Where a search is. One row for each feature, the present one the last that counts.

    Attributes
    ----------
    has : ndarray of bool, shape (p, m)
        The partial design.
    alike : ndarray of bool, shape (p + 1, m)
        Whether a set has had the same features as the one before it.
    counts, promises : ndarray of int64, shape (p, m + 1)
        In how many sets the feature may be, the most promising first.
    n_counts, next_count : ndarray of int64, shape (p,)
    places : ndarray of int64, shape (p, m)
        In which sets it is.
    is_placed : ndarray of bool, shape (p,)
    is_barred : ndarray of bool, shape (p, m)
        Which sets may not have it.
    most, worth, left : ndarray of int64, shape (p + 1,)
        How often it may be used, worth of those before, places left for this and those after.
    members : ndarray of int64, shape (m, k)
        The features of each set, in order.
    filled : ndarray of int64, shape (m,)
        How many these are.
    shared : ndarray of int64, shape (m, m)
    feature : ndarray of int64, shape (2,)
        The present one, -1 when the search is done; and 1 if it is new.
    best : ndarray of bool, shape (p, m)
    best_worth : ndarray of int64, shape (2,)
        NONE without a design; and the promise that is to be beaten.
    """

    has: NDArray[np.bool_]
    alike: NDArray[np.bool_]
    counts: Integers
    promises: Integers
    n_counts: Integers
    next_count: Integers
    places: Integers
    is_placed: NDArray[np.bool_]
    is_barred: NDArray[np.bool_]
    most: Integers
    worth: Integers
    left: Integers
    members: Integers
    filled: Integers
    shared: Integers
    feature: Integers
    best: NDArray[np.bool_]
    best_worth: Integers


def fresh_state(n_features: int, n_sets: int, n_places: int) -> State:
    """Return the state of a search that has not begun."""
    p, m = n_features, n_sets
    alike = np.zeros((p + 1, m), dtype=np.bool_)
    alike[0, 1:] = True
    most, left = np.zeros(p + 1, dtype=np.int64), np.zeros(p + 1, dtype=np.int64)
    most[0], left[0] = m, n_places
    return State(
        has=np.zeros((p, m), dtype=np.bool_),
        alike=alike,
        counts=np.zeros((p, m + 1), dtype=np.int64),
        promises=np.zeros((p, m + 1), dtype=np.int64),
        n_counts=np.zeros(p, dtype=np.int64),
        next_count=np.zeros(p, dtype=np.int64),
        places=np.zeros((p, m), dtype=np.int64),
        is_placed=np.zeros(p, dtype=np.bool_),
        is_barred=np.zeros((p, m), dtype=np.bool_),
        most=most,
        worth=np.zeros(p + 1, dtype=np.int64),
        left=left,
        members=np.zeros((m, n_places // m), dtype=np.int64),
        filled=np.zeros(m, dtype=np.int64),
        shared=np.zeros((m, m), dtype=np.int64),
        feature=np.array([0, 1]),
        best=np.zeros((p, m), dtype=np.bool_),
        best_worth=np.array([NONE, NONE]),
    )
