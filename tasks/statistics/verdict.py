"""Verdict on a selection: selected features against all features and a constant.

S, A and C are the losses with the selected features, with all features and of the best constant, on
rows that took no part in the choice. The verdict is the first of these that holds:

better: the whole interval of S - A is below 0, and S is shown to be below C.
as good with fewer columns: there are fewer columns, S is shown to exceed A by at most the share
`tolerance` of C - A, which is what all features explain, and A is shown to be below C.
worse: the whole interval of S - A is above 0.
cannot tell: everything else, all features kept, and a set that rests on a leak.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.column_names import quoted
from chaffinch.tasks.selection.core import Floats, Mask
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.statistics.bootstrap import (
    Contrast,
    Interval,
    PairedLosses,
    SignTest,
    difference_of,
    interval_in_words,
    signed,
)

Verdict = Literal["better", "as good with fewer columns", "worse", "cannot tell"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)

FEWEST_UNITS = 20  # with fewer, the interval is not reliable enough for a verdict
CONFIDENCE = 0.95
_MOST_SECANTS, _CLOSE = 8, 1e-6  # of a share
_LEAST_P = 0.0001  # smaller p-values are shown as "< 0.0001"
_MOST_TIMES = 100  # more rows by a larger factor are no remedy


@dataclass(frozen=True)
class Judgement:
    """Verdict on a set of features against another, usually all features."""

    difference: float  # loss with the selected features minus that with all; 0 within rounding
    interval: Interval | None  # None with a single unit
    confidence: float
    units: int  # number of resampled rows, groups, or blocks of time
    verdict: Verdict
    constant_loss: float | None  # None where a scorer is undefined for a constant prediction
    over_constant: Interval | None  # of the loss with the selected features less a constant's
    all_features_over_constant: Interval | None  # of the loss with all features less a constant's
    tolerance: float
    # One-sided upper bound of the difference, as a share of what all features explain beyond a
    # constant: the least tolerance that the set meets. None where all features explain nothing, are
    # all kept, or where the set rests on a leak.
    share_lost_at_most: float | None
    # Interval of the share of a constant's loss that the selected features explain, such as R2 of
    # a squared error. None with fewer than 20 units, and where a constant has no loss above 0.
    explained: Interval | None


@dataclass(frozen=True)
class Accuracy:
    """Accuracy of a model and of a constant on the rows that judge."""

    model: float
    constant: float
    p_value: float  # of the sign test over units, two-sided


@dataclass(frozen=True)
class Comparison(Judgement):
    """Comparison of the selected features with all features on the rows that judge."""

    sentence: str
    leaks: tuple[str, ...] = ()  # kept features that alone predict the target, on no keep list
    sign_test: SignTest | None = None  # None where the loss is a scorer, or with a single unit
    sign_test_over_constant: SignTest | None = None
    # of "all_features" and "selected"; empty for a regression, and with a single unit
    accuracies: Mapping[str, Accuracy] = field(default_factory=dict)


def judgement_of(
    pair: PairedLosses,
    before: Floats,
    after: Floats,
    constant: Floats,
    *,
    is_smaller: bool,
    tolerance: float,
    confidence: float = CONFIDENCE,
) -> Judgement:
    """Compare predictions with two sets of features, of which `after` may have fewer.

    What the verdict says has the confidence.
    """
    predictions, weights = [after, before], [(1.0, -1.0, 0.0)]
    constant_loss = loss_if_any(pair.loss, pair.rows.y, constant, pair.rows.weight)
    if constant_loss is not None:
        predictions.append(constant)
        weights += [(1, 0, -1), (0, 1, -1)]
    contrasts = [Contrast(w, confidence) for w in weights]
    intervals_of = pair.intervals_of(predictions)
    intervals = intervals_of(contrasts)
    interval, over_constant, all_over_constant = [*intervals, None, None][:3]
    n_units, share = pair.n_units, None
    before_loss, after_loss = map(pair.loss_of, (before, after))

    def end_of(end: Literal[0, 1], *weights: float, is_one_sided: bool = False) -> float:
        """Return an end of the interval of a contrast of both losses and a constant's."""
        (ends,) = intervals_of([Contrast(weights, confidence, is_one_sided)])
        return math.nan if ends is None else ends[end]

    explained = None
    if interval is not None and constant_loss is not None:
        if constant_loss > before_loss:  # the least tolerance that is met
            share = _share_at_zero(
                lambda lost: end_of(1, 1, lost - 1, -lost, is_one_sided=True),
                constant_loss - before_loss,
            )
        if constant_loss > 0 and n_units >= FEWEST_UNITS:
            most = _share_at_zero(lambda left: end_of(1, 1, 0, -left), constant_loss)
            least = _share_at_zero(lambda left: end_of(0, 1, 0, -left), constant_loss)
            explained = 1 - most, min(1 - least, 1.0)
    is_within = is_smaller and share is not None and share <= tolerance
    return Judgement(
        difference=difference_of(after_loss, before_loss),
        interval=interval,
        confidence=confidence,
        units=n_units,
        verdict=_verdict(interval, over_constant, all_over_constant, n_units, is_within),
        constant_loss=constant_loss,
        over_constant=over_constant,
        all_features_over_constant=all_over_constant,
        tolerance=tolerance,
        share_lost_at_most=share,
        explained=explained,
    )


