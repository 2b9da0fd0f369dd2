"""Orders for kernels, in place of the sorts of the compiler's own library.

Those are made by one function in several kinds, such as for `np.sort` and `np.argsort`, that the
compiler tells apart by a number alone which it counts in each process. A kernel that was kept on
disk by one process may so be given the other kind in the next one, and its numbers are wrong.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled

_RUN = 16  # up to here it is quicker to insert than to merge


@compiled
def stable_order(values: Any) -> NDArray[np.int64]:
    """Return the places of values from the least to the greatest, of equal ones the first first.

    Parameters
    ----------
    values : ndarray of numbers, shape (n,)
        None of them NaN.

    Returns
    -------
    ndarray of int64, shape (n,)
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
