"""Verdict on a selection: selected features against all features and a constant, on test rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeGuard

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Mask, Rows
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.statistics.bootstrap import (
    Interval,
    SignTest,
    difference_of,
    interval_in_words,
    paired_interval,
    sign_test,
    signed,
)

Verdict = Literal["helps", "does not help", "cannot tell"]

FEWEST_UNITS = 20  # with fewer, the interval is not reliable enough for a verdict
_CONFIDENCE = 0.95
_LEAST_P = 0.0001  # smaller p-values are shown as "< 0.0001"


@dataclass(frozen=True)
class Comparison:
    """Comparison of the selected features with all features on the test part."""

    difference: float  # loss with the selected features minus that with all; 0 within rounding
    interval: Interval | None  # None with one unit
    confidence: float
    units: int  # number of resampled rows, groups, or blocks of time
    verdict: Verdict
    sentence: str
    constant_loss: float | None  # None where a scorer is undefined for a constant prediction
    over_constant: Interval | None  # of the loss with the selected features minus the constant's
    sign_test: SignTest | None = None  # None where the loss is a scorer, or with one unit
    sign_test_over_constant: SignTest | None = None


def compare(
    loss: Loss,
    rows: Rows,
    before: Floats,
    after: Floats,
    constant: Floats,
    mask: Mask,
    units: NDArray[np.int64],
    *,
    seed: int,
) -> Comparison:
    """Compare predictions with all features and with those of a mask, and these with a constant.

    Predictions have shape (n,) or (n, n_classes), the mask (d,), the units (n,).
    """
    over = partial(
        paired_interval, loss, rows, after=after, units=units, confidence=_CONFIDENCE, seed=seed
    )
    signs = partial(sign_test, loss, rows, after=after, units=units)
    interval, n_units = over(before), int(units.max()) + 1
    before_loss, after_loss = (loss(rows.y, made, rows.weight) for made in (before, after))
    constant_loss = _loss_if_any(loss, rows.y, constant, rows.weight)
    over_constant, against_constant = None, None
    if constant_loss is not None:
        over_constant, against_constant = over(constant), signs(constant)
    verdict = _verdict(interval, over_constant, n_units, bool(mask.all()))
    since = _since(verdict, interval, over_constant, n_units)
    sentence = _sentence(verdict, since, loss, mask, before_loss, after_loss, interval, n_units)
    if constant_loss is not None and n_units < FEWEST_UNITS and not mask.all():
        sentence += f" A constant, which looks at no feature, has the loss {constant_loss:.4g}."
    elif constant_loss is not None and is_not_shown_better_than_constant(over_constant, n_units):
        sentence += _against_constant(after_loss, constant_loss, over_constant)
        if against_constant:
            counts = signs_in_words(asdict(against_constant), n_units, len(rows))
            balance = against_constant.lower - against_constant.higher
            differ = balance * (after_loss - constant_loss) > 0
            why = "; a few large losses decide the mean" if differ else ""
            sentence += f" Against it, the loss is {counts}{why}."
    return Comparison(
        difference_of(after_loss, before_loss),
        interval,
        _CONFIDENCE,
        n_units,
        verdict,
        sentence,
        constant_loss,
        over_constant,
        signs(before),
        against_constant,
    )


def constant_prediction(
    loss: Loss, y: NDArray[Any], weight: Floats | None, n_rows: int, n_classes: int
) -> Floats:
    """Return the best constant prediction on the given rows.

    For classes their shares, shape (n_rows, n_classes); for numbers (`n_classes` is 0) the mean or
    the median, the one with the lower loss on these rows.
    """
    if n_classes:
        counts = np.bincount(y, weights=weight, minlength=n_classes)
        return np.tile(counts / counts.sum(), (n_rows, 1))
    mean = np.average(y, weights=weight)
    median = np.quantile(y, 0.5, weights=weight, method="inverted_cdf")
    losses = [_loss_if_any(loss, y, np.full(len(y), value), weight) for value in (mean, median)]
    is_median = losses[1] is not None and (losses[0] is None or losses[1] < losses[0])
    return np.full(n_rows, median if is_median else mean)


def _loss_if_any(
    loss: Loss, y: NDArray[Any], constant: Floats, weight: Floats | None
) -> float | None:
    """Return the loss of a constant; None if a scorer is undefined for it or refuses it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an undefined score is returned as NaN
        try:
            value = loss(y, constant, weight)
        except ValueError:  # such as a deviance that needs positive numbers
            return None
    return value if math.isfinite(value) else None


