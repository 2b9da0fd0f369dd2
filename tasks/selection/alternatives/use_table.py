"""What the features from one on can still add, by places left and pairs of sets left: a table.

An entry is a promise: worth times `scale`, less the pairs of sets that share a feature. As there
are fewer pairs than `scale`, more worth always promises more, and of uses that are worth the same
those promise most that share least; such uses are easier to make sets of.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled

NONE = -(2**62)  # less than any promise
_MOST_CELLS = 12_000_000  # 8 bytes each
_ROWS_BETWEEN_LOOKS = 4  # at the clock


def is_too_large(n_features: int, n_places: int, n_pairs: int) -> bool:
    """Return whether there is no table for so many."""
    return (n_features + 1) * (n_places + 1) * (n_pairs + 1) > _MOST_CELLS


def table_of_uses(
    units: Integers, n_sets: int, n_places: int, n_pairs: int, deadline: float | None
) -> Integers | None:
    """Return the promises of the best uses.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth; sums of `n_places`, times `n_pairs` + 1, are less than 2**61.
    n_sets, n_places, n_pairs : int
        In how many sets a feature can be, how many places these have, and how many pairs of them
        can share a feature, one counted for each.
    deadline : float or None

    Returns
    -------
    ndarray of int64, shape (p + 1, n_places + 1, n_pairs + 1), or None
        None if it would be too large, or it is too late. NONE where places cannot be filled.
    """
    n_features = len(units)
    if is_too_large(n_features, n_places, n_pairs):
        return None
    table = np.full((n_features + 1, n_places + 1, n_pairs + 1), NONE)
    table[-1, 0] = 0
    for last in range(n_features, 0, -_ROWS_BETWEEN_LOOKS):
        if is_late(deadline):
            return None
        _fill(table, units, max(0, last - _ROWS_BETWEEN_LOOKS), last, n_sets)
    return table


@compiled
def _fill(table: Integers, units: Integers, first: int, last: int, n_sets: int) -> None:
    """Fill the rows of features first..last - 1, the last first, from the row after them."""
    n_places, n_pairs = table.shape[1], table.shape[2]
    for j in range(last - 1, first - 1, -1):
        for left in range(n_places):
            for pairs in range(n_pairs):
                best = NONE
                for count in range(min(n_sets, left) + 1):
                    shares = count * (count - 1) // 2
                    if shares > pairs:
                        break
                    after = table[j + 1, left - count, pairs - shares]
                    if after > NONE:
                        best = max(best, after + units[j] * count * n_pairs - shares)
                table[j, left, pairs] = best
