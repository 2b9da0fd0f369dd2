"""The fast correlation-based filter.

Yu and Liu, "Feature selection for high-dimensional data: a fast correlation-based filter
solution", Proceedings of the 20th International Conference on Machine Learning (2003), figure 2.

Features are compared by their symmetrical uncertainty, twice their mutual information over the sum
of their entropies: 0 if neither tells anything of the other, 1 if each tells all. A feature is
predominant unless one that is predominant, and tells more of the target, tells as much of it as
the target does; that one makes it redundant.

Numbers, a target of numbers too, are parted into bins of equal frequency, as many as the cube root
of the number of rows, 2 to 10; equal values share a bin. Categories are as they are. Wherever a
value is missing, that is a value of its own.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.rivals.binned import Codes, in_bins
from chaffinch.tasks.selection.vocabulary import Floats, Rows, Schema


def fcbf(rows: Rows, schema: Schema) -> Floats:
    """Score by the symmetrical uncertainty with the target, less 1 for what is redundant.

    So predominant features come first, each group in the order of the uncertainty, and a threshold
    above 0 is the paper's delta.

    Parameters
    ----------
    rows : Rows
        Training rows.
    schema : Schema

    Returns
    -------
    ndarray of float64, shape (d,)
        In 0..1 for a predominant feature, -1..0 for a redundant one; -1 for one that tells
        nothing, but 0 for all if none tells anything.

    Notes
    -----
    Of equal features the one furthest right is predominant. Takes half the memory of the rows once
    more, and for d features p of which are predominant the time of p d tables of two features.
    """
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
            if _uncertainty(codes[j], codes[best], entropies[j], entropies[best]) < relevance[j]
        ]
    return scores


def uncertainties(rows: Rows, schema: Schema) -> tuple[Floats, Floats]:
    """Return the symmetrical uncertainties of features with the target, and with each other.

    Parameters
    ----------
    rows : Rows
        Training rows.
    schema : Schema

    Returns
    -------
    relevance : ndarray of float64, shape (d,)
        In 0..1.
    redundancy : ndarray of float64, shape (d, d)
        In 0..1, symmetric, with a diagonal of 0.

    Notes
    -----
    Takes the time of d d / 2 tables of two features.
    """
    codes, entropies, relevance = _read(rows, schema)
    redundancy = np.zeros((len(codes), len(codes)))
    for i in range(len(codes)):
        for j in range(i):
            of_pair = _uncertainty(codes[i], codes[j], entropies[i], entropies[j])
            redundancy[i, j] = redundancy[j, i] = of_pair
    return relevance, redundancy


def _read(rows: Rows, schema: Schema) -> tuple[list[Codes], Floats, Floats]:
    """Return the features' codes and entropies, and their uncertainties with the target."""
    codes = [in_bins(rows.X[:, j], is_category=n > 0) for j, n in enumerate(schema.n_categories)]
    target = in_bins(rows.y, is_category=schema.n_classes > 0)
    entropies = np.array([_entropy(np.bincount(of_feature)) for of_feature in codes])
    of_target = _entropy(np.bincount(target))
    relevance = np.array(
        [
            _uncertainty(of_feature, target, entropy, of_target)
            for of_feature, entropy in zip(codes, entropies, strict=True)
        ]
    )
    return codes, entropies, relevance


def _uncertainty(one: Codes, other: Codes, entropy: float, of_other: float) -> float:
    """Return the symmetrical uncertainty of two features, from their codes and entropies."""
    if not entropy or not of_other:
        return 0.0
    n_one, n_other = int(one.max()) + 1, int(other.max()) + 1
    pairs = one.astype(np.int64) * n_other + other
    if n_one * n_other <= len(pairs):
        counts = np.bincount(pairs)
    else:  # the table of all pairs could outgrow the rows
        counts = np.unique(pairs, return_counts=True)[1]
    together = _entropy(counts[counts > 0])
    return float(np.clip(2 * (entropy + of_other - together) / (entropy + of_other), 0.0, 1.0))


def _entropy(counts: NDArray[np.int64]) -> float:
    """Return the entropy in nats of values that occur so many times each, all at least once."""
    share = np.sort(counts) / counts.sum()  # in one order, whichever value is which
    return float(-(share * np.log(share)).sum())
