"""One normal form for the trees of every library.

A forest maps the columns that its `prepare` makes of a row to a raw score for each output,

    raw[o] = base[o] + sum over trees t of value[leaf of the row in t][o - output[t]] / divisor,

and its link gives the prediction. An inner node tests a column: the row goes left if its value is
at most the threshold, or if it is missing and the node's default is left; a categorical column
holds codes, and the row goes left if the node's flag for the code is set. Preprocessing in a
library before comparison (rounding to float32, counting zeros as missing, truncating codes) is done
by `prepare`, so that two semantics of a feature are two columns.

Nodes are numbered breadth first in each tree, inner nodes and leaves apart, tree after tree. A
child is written as the number of an inner node, or as ``~leaf``, which is negative.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats

Link = Literal["identity", "logistic", "logistic_single", "softmax", "probability"]
Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]
NUMERIC = -1


@dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees in a library's own order, inner nodes and leaves mixed; see `Forest`."""

    column: Integers
    threshold: Floats
    missing_left: Flags
    left: Integers  # (n,), a position in these arrays; -1 for a leaf
    right: Integers
    value: Floats  # (n, width), what a leaf adds
    cover: Floats  # (n,), weight of the training rows in a leaf; of an inner node it is not read
    root: Integers  # (n_trees,)
    category_start: Integers


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees in normal form, and how their sum becomes a prediction."""

    column: Integers  # (n_inner,), the column each inner node tests
    threshold: Floats  # go left iff the value is at most this
    missing_left: Flags  # whether NaN goes left
    # where in `category_left` a categorical test's flags begin; -1: numeric
    category_start: Integers
    category_left: Flags  # whether a code goes left, test after test
    child: Integers  # (n_inner, 2): right child, left child
    first: Integers  # (n_trees + 1,): tree t has the inner nodes first[t]..first[t + 1] - 1
    root: Integers  # (n_trees,), an inner node or ~leaf
    value: Floats  # (n_leaves, width), what a leaf adds to outputs output[t]..output[t] + width - 1
    cover: Floats  # (n_leaves,), weight of the training rows, by count or second derivative
    output: Integers  # (n_trees,), the first output each tree adds to
    base: Floats  # (n_outputs,), score before the first tree
    divisor: float  # 1 for a sum of trees; the number of trees for an average
    # "probability" takes scores as they are, "logistic_single" rounds to float32; one output of
    # "logistic" or "probability" is that of the second of two classes
    link: Link
    feature_of_column: Integers  # (n_columns,)
    # makes the columns (n, n_columns) of rows X (n, d), each row by itself
    prepare: Callable[[Floats], Floats]

    @property
    def used_features(self) -> Integers:
        return np.unique(self.feature_of_column[self.column])

    @property
    def n_inner(self) -> Integers:
        return np.diff(self.first)

    def predict(self, raw: Floats) -> Floats:
        """Return predictions of raw scores (n, n_outputs), as a `FittedModel` gives them."""
        if self.link == "identity":
            return raw[:, 0]
        if self.link == "softmax":
            grown = np.exp(raw - raw.max(axis=1, keepdims=True))
            return np.asarray(grown / grown.sum(axis=1, keepdims=True))
        second = raw if self.link == "probability" else 1 / (1 + np.exp(-raw))
        if self.link == "logistic_single":
            second = in_single_precision(1 / in_single_precision(1 + np.exp(-raw)))
        return np.column_stack((1 - second, second)) if raw.shape[1] == 1 else second


def assemble(
    nodes: Nodes,
    *,
    output: Integers,
    base: Floats,
    divisor: float,
    link: Link,
    category_left: Flags,
    feature_of_column: Integers,
    prepare: Callable[[Floats], Floats],
) -> Forest:
    """Renumber a library's nodes breadth first; what no root leads to is left out."""
    n_nodes = len(nodes.column)
    depth, tree = np.full(n_nodes, -1), np.zeros(n_nodes, dtype=np.int64)
    tree[nodes.root] = np.arange(len(nodes.root))
    level = nodes.root
    while len(level):
        depth[level] = depth.max() + 1
        parents = level[nodes.left[level] >= 0]
        level = np.concatenate((nodes.left[parents], nodes.right[parents]))
        tree[level] = np.tile(tree[parents], 2)
    order = np.lexsort((depth, tree))
    order = order[depth[order] >= 0]
    is_leaf = nodes.left[order] < 0
    inner, leaves = order[~is_leaf], order[is_leaf]
    number = np.zeros(n_nodes, dtype=np.int64)
    number[inner], number[leaves] = np.arange(len(inner)), ~np.arange(len(leaves))
    size = np.bincount(tree[inner], minlength=len(nodes.root))
    return Forest(
        column=nodes.column[inner],
        threshold=nodes.threshold[inner],
        missing_left=nodes.missing_left[inner],
        category_start=nodes.category_start[inner],
        category_left=category_left,
        child=np.column_stack((number[nodes.right[inner]], number[nodes.left[inner]])),
        first=np.concatenate(([0], np.cumsum(size))),
        root=number[nodes.root],
        value=nodes.value[leaves],
        cover=nodes.cover[leaves],
        output=output,
        base=base,
        divisor=divisor,
        link=link,
        feature_of_column=feature_of_column,
        prepare=prepare,
    )


def as_codes(values: Floats, known: Integers) -> Floats:
    """Return codes by their place in `known`, the next code for others, and another for missing."""
    # of a fraction the whole part counts
    missing = np.isnan(values)
    codes = np.floor(np.where(missing, -1, values))
    place = np.searchsorted(known, codes)
    is_known = place < len(known)
    is_known[is_known] = known[place[is_known]] == codes[is_known]
    return np.where(missing, len(known) + 1, np.where(is_known, place, len(known)))


def category_flags(
    tests: Integers,
    sets: Sequence[Integers],
    column: Integers,
    in_set_left: bool,
    missing_left: Flags,
) -> tuple[Integers, Flags, dict[int, Integers]]:
    """Return `category_start`, `category_left`, and for each column its distinguished codes.

    Those are the codes that some test on the column names. All others take the same way at every
    test, so that a flag does for them, however large codes are. `tests` are the nodes with a
    categorical test, `sets` the codes that each names.
    """
    of_test = column[tests]
    known = {
        int(c): np.unique(np.concatenate([sets[i] for i in np.flatnonzero(of_test == c).tolist()]))
        for c in np.unique(of_test)
    }
    start = np.full(len(column), NUMERIC)
    size = np.array([len(known[c]) + 2 for c in of_test.tolist()], dtype=np.int64)
    start[tests] = np.cumsum(size) - size
    flags = np.full(size.sum(), not in_set_left)
    for test, codes in zip(tests.tolist(), sets, strict=True):
        among = known[int(column[test])]
        flags[start[test] + np.searchsorted(among, codes)] = in_set_left
        flags[start[test] + len(among) + 1] = missing_left[test]
    return start, flags, known


def in_single_precision(X: Floats) -> Floats:
    """Return values rounded to float32, as float64; beyond its range they are infinite."""
    with np.errstate(over="ignore"):
        return X.astype(np.float32).astype(np.float64)
