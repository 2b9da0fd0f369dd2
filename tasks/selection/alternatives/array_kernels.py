"""Whole rows of numbers, by loops: an assignment of arrays takes seconds to compile.

Kernels that are kept on disk are not compiled anew when this file changes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats, Mask


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
    """Return whether i dominates j, in row i and column j: see `search_problem.py`.

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
