"""Compiled visits to trees, and why one visit answers for all features.

Rows come in blocks of 128, so that what is kept of a block stays in a processor's cache; arrays
over a block have the rows last. Three facts make one visit answer for all features at once.

1.  A masked feature answers every test on it as the baseline row does. So of a row and a tree all
    that matters are two words: W, the outcomes of the tree's tests for the row (bit k is set if
    node k sends it left), and B, those for the baseline row. They differ in D = W xor B.
2.  Masking feature f turns the bits N_f of its tests from W to B: the row then falls where
    W xor (D and N_f) leads. If no test on the row's own path is both on f and in D, it falls
    where it did. So only the features of such tests are followed, each from its first test on, and
    ``change[f] += value(its leaf) - value(the row's leaf)`` is complete.
3.  Scores and changes are whole numbers of a fixed unit (see `engine`), so that adding a tree's
    old part with the opposite sign removes it without a trace.

To mask j for good, a tree is visited with its new word, and then with its old word, to take that
away; if the first visit met no test whose bit has turned, the second would find the same, and
nothing but the word changes.

W and B are kept for trees of up to 64 inner nodes. A word of a deeper tree would hold mostly
tests that no walk needs, so there each is made when needed, from the columns themselves.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.numba_tools import compiled, inlined, lowest_bit

BLOCK = 128  # rows
WORD_BITS = 64  # tests of a tree that is kept in a word


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
    below: NDArray[np.uint64]  # for walks in small trees, see `_walk`; of each place, two
    below_start: NDArray[np.int64]  # where a small tree's part of it begins
    depth: NDArray[np.int64]  # of a small tree: the most tests above a leaf
    baseline_left: NDArray[np.bool_]  # B, node by node
    baseline_word: NDArray[np.uint64]  # B, tree by tree; 0 for a deep tree


class State(NamedTuple):
    """What is kept of all rows under the present mask."""

    score: NDArray[np.int64]  # (n_blocks, n_outputs, 128), in units
    change: NDArray[np.int64]  # (n_blocks, n_used, n_outputs, 128): of the score, feature masked
    word: NDArray[np.uint64]  # (n_blocks, n_words, 128): W
    column: NDArray[np.float64]  # (n_blocks, n_columns, 128) if there are deep trees, else empty


_ONE, _LAST_BIT = np.uint64(1), np.uint64(WORD_BITS - 1)


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


class Walks(NamedTuple):
    """Rows on their way down a small tree, and the same rows without a feature each."""

    row: NDArray[np.uint64]  # which: of the block, or, without a feature, of the rows on their way
    place: NDArray[np.uint64]  # where each is: see `_walk`
    word: NDArray[np.uint64]  # what leads it
    feature: NDArray[np.uint64]  # that it goes without
    met: NDArray[np.uint64]  # the tests that it meets with every feature or without its own
    sign: NDArray[np.int64]  # what its finds count for: 1, 0 or -1


@inlined
def _walks_for(n: int) -> Walks:
    return Walks(
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.empty(n, np.uint64),
        np.empty(n, np.int64),
    )


@inlined
def _walk(trees: Trees, tree: int, n: int, place: Any, word: Any) -> None:
    """Walk n rows down a small tree, each from its place to the leaf that its word leads to.

    A tree's inner nodes are its places from 0 on, the root first, and its leaves those behind
    them. All rows go down together, as many steps as the tree is deep, and wait at their leaves:
    a processor takes several such steps at a time, but must guess where a single walk ends.
    """
    below = trees.below[trees.below_start[tree] :]
    for _ in range(trees.depth[tree]):
        for i in range(n):
            left = (word[i] >> (place[i] & _LAST_BIT)) & _ONE
            place[i] = below[(place[i] << _ONE) | left]


@inlined
def _number(trees: Trees, tree: int, place: Any) -> Any:
    return np.uint64(2 * trees.first[tree] + tree - trees.first[tree + 1]) + place


@inlined
def _follow(trees: Trees, tree: int, rows: Walks, n: int, walks: Walks) -> Any:
    """Walk n rows of a small tree down, and each of them without each feature; return how many.

    `rows` has the rows' words; their places are filled in. `walks` is filled: a walk for each
    feature of which a test on a row's path differs from the baseline's.
    """
    first, baseline = trees.first[tree], trees.baseline_word[tree]
    rows.place[:n] = 0
    _walk(trees, tree, n, rows.place, rows.word)
    n_walks = 0
    for i in range(n):
        differing = rows.word[i] ^ baseline
        ahead = differing & trees.path[_number(trees, tree, rows.place[i])]
        while ahead:
            node = lowest_bit(ahead)
            same = trees.same_feature[first + node]
            ahead &= ~same
            walks.row[n_walks], walks.feature[n_walks] = i, trees.feature[first + node]
            walks.place[n_walks], walks.word[n_walks] = node, rows.word[i] ^ (differing & same)
            n_walks += 1
    _walk(trees, tree, n_walks, walks.place, walks.word)
    return n_walks


@inlined
def _add_walks(
    trees: Trees,
    tree: int,
    rows: Walks,
    n: int,
    walks: Walks,
    n_walks: int,
    score: Any,
    change: Any,
) -> None:
    """Add the leaves of `_follow`, times each row's sign, to a block's scores and changes."""
    for o in range(trees.value.shape[1]):
        into, value = score[trees.output[tree] + o], trees.value[:, o]
        changes = change[:, trees.output[tree] + o]
        for i in range(n):
            leaf = _number(trees, tree, rows.place[i])
            into[rows.row[i]] += rows.sign[i] * value[leaf]
        for k in range(n_walks):
            i = walks.row[k]
            leaf = _number(trees, tree, rows.place[i])
            without = _number(trees, tree, walks.place[k])
            by = rows.sign[i] * (value[without] - value[leaf])
            changes[walks.feature[k], rows.row[i]] += by


@inlined
def _visit(
    trees: Trees,
    tree: int,
    turned: Any,
    is_first: bool,
    word: Any,
    rows: Walks,
    walks: Walks,
    score: Any,
    change: Any,
) -> None:
    """Visit a small tree with the rows of a block, whose words are `word` (128,)."""
    n = 0
    for row in range(len(word)):
        flips = (word[row] ^ trees.baseline_word[tree]) & turned
        if is_first or flips:
            rows.row[n], rows.word[n], rows.sign[n] = row, word[row] ^ flips, 1
            n += 1
    if n == 0:
        return
    n_walks = _follow(trees, tree, rows, n, walks)
    if is_first:
        _add_walks(trees, tree, rows, n, walks, n_walks, score, change)
        return
    for i in range(n):
        rows.met[i] = trees.path[_number(trees, tree, rows.place[i])]
    for k in range(n_walks):
        rows.met[walks.row[k]] |= trees.path[_number(trees, tree, walks.place[k])]
    for i in range(n):
        flips = rows.word[i] ^ word[rows.row[i]]
        rows.sign[i] = np.int64(rows.met[i] & flips != 0)
    _add_walks(trees, tree, rows, n, walks, n_walks, score, change)
    n_affected = 0
    for i in range(n):
        row, old, is_affected = rows.row[i], word[rows.row[i]], rows.sign[i]
        word[row] = rows.word[i]
        rows.row[n_affected], rows.word[n_affected], rows.sign[n_affected] = row, old, -1
        n_affected += is_affected
    n_walks = _follow(trees, tree, rows, n_affected, walks)
    _add_walks(trees, tree, rows, n_affected, walks, n_walks, score, change)


@compiled
def visit_by_word(
    trees: Trees, state: State, visited: Any, turned: Any, is_first: bool, start: int, stop: int
) -> None:
    """Visit small trees with all rows of the blocks start..stop-1; bring scores and changes up."""
    # `turned` holds N_f in each visited tree for the feature f to mask
    n_rows = state.score.shape[2]
    rows, walks = _walks_for(n_rows), _walks_for(n_rows * WORD_BITS)
    for block in range(start, stop):
        score, change = state.score[block], state.change[block]
        for i in range(len(visited)):
            word = state.word[block, trees.word[visited[i]]]
            _visit(trees, visited[i], turned[i], is_first, word, rows, walks, score, change)


@inlined
def _goes_left(trees: Trees, node: int, x: float) -> Any:
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
def _find(trees: Trees, tree: int, column: Any, row: int, masked: int, tests: Any) -> Any:
    """Do the same in a deep tree, with `masked` masked already (-1 for none), from a row's columns.

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
        tests[0, n_differing] = node
        n_differing += np.int64(left != baseline)
        node = trees.child[node, np.int64(left)]
    leaf = ~node
    n_tests = 0
    for i in range(n_differing):
        node = tests[0, i]
        feature = trees.feature[node]
        is_new = True
        for k in range(n_tests):
            is_new &= trees.feature[tests[0, k]] != feature
        if not is_new:
            continue
        tests[0, n_tests] = node
        while node >= 0:
            left = trees.baseline_left[node]
            if trees.feature[node] != feature:
                own = _goes_left(trees, node, column[trees.column[node], row])
                if trees.feature[node] == masked:
                    met |= own != left
                else:
                    left = own
            node = trees.child[node, np.int64(left)]
        tests[1, n_tests] = ~node
        n_tests += 1
    return leaf, n_tests, met


