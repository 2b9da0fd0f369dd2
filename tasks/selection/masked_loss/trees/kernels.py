"""The visits to trees, compiled: where a row falls, and where it would fall without each feature.

Rows come in blocks of 128, so that what is kept of a block stays in a processor's cache; arrays
over a block have the rows last. Three facts make one visit answer for all features at once.

1.  A masked feature answers every test on it as the baseline row does. So of a row and a tree all
    that matters are two words: W, the outcomes of the tree's tests for the row (bit k is set if
    node k sends it left), and B, those for the baseline row. They differ in D = W xor B.
2.  Masking feature f turns the bits N_f of its tests from W to B: the row then falls where
    W xor (D and N_f) leads. If no test on the row's own path is both on f and in D, it falls where
    it did. So only the features of such tests are followed, each from its first one on, and
    ``change[f] += value(its leaf) - value(the row's leaf)`` is complete.
3.  Scores and changes are whole numbers of a fixed unit (see `engine`), so that adding a tree's
    old part with the opposite sign removes it without a trace.

To mask j for good, a tree is visited with its new word, and then with its old one, to take that
away; if the first visit met no test whose bit has turned, the second would find the same, and
nothing but the word changes.

W and B are kept for trees of up to 64 inner nodes. A word of a deeper tree would hold mostly tests
that no walk asks for, so there each is made when asked for, from the columns themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined, lowest_bit

BLOCK = 128
_ONE = np.uint64(1)


class Trees(NamedTuple):
    """A forest as the kernels read it; see `Forest` for the attributes that bear its names."""

    column: NDArray[np.int64]
    feature: NDArray[np.int64]  # the used feature each node tests, numbered 0..n_used-1
    threshold: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    category_start: NDArray[np.int64]
    category_left: NDArray[np.bool_]
    child: NDArray[np.int64]
    first: NDArray[np.int64]
    root: NDArray[np.int64]
    output: NDArray[np.int64]
    value: NDArray[np.int64]  # in units
    word: NDArray[np.int64]  # where the tree's word is kept; -1 for a deep tree
    same_feature: NDArray[np.uint64]  # N_f of each node's feature f in its tree; 0 in deep trees
    path: NDArray[np.uint64]  # the tests above each leaf, as bits; 0 in deep trees
    baseline_left: NDArray[np.bool_]  # B, node by node
    baseline_word: NDArray[np.uint64]  # B, tree by tree; 0 for a deep tree


class State(NamedTuple):
    """What is kept of all rows under the present mask."""

    score: NDArray[np.int64]  # (n_blocks, n_outputs, 128), in units
    change: NDArray[np.int64]  # (n_blocks, n_used, n_outputs, 128): of the score, feature masked
    word: NDArray[np.uint64]  # (n_blocks, n_words, 128): W
    column: NDArray[np.float64]  # (n_blocks, n_columns, 128) if there are deep trees, else empty


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
def words(trees: Trees, column: Any, word: Any) -> None:
    """Answer every test of the small trees for a block: columns (n_columns, 128) -> `word`."""
    n_rows = column.shape[1]
    for tree in range(len(trees.root)):
        if trees.word[tree] < 0:
            continue
        into = word[trees.word[tree]]
        into[:] = 0
        first = trees.first[tree]
        for node in range(first, trees.first[tree + 1]):
            x, bit = column[trees.column[node]], np.uint64(node - first)
            start, threshold = trees.category_start[node], trees.threshold[node]
            if start >= 0:
                for row in range(n_rows):
                    into[row] |= np.uint64(trees.category_left[start + int(x[row])]) << bit
            elif trees.missing_left[node]:
                for row in range(n_rows):
                    into[row] |= np.uint64(not x[row] > threshold) << bit
            else:
                for row in range(n_rows):
                    into[row] |= np.uint64(x[row] <= threshold) << bit


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
def _leaf_below(trees: Trees, node: int, first: int, word: Any) -> Any:
    """Walk from a node of the tree whose first node is `first` to the leaf a word leads to."""
    while node >= 0:
        node = trees.child[node, np.int64((word >> np.uint64(node - first)) & _ONE)]
    return ~node


@inlined
def _visit_by_word(trees: Trees, tree: int, word: Any, found: Any) -> Any:
    """Follow the row of a word and what becomes of it without each feature.

    Returns the row's leaf, the number of features found, and the tests met by any walk. Into
    ``found[:, i]`` goes a feature's first test on the row's path, and the leaf without the feature.
    """
    first = trees.first[tree]
    leaf = _leaf_below(trees, trees.root[tree], first, word)
    met = trees.path[leaf]
    differing = word ^ trees.baseline_word[tree]
    ahead = differing & met
    n_found = 0
    while ahead:
        node = first + lowest_bit(ahead)
        same = trees.same_feature[node]
        ahead &= ~same
        without = _leaf_below(trees, node, first, word ^ (differing & same))
        met |= trees.path[without]
        found[0, n_found], found[1, n_found] = node, without
        n_found += 1
    return leaf, n_found, met


@inlined
def _visit_by_test(trees: Trees, tree: int, column: Any, row: int, masked: int, found: Any) -> Any:
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


@compiled
def visit(
    trees: Trees, state: State, visited: Any, turned: Any, masked: int, start: int, stop: int
) -> None:
    """Visit trees with all rows of the blocks start..stop-1, and bring scores and changes up.

    Parameters
    ----------
    trees, state
        `state` is written to.
    visited : ndarray of int64
        The trees to visit.
    turned : ndarray of uint64, as long
        N_f in each of them for the feature f to mask.
    masked : int
        The feature f to mask; -1 to visit for the first time, when nothing is to take away.
    start, stop : int
        Which blocks.
    """
    longest = np.int64(1)
    for tree in range(len(trees.root)):
        longest = max(longest, trees.first[tree + 1] - trees.first[tree])
    found = np.empty((2, longest + 1), np.int64)
    n_visits = 2 if masked >= 0 else 1
    for block in range(start, stop):
        score, change = state.score[block], state.change[block]
        for i in range(len(visited)):
            tree = visited[i]
            if trees.word[tree] >= 0:
                word, baseline = state.word[block, trees.word[tree]], trees.baseline_word[tree]
                for row in range(BLOCK):
                    old = word[row]
                    flips = (old ^ baseline) & turned[i]
                    if masked >= 0 and flips == 0:
                        continue
                    word[row] = old ^ flips
                    for nth in range(n_visits):
                        w = old if nth else old ^ flips
                        leaf, n, met = _visit_by_word(trees, tree, w, found)
                        if masked >= 0 and nth == 0 and met & flips == 0:
                            break
                        _add(trees, tree, 1 - 2 * nth, leaf, n, found, score, change, row)
            else:
                column = state.column[block]
                for row in range(BLOCK):
                    for nth in range(n_visits):
                        leaf, n, met = _visit_by_test(
                            trees, tree, column, row, -1 if nth else masked, found
                        )
                        if masked >= 0 and nth == 0 and not met:
                            break
                        _add(trees, tree, 1 - 2 * nth, leaf, n, found, score, change, row)
