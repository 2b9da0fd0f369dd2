"""What no set can be worth more than in the place of one of several that were found at once."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from chaffinch.tasks.selection.alternatives.constraints import Constraints
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.sets import Aggregate, Solved

_ROUNDING = 1e-15  # relative, of three operations
_SAME = 1e-9  # what two sets differ by, relative to one, that are taken to be worth the same


def bounds_in_place(
    worths: Sequence[float], solved: Solved, n_asked: int, aggregate: Aggregate, highest: float
) -> list[float]:
    """Return what no set is worth more than in the place of each, with all others kept.

    With it, they are again such sets, so that what bounds all of them bounds it: a sum, less what
    the others are worth; the smallest by itself, if all others are worth more than its bound. Of
    any other set it is only known what no set at all can exceed.

    Parameters
    ----------
    worths : sequence of float
        What each set is worth.
    solved : Solved
        The sets, and the bound on as many as were asked for.
    n_asked : int
        How many sets were asked for; a greedy search may have found fewer.
    aggregate : "sum" or "min"
        What is bounded: the sum of the sets' qualities, or the smallest.
    highest : float
        No set is worth more; inf if that is not known.
    """
    no_higher = [max(worth, highest) for worth in worths]
    if len(worths) < n_asked:
        return no_higher
    if aggregate == "sum":
        spare = 0.0 if solved.complete else _spare(worths, solved.bound)
        return [min(worth + spare, most) for worth, most in zip(worths, no_higher, strict=True)]
    smallest, next_one = sorted([*worths, math.inf])[:2]
    bound = smallest if solved.complete else max(smallest, min(solved.bound, highest))
    if next_one > bound + solved.rounding + _SAME * abs(bound):
        no_higher[worths.index(smallest)] = bound
    return no_higher


def _spare(worths: Sequence[float], bound: float) -> float:
    """Return how much more sets can be worth in all, and a little for what is rounded."""
    rounding = _ROUNDING * math.fsum(map(abs, [bound, *worths]))
    return max(0.0, math.fsum([bound, rounding, *(-worth for worth in worths)]))


def highest_worth(form: Form, k: int, constraints: Constraints) -> float:
    """Return what no set of k features that are not excluded can exceed."""
    left = np.delete(np.arange(len(form.gains)), constraints.excluded)
    highest = math.fsum(np.sort(form.gains[left])[-k:])
    pairs = form.pairs(left)
    if pairs is None or k < 2 or pairs.least == math.inf:
        return highest
    rest = math.comb(k, 2) * pairs.least
    return highest - rest + _ROUNDING * (abs(highest) + abs(rest))
