"""Differentiable selection as a ranking: descend while ever fewer features may stay.

One descent serves every size: the penalty is steered to half of the columns, then to half of these,
down to one, each time from where the last one ended.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from chaffinch.tasks.selection.dfs.coefficients import check_order
from chaffinch.tasks.selection.dfs.descent import Descent
from chaffinch.tasks.selection.dfs.search import Rules, open_descent
from chaffinch.tasks.selection.dfs.sources import InMemory
from chaffinch.tasks.selection.rivals.columns import one_table
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema


def dfs(rows: Rows, schema: Schema, seed: int, *, order: int, steps: int) -> Floats:
    """Score by when a feature leaves the descent.

    Parameters
    ----------
    rows : Rows
        Training rows, more than `order`.
    schema : Schema
    seed : int
        Draws the order of the rows.
    order : int in 1..8
        Of the estimate.
    steps : int, at least 1
        For each number of columns.

    Returns
    -------
    ndarray of float64, shape (d,)
        How often the number was halved before the best column of the feature left, and how much of
        it was kept then, 0 to 1. 0 for a constant feature.

    Raises
    ------
    ValueError
        If there are too few rows for the order.
    """
    check_order(order, len(rows))
    scores = np.zeros(len(schema.features))
    table, feature = one_table(rows, schema)
    if not len(feature) or (rows.y == rows.y[0]).all():
        return scores
    rules = Rules(order=order, task=schema.task, seed=seed)
    descent = open_descent(InMemory(table, rows.y), rules)
    np.maximum.at(scores, feature, _times_halved(descent, steps))
    return scores


def _times_halved(descent: Descent, steps: int) -> Floats:
    """Return the score of every column; equal ones leave together."""
    n_left = len(descent.v)
    scores, stays = np.full(n_left, 0.5), np.ones(n_left, dtype=bool)
    for v in _ever_fewer(descent, steps):
        n_left = (n_left + 1) // 2
        scores[stays] = np.floor(scores[stays]) + 0.5 + 0.5 * v[stays] / (1 + np.abs(v[stays]))
        stays &= v >= np.sort(v[stays])[-n_left]
        scores[stays] += 1
    return scores


def _ever_fewer(descent: Descent, steps: int) -> Iterator[Floats]:
    """Yield v each time that the number of features has been halved, down to one."""
    n_left = len(descent.v)
    while n_left > 1:
        n_left = (n_left + 1) // 2
        descent.forget()
        for _ in range(steps):
            descent.step(n_features=n_left)
        yield descent.v.astype(np.float64)
