"""A source of rows that is read block by block, of a table that is made up."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from chaffinch.tasks.selection.dfs.passes import Sharing, learn
from chaffinch.tasks.selection.dfs.sources import labels_for, labels_in, outputs_of

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
INFORMATIVE = [3, 17, 25]
SIZES = (1000, 1400, 1100, 1001, 1000, 1750, 1002, 1200, 1050, 1003, 1004)  # more than partitions


def synthetic(n_rows, n_features=60, seed=0):
    """Columns of many scales, far from 0, full ones, a constant and one that is new half-way."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    y = X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)
    X *= random.lognormal(size=n_features)
    X[:, 5] = 3 + random.normal(size=n_rows)
    X[:, 9] = 1.5
    X[:, 11] = np.arange(n_rows) < 1000  # constant in every block
    return X, y


class Blocks:
    """A source whose blocks are parts of one table."""

    def __init__(self, X, y, sizes=SIZES):
        self.X, self.y, self.block_rows = X, np.asarray(y), tuple(sizes)
        self.starts = np.r_[0, np.cumsum(sizes)]
        self.shape, self.target_type = X.shape, self.y.dtype
        self.read_so_far = []

    @property
    def labels(self):
        return np.unique(self.y)

    def read(self, block):
        self.read_so_far.append(block)
        part = slice(self.starts[block], self.starts[block + 1])
        return self.X[part], self.y[part]


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


def of_blocks(form="dense", kind=float, **options):
    X, y = synthetic(sum(SIZES), **options)
    return Blocks(as_form(X.astype(kind), form), y)


def learnt(source):
    return learn(source, None, Sharing())


def outputs_in(y):
    """Return a target as centred outputs, shape (N, C), the variances of which sum to 1."""
    return outputs_of(y, labels_for(y.dtype, lambda: labels_in(y), None)).of(y)
