"""Filters: each feature scored by itself against the target, without any model.

A feature's score does not depend on the other features, so that features can be shared out.
`columns.py` says how categories and missing values are scored.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.rivals.columns import (
    codes_of,
    columns_of,
    standardised,
    without_gaps,
)
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema

_NEIGHBOURS = 3  # scikit-learn's default
_LARGEST = float(np.finfo(np.float64).max)


def correlation(rows: Rows, schema: Schema) -> Floats:
    """Score by the absolute Pearson correlation with the target.

    For classes, the greatest with any one class against the rest.

    Parameters
    ----------
    rows : Rows
        Training rows; weights count.
    schema : Schema

    Returns
    -------
    ndarray of float64, shape (d,)
        In 0..1; 0 for a constant feature.
    """
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    share = weight / weight.sum()
    if not schema.n_classes:
        target = standardised(np.asarray(rows.y, dtype=np.float64), rows.weight)
        if target is None:
            return np.zeros(len(schema.features))
        product = share * target
        scores = _best_columns(rows, schema, lambda column: float(abs((product * column).sum())))
        return np.minimum(scores, 1.0)
    size = np.bincount(rows.y, weights=share, minlength=schema.n_classes)
    varies = (size > 0) & (np.bincount(rows.y, minlength=schema.n_classes) < len(rows))
    spread = np.sqrt(size[varies] * (1 - size[varies]))

    def greatest(column: Floats) -> float:
        sums = np.bincount(rows.y, weights=share * column, minlength=schema.n_classes)
        return float(np.max(np.abs(sums[varies]) / spread, initial=0.0))

    return np.minimum(_best_columns(rows, schema, greatest), 1.0)


def anova_f(rows: Rows, schema: Schema) -> Floats:
    """Score by scikit-learn's F statistic: `f_classif` for classes, `f_regression` for numbers.

    Parameters
    ----------
    rows : Rows
        Training rows, more than there are classes, and at least 3.
    schema : Schema

    Returns
    -------
    ndarray of float64, shape (d,)
        At least 0; 0 for a constant feature, the largest float for one that tells all.
    """
    return _best_columns(rows, schema, f_statistic(rows, schema))


def f_statistic(rows: Rows, schema: Schema) -> Callable[[Floats], float]:
    """Return what takes a standardised column (n,) to its F statistic against the target."""
    from sklearn.feature_selection import f_classif, f_regression

    target = rows.y if schema.n_classes else standardised(np.asarray(rows.y, dtype=np.float64))
    if target is None:
        return lambda column: 0.0
    test = f_classif if schema.n_classes else f_regression

    def statistic(column: Floats) -> float:
        with single_thread(), np.errstate(divide="ignore", invalid="ignore"):
            value = test(column[:, np.newaxis], target)[0][0]
        # scikit-learn subtracts sums, so that no variance within classes can come out below 0
        return _LARGEST if value < 0 else float(np.nan_to_num(value, nan=0.0, posinf=_LARGEST))

    return statistic


def mutual_information(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by scikit-learn's estimate of the mutual information with the target, in nats.

    A category is discrete, a missing one a value of its own; numbers are continuous, standardised
    and estimated from three nearest neighbours.

    Parameters
    ----------
    rows : Rows
        Training rows, at least 3.
    schema : Schema
    seed : int
        Of the noise that parts equal numbers; the same for every feature, whatever its place.

    Returns
    -------
    ndarray of float64, shape (d,)
        At least 0.
    """
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    information = mutual_info_classif if schema.n_classes else mutual_info_regression
    target = rows.y if schema.n_classes else standardised(np.asarray(rows.y, dtype=np.float64))
    scores = np.zeros(len(schema.features))
    for feature, n_categories in enumerate(schema.n_categories):
        values = rows.X[:, feature]
        column = codes_of(values) if n_categories else standardised(without_gaps(values))
        if target is None or column is None or (n_categories and not _repeats(column)):
            continue
        with single_thread():
            scores[feature] = information(
                column[:, np.newaxis],
                target,
                discrete_features=bool(n_categories),
                n_neighbors=min(_NEIGHBOURS, len(rows) - 1),
                random_state=seed,
            )[0]
    return scores


def mutual_information_of_pairs(
    rows: Rows, schema: Schema, seed: int, *, processes: int = 1
) -> Floats:
    """Return the mutual information of features with each other, in nats.

    Parameters
    ----------
    rows, schema, seed
        See `mutual_information`.
    processes : int, at least 1
        How many features to look at together; changes no number. Threads would share Python's
        filters of warnings, which scikit-learn clears for a moment in each of them.

    Returns
    -------
    ndarray of float64, shape (d, d)
        Row i, column j: feature i's with feature j, in whose place the target stands. The estimate
        is not symmetric. The diagonal is 0.

    Notes
    -----
    Takes the time of d d estimates.
    """
    from joblib import Parallel, delayed

    of_one = delayed(mutual_information_with)
    features = range(len(schema.features))
    columns = Parallel(n_jobs=processes)(of_one(rows, schema, seed, j) for j in features)
    matrix = np.stack(columns, axis=1)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def mutual_information_with(rows: Rows, schema: Schema, seed: int, feature: int) -> Floats:
    """Return the mutual information of each feature with one that stands in the target's place.

    Parameters
    ----------
    rows, schema, seed
        See `mutual_information`.
    feature : int in 0..d-1
        Which.

    Returns
    -------
    ndarray of float64, shape (d,)
        At least 0.
    """
    target = rows.X[:, feature]
    n_categories = schema.n_categories[feature]
    if n_categories:
        codes = np.unique(codes_of(target), return_inverse=True)[1].astype(np.int64)
        with_target = Rows(rows.X, codes)
    else:
        with_target = Rows(rows.X, without_gaps(target))
    return mutual_information(with_target, replace(schema, n_classes=n_categories), seed)


def _repeats(codes: NDArray[Any]) -> bool:
    """Return whether any category occurs twice; where none does they only name the rows."""
    return len(np.unique(codes)) < len(codes)


def _best_columns(rows: Rows, schema: Schema, statistic: Callable[[Floats], float]) -> Floats:
    """Return the highest statistic of each feature's columns, shape (d,); 0 where it has none."""
    return np.array(
        [
            max((statistic(column) for column in columns_of(rows, schema, feature)), default=0.0)
            for feature in range(len(schema.features))
        ]
    )
