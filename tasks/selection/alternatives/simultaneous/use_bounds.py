"""A bound on univariate sets: few features cannot be in many sets, and rarely together.

Let any two of m sets of k features share K at most. Then no K + 1 features are together in two
sets, so that for any t features T

    sum over the sets S of C(|S & T|, K + 1)  <=  C(t, K + 1),

and with it the total uses of T, the sum of |S & T|, are at most `most_uses_of`: as the left side is
convex, they are largest if all sets have about as many of T. With this limit for the best 1, 2, 3,
... features, and with that on features shared by pairs of sets, the total value

    sum of value_j c_j,  c_1 + ... + c_n = m k

is a linear program over pieces of c_j, the t-th further use of j being charged for t pairs. Any
prices that are at least 0, of pairs, of the t best features and of a use (of any sign), bound it:
each piece then counts for what it is worth beyond its charges. They are taken from the program's
dual values and rounded to whole units, so that the bound is exact.

The program has m pieces for each feature, over which a solver ignores its time limit: one step of
the simplex method reads all of them, some 10 s for 150,000. So it is solved by the decomposition of
Dantzig and Wolfe (1960): a few c_j of each feature, or mixtures of them, are in a small program,
and so are a few vectors for all features without a limit together. Its prices show which others
would be better; these are added until there are none.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from chaffinch.tasks.selection.alternatives.arrays import DONE, FULL, PAUSED, Integers, is_late
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, stable_order

# All sets of k features of high enough value at a low enough price, compiled.
#
# Features have a value and a price, integers; sets are searched depth first. A partial set is left
# if no later features can make it valuable enough, or cheap enough, or both at once: a set of value
# at least Z and price at most P has a value minus price of at least Z - P.
#
# A search pauses after a number of steps and continues when called again: all of its state is in
# `Found`.

NEVER = 2**61  # more than any sum


class Asked(NamedTuple):
    """Which sets are asked for."""

    worth: Integers  # (p,), at least 0, descending
    price: Integers  # (p,), at least 0
    most_worth: Integers  # (p + 1, k + 1): most that t features from one on are worth
    least_price: Integers  # the least that they cost
    most_gain: Integers  # the most that they are worth less what they cost
    least: int  # Z, what a set must be worth


class Found(NamedTuple):
    """State of the search, and its results."""

    sets: Integers  # (most, k)
    prices: Integers  # (most,), of the sets
    # how many were found; P, the highest price searched for; size of the partial set, -1 when the
    # search is done
    progress: Integers
    chosen: Integers  # (k,), the partial set, and the feature that was tried last
    sums: Integers  # (2, k + 1), what the first ones are worth and cost


def asked_for(worth: Integers, price: Integers, k: int, least: int) -> Asked:
    """Return what to look for: sets of k features that are worth `least`."""
    return Asked(
        worth,
        price,
        _largest_sums(worth, k),
        -_largest_sums(-price, k),
        _largest_sums(worth - price, k),
        least,
    )


def none_found(k: int, most: int, most_price: int) -> Found:
    """Return the state of a search that has not begun."""
    chosen = np.full(k, -1)
    return Found(
        np.zeros((most, k), dtype=np.int64),
        np.zeros(most, dtype=np.int64),
        np.array([0, most_price, 0]),
        chosen,
        np.zeros((2, k + 1), dtype=np.int64),
    )


@compiled
def _largest_sums(numbers: Integers, k: int) -> Integers:
    """Return the sums of the t largest from each on, t in 0..k; -NEVER where there are fewer."""
    p = len(numbers)
    sums = np.full((p + 1, k + 1), -NEVER)
    sums[:, 0] = 0
    largest = np.zeros(k, np.int64)
    n = 0
    for j in range(p - 1, -1, -1):
        n = min(n + 1, k + 1)
        place = n - 1
        while place > 0 and largest[place - 1] < numbers[j]:
            if place < k:
                largest[place] = largest[place - 1]
            place -= 1
        if place < k:
            largest[place] = numbers[j]
        n = min(n, k)
        for t in range(n):
            sums[j, t + 1] = sums[j, t] + largest[t]
    return sums


@compiled
def _keep_cheaper_half(found: Any) -> None:
    n = found.progress[0]
    order = stable_order(found.prices[:n])
    half = n // 2
    found.sets[:half] = found.sets[order[:half]]
    found.prices[:half] = found.prices[order[:half]]
    found.progress[0] = half
    found.progress[1] = found.prices[half - 1] - 1


@compiled
def _skip_too_dear(asked: Any, found: Any, most_price: int) -> None:
    """Let the last feature of the partial set begin where it is cheap enough."""
    last = len(found.chosen) - 1
    low, high = found.chosen[last], len(asked.price) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if asked.price[middle] > most_price:
            low = middle
        else:
            high = middle
    found.chosen[last] = low


@compiled
def find_sets(asked: Asked, found: Found, most_steps: int, is_cheapest_enough: bool) -> int:
    """Continue the search for affordable sets.

    Returns `DONE`, `PAUSED` after `most_steps`, or `FULL` if there are more sets than room.
    `is_cheapest_enough`: whether to drop the dearer half, and those that cost as much, where there
    is no room.
    """
    p, k, progress = len(asked.worth), len(found.chosen), found.progress
    worth, price = found.sums[0], found.sums[1]
    for _ in range(most_steps):
        depth = progress[2]
        if depth < 0:
            return DONE
        found.chosen[depth] += 1
        j, left = found.chosen[depth], k - depth
        if (
            j + left > p
            or worth[depth] + asked.most_worth[j, left] < asked.least
            or price[depth] + asked.least_price[j, left] > progress[1]
            or worth[depth] - price[depth] + asked.most_gain[j, left] < asked.least - progress[1]
        ):
            progress[2] -= 1
            continue
        worth[depth + 1] = worth[depth] + asked.worth[j]
        price[depth + 1] = price[depth] + asked.price[j]
        if left > 1:
            found.chosen[depth + 1] = j
            progress[2] += 1
            if left == 2:
                _skip_too_dear(asked, found, progress[1] - price[depth + 1])
        elif worth[k] >= asked.least and price[k] <= progress[1]:
            if progress[0] == len(found.sets):
                if not is_cheapest_enough:
                    return FULL
                _keep_cheaper_half(found)
                if price[k] > progress[1]:
                    continue
            found.sets[progress[0]] = found.chosen
            found.prices[progress[0]] = price[k]
            progress[0] += 1
    return PAUSED


# How often each feature should be used, if only the pairs of sets that share one are counted.
#
# Of m sets of k features, any two with at most K in common, let c_j be how many have feature j.
# Then c_1 + ... + c_n = m k, and the c_j (c_j - 1) / 2 add up to no more than P = m (m - 1) / 2 K:
# both count the features that two sets share, over all pairs of sets. At a price per pair, the best
# c is made of the m k largest of
#
#     value_j - price t,  t = 0 .. m - 1   (the t-th further use of j makes t more pairs),
#
# and what these come to, with price P, is a bound on what any m sets are worth (Lagrangian).

_BITS_OF_PRICE = 32  # the bound holds at any price


@dataclass(frozen=True)
class Uses:
    """The best uses at the best price, or very near it, all in whole units."""

    counts: Integers  # c_j (p,), descending; they make no more pairs than allowed
    price: int  # of a pair
    threshold: int  # the least that any use is worth, with what it is charged
    bound: int  # no sets are worth more


def best_uses(
    units: Integers, n_sets: int, n_places: int, n_pairs: int, deadline: float | None = None
) -> Uses | None:
    """Return the best uses, or None if even the most even ones make too many pairs.

    `n_places` is m k, at most p m; `n_pairs` is P. What is over by the deadline is at a price that
    is not the best.
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


