"""What each of many sets is worth, compiled: the sum of gains less the sum of pair costs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.masked_loss.compiling import compiled
from chaffinch.tasks.selection.vocabulary import Floats


def worths(form: Form, sets: NDArray[np.integer]) -> Floats:
    """Return what each of many sets is worth, shape (N,), but for rounding.

    Parameters
    ----------
    form : Form
    sets : ndarray of int32, shape (N, k)
    """
    costs = np.empty((0, 0)) if form.pair_costs is None else form.pair_costs
    return _worths(form.gains, costs, np.ascontiguousarray(sets))


@compiled
def _worths(gains: Floats, costs: Floats, sets: NDArray[np.integer]) -> Floats:
    worth = np.empty(len(sets))
    for s in range(len(sets)):
        total = 0.0
        for i in range(sets.shape[1]):
            total += gains[sets[s, i]]
            if len(costs):
                for j in range(i):
                    total -= costs[sets[s, i], sets[s, j]]
        worth[s] = total
    return worth
