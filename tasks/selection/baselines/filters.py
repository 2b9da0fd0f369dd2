"""Filters: features scored against the target, without any model.

By `correlation`, `anova_f` and `mutual_information` a feature's score does not depend on the other
features, so that features can be distributed; by `mrmr`, `fcbf` and `relieff` it does. See
`columns.py` for categories and missing values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.baselines.columns import (
    Codes,
    codes_of,
    columns_of,
    in_bins,
    standardised,
    without_gaps,
)
from chaffinch.tasks.selection.baselines.ranking import ranking
from chaffinch.tasks.selection.core import Floats, Rows, Schema
from chaffinch.tasks.selection.models.runtime import single_thread

_NEIGHBOURS = 3  # scikit-learn's default
_LARGEST = float(np.finfo(np.float64).max)


@ranking(
    "correlation",
    score="the absolute correlation with the target; for classes the greatest with one class "
    "against the rest",
    one_by_one=True,
    weights=True,
)
def correlation(rows: Rows, schema: Schema) -> Floats:
    """Score by the absolute weighted correlation, 0..1; for classes with each against the rest."""
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


@ranking("anova_f", score="the F statistic of the feature against the target", one_by_one=True)
def anova_f(rows: Rows, schema: Schema) -> Floats:
    """Score by scikit-learn's F, at least 0; the largest float for a perfect feature."""
    return _best_columns(rows, schema, f_statistic(rows, schema))


def f_statistic(rows: Rows, schema: Schema) -> Callable[[Floats], float]:
    """Return a function from a standardised column (n,) to its F statistic with the target."""
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


