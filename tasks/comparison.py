"""Selected features against all features on the test part, and the verdict in plain words.

The difference of the two losses is resampled over rows that both models predicted (a paired
bootstrap), so that what makes a row hard for both does not widen the interval. Rows of one group
are resampled together, and rows in time order in contiguous blocks, because they are not
independent. The interval is widened as Student's is against the normal, and fewer than ten units
never decide.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows

Verdict = Literal["helps", "does not help", "cannot tell"]

_CONFIDENCE = 0.95
_RESAMPLES = 2000
_RESAMPLES_OF_A_SCORE = 500  # a scorer is called anew on each
_FEW_UNITS = 10  # with fewer, no interval is to be trusted to decide
_CELLS_AT_ONCE = 5_000_000  # bounds the memory of the resampled indices: 40 MB


@dataclass(frozen=True)
class Comparison:
    """How the selected features did against all features on the test part.

    Attributes
    ----------
    difference : float
        Loss with the selected features less loss with all features; below 0 selection is better.
    interval : (float, float)
        Paired bootstrap percentile interval of the difference.
    confidence : float
        Of the interval.
    units : int
        Number of things resampled: rows, groups, or blocks of time.
    verdict : "helps", "does not help" or "cannot tell"
        By where the interval lies: below 0, above 0, or over it or made of few units;
        with every feature kept,
        selection does not help.
    sentence : str
        The verdict in words.
    """

    difference: float
    interval: tuple[float, float]
    confidence: float
    units: int
    verdict: Verdict
    sentence: str


def resampling_units(
    n_rows: int, *, groups: NDArray[Any] | None = None, times: NDArray[Any] | None = None
) -> NDArray[np.int64]:
    """Return the unit 0..u-1 of each row, shape (n,): what is resampled together.

    Parameters
    ----------
    n_rows : int
        n.
    groups : ndarray, shape (n,), optional
        Rows of a group make one unit.
    times : ndarray, shape (n,), optional
        About sqrt(n) rows that follow each other make one unit.
    """
    if groups is not None:
        return np.unique(groups, return_inverse=True)[1].astype(np.int64)
    units = np.arange(n_rows, dtype=np.int64)
    if times is not None:
        in_time = np.argsort(times, kind="stable")
        units[in_time] = units // max(1, math.isqrt(n_rows))
    return units


def compare(
    loss: Loss,
    rows: Rows,
    before: Floats,
    after: Floats,
    mask: Mask,
    units: NDArray[np.int64],
    *,
    seed: int,
) -> Comparison:
    """Compare two sets of predictions of the same rows.

    Parameters
    ----------
    loss : Loss
        The judge.
    rows : Rows
        The n test rows.
    before, after : ndarray, shape (n,) or (n, n_classes)
        Predictions of the model on all features and on the selected ones.
    mask : ndarray of bool, shape (d,)
        The selected features.
    units : ndarray of int, shape (n,)
        From `resampling_units`.
    seed : int
        Of the resampling.
    """
    loss_before = loss(rows.y, before, rows.weight)
    loss_after = loss(rows.y, after, rows.weight)
    n_units = int(units.max()) + 1
    rng = np.random.default_rng(seed)
    if loss.is_mean_over_rows:
        spread = _resampled_means(loss, rows, before, after, units, rng)
    else:
        spread = _resampled_scores(loss, rows, before, after, units, rng)
    tail = (1 - _CONFIDENCE) / 2
    low, high = (float(q) for q in np.nanquantile(spread, [tail, 1 - tail]))
    difference = loss_after - loss_before
    low, high = (difference + _widening(n_units) * (end - difference) for end in (low, high))
    decides = n_units >= _FEW_UNITS
    verdict: Verdict = "helps" if high < 0 and decides else "cannot tell"
    if (low > 0 and decides) or mask.all():
        verdict = "does not help"
    sentence = _sentence(verdict, loss, mask, loss_before, loss_after, (low, high))
    if not decides and not mask.all():
        sentence = (
            f"Only {n_units} rows, groups or blocks to compare by, too few to tell. {sentence}"
        )
    return Comparison(difference, (low, high), _CONFIDENCE, n_units, verdict, sentence)


def _widening(n_units: int) -> float:
    """Return how much wider Student's interval is than the bootstrap's."""
    from scipy import stats

    if n_units < 2:
        return 1.0
    tail = (1 + _CONFIDENCE) / 2
    student, normal = stats.t.ppf(tail, n_units - 1), stats.norm.ppf(tail)
    return float(student / normal * math.sqrt(n_units / (n_units - 1)))


def _resampled_means(
    loss: Loss,
    rows: Rows,
    before: Floats,
    after: Floats,
    units: NDArray[np.int64],
    rng: np.random.Generator,
) -> Floats:
    """Resample the weighted mean difference; a mean needs only two sums per unit."""
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    difference = loss.per_row(rows.y, after) - loss.per_row(rows.y, before)
    sums = np.bincount(units, weight * difference)
    weights = np.bincount(units, weight)
    n = len(sums)
    at_once = max(1, _CELLS_AT_ONCE // n)
    means = []
    for start in range(0, _RESAMPLES, at_once):
        drawn = rng.integers(0, n, (min(at_once, _RESAMPLES - start), n))
        means.append(sums[drawn].sum(axis=1) / weights[drawn].sum(axis=1))
    return np.concatenate(means)


def _resampled_scores(
    loss: Loss,
    rows: Rows,
    before: Floats,
    after: Floats,
    units: NDArray[np.int64],
    rng: np.random.Generator,
) -> Floats:
    """Resample a score of a whole table; NaN where a resample leaves it undefined."""
    by_unit = np.split(np.argsort(units, kind="stable"), np.cumsum(np.bincount(units))[:-1])
    differences = np.full(_RESAMPLES_OF_A_SCORE, np.nan)
    for i in range(_RESAMPLES_OF_A_SCORE):
        drawn = np.concatenate([by_unit[u] for u in rng.integers(0, len(by_unit), len(by_unit))])
        y = rows.y[drawn]
        if loss.task == "classification" and len(np.unique(y)) < before.shape[1]:
            continue
        weight = None if rows.weight is None else rows.weight[drawn]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an undefined score comes back as NaN
            differences[i] = loss(y, after[drawn], weight) - loss(y, before[drawn], weight)
    return differences


def _sentence(
    verdict: Verdict,
    loss: Loss,
    mask: Mask,
    before: float,
    after: float,
    interval: tuple[float, float],
) -> str:
    kept, total = int(mask.sum()), len(mask)
    measured = (
        f"with {kept} of {total} features the test loss ({loss.name}) is {after:.4g} against "
        f"{before:.4g} with all; difference {after - before:+.4g}, "
        f"{_CONFIDENCE:.0%} interval [{interval[0]:+.4g}, {interval[1]:+.4g}]."
    )
    if kept == total:
        return f"Selection does not help here: all {total} features are worth keeping."
    return {
        "helps": f"Selection helps: {measured}",
        "does not help": f"Selection does not help here: {measured}",
        "cannot tell": "Selection makes no difference to the loss that this test part could show, "
        f"and saves {total - kept} columns: {measured}",
    }[verdict]
