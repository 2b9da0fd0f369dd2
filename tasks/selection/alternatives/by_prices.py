"""Several sets of univariate worth by prices of subsets, where their uses leave too much open.

With c_R sets that have all of the features R, over all R of one size r (`designs.py`),

    sum of c_R (c_R - 1) / 2  <=  m (m - 1) / 2 * K! / (r! (K - r)!).

`uses.py` holds the uses of features to this for r = 1, and `prefixes.py` to r = K + 1 among the
best. Where a few features are worth far more than all others, that is too little: these are
together in nearly all sets, which then have next to no room for more in common, and sets that lack
them are poor. A linear program over sets sees both, as it is held to every r from 1 to K + 1; any
prices of subsets bound what designs are worth, by the proof in `prices.py`, and its dual values are
the prices to take. So what is open after annealing goes on from there by `price_and_enumerate.py`.

For the smallest worth, a set counts for no more than the bound itself (`bounding.py`).
"""

from __future__ import annotations

import math

import numpy as np

from chaffinch.tasks.selection.alternatives import price_and_enumerate
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.sets import Aggregate, Solved
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.vocabulary import Floats

_MOST_SETS = 1_000_000_000  # that there are; of more, too many are worth nearly as much


def is_priced(n_features: int, k: int, overlap: int) -> bool:
    """Return whether prices may lower a bound: sets share something, and there are few enough."""
    return 0 < overlap < k and math.comb(n_features, k) <= _MOST_SETS


def by_prices(
    values: Floats, start: Integers, overlap: int, aggregate: Aggregate, deadline: float | None
) -> Solved:
    """Return sets that are worth no less than those to start from, with a bound.

    Parameters
    ----------
    values : ndarray, shape (p,)
        What each feature is worth.
    start : ndarray of int64, shape (m, k)
        A design, of these features.
    overlap : int, less than k
        K, how many features two sets may share.
    aggregate : "sum" or "min"
    deadline : float or None
        On the clock of `time.monotonic`.
    """
    n_sets, k = start.shape
    search = price_and_enumerate.best_sum if aggregate == "sum" else price_and_enumerate.best_min
    return search(
        Form(values),
        k,
        n_sets,
        overlap,
        start=np.sort(start, axis=1).astype(np.int32),
        deadline=deadline,
    )