def _share_at_zero(bound: Callable[[float], float], of: float) -> float:
    """Return the share of `of` at which a bound is 0.

    The bound falls by about `of` times the share, nearly evenly, so that a few secants find it.
    """
    before, above = 0.0, bound(0.0)
    share = above / of
    for _ in range(_MOST_SECANTS):
        if abs(share - before) <= _CLOSE:
            break
        at_share = bound(share)
        slope = (at_share - above) / (share - before)
        if not slope < 0:
            break
        before, above, share = share, at_share, share - at_share / slope
    return share


def _verdict(
    interval: Interval | None,
    over_constant: Interval | None,
    all_over_constant: Interval | None,
    n_units: int,
    is_within: bool,
) -> Verdict:
    """Return the verdict; `is_within`: fewer features are shown to lose at most the tolerance."""
    if interval is None or n_units < FEWEST_UNITS:
        return "cannot tell"
    if interval[1] < 0 and (over_constant is None or over_constant[1] < 0):
        return "better"
    if is_within and _is_below(all_over_constant):
        return "as good with fewer columns"
    return "worse" if interval[0] > 0 else "cannot tell"


def _is_below(interval: Interval | None) -> bool:
    return interval is not None and interval[1] < 0


def compare(
    pair: PairedLosses,
    before: Floats,
    after: Floats,
    constant: Floats,
    mask: Mask,
    *,
    tolerance: float,
    judged_on: str = "test",
    why_all: str = "",
    fold_sizes: Sequence[int] = (),
    leaks: Sequence[str] = (),
    caveat: str = "",
) -> Comparison:
    """Compare predictions with all features and with a mask's (d,); see `judgement_of`.

    `why_all` is the reason for a mask of all features, `caveat` what the search has to say first.
    `fold_sizes` are the numbers of features that folds chose, if the predictions are theirs.
    `leaks` are features of the mask that alone predict the target: their loss is no evidence until
    a person confirms that they are known before the target.
    """
    is_all = bool(mask.all())
    judged = judgement_of(pair, before, after, constant, is_smaller=not is_all, tolerance=tolerance)
    if is_all or leaks or _is_smaller_than_folds(mask, fold_sizes):
        judged = replace(judged, verdict="cannot tell")
    if leaks or is_all:
        judged = replace(judged, share_lost_at_most=None)
    against_constant = None
    if judged.constant_loss is not None:
        against_constant = pair.sign_test(constant, after)
    before_loss, after_loss = map(pair.loss_of, (before, after))
    accuracies = {}
    if pair.loss.task == "classification" and pair.units.any():
        for name, prediction in (("all_features", before), ("selected", after)):
            accuracies[name] = accuracy_of(pair, prediction, constant)
    words = _Words(
        judged=judged,
        before=before_loss,
        after=after_loss,
        part=part_in_words(judged_on),
        name=loss_in_words(pair.loss.name),
        accuracies=accuracies,
    )
    n_rows = len(pair.rows)
    sentence = (
        leaks_in_words(leaks)
        + caveat
        + words.sentence(mask, n_rows, why_all, fold_sizes, has_leaks=bool(leaks))
    )
    if against_constant and is_not_shown_better_than_constant(judged.over_constant, judged.units):
        counts = signs_in_words(against_constant, judged.units, n_rows)
        balance = against_constant.lower - against_constant.higher
        differ = balance * (after_loss - (judged.constant_loss or 0.0)) > 0
        why = "; a few large losses decide the mean" if differ else ""
        sentence += f" Against a constant, the loss of the selected features is {counts}{why}."
    return Comparison(
        **vars(judged),
        sentence=sentence,
        leaks=tuple(leaks),
        sign_test=pair.sign_test(before, after),
        sign_test_over_constant=against_constant,
        accuracies=accuracies,
    )


