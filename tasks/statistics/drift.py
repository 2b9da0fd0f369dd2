"""Change of a feature's distribution between two tables, independent of its unit.

Kolmogorov-Smirnov statistic for numbers, total variation for categories. Both are the largest
difference of the two probabilities of an event: over events x <= t for the first, over all sets
of categories for the second. Both are 0 for equal distributions, and 1 for disjoint ones (for
numbers: if all values of one table are above all of the other).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow as pa

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.tasks.data.arrow import as_numbers, categories_of
from chaffinch.tasks.data.column_profile import QUANTILES
from chaffinch.tasks.selection.core import Floats

Measure = Literal["Kolmogorov-Smirnov", "total variation"]

_CATEGORY = "category"
# below the 60 of minutes in seconds, and far above what values do by themselves
_OTHER_SCALE, _FEWEST_VALUES = 30.0, 30
# a tenth of the values that a column had: far below what a season or a late delivery leaves out
_EMPTIED = 0.1
# what a shop opens or a supplier adds from night to night stays far below
_UNSEEN = 0.25


@dataclass(frozen=True)
class FeatureDrift:
    """Change of a feature's distribution."""

    feature: str
    measure: Measure
    distance: float | None  # in 0..1, of the non-missing values; None if a table has none
    missing_before: float  # share of rows
    missing_after: float
    values_before: int  # number of non-missing values: with few, the distance is large by chance
    values_after: int
    # the larger absolute value of the 5 and 95 % quantiles; None for a category or few values
    reach_before: float | None = None
    reach_after: float | None = None
    unseen_after: float = 0.0  # share of the values in categories that the first table lacks

    @property
    def has_other_scale(self) -> bool:
        """Whether the scale has changed by a factor of 30 or more; see `reach`."""
        return is_other_scale(self.reach_before, self.reach_after)

    @property
    def is_emptied(self) -> bool:
        """Whether less than a tenth of the share of rows with a value is left."""
        present = 1 - self.missing_after
        # the column may have no value now: its number of rows is not known then, nor needed
        n_rows = self.values_after / present if present else math.inf
        return is_emptied(1 - self.missing_before, present, n_rows)

    @property
    def is_mostly_unseen(self) -> bool:
        """Whether a quarter of the values, of 30 or more, are in categories not seen before."""
        return self.unseen_after >= _UNSEEN and self.values_after >= _FEWEST_VALUES


def drift_between(before: Dataset, after: Dataset, feature: str) -> FeatureDrift | None:
    """Return the drift of a feature between two datasets; sample weights are ignored."""
    from scipy.stats import ks_2samp

    if not (feature in before.columns and feature in after.columns):
        return None
    columns = [dataset.read([feature]).column(0) for dataset in (before, after)]
    kinds = {
        dataset.columns[feature] == _CATEGORY
        for dataset, column in zip((before, after), columns, strict=True)
        if column.null_count < len(column)  # a column without values has the type of numbers
    }
    if len(kinds) > 1:
        return None
    is_category = True in kinds
    # categories become codes in their common list
    texts = [column for column in columns if pa.types.is_dictionary(column.type)]
    shared = sorted({name for column in texts for name in categories_of(column)})
    vectors = [as_numbers(column, shared) for column in columns]
    before_missing, after_missing = (float(np.isnan(vector).mean()) for vector in vectors)
    first, second = (vector[~np.isnan(vector)] for vector in vectors)
    measure: Measure = "total variation" if is_category else "Kolmogorov-Smirnov"
    distance, unseen = None, 0.0
    reaches = (None, None) if is_category else (reach(first), reach(second))
    if len(first) and len(second):
        if is_category:
            distance = total_variation(first, second)
            unseen = float(np.isin(second, first, invert=True).mean())
        else:  # the p-value is not used: take its fastest method
            distance = float(ks_2samp(first, second, method="asymp").statistic)
    missing, n_values = (before_missing, after_missing), (len(first), len(second))
    return FeatureDrift(feature, measure, distance, *missing, *n_values, *reaches, unseen)


def rescalings(drifts: Iterable[FeatureDrift], features: Collection[str]) -> dict[str, str]:
    """Return which of the features have another scale, and how far their values reach."""
    return {
        drift.feature: f"reaches to {drift.reach_after:.3g}, was {drift.reach_before:.3g}, by the "
        "5 and 95 % quantiles"
        for drift in drifts
        if drift.has_other_scale and drift.feature in features
    }


def emptyings(drifts: Iterable[FeatureDrift], features: Collection[str]) -> dict[str, str]:
    """Return which of the features have lost most of their values, and how many are missing."""
    return {
        drift.feature: f"{drift.missing_after:.0%} missing, was {drift.missing_before:.0%}"
        for drift in drifts
        if drift.is_emptied and drift.feature in features
    }


def unseen_categories(drifts: Iterable[FeatureDrift], features: Collection[str]) -> dict[str, str]:
    """Return which of the features have many values in new categories, and how many."""
    return {
        drift.feature: f"{drift.unseen_after:.0%} of its values"
        for drift in drifts
        if drift.is_mostly_unseen and drift.feature in features
    }


def is_emptied(before: float, now: float, n_rows: float) -> bool:
    """Return whether a share of rows with a value fell below a tenth, where 30 were expected."""
    return now < _EMPTIED * before and n_rows * before >= _FEWEST_VALUES


def reach(values: Floats) -> float | None:
    """Return the larger absolute outer quantile of values without NaN; None for few values."""
    if len(values) < _FEWEST_VALUES:
        return None
    return float(np.abs(np.quantile(values, QUANTILES)).max())


def is_other_scale(before: float | None, after: float | None) -> bool:
    """Return whether two results of `reach` differ by a factor of 30 or more."""
    if not before or not after:
        return False
    return max(before / after, after / before) >= _OTHER_SCALE


def total_variation(first: Floats, second: Floats) -> float:
    """Return half the sum of absolute differences in share of each code 0, 1, ..."""
    n_codes = int(max(first.max(), second.max())) + 1
    shares = [
        np.bincount(codes.astype(np.int64), minlength=n_codes) / len(codes)
        for codes in (first, second)
    ]
    return float(np.abs(shares[0] - shares[1]).sum() / 2)
