"""A visit to a deep tree, one row at a time: each test is answered when a walk comes to it.

See `arrays` for why these walks are all there is to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined
from chaffinch.tasks.selection.masked_loss.trees.arrays import State, Trees


@inlined
def _goes_left(trees: Trees, node: int, x: float) -> Any:
    """Answer one test."""
    start = trees.category_start[node]
    if start >= 0:
        return trees.category_left[start + int(x)]
    if trees.missing_left[node]:
        return not x > trees.threshold[node]  # a comparison with NaN is false
    return x <= trees.threshold[node]


@compiled
def scores(trees: Trees, column: Any, score: Any) -> None:
    """Add the trees' values for a block of columns (n_columns, 128) to `score` (n_outputs, 128)."""
    for tree in range(len(trees.root)):
        output = trees.output[tree]
        for row in range(column.shape[1]):
            node = trees.root[tree]
            while node >= 0:
                left = _goes_left(trees, node, column[trees.column[node], row])
                node = trees.child[node, int(left)]
            for o in range(trees.value.shape[1]):
                score[output + o, row] += trees.value[~node, o]


@inlined
def _find(trees: Trees, tree: int, column: Any, row: int, masked: int, found: Any) -> Any:
    """Do the same in a deep tree, with feature `masked` masked already (-1 for none).

    The third value returned is whether a walk met a test that masking it turned.
    """
    met = False
    n_differing = np.int64(0)
    node = trees.root[tree]
    while node >= 0:
        baseline = trees.baseline_left[node]
        left = _goes_left(trees, node, column[trees.column[node], row])
        if trees.feature[node] == masked:
            met |= left != baseline
            left = baseline
        found[0, n_differing] = node
        n_differing += np.int64(left != baseline)
        node = trees.child[node, np.int64(left)]
    leaf = ~node
    n_found = 0
    for i in range(n_differing):
        node = found[0, i]
        feature = trees.feature[node]
        is_new = True
        for k in range(n_found):
            is_new &= trees.feature[found[0, k]] != feature
        if not is_new:
            continue
        found[0, n_found] = node
        while node >= 0:
            left = trees.baseline_left[node]
            if trees.feature[node] != feature:
                own = _goes_left(trees, node, column[trees.column[node], row])
                if trees.feature[node] == masked:
                    met |= own != left
                else:
                    left = own
            node = trees.child[node, np.int64(left)]
        found[1, n_found] = ~node
        n_found += 1
    return leaf, n_found, met


@inlined
def _add(
    trees: Trees,
    tree: int,
    sign: int,
    leaf: int,
    n_found: int,
    found: Any,
    score: Any,
    change: Any,
    row: int,
) -> None:
    """Add what a visit found to a block's scores and changes, or take it away again."""
    for o in range(trees.value.shape[1]):
        output = trees.output[tree] + o
        value = trees.value[leaf, o]
        score[output, row] += sign * value
        for i in range(n_found):
            feature = trees.feature[found[0, i]]
            change[feature, output, row] += sign * (trees.value[found[1, i], o] - value)


@inlined
def _visit(
    trees: Trees, tree: int, masked: int, column: Any, row: int, found: Any, score: Any, change: Any
) -> None:
    """Visit a deep tree with one row; see `visit` for `masked`."""
    leaf, n, met = _find(trees, tree, column, row, masked, found)
    if masked >= 0 and not met:
        return
    _add(trees, tree, 1, leaf, n, found, score, change, row)
    if masked >= 0:
        leaf, n, met = _find(trees, tree, column, row, -1, found)
        _add(trees, tree, -1, leaf, n, found, score, change, row)


@compiled
def visit(
    trees: Trees,
    state: State,
    visited: Any,
    masked: int,
    columns: Any,
    baseline: Any,
    start: int,
    stop: int,
) -> None:
    """Visit deep trees with all rows of the blocks start..stop-1; bring scores and changes up.

    Parameters
    ----------
    trees, state
        `state` is written to.
    visited : ndarray of int64
        The trees to visit.
    masked : int
        The feature to mask; -1 to visit for the first time, when nothing is to take away.
    columns, baseline : ndarray of int64 and of float64, as long
        The columns of that feature, and what they become.
    start, stop : int
        Which blocks.
    """
    longest = np.int64(0)
    for tree in visited:
        longest = max(longest, trees.first[tree + 1] - trees.first[tree])
    found = np.empty((2, longest + 1), np.int64)
    for block in range(start, stop):
        column, score, change = state.column[block], state.score[block], state.change[block]
        for tree in visited:
            for row in range(column.shape[1]):
                _visit(trees, tree, masked, column, row, found, score, change)
        for i in range(len(columns)):
            column[columns[i]] = baseline[i]
