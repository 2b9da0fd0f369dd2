"""A forest in whole units, as the kernels take it.

Values are multiples of a unit of 2^-q, with q as large as keeps every sum of leaves below 2^60.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.masked_loss.trees.kernels import WORD_BITS, Trees
from chaffinch.tasks.selection.models.forest import Flags, Forest, Integers

_SUM_BITS = 60


def pack(forest: Forest, baseline: Floats) -> tuple[float, Integers, Trees]:
    """Return the unit, the base scores in units, and the trees; see also `rounding_of`."""
    exponent = _SUM_BITS - _exponent_of(_greatest_score(forest))
    tree = np.repeat(np.arange(len(forest.root)), forest.n_inner)
    feature = np.searchsorted(forest.used_features, forest.feature_of_column[forest.column])
    is_small = forest.n_inner <= WORD_BITS
    place = np.arange(len(tree)) - forest.first[tree]
    bit = np.where(is_small[tree], np.uint64(1) << (place % WORD_BITS).astype(np.uint64), 0)
    _, pair = np.unique(tree * len(forest.used_features) + feature, return_inverse=True)
    same_feature = _or_together(bit, pair, len(tree))[pair]
    left = _left(forest, baseline)
    path = _paths(forest, bit)
    below, below_start = _below(forest, is_small)
    trees = Trees(
        column=forest.column,
        feature=feature,
        threshold=forest.threshold,
        missing_left=forest.missing_left,
        category_start=forest.category_start,
        category_left=forest.category_left,
        child=forest.child,
        first=forest.first,
        root=forest.root,
        output=forest.output,
        value=_whole(forest.value, exponent),
        word=np.where(is_small, np.cumsum(is_small) - 1, -1),
        same_feature=same_feature,
        path=path,
        below=below,
        below_start=below_start,
        depth=np.maximum.reduceat(np.bitwise_count(path), _first_leaf(forest)).astype(np.int64),
        baseline_left=left,
        baseline_word=_or_together(np.where(left, bit, 0), tree, len(forest.root)),
    )
    return math.ldexp(1.0, -exponent), _whole(forest.base, exponent), trees


def tests_by_feature(trees: Trees, n_used: int) -> list[tuple[Integers, NDArray[np.uint64]]]:
    """Return for each used feature the trees that test it, and the word of its tests in each."""
    tree = np.repeat(np.arange(len(trees.root)), np.diff(trees.first))
    pairs, node = np.unique(np.column_stack((trees.feature, tree)), axis=0, return_index=True)
    bounds = np.searchsorted(pairs[:, 0], np.arange(n_used + 1))
    return [(pairs[a:b, 1].copy(), trees.same_feature[node[a:b]]) for a, b in pairwise(bounds)]


def rounding_of(forest: Forest) -> float:
    """Return by how much a score may be off, under any mask, because values are whole units."""
    exponent = _SUM_BITS - _exponent_of(_greatest_score(forest))
    of_values, of_base = (
        np.ldexp(np.abs(values - np.rint(values)), -exponent)
        for values in (np.ldexp(forest.value, exponent), np.ldexp(forest.base, exponent))
    )
    return _greatest_sum(forest, of_values, of_base) / forest.divisor


def _greatest_score(forest: Forest) -> float:
    """Return a bound on every partial sum."""
    return _greatest_sum(forest, np.abs(forest.value), np.abs(forest.base))


def _greatest_sum(forest: Forest, values: Floats, base: Floats) -> float:
    """Return the greatest sum over all trees of a leaf each; nothing is below 0."""
    greatest = np.maximum.reduceat(values.max(axis=1), _first_leaf(forest))
    return float(greatest.sum() + base.max())


def _exponent_of(bound: float) -> int:
    """Return the least e with bound <= 2^e, or an e that keeps 2^-e within float64."""
    return max(math.frexp(bound)[1], -900)


def _whole(values: Floats, exponent: int) -> Integers:
    return np.rint(np.ldexp(values, exponent)).astype(np.int64)


def _left(forest: Forest, baseline: Floats) -> Flags:
    """Answer every test for the baseline row."""
    x, start = baseline[forest.column], forest.category_start
    left = np.where(forest.missing_left, ~(x > forest.threshold), x <= forest.threshold)
    categorical = np.flatnonzero(start >= 0)
    left[categorical] = forest.category_left[start[categorical] + x[categorical].astype(np.int64)]
    return left


def _paths(forest: Forest, bit: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the bits of the inner nodes above each leaf."""
    above, of_leaf = np.zeros(len(bit), np.uint64), np.zeros(len(forest.value), np.uint64)
    level = forest.root[forest.root >= 0]
    while len(level):
        path = np.repeat(above[level] | bit[level], 2)
        below = forest.child[level].ravel()
        is_leaf = below < 0
        of_leaf[~below[is_leaf]] = path[is_leaf]
        level = below[~is_leaf]
        above[level] = path[~is_leaf]
    return of_leaf


def _first_leaf(forest: Forest) -> Integers:
    return forest.first[:-1] + np.arange(len(forest.root))


def _below(forest: Forest, is_small: Flags) -> tuple[NDArray[np.uint64], Integers]:
    """Return where each place of the small trees leads, right and left, and where a tree begins."""
    # a tree's inner nodes are its places 0, 1, ..., its leaves those behind; a leaf leads to itself
    n_inner, first_leaf = forest.n_inner, _first_leaf(forest)
    n_places = np.where(is_small, 2 * n_inner + 1, 0)
    start = np.cumsum(n_places) - n_places
    place = np.arange(n_places.sum()) - np.repeat(start, n_places)
    below = np.repeat(place, 2).reshape(-1, 2)
    tree = np.repeat(np.arange(len(forest.root)), n_inner)
    inner = np.flatnonzero(is_small[tree])
    tree = tree[inner]
    child = forest.child[inner]
    below[start[tree] + inner - forest.first[tree]] = np.where(
        child >= 0,
        child - forest.first[tree, np.newaxis],
        ~child - (first_leaf - n_inner)[tree, np.newaxis],
    )
    return below.ravel().astype(np.uint64), 2 * start


def _or_together(bits: NDArray[np.uint64], group: Integers, n_groups: int) -> NDArray[np.uint64]:
    words = np.zeros(n_groups, np.uint64)
    np.bitwise_or.at(words, group, bits)
    return words
