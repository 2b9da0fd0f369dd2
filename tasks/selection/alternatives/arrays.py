"""What the branch and bound searches, and where it is: the arrays that its kernels share."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# How a search may end.
DONE, PAUSED, FULL = 0, 1, 2

Integers = NDArray[np.int64]


class Problem(NamedTuple):
    """What is searched: sets of k among n candidates, under r rows.

    Attributes
    ----------
    gains : ndarray, shape (n,)
    costs : ndarray, shape (n, n) or (0, 0)
        Of pairs; inf for a conflict.
    weights : ndarray, shape (n, r)
        Of each candidate in the rows.
    caps : ndarray, shape (r,)
    least, most : ndarray, shape (r, k + 1)
        The smallest and the largest sum that t candidates can have in a row.
    nearest : ndarray, shape (n, k) or (0, 0)
        Half the sum of the t smallest pair costs of each candidate.
    neighbours : ndarray of int64, shape (n, l) or (0, 0)
        Candidates of the smallest pair costs with each, the smallest first.
    dominates : ndarray of bool, shape (n, n) or (0, 0)
        Row i, column j: whether i dominates j, see `branch_and_bound/problem.py`.
    sizes : ndarray, shape (r,)
        What a row's multiplier is multiplied by at the most.
    most_charged : float
        Multipliers times these sizes sum to no more.
    slack : float
        More than rounding can add up to.
    convex : ndarray, shape (n, n) or (0, 0)
        Twice the part Q of the pair costs that `pair_costs.py` tells of.
    rests : ndarray, shape (n, n) or (0, 0)
        What pair costs are beside it.
    partners : ndarray of int64, shape (n, l) or (0, 0)
        Candidates of the smallest rests with each, the smallest first.
    margin : float
        More than rounding can add up to in bounds that are made with it.
    """

    gains: Floats
    costs: Floats
    weights: Floats
    caps: Floats
    least: Floats
    most: Floats
    nearest: Floats
    neighbours: Integers
    dominates: Mask
    sizes: Floats
    most_charged: float
    slack: float
    convex: Floats
    rests: Floats
    partners: Integers
    margin: float


class State(NamedTuple):
    """Where a search is. One row for each level 0..k of what follows.

    Attributes
    ----------
    chosen : ndarray of int64, shape (k,)
        The partial set; chosen[level] was added at that level.
    candidates, marginals, promises : ndarray, shape (k + 1, n + 1)
        What may be added, what it adds, what it promises; the last place is spare. Where a tree
        has no room they are of the first level only, as is what follows.
    losses : ndarray, shape (k + 1, n + 1)
        Half the sum of the smallest pair costs with a level's candidates that one more leaves.
    n_candidates, place : ndarray of int64, shape (k + 1,)
        How many candidates there are, and which is next; -1 on the first level before the start.
    value, constant : ndarray, shape (k + 1,)
        Of the partial set; what the multipliers give for room left in the rows.
    loads, multipliers : ndarray, shape (k + 1, r)
        Of the rows.
    level : ndarray of int64, shape (2,)
        The first level, and the present one; below the first when the search is done.
    best : ndarray of int64, shape (k,)
        The best set so far, sorted; -1 if there is none.
    best_value : ndarray, shape (1,)
        What is looked for must be worth as much.
    n_found : ndarray of int64, shape (1,)
        How many sets have been written out.
    shares, slopes : ndarray, shape (k + 1, n) or (k + 1, 0)
        Of each feature: the point that the convex part is replaced by its tangent at, 0 for what is
        no candidate; and the slope there. Without a convex part they are empty.
    roundings : ndarray, shape (k + 1,)
        How many roundings the slopes of a level have gone through at the most.
    halved : ndarray, shape (k + 1,)
        With a convex part: how many candidates there were when half sums were last taken.
    ceilings : ndarray, shape (k + 1,)
        With a convex part: no set exceeds it that is still to come on a level.
    """

    chosen: Integers
    candidates: Integers
    marginals: Floats
    promises: Floats
    losses: Floats
    n_candidates: Integers
    place: Integers
    value: Floats
    constant: Floats
    loads: Floats
    multipliers: Floats
    level: Integers
    best: Integers
    best_value: Floats
    n_found: Integers
    shares: Floats
    slopes: Floats
    roundings: Floats
    halved: Floats
    ceilings: Floats


# Whole rows of numbers, by loops: an assignment of arrays takes seconds to compile.
#
# Kernels that are kept on disk are not compiled anew when this file changes.


@compiled
def write(into: Any, values: Any) -> None:
    """Write as many values as there is room for."""
    for i in range(len(into)):
        into[i] = values[i]


@compiled
def total(values: Any) -> float:
    """Add values up, the first first."""
    added = 0.0
    for value in values:
        added += value
    return added


@compiled
def least(values: Any) -> float:
    """Return the smallest value, inf of none."""
    lowest = np.inf
    for value in values:
        lowest = min(lowest, value)
    return lowest


@compiled
def insert(largest: Any, filled: int, most: int, x: float) -> int:
    """Keep the `most` largest numbers, in descending order; return how many there are."""
    if filled == most:
        if most == 0 or x <= largest[most - 1]:
            return filled
        filled -= 1
    place = filled
    while place > 0 and largest[place - 1] < x:
        largest[place] = largest[place - 1]
        place -= 1
    largest[place] = x
    return filled + 1


@compiled
def dominating(gains: Floats, packed: NDArray[np.uint8]) -> Mask:
    """Return whether i dominates j, in row i and column j: see `branch_and_bound/problem.py`.

    Parameters
    ----------
    gains : ndarray, shape (n,)
    packed : ndarray of uint8, shape (n, b)
        In which sets each feature is, eight to a byte.
    """
    n = len(gains)
    dominates = np.zeros((n, n), np.bool_)
    for i in range(n):
        for j in range(n):
            if gains[i] < gains[j] or (gains[i] == gains[j] and i >= j):
                continue
            is_with = True
            for b in range(packed.shape[1]):
                if packed[i, b] & ~packed[j, b]:  # a set that i is in and j is not
                    is_with = False
                    break
            dominates[i, j] = is_with
    return dominates


@compiled
def largest_size(costs: Floats) -> float:
    """Return the largest finite cost in absolute value, 0 of none, without a copy."""
    largest = 0.0
    for i in range(len(costs)):
        for j in range(costs.shape[1]):
            size = abs(costs[i, j])
            if largest < size < np.inf:
                largest = size
    return largest


GRACE = 0.25  # seconds after a deadline: sets that take a moment each are still found in them


def is_late(deadline: float | None, in_seconds: float = 0.0) -> bool:
    """Return whether a deadline on the clock of `time.monotonic` is over, or soon; None never."""
    return deadline is not None and time.monotonic() + in_seconds >= deadline


def is_far_too_late(deadline: float | None) -> bool:
    """Return whether even the time is over in which a late search still begins further sets."""
    return is_late(deadline, -GRACE)


def share_of_time(deadline: float | None, share: float) -> float | None:
    """Return when so much of the time that is left will be over; None if there is no end to it."""
    if deadline is None:
        return None
    now = time.monotonic()
    return now + share * (deadline - now)
