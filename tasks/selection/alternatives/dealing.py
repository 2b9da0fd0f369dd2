"""Many sets dealt out one after the other, compiled: a design where annealing would take too long.

Each set is begun with the feature that is furthest behind how often it is to be used, and goes on
so among those that it may still take: none of a set with which it shares all it may. To keep this
costs no more than to visit, for each feature that is taken, the sets that have it.

The best uses by pairs alone are often none that there are sets for, and never looked for long: at
multiples of the price of a pair they are evener, and the best sets that come of any are taken.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.uses import Uses, at_price
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.masked_loss.compiling import compiled

_NONE = -1
_DEARER = (1024, 768, 512, 384, 256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6, 4, 3, 2, 1)
_IN_VAIN = 3  # prices, once there are sets


class _Dealt(NamedTuple):
    """What has been dealt out: the arrays that change in place.

    Attributes
    ----------
    sets : ndarray of int64, shape (m, k)
    left : ndarray of int64, shape (p,)
        How often each feature is still to be used; below 0 if it has been more often.
    last, before : ndarray of int64, shape (p,) and (m k,)
        The place of each feature that was dealt last, and of each place the one before it.
    """

    sets: Integers
    left: Integers
    last: Integers
    before: Integers


@compiled
def _deal(dealt: _Dealt, one: int, overlap: int) -> bool:
    """Deal out a set; return whether there is one."""
    sets, left, last, before = dealt
    k = sets.shape[1]
    shared = np.zeros(one, np.int64)
    is_barred = np.zeros(len(left), np.bool_)
    if overlap == 0:
        is_barred[:] = last > _NONE
    for a in range(k):
        taken = _NONE
        for j in range(len(left)):
            if not is_barred[j] and (taken == _NONE or left[j] > left[taken]):
                taken = j
        if taken == _NONE:
            return False
        sets[one, a] = taken
        is_barred[taken] = True
        place = last[taken]
        while place > _NONE:
            other = place // k
            shared[other] += 1
            if shared[other] == overlap:
                for b in range(k):
                    is_barred[sets[other, b]] = True
            place = before[place]
    for a in range(k):
        j, place = sets[one, a], one * k + a
        before[place], last[j] = last[j], place
        left[j] -= 1
    return True


def best_dealt_out(
    units: Integers, k: int, n_sets: int, overlap: int, uses: Uses, deadline: float | None
) -> Integers:
    """Return the sets that are worth most of those dealt out for uses at some prices of a pair.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth, descending.
    k, n_sets, overlap : int
        k, m, K.
    uses : Uses
        The best by pairs alone.
    deadline : float or None
        On the clock of `time.monotonic`.

    Returns
    -------
    ndarray of int64, shape (m, k) or (0, k)
        None at all where none are found.
    """
    best = np.zeros((0, k), dtype=np.int64)
    n_pairs, most, in_vain = math.comb(n_sets, 2) * overlap, int(units[0] - units[-1]) + 1, 0
    for dearer in _DEARER:
        price = min(dearer * uses.price, most)
        counts = at_price(units, n_sets, n_sets * k, n_pairs, price).counts
        sets = dealt_out(counts, n_sets, k, overlap, deadline)
        if len(sets) and (not len(best) or units[sets].sum() > units[best].sum()):
            best, in_vain = sets, 0
        elif len(best):
            in_vain += 1
        if in_vain == _IN_VAIN or is_late(deadline):
            break
    return best


def dealt_out(
    counts: Integers, n_sets: int, k: int, overlap: int, deadline: float | None
) -> Integers:
    """Return sets of features that are used about as often as they are to be.

    Parameters
    ----------
    counts : ndarray of int64, shape (p,)
        How often each feature is to be used; m k in all.
    n_sets, k, overlap : int
        m, k, K.
    deadline : float or None
        On the clock of `time.monotonic`.

    Returns
    -------
    ndarray of int64, shape (m, k) or (0, k)
        None at all where one cannot be dealt out, or it is too late.
    """
    dealt = _Dealt(
        np.zeros((n_sets, k), dtype=np.int64),
        np.array(counts),
        np.full(len(counts), _NONE),
        np.full(n_sets * k, _NONE),
    )
    for one in range(n_sets):
        if is_late(deadline) or not _deal(dealt, one, overlap):
            return dealt.sets[:0]
    return dealt.sets