def is_not_shown_better_than_constant(
    over_constant: Interval | None, n_units: int
) -> TypeGuard[Interval]:
    """Return whether enough units do not show the loss to be below a constant's."""
    return over_constant is not None and n_units >= FEWEST_UNITS and over_constant[1] >= 0


def _verdict(
    interval: Interval | None, over_constant: Interval | None, n_units: int, is_all: bool
) -> Verdict:
    if is_all:
        return "does not help"
    if n_units >= FEWEST_UNITS and over_constant is not None and over_constant[0] >= 0:
        return "does not help"  # a constant is as good: fewer features may still beat many
    if interval is None or not is_decisive(interval, n_units):
        return "cannot tell"
    if interval[0] > 0:
        return "does not help"
    return "cannot tell" if is_not_shown_better_than_constant(over_constant, n_units) else "helps"


def _since(
    verdict: Verdict, interval: Interval | None, over_constant: Interval | None, n_units: int
) -> str:
    """Return why the verdict differs from that of the interval alone; usually empty."""
    if not is_not_shown_better_than_constant(over_constant, n_units):
        return ""
    if verdict == "does not help" and (interval is None or interval[0] <= 0):
        return ", since a constant predicts as well"
    if verdict == "cannot tell" and interval is not None and is_decisive(interval, n_units):
        return ", since the model is not shown to be better than a constant"
    return ""


def too_few_units(n_units: int) -> str:
    if n_units >= FEWEST_UNITS:
        return ""
    return (
        f"The test part has too little to compare by, {n_units} where {FEWEST_UNITS} rows, groups "
        "or blocks of time are needed"
    )


def is_decisive(interval: Interval, n_units: int) -> bool:
    return n_units >= FEWEST_UNITS and not interval[0] <= 0 <= interval[1]


def _sentence(
    verdict: Verdict,
    since: str,
    loss: Loss,
    mask: Mask,
    before: float,
    after: float,
    interval: Interval | None,
    n_units: int,
) -> str:
    kept, total = int(mask.sum()), len(mask)
    if kept == total:
        every = "the one feature" if total == 1 else f"every one of the {total} features"
        return f"Selection does not help here: {every} was kept."
    saved = "1 column" if total - kept == 1 else f"{total - kept} columns"
    difference = signed(difference_of(after, before))
    measured = (
        f"with {kept} of {total} features the test loss ({loss_in_words(loss.name)}) is "
        f"{after:.4g} against {before:.4g} with all; difference {difference}, "
        f"{interval_in_words(interval, _CONFIDENCE)}."
    )
    if lacking := too_few_units(n_units):
        return f"{lacking}, so that no verdict is possible: {measured}"
    return {
        "helps": f"Selection helps: {measured}",
        "does not help": f"Selection does not help here{since}: {measured}",
        "cannot tell": f"This test part cannot tell whether selection helps{since}; it saves "
        f"{saved}: {measured}",
    }[verdict]


def _against_constant(loss: float, constant_loss: float, over_constant: Interval) -> str:
    """Return how a loss compares with a constant's that it is not shown to be below."""
    less = signed(difference_of(loss, constant_loss))
    how = "is no better than" if over_constant[0] >= 0 else "is not shown to be better than"
    return (
        f" The model {how} a constant, which looks at no feature and has the loss "
        f"{constant_loss:.4g}; difference {less}, {interval_in_words(over_constant, _CONFIDENCE)}."
    )


def signs_in_words(found: Mapping[str, Any], n_units: int, n_rows: int) -> str:
    p_value = f"= {found['p_value']:.2g}" if found["p_value"] >= _LEAST_P else f"< {_LEAST_P}"
    return (
        f"lower in {found['lower']} and higher in {found['higher']} of {n_units} "
        f"{units_in_words(n_units, n_rows)} (sign test p {p_value})"
    )


def units_in_words(n_units: int, n_rows: int) -> str:
    return "rows" if n_units == n_rows else "groups or blocks of time"
