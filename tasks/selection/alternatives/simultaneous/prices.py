"""A bound on what designs are worth, the loss of a design against it, and candidate sets.

Charge each set a price p_R for some subsets R that it has, single features, pairs and larger
ones, and refund the charges by how often each subset is used. A design that is worth f in all is
then worth, with the c_R of `result.py` and for each size r of subsets a price s of sharing,

    sum over its sets of (worth - charges)
    + sum over R of (p_R c_R - s c_R (c_R - 1) / 2)
    + sum over r of s * (subsets of that size, with a price, that its pairs of sets share),

and each of the terms has a largest value by itself: m times that of the best charged set, the
largest over c_R = 0, 1, 2, ..., and what m (m - 1) / 2 pairs of sets may share. Their sum bounds
every design, for any prices (Lagrangian relaxation); what the terms of one design lack to
their largest values, its *loss*, is what it is worth less than the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.arrays import Integers
from chaffinch.tasks.selection.alternatives.branch_and_bound.solve import (
    BestSets,
    Found,
    best_set,
    best_sets,
    sets_within,
)
from chaffinch.tasks.selection.alternatives.quality import Form, worths
from chaffinch.tasks.selection.alternatives.result import ROUNDING, Designs, Sets
from chaffinch.tasks.selection.core import Floats, Mask

Subsets = NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """Prices of subsets of one size."""

    subsets: Subsets  # (q, r), that have a price, each sorted
    prices: Floats  # (q,), at least 0
    of_sharing: float  # s, at least 0

    @property
    def size(self) -> int:
        """How many features a subset has."""
        return int(self.subsets.shape[1])

    def refunds(self, designs: Designs) -> Floats:
        """Return p c - s c (c - 1) / 2 for c = 0, 1, ..., shape (q, c + 1)."""
        uses = np.arange(designs.most_uses(self.size) + 1)
        refunds: Floats = self.prices[:, None] * uses - self.of_sharing * (uses * (uses - 1) / 2)
        return refunds


@dataclass(frozen=True)
class Prices:
    """What is charged."""

    layers: tuple[Layer, ...]  # the first of all features, the next of pairs, then larger subsets

    @classmethod
    def none(cls, n_features: int) -> Prices:
        """Charge nothing."""
        return cls((Layer(np.arange(n_features)[:, None], np.zeros(n_features), 0.0),))

    def charged(self, form: Form, share: float = 1.0) -> Form:
        """Return what sets are worth less a share of what features and pairs are charged."""
        charged = replace(form, gains=form.gains - share * self.layers[0].prices)
        for pairs in self.layers[1:2]:
            shape = (len(form.gains), len(form.gains))
            costs = np.zeros(shape) if form.pair_costs is None else form.pair_costs.copy()
            one, other = pairs.subsets.T
            costs[one, other] += share * pairs.prices
            costs[other, one] += share * pairs.prices
            charged = Form(charged.gains, costs, form.convexity)
        return charged

    def per_pair_of_sets(self, designs: Designs) -> float:
        """Return what two sets pay at most for what they share."""
        return math.fsum(layer.of_sharing * designs.shared(layer.size) for layer in self.layers)

    def refund(self, designs: Designs) -> float:
        """Return what a design gets back at most."""
        terms = [layer.refunds(designs).max(axis=1) for layer in self.layers]
        sharing = designs.n_pairs_of_sets * self.per_pair_of_sets(designs)
        return math.fsum(np.concatenate(terms).tolist()) + sharing

    def rounding(self, designs: Designs) -> float:
        """Return more than rounding can add up to in the sums that a bound is made of."""
        charges = math.fsum(float(layer.prices.sum()) for layer in self.layers)
        sharing = designs.n_pairs_of_sets * self.per_pair_of_sets(designs)
        return designs.rounding + ROUNDING * (designs.n_sets * charges + sharing)


@dataclass(frozen=True)
class Bound:
    """No design of the sets in question is worth more than `value`."""

    value: float  # rounding allowed for
    prices: Prices  # that prove it
    highest: float  # no charged set is worth more
    slack: float  # by how much designs may differ for rounding alone

    @classmethod
    def of(cls, designs: Designs, prices: Prices, highest: float) -> Bound:
        """Return the bound that prices give, if no charged set is worth more than `highest`."""
        rounding = prices.rounding(designs)
        value = designs.n_sets * highest + prices.refund(designs) + rounding
        return cls(value, prices, highest, 4 * rounding)


class Graph(NamedTuple):
    """The sets that a design is made of, and what uses cost.

    An *item* is a feature that some set has, or a larger subset with a price.
    """

    items: NDArray[np.int32]  # (N, w), of each set: its k features, the larger ones, and then -1
    losses: Floats  # (N,)
    worths: Floats  # (N,)
    lacks: Floats  # (i, m + 2), of each item by the number of its uses; inf beyond what it may have
    sharing: Floats  # (i,), the price of sharing each item
    of_two_sets: float  # what two sets pay at most for what they share
    k: int
    overlap: int


class Known:
    """Sets (N, k) that are all known, so that larger subsets can be priced as well."""

    def __init__(self, designs: Designs, sets: Sets) -> None:
        self.designs, self.sets = designs, sets
        self.worths = worths(designs.form, sets)
        self._has: dict[int, Mask] = {}
        self._has_all: dict[tuple[int, ...], Integers] = {}

    def with_all(self, subset: tuple[int, ...]) -> Integers:
        """Return which sets have all of some features."""
        if subset not in self._has_all:
            for feature in subset:
                if feature not in self._has:
                    self._has[feature] = (self.sets == feature).any(axis=1)
            each = [self._has[feature] for feature in subset]
            self._has_all[subset] = np.flatnonzero(np.logical_and.reduce(each))
        return self._has_all[subset]

    def charged(self, prices: Prices) -> Floats:
        """Return what each set counts for less its charges, shape (N,)."""
        of_features = worths(Form(prices.layers[0].prices), self.sets)
        charged: Floats = np.minimum(self.worths, self.designs.cap) - of_features
        for layer in prices.layers[1:]:
            for subset, of_subset in zip(layer.subsets.tolist(), layer.prices, strict=True):
                if of_subset > 0:
                    charged[self.with_all(tuple(subset))] -= of_subset
        return charged


def graph_of(known: Known, bound: Bound) -> Graph:
    """Return what designs of known sets lose, at the prices of a bound."""
    designs, layers = known.designs, bound.prices.layers
    is_active = layers[0].prices > 0
    is_active[known.sets] = True
    lacks = [_lacks(layers[0], designs)[is_active]]
    sharing = [np.full(int(is_active.sum()), layers[0].of_sharing)]
    found: list[Integers] = []
    for layer in layers[1:]:
        is_priced = layer.prices > 0
        found += [known.with_all(tuple(subset)) for subset in layer.subsets[is_priced].tolist()]
        lacks.append(_lacks(layer, designs)[is_priced])
        sharing.append(np.full(int(is_priced.sum()), layer.of_sharing))
    return Graph(
        items=_items((np.cumsum(is_active) - 1)[known.sets], found, int(is_active.sum())),
        losses=np.maximum(bound.highest - known.charged(bound.prices), 0.0),
        worths=known.worths,
        lacks=np.concatenate(lacks),
        sharing=np.concatenate(sharing),
        of_two_sets=bound.prices.per_pair_of_sets(designs),
        k=designs.k,
        overlap=designs.overlap,
    )


def _lacks(layer: Layer, designs: Designs) -> Floats:
    """Return what each number of uses lacks to the best, shape (q, m + 2)."""
    refunds = layer.refunds(designs)
    lacks = np.full((len(refunds), designs.n_sets + 2), np.inf)
    lacks[:, : refunds.shape[1]] = refunds.max(axis=1, keepdims=True) - refunds
    return lacks


def _items(features: Integers, found: list[Integers], first: int) -> NDArray[np.int32]:
    """Return features and then larger subsets of each set, filled up with -1."""
    n_known, k = features.shape
    width = np.full(n_known, k)
    for has_all in found:
        width[has_all] += 1
    items = np.full((n_known, int(width.max(initial=k))), -1, dtype=np.int32)
    items[:, :k] = features
    width[:] = k
    for item, has_all in enumerate(found, start=first):
        items[has_all, width[has_all]] = item
        width[has_all] += 1
    return items


_SHARE_OF_WORTH = 0.8  # the larger, the quicker the search, and the more sets to sift


def best_charged(designs: Designs, prices: Prices, deadline: float | None) -> Found:
    """Return the best charged set."""
    return best_set(
        prices.charged(designs.form),
        designs.k,
        limits=designs.limits,
        constraints=designs.constraints,
        deadline=deadline,
    )


def best_charged_sets(
    designs: Designs,
    prices: Prices,
    least: float,
    most: int,
    deadline: float | None,
    *,
    is_any_enough: bool = False,
) -> BestSets:
    """Return the best charged sets, up to `most`, that are worth `least`; see `best_sets`.

    Without a cap and with features and pairs priced alone.
    """
    return best_sets(
        prices.charged(designs.form),
        designs.k,
        least,
        limits=designs.limits,
        constraints=designs.constraints,
        most=most,
        deadline=deadline,
        is_any_enough=is_any_enough,
    )


def charged_within(
    designs: Designs,
    prices: Prices,
    least: float,
    most: int,
    deadline: float | None,
    *,
    least_worth: float = -math.inf,
) -> tuple[Sets, bool]:
    """Return charged sets that count for `least`, up to `most`, and whether these are all.

    Where they are to be worth something without the charges, both are asked for at once, as a sum
    with shares of 1 - s and s: worth - (1 - s) charges >= (1 - s) least + s least_worth. Few sets
    have that and lack one of the two.
    """
    constraints, charges = designs.constraints, prices.layers[0].prices
    if designs.cap < math.inf and constraints.costs is None:
        # a set counts for no more than the cap less its charges
        budget = designs.cap - least + prices.rounding(designs)
        constraints = replace(constraints, costs=tuple(charges.tolist()), budget=budget)
    share = _SHARE_OF_WORTH if least_worth > -math.inf else 0.0
    sets, is_all = sets_within(
        prices.charged(designs.form, 1 - share),
        designs.k,
        (1 - share) * least + (share * least_worth if share else 0.0),
        limits=designs.limits,
        constraints=constraints,
        most=most,
        deadline=deadline,
    )
    if share or designs.cap < math.inf or len(prices.layers) > 2:
        known, rounding = Known(designs, sets), prices.rounding(designs)
        is_worth = known.worths >= least_worth - rounding
        sets = sets[is_worth & (known.charged(prices) >= least - rounding)]
    return sets, is_all
