"""The inner loop of the dense engines, compiled: a first layer without each of some features."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from chaffinch.tasks.selection.vocabulary import Floats, Mask


@njit(nogil=True, cache=True)
def without_features(
    present: Floats,
    features: NDArray[np.int64],
    start: int,
    values: Floats,
    value_at_baseline: Floats,
    tabulated: Mask,
    first_row: NDArray[np.int64],
    table: Floats,
    at_baseline: Floats,
    floor: float,
    out: Floats,
) -> None:
    """Write the first layer with each of some features masked, for a block of rows.

    The rows are innermost: each sum is then in a fixed order and the loop still vectorises.

    Parameters
    ----------
    present : ndarray, shape (width, n)
        First layer under the present mask.
    features : ndarray of int64, shape (m,)
        What to mask, each by itself.
    start : int
        First row of the block; `out` says how many there are.
    values, value_at_baseline, tabulated, first_row, table, at_baseline
        See `FirstLayer`.
    floor : float
        Lower bound of what is written: 0 for relu, else -inf.
    out : ndarray, shape (m, width, rows)
        Where to write.
    """
    width, n_rows = out.shape[1], out.shape[2]
    for position in range(len(features)):
        feature = features[position]
        row = first_row[feature]
        for unit in range(width):
            if tabulated[feature]:
                masked = at_baseline[feature, unit]
                for i in range(n_rows):
                    code = row + int(values[feature, start + i])
                    changed = present[unit, start + i] - (table[code, unit] - masked)
                    out[position, unit, i] = max(changed, floor)
            else:
                weight, masked = table[row, unit], value_at_baseline[feature]
                for i in range(n_rows):
                    difference = values[feature, start + i] - masked
                    changed = present[unit, start + i] - difference * weight
                    out[position, unit, i] = max(changed, floor)
