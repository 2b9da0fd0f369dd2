"""How far apart two feature sets are, and how much they may overlap to be far enough apart.

Bach, "Finding Optimal Diverse Feature Sets with Alternative Feature Selection", arXiv 2307.11607v3.

===================================  ====================
paper                                here
===================================  ====================
Jaccard and Dice distance, eq 2-3    `dissimilarity`
overlap at a threshold, eq 4, 7, 8   `largest_overlap`
===================================  ====================
"""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import Literal, get_args

Dissimilarity = Literal["dice", "jaccard"]

# (1 - 4/5) 5 is less than 1 in floating point
_ROUNDING = 1e-9


def dissimilarity(one: Collection[int], other: Collection[int], kind: Dissimilarity) -> float:
    """Return how far apart two sets are, in 0..1; two empty sets are not apart at all."""
    total = len(one) + len(other)
    both = len(set(one) & set(other))
    if not total:
        return 0.0
    return 1 - 2 * both / total if kind == "dice" else 1 - both / (total - both)


def largest_overlap(size: int, other_size: int, tau: float, kind: Dissimilarity) -> int:
    """Return how many features two sets may share and still be at least `tau` apart.

    Where `tau` is above 0, however little, they are never the same.

    Parameters
    ----------
    size, other_size : int, at least 0
        Of the two sets.
    tau : float in 0..1
        The least dissimilarity.
    kind : "dice" or "jaccard"

    Raises
    ------
    ValueError
        If `tau` is not in 0..1, or the dissimilarity is unknown.
    """
    if kind not in get_args(Dissimilarity):
        raise ValueError(f"dissimilarity must be 'dice' or 'jaccard' but is {kind!r}")
    if not isinstance(tau, Real) or isinstance(tau, bool) or not 0 <= tau <= 1:
        raise ValueError(f"tau must be in 0..1 but is {tau!r}")
    share = (1 - tau) / 2 if kind == "dice" else (1 - tau) / (2 - tau)
    by_share = math.floor(share * (size + other_size) + _ROUNDING)
    at_most = size - 1 if tau > 0 and size == other_size > 0 else size  # never the same
    return min(at_most, other_size, by_share)
