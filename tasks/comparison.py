"""Selected features against all features on the test part, and the verdict in plain words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.paired_bootstrap import Interval, paired_interval
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.vocabulary import Floats, Mask, Rows

Verdict = Literal["helps", "does not help", "cannot tell"]

FEWEST_UNITS = 20  # with fewer, no interval is to be trusted to decide
_CONFIDENCE = 0.95


@dataclass(frozen=True)
class Comparison:
    """How the selected features did against all features on the test part.

    Attributes
    ----------
    difference : float
        Loss with the selected features less loss with all features; below 0 selection is better.
    interval : (float, float)
        Of the difference; see `chaffinch.tasks.paired_bootstrap`.
    confidence : float
        Of the interval.
    units : int
        Number of things resampled: rows, groups, or blocks of time.
    verdict : "helps", "does not help" or "cannot tell"
        By where the interval lies: below 0, above 0, or over it or made of too few units; with
        every feature kept, selection does not help.
    sentence : str
        The verdict in words.
    """

    difference: float
    interval: tuple[float, float]
    confidence: float
    units: int
    verdict: Verdict
    sentence: str


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
    before_loss = loss(rows.y, before, rows.weight)
    after_loss = loss(rows.y, after, rows.weight)
    interval = paired_interval(loss, rows, before, after, units, confidence=_CONFIDENCE, seed=seed)
    n_units = int(units.max()) + 1
    verdict = _verdict(interval, n_units, is_all=bool(mask.all()))
    sentence = _sentence(verdict, loss, mask, before_loss, after_loss, interval, n_units)
    return Comparison(after_loss - before_loss, interval, _CONFIDENCE, n_units, verdict, sentence)


def _verdict(interval: Interval, n_units: int, *, is_all: bool) -> Verdict:
    if is_all:
        return "does not help"
    if not is_decisive(interval, n_units):
        return "cannot tell"
    return "helps" if interval[1] < 0 else "does not help"


def is_decisive(interval: Interval, n_units: int) -> bool:
    """Return whether an interval lies wholly on one side of zero, and enough units made it."""
    return n_units >= FEWEST_UNITS and not interval[0] <= 0 <= interval[1]


def _sentence(
    verdict: Verdict,
    loss: Loss,
    mask: Mask,
    before: float,
    after: float,
    interval: Interval,
    n_units: int,
) -> str:
    kept, total = int(mask.sum()), len(mask)
    if kept == total:
        return f"Selection does not help here: {_every(total)} was kept."
    measured = (
        f"with {kept} of {total} features the test loss ({loss_in_words(loss.name)}) is "
        f"{after:.4g} against {before:.4g} with all; difference {after - before:+.4g}, "
        f"{_CONFIDENCE:.0%} interval [{interval[0]:+.4g}, {interval[1]:+.4g}]."
    )
    if n_units < FEWEST_UNITS:
        return (
            f"The test part has too little to compare by, {n_units} where {FEWEST_UNITS} rows, "
            f"groups or blocks of time are needed, so that no verdict is possible: {measured}"
        )
    return {
        "helps": f"Selection helps: {measured}",
        "does not help": f"Selection does not help here: {measured}",
        "cannot tell": "This test part cannot tell whether selection helps; it saves "
        f"{_columns(total - kept)}: {measured}",
    }[verdict]


def _every(total: int) -> str:
    return "the one feature" if total == 1 else f"every one of the {total} features"


def _columns(number: int) -> str:
    return "1 column" if number == 1 else f"{number} columns"