def _is_smaller_than_folds(mask: Mask, fold_sizes: Sequence[int]) -> bool:
    """Return whether most folds chose more features than the mask: few judge its size."""
    return len(fold_sizes) > 0 and int(mask.sum()) < median(fold_sizes)


def accuracy_of(pair: PairedLosses, prediction: Floats, constant: Floats) -> Accuracy:
    """Compare the accuracies of two predictions of classes, shape (n, n_classes)."""
    wrong, constant_wrong = (
        (classes.argmax(axis=1) != pair.rows.y).astype(np.float64)
        for classes in (prediction, constant)
    )
    p_value = pair.sign_test_of(constant_wrong, wrong).p_value
    model, of_constant = (
        1 - float(np.average(errors, weights=pair.rows.weight))
        for errors in (wrong, constant_wrong)
    )
    return Accuracy(model, of_constant, p_value)


def constant_prediction(
    loss: Loss, y: NDArray[Any], weight: Floats | None, n_rows: int, n_classes: int
) -> Floats:
    """Return the best constant prediction for the targets `y`.

    For classes their shares, shape (n_rows, n_classes); for numbers (`n_classes` is 0) the mean or
    the median, whichever has the lower loss on these rows.
    """
    if n_classes:
        counts = np.bincount(y, weights=weight, minlength=n_classes)
        return np.tile(counts / counts.sum(), (n_rows, 1))
    mean = np.average(y, weights=weight)
    median = np.quantile(y, 0.5, weights=weight, method="inverted_cdf")
    losses = [loss_if_any(loss, y, np.full(len(y), value), weight) for value in (mean, median)]
    is_median = losses[1] is not None and (losses[0] is None or losses[1] < losses[0])
    return np.full(n_rows, median if is_median else mean)


