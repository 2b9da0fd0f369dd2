"""Summary statistics of a column for the report, and limits of magnitude."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.data.arrow import ColumnKind
from chaffinch.tasks.selection.core import Floats

QUANTILES = (0.05, 0.5, 0.95)  # of a feature's values, which its contract keeps
_MOST_COUNTS = 12
# larger integers are not all distinct in float64
_LARGEST_EXACT_INTEGER = 2**53


@dataclass(frozen=True)
class ColumnProfile:
    """Summary statistics of a column; None where a statistic does not apply.

    `role` is target, feature, excluded, drop, weight, group or time; `type` a `ColumnKind`, or the
    name of a type that cannot be a feature, of which `distinct` is None.

    `counts` are rows: of numbers in 12 intervals of equal width from minimum to maximum, or of one
    number alone; of categories and of true and false, the most frequent first, at most 12, the last
    of which are all others.
    """

    name: str
    role: str
    type: str
    rows: int
    missing: int
    distinct: int | None
    minimum: float | None = None
    mean: float | None = None
    maximum: float | None = None
    standard_deviation: float | None = None
    most_frequent: str | None = None
    counts: tuple[int, ...] | None = None


def profile_column(
    name: str,
    role: str,
    kind: ColumnKind,
    column: Any,
    numbers: Floats,
    categories: tuple[str, ...],
) -> ColumnProfile:
    present = numbers[~np.isnan(numbers)] if column.null_count else numbers
    missing = len(numbers) - len(present)
    profile = partial(ColumnProfile, name, role, kind, len(numbers), missing)
    if not len(present):
        return profile(0)
    if kind in ("category", "bool"):
        rows = np.bincount(present.astype(np.int64))
        labels = categories or ("false", "true")
        most_frequent = labels[int(np.argmax(rows))]
        return profile(
            int(np.count_nonzero(rows)),
            most_frequent=most_frequent,
            counts=_largest(rows[rows > 0]),
        )
    ordered = np.sort(present)
    distinct = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    if kind != "float64" and max(-ordered[0], ordered[-1]) > _LARGEST_EXACT_INTEGER:
        distinct = pc.count_distinct(column).as_py()
    lowest, highest = float(ordered[0]), float(ordered[-1])
    counts = _in_intervals(ordered)
    del ordered  # rows may be many
    if kind == "timestamp":
        return profile(distinct)
    with np.errstate(over="ignore", invalid="ignore"):
        mean, deviation = float(np.mean(present)), float(np.std(present))
    return profile(
        distinct,
        minimum=lowest,
        mean=mean if np.isfinite(mean) else None,
        maximum=highest,
        standard_deviation=deviation if np.isfinite(deviation) else None,
        counts=counts,
    )


def _largest(counts: NDArray[np.int64]) -> tuple[int, ...]:
    """Return counts from the largest, those beyond the eleventh as one."""
    ordered = np.sort(counts)[::-1]
    if len(ordered) > _MOST_COUNTS:
        last = _MOST_COUNTS - 1
        ordered = np.append(ordered[:last], ordered[last:].sum())
    return tuple(ordered.tolist())


def _in_intervals(ordered: Floats) -> tuple[int, ...]:
    """Return how many of some ordered numbers are in each interval between the ends."""
    lowest, highest = ordered[0], ordered[-1]
    if lowest == highest:
        return (len(ordered),)
    # by halves, as the range of the largest numbers is no number
    ends = 2 * np.linspace(lowest / 2, highest / 2, _MOST_COUNTS + 1)[1:-1]
    below = np.searchsorted(ordered, ends)
    return tuple(np.diff(below, prepend=0, append=len(ordered)).tolist())


# sums and squares of many rows must be finite as well
LARGEST, LEAST_SPREAD = 1e30, 1e-30

# measured: beyond these limits XGBoost, the first to fail, does worse than on the rescaled target
_LEAST_DEVIATION, _MOST_DEVIATION = 1e-3, 1e18
# measured: scikit-learn's trees cannot separate values nearer than 1e-7
_LEAST_FEATURE_RANGE = 1e-6
# seven digits, minus two for the differences
_MOST_DIGITS = 1e5


def check_magnitude(what: str, numbers: Floats, remedy: str = "") -> None:
    """Raise InputError for a number beyond 1e30, or a range above 0 and below 1e-30.

    LightGBM, XGBoost, networks and scikit-learn's trees compute partly or wholly in 32 bits. The
    largest float32 is 3.4e38, differences below 1e-38 vanish, and a number has seven digits.
    XGBoost and scikit-learn's trees also ignore a gain below a fixed limit. Models learn a target
    outside these limits badly or not at all, without a warning. Squared errors overflow beyond
    1e154 even in 64 bits.

    `numbers` are float64, shape (n,), NaN where missing; not all are missing. `remedy` is an
    alternative to rescaling.
    """
    check_largest(what, numbers, remedy)
    lowest, highest = np.nanmin(numbers), np.nanmax(numbers)
    if 0 < highest - lowest < LEAST_SPREAD:
        raise InputError(
            f"{what} must vary by at least {LEAST_SPREAD:g}, which models can tell from nothing, "
            f"but varies by {highest - lowest:g}: rescale it{remedy}"
        )


def check_largest(what: str, numbers: Floats, remedy: str = "") -> None:
    """Raise InputError for numbers that are too large for models; see `check_magnitude`."""
    # fmin and fmax ignore NaN without a copy
    lowest = np.fmin.reduce(numbers, initial=0.0)
    highest = np.fmax.reduce(numbers, initial=0.0)
    if max(-lowest, highest) > LARGEST:
        row = int(np.nanargmax(np.abs(numbers)))
        raise InputError(
            f"{what} must lie within -{LARGEST:g}..{LARGEST:g}, which models can compute with, but "
            f"is {numbers[row]:g} in row {row + 1}: rescale it{remedy}"
        )


def is_badly_scaled(row: ColumnProfile) -> bool:
    """Return whether models resolve a column poorly for its scale or its distance from 0."""
    if row.minimum is None or row.maximum is None or not row.standard_deviation:
        return False
    if max(-row.minimum, row.maximum) > _MOST_DIGITS * row.standard_deviation:
        return True
    if row.role == "target":
        return not _LEAST_DEVIATION <= row.standard_deviation <= _MOST_DEVIATION
    return row.maximum - row.minimum < _LEAST_FEATURE_RANGE
