"""What the compiled visits to trees read and write, and why one visit answers for all features.

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

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