def loss_if_any(
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


def is_not_shown_better_than_constant(over_constant: Interval | None, n_units: int) -> bool:
    """Return whether enough units do not show the loss to be below a constant's."""
    return over_constant is not None and n_units >= FEWEST_UNITS and over_constant[1] >= 0


def is_nothing_to_select_from(
    over_constant: Iterable[Interval | None], n_units: int, accuracies: Mapping[str, Accuracy]
) -> bool:
    """Return whether neither model is shown to be better than a constant.

    A few large losses can hide from the loss what the accuracy shows.
    """
    if any(map(_is_more_accurate, accuracies.values())):
        return False
    return all(is_not_shown_better_than_constant(interval, n_units) for interval in over_constant)


def _is_more_accurate(accuracy: Accuracy) -> bool:
    """Return whether a model's accuracy is shown to be above a constant's."""
    return accuracy.model > accuracy.constant and accuracy.p_value <= 1 - CONFIDENCE


def leaks_in_words(leaks: Sequence[str]) -> str:
    """Return the start of a verdict that rests on leaks, with the remedies; empty without any."""
    if not leaks:
        return ""
    is_single = len(leaks) == 1
    it = "it" if is_single else "them"
    return (
        f"The selection rests on {quoted(leaks)}, which alone "
        f"{'predicts' if is_single else 'predict'} the target. If "
        f"{'it is' if is_single else 'they are'} not known before the target, drop {it}; "
        f"otherwise put {it} on the keep list. Until then, losses with {it} show nothing. "
    )


def too_few_units(n_units: int) -> str:
    if n_units >= FEWEST_UNITS:
        return ""
    return (
        f"At least {FEWEST_UNITS} rows, groups or blocks of time are needed to compare by, and "
        f"there {'is' if n_units == 1 else 'are'} {n_units}"
    )


def is_decisive(interval: Interval, n_units: int) -> bool:
    return n_units >= FEWEST_UNITS and not interval[0] <= 0 <= interval[1]


def judged_on(result: Mapping[str, Any]) -> str:
    """Return the part of the rows that a stage judged on; formerly always the test."""
    return str(result.get("judged_on", "test"))


def part_in_words(part: str) -> str:
    """Return the name of a part of the rows, as in "out-of-fold loss" and "test rows"."""
    return "out-of-fold" if part == "out_of_fold" else part.replace("_", " ")


@dataclass(frozen=True)
class _Words:
    """The figures of a comparison, and what is said of them."""

    judged: Judgement
    before: float  # loss with all features
    after: float  # with the selected features
    part: str  # the rows that judge, such as "test"
    name: str  # of the loss
    accuracies: Mapping[str, Accuracy]

    def sentence(
        self,
        mask: Mask,
        n_rows: int,
        why_all: str,
        fold_sizes: Sequence[int],
        *,
        has_leaks: bool = False,
    ) -> str:
        judged, part = self.judged, self.part
        kept, total, constant = int(mask.sum()), len(mask), judged.constant_loss
        start = ""
        intervals = judged.over_constant, judged.all_features_over_constant
        if constant is not None and is_nothing_to_select_from(
            intervals, judged.units, self.accuracies
        ):
            start = self._nothing_to_select_from(constant, n_rows)
        if kept == total:
            every = "The one feature" if total == 1 else f"Every one of the {total} features"
            why = "" if start else f", {why_all or 'so there is nothing smaller to compare'}"
            kept_all = f"{every} was kept{why}."
            if lacking := too_few_units(judged.units):
                return f"{start}{kept_all} {lacking}, so that no verdict is possible."
            return f"{start}{kept_all}" + ("" if start else self._constant_reason())
        folds = _chosen_in_folds(fold_sizes) if fold_sizes else ""
        measured = (
            f"with {kept} of {total} features{folds} the {part} loss ({self.name}) is "
            f"{self.after:.4g} against {self.before:.4g} with all; difference "
            f"{signed(judged.difference)}, {interval_in_words(judged.interval, CONFIDENCE)}."
        )
        if lacking := too_few_units(judged.units):
            sentence = f"{lacking}, so that no verdict is possible: {measured}"
            if constant is not None:
                sentence += f" A constant, which looks at no feature, has the loss {constant:.4g}."
            return sentence
        saved = "1 column" if total - kept == 1 else f"{total - kept} columns"
        cannot_tell = f"These {part} rows cannot tell whether selection is as good"
        if _is_smaller_than_folds(mask, fold_sizes):
            about = f"{cannot_tell}, since most folds kept more features; it saves {saved}"
            return f"{start}{about}: {measured}"
        about = f"Selection is {judged.verdict}"
        if has_leaks:
            about = f"The losses do not show whether selection is as good; it saves {saved}"
        elif judged.verdict == "cannot tell":
            about = f"{cannot_tell}; it saves {saved}"
        return f"{start}{about}: {measured}" + ("" if start else self._constant_reason())

    def _nothing_to_select_from(self, constant: float, n_rows: int) -> str:
        """Return why there is nothing to select from, and whether more rows would be a remedy."""
        interval = self.judged.all_features_over_constant
        difference = difference_of(self.before, constant)
        if interval is None:
            raise ValueError("all features were not compared with a constant")
        if interval[0] >= 0:
            remedy = "Other features or another model are needed rather than more rows."
        elif difference >= 0:
            remedy = (
                "That is no gain; more rows, other features, another model or another loss may "
                "show one."
            )
        else:
            times = ((interval[1] - difference) / difference) ** 2
            needed = max(float(f"{n_rows * times:.2g}"), n_rows + 1)
            remedy = (
                f"About {needed:,.0f} {self.part} rows would show a gain "
                f"of this size; there are {n_rows:,}."
                if times < _MOST_TIMES
                else f"So small a gain takes more than {_MOST_TIMES} times as many rows to show."
            )
        so = ", so there is nothing to select from yet"
        return f"{self._against_constant('all_features', constant, so)} {remedy} "

    def _against_constant(self, which: str, constant: float, so: str = "") -> str:
        """Return the sentence for a loss that is not shown to be below a constant's."""
        is_all = which == "all_features"
        model = f"The model with {'all' if is_all else 'the selected'} features"
        loss = self.before if is_all else self.after
        judged, accuracy = self.judged, None if so else self.accuracies.get(which)
        interval = judged.all_features_over_constant if is_all else judged.over_constant
        figures = (
            f"its {self.part} loss ({self.name}) is {loss:.4g} against {constant:.4g} of the "
            f"constant; difference {signed(difference_of(loss, constant))}, "
            f"{interval_in_words(interval, CONFIDENCE)}"
        )
        if accuracy is not None and _is_more_accurate(accuracy):
            is_higher = interval is not None and interval[0] > 0
            return (
                f"{model} is shown to be right more often than a constant (accuracy "
                f"{accuracy.model:.3g} against {accuracy.constant:.3g}), but its loss is "
                f"{'higher' if is_higher else 'not shown to be lower'}: {figures}."
            )
        is_no_better = interval is not None and interval[0] >= 0
        how = "no better than" if is_no_better else "not shown to predict better than"
        return f"{model} is {how} a constant{so}: {figures}."

    def _constant_reason(self) -> str:
        """Return the comparison with the constant that explains a verdict."""
        judged, share = self.judged, self.judged.share_lost_at_most
        if judged.constant_loss is None or judged.verdict == "better":
            return ""
        for which, interval in (
            ("selected", judged.over_constant),
            ("all_features", judged.all_features_over_constant),
        ):
            if is_not_shown_better_than_constant(interval, judged.units):
                return f" {self._against_constant(which, judged.constant_loss)}"
        if share is None or judged.verdict == "worse":
            return ""
        return f" It {share_in_words(share, judged.tolerance)}."


def _chosen_in_folds(sizes: Sequence[int]) -> str:
    """Return the phrase for sets that the folds chose separately."""
    if len(set(sizes)) == 1:
        return f", chosen separately in each fold ({sizes[0]} each),"
    *others, last = map(str, sizes)
    return f", chosen separately in each fold ({', '.join(others)} and {last}),"


def share_in_words(
    share: float,
    tolerance: float,
    of: str = "all features explain",
    confidence: float = CONFIDENCE,
) -> str:
    """Return the upper bound of a loss, as a share of what a set explains beyond a constant."""
    sure = f"{100 * confidence:.4g}% confidence"
    if share <= 0:
        return f"loses nothing of what {of} beyond a constant, with {sure}"
    if share >= 1:
        return f"may lose all of what {of} beyond a constant"
    return (
        f"loses at most {bound_in_words(share)} of what {of} beyond a constant, with {sure}; "
        f"{100 * tolerance:.3g}% is tolerated"
    )


def bound_in_words(share: float) -> str:
    """Return an upper bound, at least 0, in per cent, to three digits.

    It is rounded up, so that no bound above the tolerance is shown as equal to it.
    """
    if share <= 0:
        return "0%"
    unit = 10.0 ** (math.floor(math.log10(share)) - 2)
    return f"{100 * unit * math.ceil(share / unit - 1e-9):.3g}%"


def signs_in_words(test: SignTest, n_units: int, n_rows: int) -> str:
    p_value = f"= {test.p_value:.2g}" if test.p_value >= _LEAST_P else f"< {_LEAST_P}"
    return (
        f"lower in {test.lower} and higher in {test.higher} of {n_units} "
        f"{units_in_words(n_units, n_rows)} (sign test p {p_value})"
    )


def units_in_words(n_units: int, n_rows: int) -> str:
    return "rows" if n_units == n_rows else "groups or blocks of time"
