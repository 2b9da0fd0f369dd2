"""Compilation of kernels, without the GIL and cached on disk where possible; a sort for them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

logger = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])

# Python's own check for a division by 0 would keep loops from several rows at a time.
_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


def compiled(function: Function) -> Function:
    """Compile a kernel at its first call; cached on disk where that is writable."""
    return _compiled(function, _OPTIONS)


def reordering(function: Function) -> Function:
    """Compile a kernel whose sums may be added up in another order, as several rows at a time."""
    # the order is the same for every call on processors of one kind, and not on others
    return _compiled(function, _OPTIONS | {"fastmath": {"reassoc"}})


def _compiled(function: Function, options: dict[str, Any]) -> Function:
    try:
        return cast(Function, njit(cache=True, **options)(function))
    except RuntimeError as nowhere:
        logger.info("set NUMBA_CACHE_DIR to a folder to compile once and for all: %s", nowhere)
        return cast(Function, njit(**options)(function))


def inlined(function: Function) -> Function:
    """Make a function part of each kernel that calls it, in the same file."""
    # a kernel cached on disk is not compiled again when another file changes
    return cast(Function, njit(inline="always", **_OPTIONS)(function))


def _count_trailing_zeros(context: Any, word: Any) -> Any:
    """Generate the instruction that finds the lowest set bit of a word other than 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], cgutils.true_bit)  # true: undefined for 0

    return types.int64(types.uint64), generate


lowest_bit: Callable[[Any], Any] = cast(Any, intrinsic(_count_trailing_zeros))


_RUN = 16  # up to here it is quicker to insert than to merge


@compiled
def stable_order(values: Any) -> NDArray[np.int64]:
    """Return the places of values (n,), none of them NaN, in ascending order; stable.

    The compiler's own sorts come from a function in several variants, such as for `np.sort` and
    `np.argsort`, which it distinguishes only by a counter per process. A kernel cached on disk by
    a process may therefore get the wrong variant in the next, and give wrong numbers.
    """
    n = len(values)
    order, merged = np.empty(n, np.int64), np.empty(n, np.int64)
    for i in range(n):
        place, first = i, i - i % _RUN
        while place > first and values[order[place - 1]] > values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i
    width = _RUN
    while width < n:
        for first in range(0, n, 2 * width):
            middle, end = min(first + width, n), min(first + 2 * width, n)
            left, right = first, middle
            for place in range(first, end):
                is_left = right == end or (
                    left < middle and values[order[left]] <= values[order[right]]
                )
                if is_left:
                    merged[place] = order[left]
                    left += 1
                else:
                    merged[place] = order[right]
                    right += 1
        order, merged = merged, order
        width *= 2
    return order
