"""Which differences of losses are real: the corrected paired t test, Holm's correction, verdicts.

| what | source | function |
|---|---|---|
| corrected resampled t test | Nadeau and Bengio 2003 | `paired_difference`, `standard_error` |
| the same over repeated folds | Bouckaert and Frank 2004 | `paired_difference` |
| many comparisons at once | Holm 1979 | `holm` |
| the rule of one standard error | Breiman, Friedman, Olshen and Stone 1984 | `smallest_near_best` |
| what nothing else dominates | Pareto | `pareto_front` |

Everything here is a pure function on arrays. NaN stands for a cell without a loss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.comparison import Verdict
from chaffinch.tasks.paired_bootstrap import Interval
from chaffinch.tasks.selection.vocabulary import Floats

CONFIDENCE = 0.95
FEWEST_PAIRS = 3
NEGLIGIBLE = 0.05  # of a constant's loss: what explains no more than that, if any, is no use
_ROUNDING = 1e-12  # of a loss; what varies by less does not vary


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
    is_constant = bool(np.ptp(differences) <= _ROUNDING * largest)
    if is_constant or n < FEWEST_PAIRS:
        is_zero = is_constant and abs(mean) <= _ROUNDING * largest
        is_nothing = bool(is_zero and is_by_value and n >= FEWEST_PAIRS)
        return PairedDifference(mean, None, None, n, other, is_constant, is_nothing)
    error = standard_error(differences, test_share[both])
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1)) * error
    p_value = 2 * float(stats.t.sf(abs(mean) / error, n - 1))
    return PairedDifference(mean, (mean - reach, mean + reach), p_value, n, other, False, False)


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


def verdict_on(
    difference: PairedDifference | None,
    corrected_p: float,
    *,
    is_all: bool,
    over_constant: PairedDifference | None = None,
) -> Verdict:
    """Return whether a method helps, in the words of `chaffinch.tasks.comparison`.

    Fewer features have a lower loss than all of them also where none has anything to tell; so it
    has to beat the constant that looks at none as well. Where the loss is the very same as with all
    features, selection changes nothing, and so does not help.

    Parameters
    ----------
    difference : PairedDifference or None
        Of its loss to that with all features.
    corrected_p : float
        From `holm`; NaN where nothing was tested, which decides nothing.
    is_all : bool
        Whether the method kept every feature, always; then it does not help.
    over_constant : PairedDifference, optional
        Of its loss to that of a constant; without it, it is not asked to beat that.
    """
    if is_all or is_no_better(over_constant) or is_hardly_better(over_constant):
        return "does not help"
    if difference is not None and difference.is_nothing:
        return "does not help"
    if difference is None or not corrected_p <= 1 - CONFIDENCE + _ROUNDING:
        return "cannot tell"
    if difference.mean >= 0:
        return "does not help"
    return "helps" if over_constant is None or _is_better(over_constant) else "cannot tell"


def is_no_better(over_constant: PairedDifference | None) -> bool:
    """Return whether a loss is shown to be no lower than a constant's: by the whole interval.

    Or by being the same in each pair.
    """
    if over_constant is None or over_constant.interval is None:
        return over_constant is not None and over_constant.is_nothing
    return over_constant.interval[0] >= 0


def is_hardly_better(over_constant: PairedDifference | None) -> bool:
    """Return whether a loss may be no lower than a constant's, and is at best a little lower.

    With labels that mean nothing a frugal model does next to no harm, which no number of rows
    shows to be more than none. So the interval decides from its other end: it holds 0, and nothing
    in it saves more than `NEGLIGIBLE` of the constant's loss.
    """
    if over_constant is None or over_constant.interval is None or _is_better(over_constant):
        return False
    return over_constant.interval[0] >= -NEGLIGIBLE * abs(over_constant.other_mean)


def _is_better(difference: PairedDifference) -> bool:
    return difference.interval is not None and difference.interval[1] < 0


def smallest_near_best(losses: Floats, test_share: Floats) -> tuple[int, int] | None:
    """Return the best size, and the smallest whose loss is within one standard error of its own.

    Where we depart: Breiman's standard error is that of the best's own mean loss, which holds what
    makes a cell hard for every size. All sizes were scored on the same cells, so it is here that
    of the difference to the best, which spares fewer features. None where fewer than
    `FEWEST_PAIRS` cells have a loss at every size, of which no error is to be trusted.

    Parameters
    ----------
    losses : ndarray, shape (s, c)
        At s sizes, the smallest first, in c cells.
    test_share : ndarray, shape (c,)
        Test rows per row inside the fold, of each cell.
    """
    shared = np.isfinite(losses).all(axis=0)
    if not len(losses) or shared.sum() < FEWEST_PAIRS:
        return None
    best = int(losses[:, shared].mean(axis=1).argmin())
    for size, excess in enumerate((losses - losses[best])[:, shared]):
        if excess.mean() <= standard_error(excess, test_share[shared]):
            return best, size
    return best, best


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
