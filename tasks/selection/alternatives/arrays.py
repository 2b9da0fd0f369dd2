"""Problem and state of the branch and bound: the arrays of its kernels, and loops over them."""

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
    """Search problem: sets of k of n candidates, subject to r linear rows."""

    gains: Floats  # (n,)
    costs: Floats  # (n, n) or (0, 0), of pairs; inf for a conflict
    weights: Floats  # (n, r), of each candidate in the rows
    caps: Floats  # (r,)
    least: Floats  # (r, k + 1), the smallest sum that t candidates can have in a row
    most: Floats  # (r, k + 1), the largest
    nearest: Floats  # (n, k) or (0, 0), half the sum of each candidate's t smallest pair costs
    # (n, l) or (0, 0), candidates of the smallest pair costs, the smallest first
    neighbours: Integers
    dominates: Mask  # (n, n) or (0, 0), see `branch_and_bound/problem.py`
    sizes: Floats  # (r,), largest factor of each row's multiplier
    most_charged: float  # largest sum of multipliers times these sizes
    slack: float  # upper bound on accumulated rounding errors
    # (n, n) or (0, 0), twice the convex part Q of the pair costs; see `pair_costs.py`
    convex: Floats
    rests: Floats  # (n, n) or (0, 0), pair costs minus the convex part
    partners: Integers  # (n, l) or (0, 0), candidates of the smallest rests, the smallest first
    margin: float  # upper bound on rounding errors in bounds with the convex part


class State(NamedTuple):
    """State of a search; most arrays have one row per level 0..k.

    If a tree does not fit into memory, candidates to losses have the first level only.
    """

    chosen: Integers  # (k,), the partial set; chosen[level] was added at that level
    candidates: Integers  # (k + 1, n + 1), features that may be added; the last column is spare
    marginals: Floats  # their marginal values
    promises: Floats
    losses: Floats  # half the sum of the smallest pair costs with the level's other candidates
    n_candidates: Integers
    place: Integers  # the next candidate; -1 on the first level before the start
    value: Floats  # of the partial set
    constant: Floats  # contribution of the multipliers for the room left in the rows
    loads: Floats  # (k + 1, r)
    multipliers: Floats  # (k + 1, r)
    level: Integers  # the first and the current level; below the first when the search is done
    best: Integers  # (k,), sorted; -1 if there is none
    best_value: Floats  # (1,), value that a set must reach
    n_found: Integers  # (1,), number of sets written out
    shares: Floats  # point of the tangent that replaces the convex part; 0 if no candidate
    slopes: Floats  # the slope there; both (k + 1, n), empty without a convex part
    roundings: Floats  # upper bound on the number of roundings in the slopes of a level
    halved: Floats  # number of candidates when half sums were last computed
    ceilings: Floats  # upper bound on the remaining sets of a level


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

    `packed` (n, b): in which sets each feature is, eight to a byte.
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
