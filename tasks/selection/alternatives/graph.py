"""The sets that designs are looked for among, and what a design of them would lose."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.alternatives.designs import Designs, Sets
from chaffinch.tasks.selection.alternatives.prices import Bound, Layer, Prices
from chaffinch.tasks.selection.alternatives.quality import Form
from chaffinch.tasks.selection.alternatives.search_state import Integers
from chaffinch.tasks.selection.alternatives.worth_kernels import worths
from chaffinch.tasks.selection.vocabulary import Floats, Mask


class Graph(NamedTuple):
    """The sets that a design is made of, and what uses cost.

    An *item* is a feature that some set has, or a larger subset with a price.

    Attributes
    ----------
    items : ndarray of int32, shape (N, w)
        The items of each set: its k features, the larger ones, and then -1.
    losses, worths : ndarray, shape (N,)
        Of each set.
    lacks : ndarray, shape (i, m + 2)
        What each item lacks by the number of its uses; inf beyond what it may have.
    sharing : ndarray, shape (i,)
        The price of sharing each item.
    of_two_sets : float
        What two sets pay at most for what they share.
    k, overlap : int
    """

    items: NDArray[np.int32]
    losses: Floats
    worths: Floats
    lacks: Floats
    sharing: Floats
    of_two_sets: float
    k: int
    overlap: int


class Known:
    """Sets that are all known, so that larger subsets can be priced as well.

    Parameters
    ----------
    designs : Designs
    sets : ndarray of int32, shape (N, k)
    """

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
