"""Significance of differences of losses: corrected t test, Holm, Pareto front, verdicts.

NaN stands for a cell without a loss.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.statistics.bootstrap import Interval
from chaffinch.tasks.statistics.verdict import Verdict

CONFIDENCE = 0.95
FEWEST_PAIRS = 3
ROUNDING = 1e-12  # relative to a loss; smaller variation is rounding


@dataclass(frozen=True)
class PairedDifference:
    """A loss minus another, averaged over the cells that have both."""

    mean: float  # below 0 the first is lower, so better
    interval: Interval | None  # at 95 %; None with fewer than 3 pairs, or equal differences
    p_value: float | None  # two-sided, for a mean of 0; None where there is no interval
    standard_error: float | None  # of the mean; None where there is no interval
    n_pairs: int
    other_mean: float
    # Equal in every pair, up to rounding. This is no certainty: a few folds may each differ by a
    # row, and so by the same accuracy.
    is_constant: bool
    # Shown to be zero: zero up to rounding in at least three pairs, for a loss that depends on each
    # predicted value. A score of labels may be equal by chance.
    is_nothing: bool


def paired_difference(
    losses: Floats, others: Floats, test_share: Floats, *, is_by_value: bool = True
) -> PairedDifference | None:
    """Compare two losses (c,) over the cells that have both; None where there is no such cell."""
    # The cells are outer folds times seeds. Their training rows overlap, so the J differences are
    # correlated, and Student's interval would be too short. The variance of their mean is therefore
    # taken as (1/J + n_test/n_train) times their variance, which is exact where the correlation of
    # two differences is n_test / (n_test + n_train), with J - 1 degrees of freedom: Nadeau and
    # Bengio 2003; over repeated folds, Bouckaert and Frank 2004. This assumes that each seed draws
    # new folds, that the differences are about normal, and that the mean n_test/n_train holds for
    # all.
    from scipy import stats

    both = np.isfinite(losses) & np.isfinite(others)
    if not both.any():
        return None
    first, second = losses[both], others[both]
    differences = first - second
    n, mean, other = len(differences), float(differences.mean()), float(second.mean())
    largest = max(np.abs(first).max(), np.abs(second).max())
    is_constant = bool(np.ptp(differences) <= ROUNDING * largest)
    if is_constant or n < FEWEST_PAIRS:
        is_zero = is_constant and abs(mean) <= ROUNDING * largest
        mean = 0.0 if is_zero else mean
        is_nothing = bool(is_zero and is_by_value and n >= FEWEST_PAIRS)
        return PairedDifference(mean, None, None, None, n, other, is_constant, is_nothing)
    error = standard_error(differences, test_share[both])
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    p_value = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
    interval = mean - reach, mean + reach
    return PairedDifference(mean, interval, p_value, error, n, other, False, False)


def standard_error(values: Floats, test_share: Floats) -> float:
    """Return the standard error of a mean over cells with overlapping training rows."""
    share = float(test_share.mean())
    return math.sqrt((1 / len(values) + share) * float(values.var(ddof=1)))


def holm(p_values: Floats) -> Floats:
    """Return p values, shape (k,), corrected for multiple comparisons (Holm 1979)."""
    corrected = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    by_size = tested[np.argsort(p_values[tested], kind="stable")]
    left = np.arange(
        len(by_size), 0, -1
    )  # multipliers: the number of p values that are not smaller
    corrected[by_size] = np.minimum(1, np.maximum.accumulate(left * p_values[by_size]))
    return corrected


def pareto_front(n_features: Floats, losses: Floats) -> NDArray[np.bool_]:
    """Return which of k points no other dominates: as good in both, and better in either."""
    fewer = n_features[None] <= n_features[:, None]
    lower = losses[None] <= losses[:, None]
    better = (n_features[None] < n_features[:, None]) | (losses[None] < losses[:, None])
    known = np.isfinite(n_features) & np.isfinite(losses)
    return known & ~(fewer & lower & better).any(axis=1)


@dataclass(frozen=True)
class OverConstant(PairedDifference):
    """A loss minus that of a constant, with its p value corrected for all tested contenders."""

    corrected_p: float | None

    @property
    def is_better(self) -> bool:
        return self.mean < 0 and _is_small(self.corrected_p)

    @property
    def is_no_better(self) -> bool:
        """Whether the loss is shown to be no lower than the constant's, or is equal to it."""
        return self.is_nothing or (self.mean >= 0 and _is_small(self.corrected_p))


def over_constants(differences: Sequence[PairedDifference | None]) -> list[OverConstant | None]:
    corrected = corrected_p_values([None if d is None else d.p_value for d in differences])
    return [
        None if d is None else OverConstant(**vars(d), corrected_p=p)
        for d, p in zip(differences, corrected, strict=True)
    ]


def corrected_p_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Return p values corrected by Holm; None stays None."""
    known = np.array([np.nan if p is None else p for p in p_values])
    return [float(p) if np.isfinite(p) else None for p in holm(known)]


def p_value_below(beyond: PairedDifference | None) -> float | None:
    """Return the one-sided p value of a mean below 0; None where it is not known."""
    if beyond is None:
        return None
    if beyond.is_nothing:
        return 0.0  # nothing is lost in any pair
    if beyond.p_value is None:
        return None
    return beyond.p_value / 2 if beyond.mean < 0 else 1 - beyond.p_value / 2


def _is_small(corrected_p: float | None) -> bool:
    return corrected_p is not None and corrected_p <= 1 - CONFIDENCE + ROUNDING


def verdict_on(
    difference: PairedDifference | None,
    corrected_p: float | None,
    *,
    is_all: bool,
    over_constant: OverConstant | None = None,
    is_informative: bool = False,
    beyond_p: float | None = None,
) -> Verdict:
    """Return the verdict on a method; see `chaffinch.tasks.statistics.verdict` for the rules.

    A verdict depends on three tests per contender: does its loss differ from that with all
    features, does it differ from that of a constant, and does it exceed that with all features by
    less than the tolerated share of what these explain beyond a constant. Each is corrected by Holm
    over all contenders of a table and model, the third one-sided. Three corrections at 5 % do not
    add up to 15 % of wrong verdicts: "better" is wrong only by an error at the lower end of the
    first or second test, "worse" by an error at the upper end of the first, and "as good" by an
    error of the third.

    `is_informative` is whether all features are shown to be better than a constant, `beyond_p` the
    corrected p value of a loss beyond the tolerance.
    """
    if is_all or difference is None:
        return "cannot tell"
    is_other, is_lower = _is_small(corrected_p), difference.mean < 0
    if is_other and is_lower and (over_constant is None or over_constant.is_better):
        return "better"
    # Without an interval an equal score may be chance, as for a score that counts labels.
    is_measured = difference.interval is not None or difference.is_nothing
    if is_measured and is_informative and _is_small(beyond_p):
        return "as good with fewer columns"
    return "worse" if is_other and not is_lower else "cannot tell"
