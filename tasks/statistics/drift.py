"""How far the distribution of a feature moved between two tables, whatever its unit.

Kolmogorov and Smirnov's statistic for numbers, the total variation for categories: both are the
largest difference of the two probabilities of any one event, over events x <= t the one, over all
sets of categories the other. Both are 0 where nothing moved. The one is 1 where every number lies
above all those before, or below; the other, where no category is common.
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
    """How far a feature moved.

    Attributes
    ----------
    feature : str
        Its name.
    measure : "Kolmogorov-Smirnov" or "total variation"
        Of a number, of a category.
    distance : float in 0..1, or None
        By that measure, of the values that are there; None where one table has none.
    missing_before, missing_after : float in 0..1
        Share of the rows where it is missing.
    values_before, values_after : int
        Rows where it is not: of few, the distance is large by chance.
    """

    feature: str
    measure: Measure
    distance: float | None
    missing_before: float
    missing_after: float
    values_before: int
    values_after: int


def drift_between(before: Dataset, after: Dataset, feature: str) -> FeatureDrift | None:
    """Return how far a feature moved from one dataset to another, sample weights left aside."""
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
    """Return the statistic of Kolmogorov and Smirnov of two samples, shapes (n,) and (m,)."""
    from scipy.stats import ks_2samp

    # of its ways to a p-value, of which no use is made, the quickest
    return float(ks_2samp(first, second, method="asymp").statistic)


def total_variation(first: Floats, second: Floats) -> float:
    """Return half the sum of the differences in share of each code 0, 1, ... of two samples."""
    n_codes = int(max(first.max(), second.max())) + 1
    shares = [
        np.bincount(codes.astype(np.int64), minlength=n_codes) / len(codes)
        for codes in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)


def _as_floats(columns: list[Any]) -> list[Floats]:
    return [as_numbers(column) for column in columns]


def _by_shared_codes(columns: list[Any]) -> list[Floats]:
    """Return categories as positions in one list of all of them."""
    every = sorted({category for column in columns for category in categories_of(column)})
    return [as_numbers(column, every) for column in columns]
