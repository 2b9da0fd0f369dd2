"""Change of a feature's distribution between two tables, independent of its unit.

Kolmogorov-Smirnov statistic for numbers, total variation for categories. Both are the largest
difference of the two probabilities of one event: over events x <= t for the first, over all sets
of categories for the second. Both are 0 for equal distributions, and 1 for disjoint ones (for
numbers: if all values of one table are above all of the other).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.tasks.data.arrow import as_numbers, categories_of
from chaffinch.tasks.selection.core import Floats

Measure = Literal["Kolmogorov-Smirnov", "total variation"]

_CATEGORY = "category"


@dataclass(frozen=True)
class FeatureDrift:
    """Change of one feature's distribution.

    Attributes
    ----------
    feature : str
        Feature name.
    measure : "Kolmogorov-Smirnov" or "total variation"
        For numbers, for categories.
    distance : float in 0..1, or None
        Distance of the non-missing values; None where one table has none.
    missing_before, missing_after : float in 0..1
        Share of rows where it is missing.
    values_before, values_after : int
        Number of non-missing values: with few, the distance is large by chance.
    """

    feature: str
    measure: Measure
    distance: float | None
    missing_before: float
    missing_after: float
    values_before: int
    values_after: int


def drift_between(before: Dataset, after: Dataset, feature: str) -> FeatureDrift | None:
    """Return the drift of a feature between two datasets; sample weights are ignored."""
    if not (feature in before.columns and feature in after.columns):
        return None
    kinds = {dataset.columns[feature] == _CATEGORY for dataset in (before, after)}
    if len(kinds) > 1:
        return None
    columns = [dataset.read([feature]).column(0) for dataset in (before, after)]
    measure: Measure = "total variation" if kinds.pop() else "Kolmogorov-Smirnov"
    vectors = _by_shared_codes(columns) if measure == "total variation" else _as_floats(columns)
    before_is_missing, after_is_missing = (float(np.isnan(v).mean()) for v in vectors)
    first, second = (vector[~np.isnan(vector)] for vector in vectors)
    distance = None
    if len(first) and len(second):
        total = measure == "total variation"
        distance = total_variation(first, second) if total else largest_gap(first, second)
    return FeatureDrift(
        feature,
        measure,
        distance,
        missing_before=before_is_missing,
        missing_after=after_is_missing,
        values_before=len(first),
        values_after=len(second),
    )


def largest_gap(first: Floats, second: Floats) -> float:
    """Return the Kolmogorov-Smirnov statistic of two samples, shapes (n,) and (m,)."""
    from scipy.stats import ks_2samp

    # the fastest of its p-value methods; the p-value is not used
    return float(ks_2samp(first, second, method="asymp").statistic)


def total_variation(first: Floats, second: Floats) -> float:
    """Return half the sum of absolute differences in share of each code 0, 1, ..."""
    n_codes = int(max(first.max(), second.max())) + 1
    shares = [
        np.bincount(codes.astype(np.int64), minlength=n_codes) / len(codes)
        for codes in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _as_floats(columns: list[Any]) -> list[Floats]:
    return [as_numbers(column) for column in columns]


def _by_shared_codes(columns: list[Any]) -> list[Floats]:
    """Return categories as codes in their common list."""
    every = sorted({category for column in columns for category in categories_of(column)})
    return [as_numbers(column, every) for column in columns]
