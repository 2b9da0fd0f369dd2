"""The inner loop of the dense engines, compiled: a first layer without each of some features."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats, Mask


@compiled
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

    The rows are innermost, so that the loops vectorise. What is not a number stays one.

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
    width, stop = out.shape[1], start + out.shape[2]
    for position in range(len(features)):
        feature = features[position]
        value, row = values[feature, start:stop], first_row[feature]
        for unit in range(width):
            before, after = present[unit, start:stop], out[position, unit]
            if tabulated[feature]:
                masked = at_baseline[feature, unit]
                for i in range(len(after)):
                    changed = before[i] - (table[row + int(value[i]), unit] - masked)
                    after[i] = floor if changed < floor else changed
            else:
                weight, masked = table[row, unit], value_at_baseline[feature]
                for i in range(len(after)):
                    changed = before[i] - (value[i] - masked) * weight
                    after[i] = floor if changed < floor else changed
