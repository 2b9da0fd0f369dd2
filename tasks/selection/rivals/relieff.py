"""ReliefF for classes, RReliefF for numbers.

Robnik-Sikonja and Kononenko, "Theoretical and empirical analysis of ReliefF and RReliefF", Machine
Learning 53 (2003), figures 2 and 3, with the paper's own numbers of neighbours.

A feature is good if it differs between near rows with unlike targets and agrees between near rows
with like ones. Near is judged by all features at once, so that features which tell something only
together are found; and so that many useless ones hide them.

A number's difference is its distance in units of its range; a category's is 0 or 1. A missing
number is the mean, a missing category a value of its own. Since 1 is far, near rows mostly share
their categories, and among numbers a category is scored lower than it deserves: that is ReliefF.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.rivals.columns import codes_of, without_gaps
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

_MOST_SAMPLED = 250
_NEIGHBOURS_OF_A_CLASS = 10
_NEIGHBOURS, _DECAY = 70, 20.0  # of a number: how many, and after how many influence falls to 1/e
_CELLS_AT_ONCE = 1 << 21


def relieff(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by how well each feature tells near rows apart.

    Parameters
    ----------
    rows : Rows
        Training rows, at least 3.
    schema : Schema
    seed : int
        Draws the rows whose neighbours are looked at, at most 250.

    Returns
    -------
    ndarray of float64, shape (d,)
        In -1..1; about 0 for a feature that tells nothing.
    """
    n = len(rows)
    is_category = np.array(schema.n_categories, dtype=bool)
    values = np.empty((len(schema.features), n))
    for feature in range(len(values)):
        values[feature] = _unit_range(rows.X[:, feature], is_category=is_category[feature])
    drawn = np.random.default_rng(seed).permutation(n)[:_MOST_SAMPLED]
    row, neighbour, share = _pairs(values, is_category, drawn, rows.y if schema.n_classes else None)
    target = _unit_range(rows.y.astype(np.float64), is_category=False)
    unlike = np.abs(target[row] - target[neighbour])
    scores = np.empty(len(values))
    for feature, of_feature in enumerate(values):
        difference = np.abs(of_feature[row] - of_feature[neighbour])
        if is_category[feature]:
            difference = (difference != 0).astype(np.float64)
        scores[feature] = (
            (share * difference).sum() / len(drawn)
            if schema.n_classes
            else _weight_of_a_number(share, difference, unlike, len(drawn))
        )
    return scores


def _pairs(
    values: Floats,
    is_category: NDArray[np.bool_],
    drawn: NDArray[np.int64],
    labels: NDArray[Any] | None,
) -> tuple[NDArray[np.int64], NDArray[np.int64], Floats]:
    """Return each drawn row beside its nearest rows, and their shares: three arrays, shape (p,)."""
    near: list[tuple[int, NDArray[np.int64], Floats]] = []
    at_once = max(1, _CELLS_AT_ONCE // values.shape[1])
    for start in range(0, len(drawn), at_once):
        some = drawn[start : start + at_once]
        for row, distance in zip(some, _distances(values, is_category, some), strict=True):
            order = np.argsort(distance, kind="stable")
            order = order[order != row]
            found = (
                _influence(order[:_NEIGHBOURS])
                if labels is None
                else _of_each_class(order, labels, int(row))
            )
            near.append((int(row), *found))
    return (
        np.repeat([row for row, _, _ in near], [len(index) for _, index, _ in near]),
        np.concatenate([index for _, index, _ in near]),
        np.concatenate([share for _, _, share in near]),
    )


def _unit_range(values: Floats, *, is_category: bool) -> Floats:
    """Return numbers moved to 0..1, or categories as codes, shape (n,), without gaps."""
    if is_category:
        return codes_of(values).astype(np.float64)
    filled = without_gaps(values)
    low, high = float(filled.min()), float(filled.max())
    return np.asarray((filled - low) / (high - low)) if high > low else np.zeros(len(filled))


def _distances(
    values: Floats, is_category: NDArray[np.bool_], sampled: NDArray[np.int64]
) -> Floats:
    """Return the distance of sampled rows from all, shape (m, n)."""
    distances = np.zeros((len(sampled), values.shape[1]))
    for of_feature, as_category in zip(values, is_category, strict=True):
        difference = of_feature[sampled, np.newaxis] - of_feature
        distances += difference != 0 if as_category else np.abs(difference)
    return distances


def _of_each_class(
    order: NDArray[np.int64], y: NDArray[Any], row: int
) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest rows of each class with their shares: hits count against a feature."""
    size = np.bincount(y) / len(y)
    index, shares = [], []
    for label in np.flatnonzero(size):
        members = order[y[order] == label][:_NEIGHBOURS_OF_A_CLASS]
        if not len(members):
            continue
        worth = -1.0 if label == y[row] else size[label] / (1 - size[y[row]])
        index.append(members)
        shares.append(np.full(len(members), worth / len(members)))
    return np.concatenate(index), np.concatenate(shares)


def _influence(order: NDArray[np.int64]) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest rows with their influence, which sums to 1."""
    influence = np.exp(-((np.arange(1, len(order) + 1) / _DECAY) ** 2))
    return order, influence / influence.sum()


def _weight_of_a_number(share: Floats, difference: Floats, unlike: Floats, n_drawn: int) -> float:
    """Return RReliefF's weight of a feature; 0 where targets near each other are all the same."""
    unlike_sum = (share * unlike).sum()
    both = (share * unlike * difference).sum()
    if not 0 < unlike_sum < n_drawn:
        return 0.0
    alone = (share * difference).sum() - both
    return float(both / unlike_sum - alone / (n_drawn - unlike_sum))
