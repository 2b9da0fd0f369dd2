"""A table at hand, read at once for the estimate."""

from __future__ import annotations

from typing import Any

import numpy as np

from chaffinch.tasks.selection.dfs.moments import moments_of
from chaffinch.tasks.selection.dfs.scaling import scale_of
from chaffinch.tasks.selection.dfs.sources import read_rows
from chaffinch.tasks.selection.dfs.standardised import Table
from chaffinch.tasks.selection.dfs.strongest import EXACTLY, random_lengths, top_singular_value


def read_table(X: Any) -> Table:
    """Read a table without changing it.

    Parameters
    ----------
    X : array (N, D) or scipy sparse matrix
        See `InMemory`.

    Raises
    ------
    ValueError
        If X is no table of finite numbers, is too large to be squared, or no column varies.
    """
    rows = read_rows(X)
    scale = scale_of(moments_of(rows))
    operands, n_rows = scale.prepared(rows), rows.shape[0]
    top = top_singular_value(
        scale.image(operands, random_lengths(0, n_rows)),
        lambda direction: scale.image(operands, scale.lengths(operands, direction)),
        int(np.count_nonzero(scale.inverse)),
        EXACTLY,
    )
    return scale.table(operands, top)
