"""A bound on what designs are worth: subsets of features are sold, and bought back dearer.

Charge each set a price p_R for some subsets R that it has, single features, pairs and larger ones,
and refund the charges by how often each subset is used. A design that is worth f in all is then
worth, with the c_R of `designs.py` and for each size r of subsets a price s of sharing,

    sum over its sets of (worth - charges)
    + sum over R of (p_R c_R - s c_R (c_R - 1) / 2)
    + sum over r of s * (subsets of that size, with a price, that its pairs of sets share),

and each of the terms has a largest value by itself: m times that of the best charged set, the
largest over c_R = 0, 1, 2, ..., and what m (m - 1) / 2 pairs of sets may share. Their sum bounds
every design, whatever the prices (Lagrangian relaxation); what the terms of one design lack to
their largest values, its *loss*, is what it is worth less than the bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.designs import ROUNDING, Designs
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.vocabulary import Floats

Subsets = NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """Prices of subsets of one size.

    Attributes
    ----------
    subsets : ndarray of int64, shape (q, r)
        Those that have a price, each sorted.
    prices : ndarray, shape (q,)
        At least 0.
    of_sharing : float
        s, at least 0.
    """

    subsets: Subsets
    prices: Floats
    of_sharing: float

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
    """What is charged.

    Attributes
    ----------
    layers : tuple of Layer
        The first of all features, the next of pairs, then larger subsets.
    """

    layers: tuple[Layer, ...]

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
    """No design of the sets that are looked at is worth more than `value`.

    Attributes
    ----------
    value : float
        Rounding allowed for.
    prices : Prices
        By which that is shown.
    highest : float
        No charged set is worth more.
    slack : float
        By how much designs are taken to differ for rounding alone.
    """

    value: float
    prices: Prices
    highest: float
    slack: float

    @classmethod
    def of(cls, designs: Designs, prices: Prices, highest: float) -> Bound:
        """Return the bound that prices give, if no charged set is worth more than `highest`."""
        rounding = prices.rounding(designs)
        value = designs.n_sets * highest + prices.refund(designs) + rounding
        return cls(value, prices, highest, 4 * rounding)
