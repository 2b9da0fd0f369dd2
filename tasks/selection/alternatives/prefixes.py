"""A bound on sets of univariate worth: few features cannot be in many sets, and be together rarely.

Let any two of m sets of k features share K at most. Then no K + 1 features are together in two
sets, so that for any t features T

    sum over the sets S of C(|S & T|, K + 1)  <=  C(t, K + 1),

and with it the uses of T in all, the sum of |S & T|, come to no more than `most_uses_of` says: as
the left side is convex, they are most where all sets have about as many of T. Held to this for the
best 1, 2, 3, ... features, and to what pairs of sets share (`uses.py`), the worth in all of

    sum of value_j c_j,  c_1 + ... + c_n = m k

is a linear program over pieces of c_j, the t-th further use of j being charged for t pairs. Any
prices that are at least 0, of pairs, of the t best features and of a use (of any sign), bound it:
each piece then counts for what it is worth beyond its charges. They are taken from the program's
dual values and rounded to whole units, so that the bound is exact.
"""

from __future__ import annotations

import math
import time

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.whole_numbers import Integers


def most_uses_of(n_features: int, k: int, n_sets: int, overlap: int) -> int:
    """Return how often sets can use some features in all, each set as often as it has of them."""
    most = min(n_features, k)
    each = min(overlap, most)
    total, left = n_sets * each, math.comb(n_features, overlap + 1)
    while each < most:
        cost = math.comb(each, overlap)  # of one more in a set
        n_more = min(n_sets, left // cost)
        total, left = total + n_more, left - n_more * cost
        if n_more < n_sets:
            break
        each += 1
    return total


def bound_of_prefixes(
    units: Integers, k: int, n_sets: int, overlap: int, deadline: float | None = None
) -> int | None:
    """Return what no sets are worth more than; None if the program gives no prices in time.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth, descending.
    k, n_sets, overlap : int
        k, m, K.
    deadline : float, optional
        On the clock of `time.monotonic`.
    """
    seconds = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
    n_features, n_uses = len(units), n_sets * k
    n_pairs = math.comb(n_sets, 2) * overlap
    firsts, most = _prefixes(n_features, k, n_sets, overlap)
    feature = np.repeat(np.arange(n_features), n_sets)
    pairs = np.tile(np.arange(n_sets), n_features)
    size = float(max(1, int(np.abs(units).max())))  # the solver's tolerances are absolute
    is_first = (feature < firsts[:, None]).astype(np.float64)
    found = linprog(  # type: ignore[call-overload]  # it takes sparse matrices as well
        -units[feature] / size,
        A_ub=sparse.csr_array(np.vstack((pairs, is_first))),
        b_ub=np.concatenate(([n_pairs], most)),
        A_eq=np.ones((1, len(feature))),
        b_eq=[n_uses],
        bounds=(0, 1),
        method="highs",
        options={"time_limit": seconds},
    )
    if found.status != 0:
        return None
    of_use = round(-float(found.eqlin.marginals[0]) * size)
    dual = np.rint(np.maximum(-found.ineqlin.marginals, 0.0) * size).astype(np.int64)
    of_pair, of_firsts = int(dual[0]), dual[1:]
    charges = (is_first.astype(np.int64) * of_firsts[:, None]).sum(axis=0)
    left = units[feature] - of_use - of_pair * pairs - charges
    refund: int = sum(price * n for price, n in zip(of_firsts.tolist(), most.tolist(), strict=True))
    worth = int(sum(np.maximum(left, 0).tolist()))
    return worth + of_use * n_uses + of_pair * n_pairs + refund


def _prefixes(n_features: int, k: int, n_sets: int, overlap: int) -> tuple[Integers, Integers]:
    """Return for how many best features there is something to hold to, and how many uses."""
    firsts, most = [], []
    for first in range(1, n_features + 1):
        uses = most_uses_of(first, k, n_sets, overlap)
        if uses >= n_sets * k:
            break
        if uses < first * n_sets:
            firsts.append(first)
            most.append(uses)
    return np.array(firsts, dtype=np.int64), np.array(most, dtype=np.int64)
