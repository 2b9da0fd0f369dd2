"""Tables that are made up, with columns of many kinds, and their targets as outputs."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from chaffinch.tasks.selection.dfs.outputs import labels_for, outputs_of

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])
INFORMATIVE = [3, 17, 25]


def synthetic(n_rows, n_features=60, seed=0):
    """Columns of many scales, far from 0, full ones, a constant and one that is new half-way."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_features)) * (random.random((n_rows, n_features)) < 0.4)
    y = X[:, INFORMATIVE] @ [3, -2, 2] + random.normal(size=n_rows)
    X *= random.lognormal(size=n_features)
    X[:, 5] = 3 + random.normal(size=n_rows)
    X[:, 9] = 1.5
    X[:, 11] = np.arange(n_rows) < 1000  # constant in the first 1,000 rows, and in the rest
    return X, y


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


def outputs_in(y):
    """Return a target as centred outputs, shape (N, C), the variances of which sum to 1."""
    return outputs_of(y, labels_for(y, None)).of(y)
