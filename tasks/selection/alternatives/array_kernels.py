"""Whole rows of numbers, by loops: an assignment of arrays takes seconds to compile.

Kernels that are kept on disk are not compiled anew when this file changes.
"""

from __future__ import annotations

from typing import Any

from chaffinch.tasks.selection.masked_loss.compiling import compiled


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
