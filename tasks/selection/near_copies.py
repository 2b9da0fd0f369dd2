"""Groups of columns that are near copies of each other, by their values alone; our own.

Two numeric columns are alike if the absolute rank correlation of Spearman exceeds 0.98, both with
missing values ranked last and among the cells that are not missing. Two categories are alike if
they part the rows in the same way, whatever their levels are called. In a group every two columns
are alike. A chain, in which the first and the last are not, is cut where its links are weakest.

Doubled ranks are whole numbers, so that sums of their products are exact: the order of rows, that
of columns and the number of threads change no group.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Rows, Schema

Index = NDArray[np.int64]

# Correlations beyond which columns are alike, and then at which a chain is cut; the last is that of
# equal ranks, which is an equivalence.
_LEVELS = np.array([0.98, 0.99, 0.995, 0.998, 0.999, 1 - 1e-10])
_MOST_ROWS = 1000  # that numeric columns are compared in
_BLOCK = 256  # columns that are compared with all others at a time


def near_copies(rows: Rows, schema: Schema) -> list[Index]:
    """Return the groups of two or more columns that are near copies of each other.

    Parameters
    ----------
    rows : Rows
        Numeric columns are compared in the first 1,000, so that more must come in an order that
        does not depend on the source's.
    schema : Schema
        It says which columns are categories.

    Returns
    -------
    list of ndarray of int
        Ascending positions in 0..d-1, by the first of each group; no column is in two.
    """
    groups = _same_partitions(rows, schema.categorical)
    some = rows.take(slice(_MOST_ROWS)).X
    numeric = np.setdiff1d(np.arange(rows.n_features), schema.categorical)
    last = np.array([_doubled_ranks(some[:, j]) for j in numeric]).reshape(len(numeric), len(some))
    varies = last.any(axis=1)
    numeric, tables = numeric[varies], [last[varies]]
    if np.isnan(some[:, numeric]).any():
        tables.append(np.array([_doubled_ranks_of_observed(some[:, j]) for j in numeric]))
    groups += [numeric[group] for group in _cliques(*_alike(tables), len(numeric))]
    return sorted(groups, key=lambda group: int(group[0]))


def _same_partitions(rows: Rows, columns: Sequence[int]) -> list[Index]:
    found: dict[bytes, list[int]] = {}
    for j, values in zip(columns, rows.columns(columns), strict=True):
        _, first, level = np.unique(values, return_index=True, return_inverse=True)
        if len(first) > 1:  # a row is named by the first row of its level
            key = hashlib.sha256(first[level].astype(np.int64).tobytes()).digest()
            found.setdefault(key, []).append(j)
    return [np.array(group) for group in found.values() if len(group) > 1]


def _doubled_ranks(values: Floats) -> Floats:
    """Return twice the mean ranks (n,), less their mean; missing values are the last."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    doubled: Floats = (2 * np.cumsum(counts) - counts - len(values)).astype(np.float64)
    return doubled[place]


def _doubled_ranks_of_observed(values: Floats) -> Floats:
    ranks, is_observed = np.zeros(len(values)), ~np.isnan(values)
    ranks[is_observed] = _doubled_ranks(values[is_observed])
    return ranks


def _alike(tables: Sequence[Floats]) -> tuple[Index, Index, Index]:
    """Return all pairs i < j of columns that are alike, and how many levels each exceeds.

    They are so by every table (k, n) of centred ranks. Columns that do not vary in one are alike.
    """
    pairs = [np.zeros((3, 0), np.int64)]
    squares = [np.einsum("ij,ij->i", ranks, ranks) for ranks in tables]
    for start in range(0, len(tables[0]), _BLOCK):
        rows, level = slice(start, start + _BLOCK), np.array(len(_LEVELS), np.int8)
        for ranks, square in zip(tables, squares, strict=True):
            product = np.square(ranks[rows] @ ranks[start:].T)
            most = np.outer(square[rows], square[start:])
            exceeded = sum((product > level**2 * most).astype(np.int8) for level in _LEVELS)
            is_constant = np.logical_and.outer(square[rows] == 0, square[start:] == 0)
            level = np.minimum(level, np.where(is_constant, np.int8(len(_LEVELS)), exceeded))
        i, j = np.nonzero(np.triu(level, 1))
        pairs.append(np.array([i + start, j + start, level[i, j]]))
    i, j, levels = np.hstack(pairs)
    return i, j, levels


def _cliques(i: Index, j: Index, levels: Index, n_columns: int) -> list[Index]:
    """Return groups of columns of which every two are alike, given the pairs that are."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    groups: list[Index] = []
    for level in range(len(_LEVELS)):
        strong = levels > level
        links = np.ones(strong.sum()), (i[strong], j[strong])
        part = connected_components(coo_array(links, shape=(n_columns, n_columns)))[1]
        size, inside = np.bincount(part), part[i] == part[j]
        n_pairs = np.bincount(part[i[inside]], minlength=len(size))
        is_whole = (size > 1) & (n_pairs == size * (size - 1) // 2)
        groups += [np.flatnonzero(part == number) for number in np.flatnonzero(is_whole)]
        is_open = ~is_whole[part[i]] & ~is_whole[part[j]]
        i, j, levels = i[is_open], j[is_open], levels[is_open]
        if not len(i):
            break
    return groups
