"""Which differences of losses are real: the corrected paired t test, Holm's correction, the front.

| what | source | function |
|---|---|---|
| corrected resampled t test | Nadeau and Bengio 2003 | `paired_difference`, `standard_error` |
| the same over repeated folds | Bouckaert and Frank 2004 | `paired_difference` |
| many comparisons at once | Holm 1979 | `holm` |
| what nothing else dominates | Pareto | `pareto_front` |

Everything here is a pure function on arrays. NaN stands for a cell without a loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.paired_bootstrap import Interval
from chaffinch.tasks.selection.vocabulary import Floats

CONFIDENCE = 0.95
FEWEST_PAIRS = 3
ROUNDING = 1e-12  # of a loss; what varies by less does not vary


@dataclass(frozen=True)
class PairedDifference:
    """A loss less another, on average over the cells that have both.

    Attributes
    ----------
    mean : float
        Below 0 the first is lower, so better.
    interval : (float, float) or None
        At 95 %; None with fewer than 3 pairs, or where the differences do not vary.
    p_value : float or None
        Two-sided, of a mean of 0; None where there is no interval.
    standard_error : float or None
        Of the mean; None where there is no interval.
    n_pairs : int
        Number of cells.
    other_mean : float
        Of the other loss over the same cells.
    is_constant : bool
        Whether the difference is the same in every pair, but for rounding. A few folds may well
        differ by one row each, and so by the same accuracy: that is no certainty.
    is_nothing : bool
        Whether it is shown to be zero: so in each of three pairs or more, but for rounding, by a
        loss that takes each prediction by its value. A score of labels may be the same by chance.
    """

    mean: float
    interval: Interval | None
    p_value: float | None
    standard_error: float | None
    n_pairs: int
    other_mean: float
    is_constant: bool
    is_nothing: bool


def paired_difference(
    losses: Floats, others: Floats, test_share: Floats, *, is_by_value: bool = True
) -> PairedDifference | None:
    """Compare two losses over the cells that have both; None where there is no such cell.

    The cells are outer folds times seeds. Their training rows overlap, so the J differences are
    alike beyond what they have in common by nature, and Student's interval would be too short.
    The variance of their mean is therefore taken as (1/J + n_test/n_train) times their variance,
    which is exact where the correlation of two differences is n_test / (n_test + n_train)
    (Nadeau and Bengio 2003), with J - 1 degrees of freedom. This assumes that each seed deals the
    rows into folds anew, that the differences are about normal, and that one n_test/n_train, here
    the mean, goes for all. It says how the two would differ on other rows of the same kind and
    number, not on another table.

    Their n_train and n_test are all rows together, and the correlation is the share of them that a
    test part holds. So n_train counts every row inside a fold: those that the final model is
    refitted on, and the eighth that only chooses among masks, which is looked at as well.

    Parameters
    ----------
    losses, others : ndarray, shape (c,)
        Of the same c cells.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, n_test/n_train, of each cell.
    is_by_value : bool
        Whether the loss takes each prediction by its value, so that equal losses are no chance.
    """
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
    """Return the standard error of a mean over cells whose training rows overlap.

    Parameters
    ----------
    values : ndarray, shape (c,)
        Two or more, none of them NaN.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, of each cell.
    """
    share = float(test_share.mean())
    return math.sqrt((1 / len(values) + share) * float(values.var(ddof=1)))


def holm(p_values: Floats) -> Floats:
    """Return p values, shape (k,), corrected for how many they are (Holm 1979).

    Whoever calls all those at most 0.05 real is wrong about any of them in at most 5 % of cases.

    Parameters
    ----------
    p_values : ndarray, shape (k,)
        NaN where nothing was tested; it stays NaN and does not count.
    """
    corrected = np.full(len(p_values), np.nan)
    tested = np.flatnonzero(np.isfinite(p_values))
    by_size = tested[np.argsort(p_values[tested], kind="stable")]
    left = np.arange(len(by_size), 0, -1)  # each is multiplied by how many are no smaller
    corrected[by_size] = np.minimum(1, np.maximum.accumulate(left * p_values[by_size]))
    return corrected


def pareto_front(n_features: Floats, losses: Floats) -> NDArray[np.bool_]:
    """Return which of k points no other dominates.

    A point dominates another that has no fewer features and no lower loss, and is worse in one.

    Parameters
    ----------
    n_features, losses : ndarray, shape (k,)
        Of each point; one with a NaN is not on the front. Equal points are on it together.
    """
    fewer = n_features[None] <= n_features[:, None]
    lower = losses[None] <= losses[:, None]
    better = (n_features[None] < n_features[:, None]) | (losses[None] < losses[:, None])
    known = np.isfinite(n_features) & np.isfinite(losses)
    return known & ~(fewer & lower & better).any(axis=1)
