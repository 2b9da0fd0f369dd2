"""Several methods over several tables: mean ranks, Friedman's test, Nemenyi's critical difference.

| what | source | function |
|---|---|---|
| mean ranks, ties share theirs | Demsar 2006 | `mean_ranks` |
| is any method better than another | Friedman 1937 | `friedman_p_value` |
| by how much mean ranks must differ | Nemenyi 1963, Demsar 2006 | `critical_difference` |
| the bars of the diagram | Demsar 2006 | `groups_alike` |
"""

from __future__ import annotations

import math

import numpy as np

from chaffinch.tasks.comparing.statistics import CONFIDENCE
from chaffinch.tasks.selection.vocabulary import Floats


def mean_ranks(losses: Floats) -> Floats:
    """Return the rank of each of k methods on average over n blocks, shape (k,); 1 is best.

    Parameters
    ----------
    losses : ndarray, shape (n, k)
        One row per block (a table, or a cell of one table), none NaN. Equal losses share the mean
        of their ranks.
    """
    from scipy import stats

    return np.asarray(stats.rankdata(losses, axis=1).mean(axis=0), dtype=np.float64)


def friedman_p_value(losses: Floats) -> float | None:
    """Return how likely mean ranks as far apart as these are if no method is better than another.

    By the chi-squared approximation, which with few blocks errs on the side of "not better". None
    with fewer than 3 methods or 2 blocks, or where all are tied.

    Parameters
    ----------
    losses : ndarray, shape (n, k)
        One row per independent block.
    """
    from scipy import stats

    n_blocks, n_methods = losses.shape
    if n_methods < 3 or n_blocks < 2 or not np.ptp(losses, axis=1).any():
        return None
    return float(stats.friedmanchisquare(*losses.T).pvalue)


def critical_difference(n_methods: int, n_blocks: int) -> float:
    """Return by how much two mean ranks must differ to be told apart at 95 %, among all pairs.

    ``q * sqrt(k (k + 1) / (6 n))`` with the quantile q of the studentized range for k methods and
    infinitely many degrees of freedom, divided by the root of 2.

    Parameters
    ----------
    n_methods : int
        k, at least 2.
    n_blocks : int
        n, number of independent blocks, that is tables: not folds or seeds of one table.
    """
    from scipy import stats

    q = float(stats.studentized_range.ppf(CONFIDENCE, n_methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(n_methods * (n_methods + 1) / (6 * n_blocks))


def groups_alike(ranks: Floats, difference: float) -> list[tuple[int, int]]:
    """Return the widest runs of methods that a critical difference does not tell apart.

    Parameters
    ----------
    ranks : ndarray, shape (k,)
        Mean ranks in rising order.
    difference : float
        From `critical_difference`.

    Returns
    -------
    list of (int, int)
        First and last position of each run of two or more; none lies within another.
    """
    groups: list[tuple[int, int]] = []
    for first in range(len(ranks)):
        last = int(np.searchsorted(ranks, ranks[first] + difference, side="right")) - 1
        if last > first and (not groups or last > groups[-1][1]):
            groups.append((first, last))
    return groups
