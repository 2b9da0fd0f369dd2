"""Problem and state of the branch and bound: the arrays shared by its kernels."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled

# Results of a search call.
DONE, PAUSED, FULL = 0, 1, 2

Integers = NDArray[np.int64]


class Problem(NamedTuple):
    """Search problem: sets of k of n candidates, subject to r linear rows.

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
        Largest factor of each row's multiplier.
    most_charged : float
        Largest sum of multipliers times these sizes.
    slack : float
        Upper bound on accumulated rounding errors.
    convex : ndarray, shape (n, n) or (0, 0)
        Twice the convex part Q of the pair costs; see `pair_costs.py`.
    rests : ndarray, shape (n, n) or (0, 0)
        Pair costs minus the convex part.
    partners : ndarray of int64, shape (n, l) or (0, 0)
        Candidates of the smallest rests with each, the smallest first.
    margin : float
        Upper bound on rounding errors in bounds with the convex part.
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
    """State of a search. The following arrays have one row per level 0..k.

    Attributes
    ----------
    chosen : ndarray of int64, shape (k,)
        The partial set; chosen[level] was added at that level.
    candidates, marginals, promises : ndarray, shape (k + 1, n + 1)
        Features that may be added, their marginal values and promises; the last column is spare.
        If a tree does not fit into memory, these and the following have the first level only.
    losses : ndarray, shape (k + 1, n + 1)
        Half the sum of the smallest pair costs with the level's other candidates.
    n_candidates, place : ndarray of int64, shape (k + 1,)
        Number of candidates, and the next one; -1 on the first level before the start.
    value, constant : ndarray, shape (k + 1,)
        Value of the partial set; contribution of the multipliers for the room left in the rows.
    loads, multipliers : ndarray, shape (k + 1, r)
        Of the rows.
    level : ndarray of int64, shape (2,)
        The first and the current level; below the first when the search is done.
    best : ndarray of int64, shape (k,)
        The best set so far, sorted; -1 if there is none.
    best_value : ndarray, shape (1,)
        Value that a set must reach.
    n_found : ndarray of int64, shape (1,)
        Number of sets written out.
    shares, slopes : ndarray, shape (k + 1, n) or (k + 1, 0)
        Per feature: the point of the tangent that replaces the convex part, 0 for features that
        are no candidates; and the slope there. Empty without a convex part.
    roundings : ndarray, shape (k + 1,)
        Upper bound on the number of roundings in the slopes of a level.
    halved : ndarray, shape (k + 1,)
        With a convex part: number of candidates when half sums were last computed.
    ceilings : ndarray, shape (k + 1,)
        With a convex part: upper bound on the remaining sets of a level.
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


# Operations on whole rows as loops: assigning arrays takes seconds to compile.
#
# Kernels cached on disk are not compiled again when this file changes.


@compiled
def write(into: Any, values: Any) -> None:
    """Copy values as far as there is room."""
    for i in range(len(into)):
        into[i] = values[i]


@compiled
def total(values: Any) -> float:
    """Sum values from first to last."""
    added = 0.0
    for value in values:
        added += value
    return added


@compiled
def least(values: Any) -> float:
    """Return the smallest value, inf if there is none."""
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
    """Return the largest finite absolute cost, 0 if there is none, without a copy."""
    largest = 0.0
    for i in range(len(costs)):
        for j in range(costs.shape[1]):
            size = abs(costs[i, j])
            if largest < size < np.inf:
                largest = size
    return largest


GRACE = 0.25  # seconds after a deadline in which sets that take a moment each are still found


def is_late(deadline: float | None, in_seconds: float = 0.0) -> bool:
    """Return whether a deadline on the clock of `time.monotonic` has passed, or soon will."""
    return deadline is not None and time.monotonic() + in_seconds >= deadline


def is_far_too_late(deadline: float | None) -> bool:
    """Return whether the grace period after a deadline has passed too."""
    return is_late(deadline, -GRACE)


def share_of_time(deadline: float | None, share: float) -> float | None:
    """Return the time when a share of the remaining time will be over; None without a deadline."""
    if deadline is None:
        return None
    now = time.monotonic()
    return now + share * (deadline - now)
