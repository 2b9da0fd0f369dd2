"""Rows for tables in random order, and all rows of such a table."""

from __future__ import annotations

import numpy as np
import scipy.sparse


def synthetic(n_rows=5000, n_columns=30, seed=0):
    """Rows sorted by their target; the first column is the number of the row."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.3)
    X[n_rows // 2] = 0
    X[:, 0] = np.arange(n_rows)
    return X, X[:, 0] * 2 + 1


def all_rows(table):
    blocks = [table.read(block) for block in range(len(table.block_rows))]
    stacked = [X.toarray() if scipy.sparse.issparse(X) else X for X, _ in blocks]
    assert [len(X) for X in stacked] == list(table.block_rows)
    return np.vstack(stacked), np.concatenate([y for _, y in blocks])
