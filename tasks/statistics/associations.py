"""Associations of features with each other and with the target.

The first say which kept features stand for dropped ones.

Two numbers are compared by the absolute value of Spearman's correlation, with missing values at the
middle rank; a number and a category by the correlation ratio of the ranks, adjusted for the number
of categories; two categories by symmetrical uncertainty, as in FCBF. All lie in 0..1.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.baselines.columns import Codes, in_bins
from chaffinch.tasks.selection.baselines.filters import entropy_of, uncertainty
from chaffinch.tasks.selection.core import Floats, Mask, Schema
from chaffinch.tasks.selection.models.runtime import single_thread

STRONG = 0.8  # least association for a feature to stand for another
_COLUMNS_AT_ONCE = 512
_MOST_PAIRS = 20_000  # of categories: a table for a pair
_MOST_NAMED = 20
_DIGITS = 3  # further digits could depend on the order of sums


def associations(
    X: Floats, schema: Schema, features: Sequence[int], target: NDArray[Any] | None = None
) -> Floats:
    """Return the association of k features with each of the d columns of X, shape (k, d).

    With a target, shape (n,), the last row is its own association with the columns, shape
    (k + 1, d). Pairs of categories beyond the first 20,000 are not compared, and have 0.
    """
    strengths = np.zeros((len(features) + (target is not None), X.shape[1]))
    is_category = np.array(schema.n_categories) > 0
    numbers, categories = np.flatnonzero(~is_category), np.flatnonzero(is_category)
    index = np.array(features, dtype=np.int64)
    of_numbers = np.flatnonzero(~is_category[index])
    compared = X[:, index[of_numbers]]
    codes = {j: in_bins(X[:, j], is_category=True) for j in categories.tolist()}
    of_categories: dict[int, Codes] = {}  # by row, that of the target first
    if target is not None and schema.n_classes:
        of_categories[len(features)] = in_bins(target, is_category=True)
    elif target is not None:
        of_numbers = np.append(of_numbers, len(features))
        compared = np.column_stack([compared, target])
    of_categories |= {row: codes[j] for row, j in enumerate(features) if is_category[j]}
    ranks = _standard_ranks(compared)
    with single_thread():
        for start in range(0, len(numbers), _COLUMNS_AT_ONCE):
            block = numbers[start : start + _COLUMNS_AT_ONCE]
            of_block = _standard_ranks(X[:, block])
            strengths[np.ix_(of_numbers, block)] = np.abs(ranks.T @ of_block)
            for row, of_row in of_categories.items():
                strengths[row, block] = _correlation_ratios(of_row, of_block)
        for j in codes:
            strengths[of_numbers, j] = _correlation_ratios(codes[j], ranks)
    entropy = {j: entropy_of(np.bincount(code)) for j, code in codes.items()}
    of_rows = {row: entropy_of(np.bincount(code)) for row, code in of_categories.items()}
    for row, other in islice(product(of_categories, codes), _MOST_PAIRS):
        pair = of_categories[row], codes[other]
        strengths[row, other] = uncertainty(*pair, of_rows[row], entropy[other])
    return strengths.round(_DIGITS)


def _correlation_ratios(codes: Codes, ranks: Floats) -> Floats:
    """Return the adjusted correlation ratio of each column of standard ranks with a category."""
    n_rows, sizes = len(codes), np.bincount(codes)
    if len(sizes) == n_rows:
        return np.zeros(ranks.shape[1])
    is_in = codes == np.arange(len(sizes))[:, np.newaxis]
    between = (np.square(is_in.astype(np.float64) @ ranks) / sizes[:, np.newaxis]).sum(axis=0)
    within = (1 - between) * (n_rows - 1) / (n_rows - len(sizes))
    varies = ranks.any(axis=0)
    return np.asarray(np.sqrt(np.where(varies, 1 - within, 0).clip(0, 1)))


def stand_ins(
    strengths: Floats, schema: Schema, mask: Mask, features: Sequence[int]
) -> dict[str, Any]:
    """Return which other features each of the kept `features` stands for, the strongest first.

    `strengths` are their associations, shape (k, d).
    """
    groups = []
    for of_feature, feature in zip(strengths, features, strict=True):
        is_strong = of_feature >= STRONG
        is_strong[feature] = False
        if is_strong.any():
            group: dict[str, Any] = {"feature": schema.features[feature]}
            for name, others in (("dropped", is_strong & ~mask), ("kept", is_strong & mask)):
                group[name] = _strongest(of_feature, others, schema)
                group[f"n_{name}"] = int(others.sum())
            groups.append(group)
    return {
        "threshold": STRONG,
        "groups": groups,
        "n_dropped": int((~mask).sum()),
        "n_with_stand_in": int(((strengths >= STRONG).any(axis=0) & ~mask).sum()),
    }


def _strongest(of_feature: Floats, others: Mask, schema: Schema) -> list[dict[str, Any]]:
    """Return the names of at most 20 others with the strongest associations."""
    order = np.flatnonzero(others)[np.argsort(-of_feature[others], kind="stable")][:_MOST_NAMED]
    return [{"feature": schema.features[j], "association": float(of_feature[j])} for j in order]


def _standard_ranks(X: Floats) -> Floats:
    """Return the ranks of each column, less their mean, with a sum of squares of 1 or 0."""
    from scipy.stats import rankdata

    missing = np.isnan(X)
    ranks = rankdata(np.where(missing, np.inf, X), axis=0)  # missing values are last
    ranks = np.where(missing, np.nan, ranks)
    with np.errstate(invalid="ignore"):
        ranks -= (
            1 + (~missing).sum(axis=0)
        ) / 2  # the mean rank of the values that are not missing
    ranks = np.nan_to_num(ranks)
    sizes = np.sqrt(np.einsum("ij,ij->j", ranks, ranks))
    return np.asarray(ranks / np.where(sizes > 0, sizes, 1))
