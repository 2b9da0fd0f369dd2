"""How often each feature should be used, if only the pairs of sets that share one are counted.

Of m sets of k features, any two with at most K in common, let c_j be how many have feature j. Then
c_1 + ... + c_n = m k, and the c_j (c_j - 1) / 2 add up to no more than P = m (m - 1) / 2 K: both
count the features that two sets share, over all pairs of sets. At a price per pair, the best c is
made of the m k largest of

    value_j - price t,  t = 0 .. m - 1   (the t-th further use of j makes t more pairs),

and what these come to, with price P, is a bound on what any m sets are worth (Lagrangian).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers

_BITS_OF_PRICE = 32  # the bound holds at any price


@dataclass(frozen=True)
class Uses:
    """The best uses at the best price, or very near it, all in whole units.

    Attributes
    ----------
    counts : ndarray of int64, shape (p,)
        c_j, descending; they make no more pairs than allowed.
    price : int
        Of a pair.
    threshold : int
        The least that any use is worth, with what it is charged.
    bound : int
        No sets are worth more.
    """

    counts: Integers
    price: int
    threshold: int
    bound: int


def best_uses(
    units: Integers, n_sets: int, n_places: int, n_pairs: int, deadline: float | None = None
) -> Uses | None:
    """Return the best uses, or None if even the most even ones make too many pairs.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth, descending.
    n_sets : int
        m.
    n_places : int, at most p m
        m k.
    n_pairs : int
        P.
    deadline : float, optional
        On the clock of `time.monotonic`; what is over by then is at a price that is not the best.
    """
    low, high = 0, int(units[0] - units[-1]) + 1  # at the highest price, as even as can be
    best = at_price(units, n_sets, n_places, n_pairs, high)
    if _pairs(best.counts) > n_pairs:
        return None
    at_none = at_price(units, n_sets, n_places, n_pairs, 0)
    if _pairs(at_none.counts) <= n_pairs:
        return at_none
    bound, price, threshold = best.bound, best.price, best.threshold
    closest = max(1, high >> _BITS_OF_PRICE)
    while high - low > closest and not is_late(deadline):
        middle = (low + high) // 2
        found = at_price(units, n_sets, n_places, n_pairs, middle)
        if found.bound < bound:
            bound, price, threshold = found.bound, found.price, found.threshold
        if _pairs(found.counts) > n_pairs:
            low = middle
        else:
            high, best = middle, found
    return Uses(best.counts, price, threshold, bound)


def at_price(units: Integers, n_sets: int, n_places: int, n_pairs: int, price: int) -> Uses:
    """Return the best uses at a price, of equals those that make the fewest pairs."""
    further = np.arange(n_sets)
    worth = units[:, None] - price * further
    threshold = int(np.partition(worth.ravel(), worth.size - n_places)[worth.size - n_places])
    counts = (worth > threshold).sum(axis=1)
    ties = np.argwhere(worth == threshold)
    fewest_pairs = np.lexsort((ties[:, 0], ties[:, 1]))
    np.add.at(counts, ties[fewest_pairs[: n_places - counts.sum()], 0], 1)
    counts = np.sort(counts)[::-1]
    bound = int((units * counts).sum()) + price * (n_pairs - _pairs(counts))
    return Uses(counts, price, threshold, bound)


def _pairs(counts: Integers) -> int:
    return int((counts * (counts - 1) // 2).sum())
