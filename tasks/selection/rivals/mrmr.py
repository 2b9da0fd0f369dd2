"""Minimum redundancy, maximum relevance.

Peng, Long and Ding, "Feature selection based on mutual information: criteria of max-dependency,
max-relevance, and min-redundancy", IEEE Transactions on Pattern Analysis and Machine Intelligence
27 (2005), equation 6: the next feature is the one with the greatest

    relevance - mean redundancy with the features chosen before.

For numbers, Ding and Peng (2005) take F for relevance and absolute correlation for redundancy. F
has no upper bound and would outweigh any correlation, so relevance is here the correlation ratio,
which ranks features as F does and lies in 0..1 as a correlation does:

    sqrt( F / (F + degrees of freedom within / degrees of freedom between) ).

A category stands in both by the most relevant of its columns; see `columns.py`.
"""

from __future__ import annotations

import numpy as np

from chaffinch.tasks.selection.rivals.columns import columns_of
from chaffinch.tasks.selection.rivals.filters import f_statistic
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema


def mrmr(rows: Rows, schema: Schema) -> Floats:
    """Score by the place in the greedy choice.

    Parameters
    ----------
    rows : Rows
        Training rows, more than there are classes, and at least 3.
    schema : Schema

    Returns
    -------
    ndarray of float64, shape (d,)
        d for the feature chosen first, d - 1 for the next; 0 for one without any relevance, which
        is no candidate, though nothing is redundant with it.

    Notes
    -----
    Takes the memory of the rows once more.
    """
    relevance, columns = _relevance(rows, schema)
    n_features = len(relevance)
    places, redundancy = np.zeros(n_features), np.zeros(n_features)
    is_open = relevance > 0
    for chosen in range(int(is_open.sum())):
        merit = np.where(is_open, relevance - redundancy / max(chosen, 1), -np.inf)
        best = n_features - 1 - int(np.argmax(merit[::-1]))  # of equals the highest index
        places[best] = n_features - chosen
        is_open[best] = False
        # not by BLAS, in which the rounding depends on a column's place
        redundancy += np.abs(np.einsum("ji,i->j", columns, columns[best])) / len(rows)
    return places


def _relevance(rows: Rows, schema: Schema) -> tuple[Floats, Floats]:
    """Return each feature's relevance, shape (d,), and the column it is that of, shape (d, n)."""
    statistic = f_statistic(rows, schema)
    n_groups = len(np.unique(rows.y)) if schema.n_classes else 2
    ratio = (len(rows) - n_groups) / (n_groups - 1)
    relevance = np.zeros(len(schema.features))
    columns = np.zeros((len(schema.features), len(rows)))
    for feature in range(len(schema.features)):
        for column in columns_of(rows, schema, feature):
            value = statistic(column)
            correlation_ratio = float(np.sqrt(value / (value + ratio)))
            if correlation_ratio >= relevance[feature]:
                relevance[feature], columns[feature] = correlation_ratio, column
    return relevance, columns