@ranking(
    "mutual_information",
    score="the mutual information with the target in nats, estimated from nearest neighbours",
    one_by_one=True,
)
def mutual_information(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by scikit-learn's estimate of the mutual information with the target, in nats."""
    # Categories are discrete, missing is a value of its own; numbers are continuous, standardised
    # and estimated from three nearest neighbours.
    from sklearn.feature_selection import mutual_info_classif, mutual_info_regression

    information = mutual_info_classif if schema.n_classes else mutual_info_regression
    target = rows.y if schema.n_classes else standardised(np.asarray(rows.y, dtype=np.float64))
    scores = np.zeros(len(schema.features))
    for feature, n_categories in enumerate(schema.n_categories):
        values = rows.X[:, feature]
        column = codes_of(values) if n_categories else standardised(without_gaps(values))
        if target is None or column is None or (n_categories and not _has_repeats(column)):
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
    """Return the mutual information (d, d) of features i with j in the target's place, in nats."""
    # not by threads, which would share Python's filters of warnings, which scikit-learn clears for
    # a moment
    from joblib import Parallel, delayed

    of_one = delayed(mutual_information_with)
    features = range(len(schema.features))
    columns = Parallel(n_jobs=processes)(of_one(rows, schema, seed, j) for j in features)
    matrix = np.stack(columns, axis=1)
    np.fill_diagonal(matrix, 0.0)
    return matrix


def mutual_information_with(rows: Rows, schema: Schema, seed: int, feature: int) -> Floats:
    """Return the mutual information (d,) of each feature with the feature in the target's place."""
    target = rows.X[:, feature]
    n_categories = schema.n_categories[feature]
    if n_categories:
        codes = np.unique(codes_of(target), return_inverse=True)[1].astype(np.int64)
        with_target = Rows(rows.X, codes)
    else:
        with_target = Rows(rows.X, without_gaps(target))
    return mutual_information(with_target, replace(schema, n_classes=n_categories), seed)


def _has_repeats(codes: NDArray[Any]) -> bool:
    """Return whether any category occurs twice; otherwise they are mere row names."""
    return len(np.unique(codes)) < len(codes)


def _best_columns(rows: Rows, schema: Schema, statistic: Callable[[Floats], float]) -> Floats:
    """Return the highest statistic of each feature's columns, shape (d,); 0 where it has none."""
    return np.array(
        [
            max((statistic(column) for column in columns_of(rows, schema, feature)), default=0.0)
            for feature in range(len(schema.features))
        ]
    )


@ranking(
    "fcbf",
    score="the symmetrical uncertainty with the target, 0 to 1, less 1 if a better feature makes "
    "it redundant",
)
def fcbf(rows: Rows, schema: Schema) -> Floats:
    """Score by the symmetrical uncertainty with the target, minus 1 for redundant features.

    Yu and Liu, "Feature selection for high-dimensional data: a fast correlation-based filter
    solution", Proceedings of the 20th International Conference on Machine Learning (2003), figure
    2.

    Features are compared by their symmetrical uncertainty, twice their mutual information over the
    sum of their entropies: 0 for independent features, 1 if each determines the other. A feature is
    redundant if a predominant feature, of higher uncertainty with the target, has an uncertainty
    with it of at least that of the target; all others are predominant.

    Numbers, also of the target, are split into bins of equal frequency, as many as the cube root of
    the number of rows, 2 to 10; equal values share a bin. Categories are unchanged. Missing is a
    separate value.
    """
    # So a threshold above 0 is the paper's delta. All are 0 if none is informative.
    codes, entropies, relevance = _read(rows, schema)
    # Best first, of equals the highest index.
    order = np.lexsort((-np.arange(len(codes)), -relevance))
    left = [int(j) for j in order if relevance[j] > 0]
    if not left:
        return relevance
    scores = relevance - 1
    while left:
        best, *others = left
        scores[best] = relevance[best]
        left = [
            j
            for j in others
            if uncertainty(codes[j], codes[best], entropies[j], entropies[best]) < relevance[j]
        ]
    return scores


def uncertainties(rows: Rows, schema: Schema) -> tuple[Floats, Floats]:
    """Return symmetrical uncertainties with the target (d,) and of pairs (d, d), in 0..1."""
    codes, entropies, relevance = _read(rows, schema)
    redundancy = np.zeros((len(codes), len(codes)))
    for i in range(len(codes)):
        for j in range(i):
            of_pair = uncertainty(codes[i], codes[j], entropies[i], entropies[j])
            redundancy[i, j] = redundancy[j, i] = of_pair
    return relevance, redundancy


def _read(rows: Rows, schema: Schema) -> tuple[list[Codes], Floats, Floats]:
    """Return the features' codes and entropies, and their uncertainties with the target."""
    codes = [in_bins(rows.X[:, j], is_category=n > 0) for j, n in enumerate(schema.n_categories)]
    target = in_bins(rows.y, is_category=schema.n_classes > 0)
    entropies = np.array([entropy_of(np.bincount(of_feature)) for of_feature in codes])
    of_target = entropy_of(np.bincount(target))
    relevance = np.array(
        [
            uncertainty(of_feature, target, entropy, of_target)
            for of_feature, entropy in zip(codes, entropies, strict=True)
        ]
    )
    return codes, entropies, relevance


def uncertainty(codes: Codes, other: Codes, entropy: float, of_other: float) -> float:
    """Return the symmetrical uncertainty of two features, from their codes and entropies."""
    if not entropy or not of_other:
        return 0.0
    n_codes, n_other = int(codes.max()) + 1, int(other.max()) + 1
    pairs = codes.astype(np.int64) * n_other + other
    if n_codes * n_other <= len(pairs):
        counts = np.bincount(pairs)
    else:  # the table of all pairs could outgrow the rows
        counts = np.unique(pairs, return_counts=True)[1]
    together = entropy_of(counts[counts > 0])
    return float(np.clip(2 * (entropy + of_other - together) / (entropy + of_other), 0.0, 1.0))


def entropy_of(counts: NDArray[np.int64]) -> float:
    """Return the entropy in nats of values that occur so many times each, all at least once."""
    share = np.sort(counts) / counts.sum()  # in the same order, whichever value is which
    return float(-(share * np.log(share)).sum())


@ranking(
    "mrmr",
    score="the place in a greedy choice of least redundant, most relevant features; the first "
    "chosen has the highest",
    is_place=True,
)
def mrmr(rows: Rows, schema: Schema) -> Floats:
    """Score by the place in the greedy choice, d for the first; 0 without any relevance.

    Peng, Long and Ding, "Feature selection based on mutual information: criteria of max-dependency,
    max-relevance, and min-redundancy", IEEE Transactions on Pattern Analysis and Machine
    Intelligence 27 (2005), equation 6: the next feature has the greatest

        relevance - mean redundancy with the features chosen before.

    For numbers, Ding and Peng (2005) take F for relevance and absolute correlation for redundancy.
    F has no upper bound and would outweigh any correlation, so relevance is here the correlation
    ratio, which ranks features as F does and lies in 0..1 as a correlation does:

        sqrt( F / (F + degrees of freedom within / degrees of freedom between) ).

    A category stands in both by the most relevant of its columns; see `columns.py`.
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


_MOST_SAMPLED = 250
_NEIGHBOURS_OF_A_CLASS = 10
# of a number: how many, and after how many influence falls to 1/e
_NEIGHBOURS_OF_RELIEFF, _DECAY = 70, 20.0
_CELLS_AT_ONCE = 1 << 21


@ranking(
    "relieff",
    score="how much more the feature differs between near rows of unlike targets than of like ones",
)
def relieff(rows: Rows, schema: Schema, seed: int) -> Floats:
    """Score by how well each feature separates near rows with different targets, in -1..1.

    Robnik-Sikonja and Kononenko, "Theoretical and empirical analysis of ReliefF and RReliefF",
    Machine Learning 53 (2003), figures 2 and 3, with the paper's own numbers of neighbours.

    A feature is good if it differs between near rows with different targets and agrees between near
    rows with similar ones. Near is judged by all features at once, so that features which are
    informative only together are found; and so that many useless ones hide them.

    A number's difference is its distance in units of its range; a category's is 0 or 1. A missing
    number is replaced by the mean, a missing category is a separate value. Since 1 is far, near
    rows mostly share their categories, and among numbers a category is scored low: that is ReliefF.
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
    """Return each drawn row with its nearest rows, and their shares: three arrays, shape (p,)."""
    near: list[tuple[int, NDArray[np.int64], Floats]] = []
    at_once = max(1, _CELLS_AT_ONCE // values.shape[1])
    for start in range(0, len(drawn), at_once):
        some = drawn[start : start + at_once]
        for row, distance in zip(some, _distances(values, is_category, some), strict=True):
            order = np.argsort(distance, kind="stable")
            order = order[order != row]
            neighbours = (
                _influence(order[:_NEIGHBOURS_OF_RELIEFF])
                if labels is None
                else _of_each_class(order, labels, int(row))
            )
            near.append((int(row), *neighbours))
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
