"""Dissimilarity of two feature sets, and how many features dissimilar sets can share."""

from __future__ import annotations

import math
from collections.abc import Collection
from numbers import Real
from typing import Literal, get_args

from chaffinch.errors import InputError

Dissimilarity = Literal["dice", "jaccard"]

# (1 - 4/5) 5 is less than 1 in floating point
_ROUNDING = 1e-9


def dissimilarity(features: Collection[int], other: Collection[int], kind: Dissimilarity) -> float:
    """Return the dissimilarity of two sets, in 0..1; 0 for two empty sets.

    The distances of Jaccard and Dice: Bach, arXiv 2307.11607v3, eq 2-3.
    """
    total = len(features) + len(other)
    both = len(set(features) & set(other))
    if not total:
        return 0.0
    return 1 - 2 * both / total if kind == "dice" else 1 - both / (total - both)


def largest_overlap(size: int, other_size: int, tau: float, kind: Dissimilarity) -> int:
    """Return the largest number of shared features of two sets of dissimilarity `tau` or more.

    Bach, arXiv 2307.11607v3, eq 4, 7 and 8.
    If `tau` is above 0, sets are never equal. InputError if it is not in 0..1, or `kind` is
    unknown.
    """
    if kind not in get_args(Dissimilarity):
        raise InputError(f"dissimilarity must be 'dice' or 'jaccard' but is {kind!r}")
    if not isinstance(tau, Real) or isinstance(tau, bool) or not 0 <= tau <= 1:
        raise InputError(f"tau must be in 0..1 but is {tau!r}")
    share = (1 - tau) / 2 if kind == "dice" else (1 - tau) / (2 - tau)
    by_share = math.floor(share * (size + other_size) + _ROUNDING)
    at_most = size - 1 if tau > 0 and size == other_size > 0 else size  # never the same
    return min(at_most, other_size, by_share)