_AT_FIRST = (1.0, 0.5, 2.0)  # times the price of a pair, for uses to begin with
_MOST_ROUNDS = 100  # 20 are enough where m is 5,000
_SAME = 1e-9  # of what the best feature is worth, or of the bound
_INFEASIBLE = 2  # status of `linprog`


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

    `uses` are the best by pairs alone, whose prices are the start. When the deadline is over, the
    bound by the best prices so far is returned.
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
    """Of what is scarce: at least 0, but for a use."""

    pair: float
    use: float
    firsts: Floats  # (f,), of a use of any of so many best features


class _Program:
    """The program so far, and what uses of features are worth at prices, relative to the best."""

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
        return np.add.reduceat(beyond - prices.pair * _pairs_between(counts), self.starts)

    def refund(self, prices: _Prices) -> float:
        """Return what all that is scarce costs."""
        of_uses = prices.use * self.n_uses + prices.pair * self.n_pairs
        return float(of_uses + prices.firsts @ self.most)

    def add(self, counts: Floats, is_new: Mask | None = None) -> None:
        """Let such uses be mixed with others, or those of some blocks alone."""
        sums = [
            np.add.reduceat(part, self.starts)
            for part in (self.values * counts, _pairs_between(counts), counts)
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


def _pairs_between(counts: Floats) -> Floats:
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


# What each use of a feature costs a design, so that few sets can be in one that is worth enough.
#
# Let each of m sets of k features be worth Z or more, and any two share K features at most. With a
# price p_j >= 0 for a feature and r >= 0 for a pair of sets that share one, let s_j be the most
# that
#
#     p_j c - r c (c - 1) / 2,  c = 0 .. m,
#
# can be. In c_j of the sets, feature j costs them p_j c_j in all, which is s_j, less a penalty of
# at least 0 for a c_j that does not suit it, plus r for each pair of these sets. So sets and
# penalties come to no more than the *budget*
#
#     s_1 + ... + s_n + r m (m - 1) / 2 K.
#
# If the cheapest set that is worth Z costs C, then no set costs more than the budget less (m - 1)
# C, and there is no design if that is less than C. A value above Z counts as Z, since a set is then
# worth enough by that feature alone, if no value is below 0.

_STEPS_BETWEEN_LOOKS = 500_000  # at the clock: some milliseconds


@dataclass(frozen=True)
class Question:
    """Designs of m sets of k features that are each worth so much."""

    worth: Integers  # (p,), descending; in 0..least
    k: int
    n_sets: int
    n_pairs: int  # m (m - 1) / 2 K
    most_uses: int  # in how many of the sets a feature may be
    least: int  # Z


@dataclass(frozen=True)
class Prices:
    """Prices in whole numbers, and what follows from them."""

    of_features: Integers  # (p,)
    penalties: Integers  # (p, u + 1), for so many uses, u at most
    budget: int


def best_uses_for(question: Question, deadline: float | None) -> Uses:
    """Return the best uses; ValueError if even the most even ones make too many pairs."""
    # what is over by the deadline is at a price that is not the best: its bound holds as well
    n_places = question.n_sets * question.k
    uses = best_uses(question.worth, question.most_uses, n_places, question.n_pairs, deadline)
    if uses is None:
        raise ValueError("no uses although there are sets")
    return uses


def prices_of_uses(question: Question, uses: Uses) -> Prices:
    """Return the prices at which the best uses suit the features."""
    of_features = np.maximum(question.worth - uses.threshold, 0)
    if question.most_uses == question.n_sets:  # no other price separates more sets
        of_features = np.minimum(of_features, uses.price * (question.n_sets - 1))
    counts = np.arange(question.most_uses + 1)
    saved = of_features[:, None] * counts - uses.price * (counts * (counts - 1) // 2)
    most_saved = saved.max(axis=1)
    budget = int(most_saved.sum()) + uses.price * question.n_pairs
    return Prices(of_features, most_saved[:, None] - saved, budget)


def sets_in_budget(
    question: Question, prices: Prices, most: int, most_steps: int, deadline: float | None
) -> tuple[Integers, Integers] | None:
    """Return all sets (N, k) that can be in a design, and what they cost, the cheapest first.

    None in place of both if there are more than `most`, it takes more than `most_steps` looks at a
    feature, or it is too late.
    """
    cheapest = none_found(question.k, 2, NEVER)
    if not _is_found(question, prices, cheapest, most_steps, deadline, is_cheapest_enough=True):
        return None
    n = cheapest.progress[0]
    least = int(cheapest.prices[:n].min(initial=NEVER))
    found = none_found(question.k, most, prices.budget - (question.n_sets - 1) * least)
    if not _is_found(question, prices, found, most_steps, deadline, is_cheapest_enough=False):
        return None
    n = found.progress[0]
    order = np.argsort(found.prices[:n], kind="stable")
    return found.sets[order], found.prices[order]


def _is_found(
    question: Question,
    prices: Prices,
    found: Found,
    most_steps: int,
    deadline: float | None,
    *,
    is_cheapest_enough: bool,
) -> bool:
    asked = asked_for(question.worth, prices.of_features, question.k, question.least)
    ended, steps = PAUSED, 0
    while ended == PAUSED and steps < most_steps and not is_late(deadline):
        ended = find_sets(asked, found, _STEPS_BETWEEN_LOOKS, is_cheapest_enough)
        steps += _STEPS_BETWEEN_LOOKS
    return ended == DONE
