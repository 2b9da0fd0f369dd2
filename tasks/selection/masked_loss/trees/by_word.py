"""A visit to a small tree, whose tests fit into a word: all rows of a block go down together.

See `arrays` for the words, and for why these walks are all there is to do.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.masked_loss.compiling import compiled, inlined, lowest_bit
from chaffinch.tasks.selection.masked_loss.trees.arrays import WORD_BITS, State, Trees

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
    """Rows on their way down a small tree, and the same rows without one feature each."""

    row: NDArray[np.uint64]  # which: of the block, or, without a feature, of the rows on their way
    place: NDArray[np.uint64]  # where each is: see `_walk`
    word: NDArray[np.uint64]  # what leads it
    feature: NDArray[np.uint64]  # which one it goes without
    met: NDArray[np.uint64]  # the tests that it meets with every feature or without one
    sign: NDArray[np.int64]  # what its finds count for: 1, 0 or -1


@inlined
def _walks_for(n: int) -> Walks:
    """Return room for n of them."""
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
    """Return the number, in the forest, of the leaf at a place of a small tree."""
    return np.uint64(2 * trees.first[tree] + tree - trees.first[tree + 1]) + place


@inlined
def _follow(trees: Trees, tree: int, rows: Walks, n: int, walks: Walks) -> Any:
    """Walk n rows of a small tree down, and each of them without each feature.

    Parameters
    ----------
    rows : Walks
        With the rows' words; their places are filled in.
    walks : Walks
        Filled: a walk for each feature of which a test on a row's path differs from the
        baseline's.

    Returns
    -------
    int
        Number of walks.
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
    """Add what `_follow` found, times each row's sign, to a block's scores and changes."""
    for o in range(trees.value.shape[1]):
        into, value = score[trees.output[tree] + o], trees.value[:, o]
        changes = change[:, trees.output[tree] + o]
        for i in range(n):
            leaf = _number(trees, tree, rows.place[i])
            into[rows.row[i]] += rows.sign[i] * value[leaf]
        for k in range(n_walks):
            i = walks.row[k]
            leaf, without = (
                _number(trees, tree, rows.place[i]),
                _number(trees, tree, walks.place[k]),
            )
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
def visit(
    trees: Trees, state: State, visited: Any, turned: Any, is_first: bool, start: int, stop: int
) -> None:
    """Visit small trees with all rows of the blocks start..stop-1; bring scores and changes up.

    Parameters
    ----------
    trees, state
        `state` is written to.
    visited : ndarray of int64
        The trees to visit.
    turned : ndarray of uint64, as long
        N_f in each of them for the feature f to mask.
    is_first : bool
        Whether nothing is masked or to take away yet.
    start, stop : int
        Which blocks.
    """
    n_rows = state.score.shape[2]
    rows, walks = _walks_for(n_rows), _walks_for(n_rows * WORD_BITS)
    for block in range(start, stop):
        score, change = state.score[block], state.change[block]
        for i in range(len(visited)):
            word = state.word[block, trees.word[visited[i]]]
            _visit(trees, visited[i], turned[i], is_first, word, rows, walks, score, change)
