"""When a first layer that is kept between removals has to be computed anew.

Subtracting a contribution leaves a rounding error of that contribution's size. A block of rows is
therefore computed anew after 64 removals, once it is far smaller than it has been, or once a row
of it is next to nothing of what this row has been, beside others that are as large as ever.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.vocabulary import Floats, Mask

_REMOVALS_BEFORE_ANEW, _SHRINKAGE_BEFORE_ANEW = 64, 64.0
# Of one unit of one row. One that comes near 0 by chance must not count.
SHRINKAGE_OF_A_ROW = 2.0**20


class Drift:
    """How large the units of every block have been since they were computed anew.

    Parameters
    ----------
    sizes : ndarray of float64, shape (n_blocks, width)
        The largest pre-activation of each block's units, as they are computed first.
    """

    def __init__(self, sizes: Floats) -> None:
        self._largest = sizes.copy()
        self._removals = 0

    def due(self, sizes: Floats, has_shrunken_row: Mask) -> Mask:
        """Count a removal and return which blocks are to be computed anew, shape (n_blocks,).

        Parameters
        ----------
        sizes : ndarray of float64, shape (n_blocks, width)
            After the removal.
        has_shrunken_row : ndarray of bool, shape (n_blocks,)
            Whether a unit of some row has shrunk by more than `SHRINKAGE_OF_A_ROW` since its block
            was computed anew.
        """
        self._removals += 1
        has_shrunk = np.any(self._largest > _SHRINKAGE_BEFORE_ANEW * sizes, axis=1)
        is_due: Mask = has_shrunk | has_shrunken_row | (self._removals == _REMOVALS_BEFORE_ANEW)
        self._removals %= _REMOVALS_BEFORE_ANEW
        np.maximum(self._largest, sizes, out=self._largest)
        self._largest[is_due] = 0
        return is_due

    def renewed(self, sizes: Floats) -> None:
        """Take note of the sizes (n_blocks, width) once what was due is computed anew."""
        np.maximum(self._largest, sizes, out=self._largest)