@inlined
def _add(
    trees: Trees,
    tree: int,
    sign: int,
    leaf: int,
    n_tests: int,
    tests: Any,
    score: Any,
    change: Any,
    row: int,
) -> None:
    """Add the leaves of a visit to a block's scores and changes, or take them away again."""
    for o in range(trees.value.shape[1]):
        output = trees.output[tree] + o
        value = trees.value[leaf, o]
        score[output, row] += sign * value
        for i in range(n_tests):
            feature = trees.feature[tests[0, i]]
            change[feature, output, row] += sign * (trees.value[tests[1, i], o] - value)


@inlined
def _visit_by_test(
    trees: Trees, tree: int, masked: int, column: Any, row: int, tests: Any, score: Any, change: Any
) -> None:
    """Visit a deep tree with one row; `masked` is -1 at first."""
    leaf, n, met = _find(trees, tree, column, row, masked, tests)
    if masked >= 0 and not met:
        return
    _add(trees, tree, 1, leaf, n, tests, score, change, row)
    if masked >= 0:
        leaf, n, met = _find(trees, tree, column, row, -1, tests)
        _add(trees, tree, -1, leaf, n, tests, score, change, row)


@compiled
def visit_by_test(
    trees: Trees,
    state: State,
    visited: Any,
    masked: int,
    columns: Any,
    baseline: Any,
    start: int,
    stop: int,
) -> None:
    """Visit deep trees; `columns` of the feature `masked`, -1 at first, become `baseline`."""
    longest = np.int64(0)
    for tree in visited:
        longest = max(longest, trees.first[tree + 1] - trees.first[tree])
    tests = np.empty((2, longest + 1), np.int64)
    for block in range(start, stop):
        column, score, change = state.column[block], state.score[block], state.change[block]
        for tree in visited:
            for row in range(column.shape[1]):
                _visit_by_test(trees, tree, masked, column, row, tests, score, change)
        for i in range(len(columns)):
            column[columns[i]] = baseline[i]
