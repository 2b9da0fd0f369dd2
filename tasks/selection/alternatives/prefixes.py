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

The program has m pieces for each feature, over which a solver forgets its time limit: one step of
the simplex method looks at all of them, some 10 s for 150,000. So it is solved by the decomposition
of Dantzig and Wolfe (1960): of each feature a few c_j, or rather mixtures of them, are in a small
program, and so are, for all features together that no t best ones hold to anything, a few vectors.
Its prices say which others would be better; these are added until there are none.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.deadlines import is_late
from chaffinch.tasks.selection.alternatives.uses import Uses
from chaffinch.tasks.selection.alternatives.whole_numbers import Integers
from chaffinch.tasks.selection.vocabulary import Floats, Mask

_AT_FIRST = (1.0, 0.5, 2.0)  # times the price of a pair, for uses to begin with
_MOST_ROUNDS = 100  # 20 are enough where m is 5,000
_SAME = 1e-9  # of what the best feature is worth, or of the bound
_INFEASIBLE = 2  # what `linprog` says then


def most_uses_of(n_features: int, k: int, n_sets: int, overlap: int) -> int:
    """Return how often sets can use some features in all, each set as often as it has of them."""
    most = min(n_features, k)
    each = min(overlap, most)
    total, left = n_sets * each, math.comb(n_features, overlap + 1)
    cost = 1  # C(each, K), of one more in a set
    while each < most:
        n_more = min(n_sets, left // cost)
        total, left = total + n_more, left - n_more * cost
        if n_more < n_sets:
            break
        each += 1
        cost = cost * each // (each - overlap)
    return total


def bound_of_prefixes(
    units: Integers,
    k: int,
    n_sets: int,
    overlap: int,
    uses: Uses,
    deadline: float | None = None,
) -> int | None:
    """Return what no sets are worth more than; None if the program shows that there are no sets.

    Parameters
    ----------
    units : ndarray of int64, shape (p,)
        What the features are worth, descending.
    k, n_sets, overlap : int
        k, m, K.
    uses : Uses
        The best by pairs alone, from whose prices it goes on.
    deadline : float, optional
        On the clock of `time.monotonic`; when it is over, the bound by the best prices so far is
        returned.
    """
    program = _Program(units, k, n_sets, overlap)
    n_features, size = len(units), program.size
    prices = _Prices(uses.price / size, uses.threshold / size, np.zeros(len(program.firsts)))
    for even in (n_sets * k / n_features, 0.0, float(n_sets)):  # of the first there is a solution
        program.add(np.full(n_features, even))
    for dearer in _AT_FIRST:
        program.add(program.best_counts(replace(prices, pair=dearer * prices.pair)))
    best, lowest = prices, math.inf
    in_blocks, in_all = np.full(len(program.starts), -math.inf), -math.inf
    for _ in range(_MOST_ROUNDS):
        counts = program.best_counts(prices)
        worth = program.worth(counts, prices)
        bound, before = float(worth.sum()) + program.refund(prices), lowest
        if bound < lowest:
            best, lowest = prices, bound
        is_new = worth > in_blocks + _SAME
        is_near = lowest - in_all <= _SAME * abs(lowest)
        if not is_new.any() or (is_near and lowest == before) or is_late(deadline):
            break
        program.add(counts, is_new)
        seconds = math.inf if deadline is None else max(0.0, deadline - time.monotonic())
        found = program.solved(seconds)
        if found is None:
            break
        if found == "infeasible":
            return None
        prices, in_blocks, in_all = found
    return program.exact_bound(best)


@dataclass(frozen=True)
class _Prices:
    """Of what is scarce: at least 0, but for a use.

    Attributes
    ----------
    pair, use : float
    firsts : ndarray, shape (f,)
        Of a use of any of so many best features.
    """

    pair: float
    use: float
    firsts: Floats


class _Program:
    """The program so far, and what uses of features are worth at prices, relative to the best.

    Parameters
    ----------
    units, k, n_sets, overlap
        See `bound_of_prefixes`.
    """

    def __init__(self, units: Integers, k: int, n_sets: int, overlap: int) -> None:
        self.units, self.n_sets = units, n_sets
        self.n_uses, self.n_pairs = n_sets * k, math.comb(n_sets, 2) * overlap
        self.firsts, self.most = _prefixes(len(units), k, n_sets, overlap)
        # the solver's tolerances are absolute; by powers of two nothing is lost
        self.size = 2.0 ** int(np.abs(units).max()).bit_length()
        self.many = 2.0 ** n_sets.bit_length()
        self.values = units / self.size
        # each of the first features is a block by itself, and all others are one
        self.starts = np.arange(min(len(units), int(self.firsts.max(initial=0)) + 1))
        self.columns = np.empty((4, 0))  # worth, pairs, uses and block of what may be mixed

    def best_counts(self, prices: _Prices) -> Floats:
        """Return how often it is best to use each feature."""
        beyond = self.values - self._charges(prices)
        if not prices.pair:
            return np.where(beyond > 0, float(self.n_sets), 0.0)
        with np.errstate(over="ignore"):  # of a price of next to nothing
            return np.clip(np.ceil(beyond / prices.pair), 0.0, self.n_sets)

    def worth(self, counts: Floats, prices: _Prices) -> Floats:
        """Return what uses are worth beyond their charges, for each block."""
        beyond = (self.values - self._charges(prices)) * counts
        return np.add.reduceat(beyond - prices.pair * _pairs(counts), self.starts)

    def refund(self, prices: _Prices) -> float:
        """Return what all that is scarce costs."""
        of_uses = prices.use * self.n_uses + prices.pair * self.n_pairs
        return float(of_uses + prices.firsts @ self.most)

    def add(self, counts: Floats, is_new: Mask | None = None) -> None:
        """Let such uses be mixed with others, or those of some blocks alone."""
        sums = [
            np.add.reduceat(part, self.starts)
            for part in (self.values * counts, _pairs(counts), counts)
        ]
        columns = np.array([*sums, np.arange(len(self.starts))])
        self.columns = np.hstack((self.columns, columns if is_new is None else columns[:, is_new]))

    def solved(
        self, seconds: float
    ) -> tuple[_Prices, Floats, float] | Literal["infeasible"] | None:
        """Return prices, what each block is worth by them, and all; None if it takes too long.

        For each number of best features there is a variable, how often these are used: the one
        before and few more uses. Rows of all their uses would fill the matrix.
        """
        worth, pairs, uses, blocks = self.columns
        pairs, uses, block = pairs / self.many, uses / self.many, blocks.astype(np.int64)
        n, n_blocks, firsts = len(worth), len(self.starts), np.arange(len(self.firsts))
        column, part = np.arange(n), np.searchsorted(self.firsts, block, side="right")
        is_first = part < len(firsts)
        below = 1 + n_blocks  # the rows of uses, and of blocks
        cells = (  # of the equations: number, row and column
            (uses, np.zeros(n, dtype=np.int64), column),
            (np.ones(n), 1 + block, column),
            (uses[is_first], below + part[is_first], column[is_first]),
            (-np.ones(len(firsts)), below + firsts, n + firsts),
            (np.ones(len(firsts[1:])), below + firsts[1:], n + firsts[:-1]),
        )
        numbers, rows, columns = (np.concatenate(part) for part in zip(*cells, strict=True))
        none = np.zeros(len(firsts))
        most = np.concatenate((np.full(n, np.inf), self.most / self.many))
        found = linprog(  # type: ignore[call-overload]  # it takes sparse matrices as well
            -np.concatenate((worth, none)),
            A_ub=sparse.csr_array(np.concatenate((pairs, none))[np.newaxis]),
            b_ub=[self.n_pairs / self.many],
            A_eq=sparse.csr_array((numbers, (rows, columns))),
            b_eq=np.concatenate(([self.n_uses / self.many], np.ones(n_blocks), none)),
            bounds=np.stack((np.zeros(len(most)), most), axis=1),
            method="highs",
            options={"time_limit": seconds},
        )
        if found.status != 0:
            return "infeasible" if found.status == _INFEASIBLE else None
        of_rows = -found.eqlin.marginals
        prices = _Prices(
            max(0.0, -float(found.ineqlin.marginals[0])) / self.many,
            float(of_rows[0]) / self.many,
            np.maximum(-found.upper.marginals[n:], 0.0) / self.many,
        )
        return prices, of_rows[1:below], -float(found.fun)

    def exact_bound(self, prices: _Prices) -> int:
        """Return what no sets are worth more than by prices, which are rounded to whole units."""
        of_pair, of_use = round(prices.pair * self.size), round(prices.use * self.size)
        of_firsts = [round(price) for price in (prices.firsts * self.size).tolist()]
        bound: int = of_use * self.n_uses + of_pair * self.n_pairs
        bound += sum(price * n for price, n in zip(of_firsts, self.most.tolist(), strict=True))
        charge, charged = (
            of_use + sum(of_firsts),
            dict(zip(self.firsts.tolist(), of_firsts, strict=True)),
        )
        for place, unit in enumerate(self.units.tolist()):
            charge -= charged.get(place, 0)  # of those before it
            beyond = max(0, unit - charge)
            count = min(self.n_sets, -(-beyond // of_pair) if of_pair else self.n_sets)
            bound += beyond * count - of_pair * math.comb(count, 2)
        return bound

    def _charges(self, prices: _Prices) -> Floats:
        """Return what a use of each feature is charged, but for pairs."""
        charges = np.full(len(self.units), prices.use)
        of_firsts = np.zeros(len(self.starts))
        of_firsts[self.firsts - 1] = prices.firsts
        charges[: len(self.starts)] += np.cumsum(of_firsts[::-1])[::-1]
        return charges


def _pairs(counts: Floats) -> Floats:
    """Return how many pairs uses make; between whole numbers, what a mixture of both makes."""
    whole = np.floor(counts)
    pairs: Floats = whole * (whole - 1) / 2 + (counts - whole) * whole
    return pairs


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
