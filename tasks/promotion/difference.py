"""What differs between two contracts of a target: features, loss, drift.

The first set is refitted on the rows of the second run, with its tuned hyper-parameters, and both
are scored on the rows that judged that run, so that only the sets differ.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import quoted, quoted_with_reasons
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.contract import Contract, Target
from chaffinch.tasks.data.reselection_fit import other_classes
from chaffinch.tasks.pipeline.judge import Judge, judge_of, predicted
from chaffinch.tasks.pipeline.run import may_be_own_estimator
from chaffinch.tasks.pipeline.selection_run import SelectionRun, StageResults
from chaffinch.tasks.pipeline.stage import stage_key
from chaffinch.tasks.reporting.text import counted, interval, listed, number, share, visible
from chaffinch.tasks.results.previous_run import Former, read_former
from chaffinch.tasks.results.result import SelectionResult
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.identity import CustomObjects
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.statistics.bootstrap import Interval
from chaffinch.tasks.statistics.drift import (
    FeatureDrift,
    drift_between,
    emptyings,
    rescalings,
    unseen_categories,
)
from chaffinch.tasks.statistics.verdict import CONFIDENCE, FEWEST_UNITS, Verdict, too_few_units

Made = TypeVar("Made")

# that refits need
_STAGES = ("describe", "split", "train_base_model", "optimise_mask", "choose_mask", "retrain")
_MOST_MOVED = 5
# Of the mean error, beside one new column. To take more, an honest column has to explain three
# quarters of the variance that the first set leaves.
_LEAST_LEFT = 0.5
_LEAST_LEFT_BY_ALL = 0.8  # where the new set leaves more, no column of it is refitted by itself


@dataclass(frozen=True)
class LossDifference:
    """Losses of two feature sets on the rows that judged the second run.

    Attributes
    ----------
    name : str
        Name of the loss.
    before, after : float
        Losses of both sets; of the first, features that the newer rows lack are left out.
    difference : float
        `after` minus `before`; below 0 the second set is better.
    interval : (float, float) or None
        Paired bootstrap interval of the difference; None for a single unit.
    confidence : float
        Confidence of the interval.
    units : int
        Number of resampling units: rows, groups, or blocks of time.
    verdict : str
        Of the second set against the first: ``"better"``, ``"as good with fewer columns"``,
        ``"worse"`` or ``"cannot tell"``, by the rules of a run.
    tolerance : float
        That of the second run: the share of what the first set explains beyond a constant that a
        smaller second set may lose.
    share_lost_at_most : float or None
        Upper bound of that share; None if the first set explains nothing.
    halved_by : dict of str to float
        Features of the second set that were no candidates of the first, each of which, alone or
        added to the first set, takes away more than half of its mean absolute error; and that
        share. The error in a class is what its probability lacks of 1.
    """

    name: str
    before: float
    after: float
    difference: float
    interval: tuple[float, float] | None
    confidence: float
    units: int
    verdict: Verdict
    tolerance: float
    share_lost_at_most: float | None
    halved_by: dict[str, float]


@dataclass(frozen=True)
class Difference:
    """What differs between two contracts.

    Attributes
    ----------
    before, after : str
        Names of the runs; empty for a contract without its run.
    n_before, n_after : int
        Number of kept features.
    gained, lost : tuple of str
        Features that only the second keeps, or only the first, sorted by name.
    share_changed : float in 0..1
        Gained and lost features, of all that either keeps.
    gone : dict of str to str
        Features of the first that the newer rows lack, and why.
    target_change : str
        How the target differs: another task, or other classes; empty if it does not.
    leaks : tuple of str
        Features of the second that alone predict the whole target: they may not be known before it
        is. Those on the keep list are not among them.
    new_leaks : tuple of str
        Those of them that were none in the first.
    loss : LossDifference or None
        None if the sets are the same or it is not known.
    why_no_loss : str
        Why there is none, or empty.
    drift : tuple of FeatureDrift
        Drift of each feature of either set, and of the target, between the two tables.
    why_no_drift : str
        Why there is none, or empty.
    explained : pair of (float, float), or None
        Intervals of the share of a constant's loss that each set explains in its own run; None
        where it is not known, or the losses are not the same.
    """

    before: str
    after: str
    n_before: int
    n_after: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    share_changed: float
    gone: dict[str, str]
    target_change: str
    leaks: tuple[str, ...]
    new_leaks: tuple[str, ...]
    loss: LossDifference | None
    why_no_loss: str
    drift: tuple[FeatureDrift, ...]
    why_no_drift: str
    explained: tuple[Interval, Interval] | None = None

    @property
    def explains_less(self) -> str:
        """That the second set explains less than half of what the first did; empty if not shown.

        Its share of a constant's loss is at most half of what the first's was at least.
        """
        if self.explained is None:
            return ""
        (least, _), (_, most) = self.explained
        if 2 * max(most, 0.0) >= least:
            return ""
        return (
            f"the model explains at most {share(round(max(most, 0.0), 3))} of a constant's loss, "
            f"where the promoted one explained at least {share(round(least, 3))}"
        )

    @property
    def is_same(self) -> bool:
        """Whether both keep the same features, and the newer rows have them all."""
        return not (self.gained or self.lost or self.gone)

    @property
    def rescaled(self) -> dict[str, str]:
        """The first set's features, or the target, on another scale, and how far they reach.

        How far is the larger of the 5 and 95 % quantiles by size, of 30 values or more. A column
        that reaches 30 times as far, or as near, may have another unit.
        """
        return rescalings(self.drift, self._of_former)

    @property
    def emptied(self) -> dict[str, str]:
        """The first set's features that have lost most of their values, and how many are missing.

        Less than a tenth of the share of rows with a value is left, of 30 or more such rows. What
        has no value at all is `gone`.
        """
        return emptyings(self.drift, self._of_former)

    @property
    def unseen(self) -> dict[str, str]:
        """The first set's features with categories that it does not know, and in how many rows.

        They are in a quarter of the column's values, of 30 or more.
        """
        return unseen_categories(self.drift, self._of_former)

    @property
    def _of_former(self) -> list[str]:
        return [drift.feature for drift in self.drift if drift.feature not in self.gained]

    def as_json(self) -> dict[str, Any]:
        """Return all fields as a dictionary for JSON."""
        return asdict(self)


def difference(
    before: SelectionResult | str | Path,
    after: SelectionResult | str | Path,
    *,
    store: str | Path = "chaffinch-store",
) -> Difference:
    """Return what differs between two runs of one target, or between a contract and a run.

    Parameters
    ----------
    before, after : SelectionResult, str or Path
        A result; or the name of a run in the store, its folder, or its ``selection.json``.
    store : path or address
        Where names of runs, and tables of contracts without their run, are looked up.

    Returns
    -------
    Difference
        With the features `gained` and `lost`, `share_changed` (0..1), the difference of the losses
        (`loss`) and the `drift` of each feature. The losses need the run of `after` and its table
        in the store, drift the tables of both.
        Without them, the rest is returned.

    Raises
    ------
    InputError
        If there is no such run, it is not finished, or the two have different targets.
    StorageError
        If a run is damaged, or a later release wrote it.
    """
    kept = Store.at(store)
    return difference_of(read_former(before, store), read_former(after, store), kept)


def difference_of(
    before: Former, after: Former, store: Store, confidence: float = CONFIDENCE
) -> Difference:
    """Return what differs between two contracts, with losses at a confidence; see `difference`."""
    targets = [known.contract.target for known in (before, after)]
    if targets[0].name != targets[1].name:
        raise InputError(
            f"{before.run or 'the first contract'} predicts {targets[0].name!r} but "
            f"{after.run or 'the second'} {targets[1].name!r}; name two of one target"
        )
    first, second = before.contract.types, after.contract.types
    gained = tuple(name for name in second if name not in first)
    lost = tuple(name for name in first if name not in second)
    either = list(dict.fromkeys([*first, *second]))
    older, why_no_older = _attempt(lambda: _table(before, after, store))
    newer, why_no_newer = _attempt(lambda: _table(after, before, store))
    leaks, known_leaks = (tuple(known.contract.comparison.leaks) for known in (after, before))
    run, why_no_run = None, why_no_newer
    if newer is not None:
        run, why_no_run = _attempt(lambda: _run_to_refit(after, newer))
    kinds = after.contract.kinds  # of a contract alone
    categories: Mapping[str, Collection[str]] = after.contract.categories
    if run is not None:
        kinds, categories = run.kinds, run.description.categories
    gone = before.contract.gone_from(after.contract, kinds, categories)
    loss, why_no_loss = None, "both keep the same features"
    if gained or lost or gone:
        loss, why_no_loss = None, why_no_run
        if run is not None:
            left = [name for name in first if name not in gone]
            new = [name for name in gained if name not in before.contract.candidates]
            loss, why_no_loss = _attempt(
                lambda: _loss_difference(run, left, list(second), new, confidence)
            )
    drift: tuple[FeatureDrift, ...] = ()
    if older is not None and newer is not None:
        moved = [
            drift_between(older, newer, name) for name in (*either, after.contract.target.name)
        ]
        drift = tuple(feature for feature in moved if feature is not None)
    return Difference(
        before=before.run,
        after=after.run,
        n_before=len(first),
        n_after=len(second),
        gained=gained,
        lost=lost,
        share_changed=(len(gained) + len(lost)) / len(either),
        gone=gone,
        target_change=_target_change(*targets),
        leaks=leaks,
        new_leaks=tuple(name for name in leaks if name not in known_leaks),
        loss=loss,
        why_no_loss=why_no_loss,
        drift=drift,
        why_no_drift=why_no_older or why_no_newer,
        explained=_explained(before.contract, after.contract),
    )


def _explained(before: Contract, after: Contract) -> tuple[Interval, Interval] | None:
    then, now = before.comparison.explained, after.comparison.explained
    if then is None or now is None or before.loss != after.loss:
        return None
    return then, now


def _attempt(make: Callable[[], Made]) -> tuple[Made | None, str]:
    """Return the result, or None and the error's message."""
    try:
        return make(), ""
    except (InputError, StorageError) as error:
        return None, str(error)


def _target_change(before: Target, after: Target) -> str:
    if before.task != after.task:
        return f"was one of {before.task}, and is one of {after.task}"
    differ = other_classes(before.classes, after.classes)
    return f"has other classes ({differ})" if differ else ""


def _table(known: Former, other: Former, store: Store) -> Dataset:
    """Return the table that a contract was made from, from the first store that holds it."""
    stores = [Store.of(run.folder) for run in (known, other) if run.folder is not None]
    why: StorageError | None = None
    for place in dict.fromkeys([*stores, store]):
        try:
            of_table = known.contract.dataset.hash or "without a hash"
            return Dataset.open(place.datasets, of_table)
        except StorageError as error:
            why = why or error
    raise why or StorageError("there is no store to look for the table in")


def _run_to_refit(known: Former, table: Dataset) -> SelectionRun:
    """Return the run of a contract, with its split and hyper-parameters; its files are checked."""
    if known.folder is None:
        raise InputError(
            "the second contract came by itself, without the run to refit; name the run"
        )
    stored = Run(known.folder)
    recorded = {record.stage: record for record in stored.records()}
    whole = [stored.finished(name, recorded[name].key) for name in _STAGES if name in recorded]
    records = {record.stage: record for record in whole if record is not None}
    if len(records) < len(_STAGES):
        raise StorageError(
            f"files of run {stored.name!r} have changed since they were written; run the same "
            "command again and they are made again"
        )
    settings = SelectionSettings(**known.contract.settings)
    custom = CustomObjects(folds=StageResults(stored.name, records.values()).custom_folds)
    run = SelectionRun(settings, table, name=stored.name, custom=custom)
    run.records = records
    if may_be_own_estimator(settings.model) and (
        records["describe"].key != stage_key("describe", run)
    ):
        raise InputError(
            f"the model {settings.model.name} may have been an estimator of your own, which a "
            "store does not hold, so that nothing can be refitted"
        )
    return run


def _loss_difference(
    run: SelectionRun,
    before: Sequence[str],
    after: Sequence[str],
    new: Sequence[str],
    confidence: float,
) -> LossDifference:
    """Compare the first set, refitted, with the run's; `new` were no candidates of the first."""
    if not before:
        raise InputError("no feature of the first set is left in the newer rows")
    judge = judge_of(run)
    features = judge.refit.schema.features
    first, second = predicted(judge, np.isin(features, before)), judge.with_selected
    judged = judge.judgement(
        second,
        first,
        is_smaller=len(after) < len(before),
        tolerance=run.settings.tolerance,
        confidence=confidence,
    )
    return LossDifference(
        name=judge.loss.name,
        before=judge.loss_of(first),
        after=judge.loss_of(second),
        difference=judged.difference,
        interval=judged.interval,
        confidence=judged.confidence,
        units=judged.units,
        verdict=judged.verdict,
        tolerance=judged.tolerance,
        share_lost_at_most=judged.share_lost_at_most,
        halved_by=_halved_by(judge, before, new, first),
    )


def _halved_by(
    judge: Judge, before: Sequence[str], new: Sequence[str], first: Floats
) -> dict[str, float]:
    """Return the new features that take away most of the first set's error, and what share.

    `first` are the predictions with the first set. The absolute error shows a leak that fails in
    few rows: these rule a squared error or a log loss. A linear model may trust such a leak less
    beside a good set than alone.
    """
    y, schema = judge.rows.y, judge.refit.schema

    def error(prediction: Floats) -> float:
        if schema.task == "regression":
            misses = np.abs(prediction - y)
        else:
            misses = 1 - prediction[np.arange(len(y)), y.astype(np.int64)]
        return float(np.average(misses, weights=judge.rows.weight))

    def left_by(*names: str) -> float:
        return error(predicted(judge, np.isin(schema.features, names)))

    most = error(first)
    if error(judge.with_selected) >= most * _LEAST_LEFT_BY_ALL:
        return {}
    left = {name: min(left_by(name), left_by(*before, name)) for name in new}
    return {name: 1 - rest / most for name, rest in left.items() if rest < most * _LEAST_LEFT}


def taken_in_words(loss: LossDifference) -> str:
    """Return which new columns take away most of the error, and why that matters; empty if none."""
    if not loss.halved_by:
        return ""
    shares = {name: share(round(taken, 2)) for name, taken in loss.halved_by.items()}
    return (
        "a new column takes away more than half of the former set's error, and may not be known "
        f"before the target is: {quoted_with_reasons(shares)}"
    )


def lines_of_difference(difference: Difference) -> list[str]:
    """Return what differs in lines of text, for a terminal and the Prefect UI."""
    lines = [_features_line(difference)]
    lines += [f"  Gone: {visible(name)} ({why})" for name, why in difference.gone.items()]
    if difference.target_change:
        lines.append(f"  The target {difference.target_change}")
    lines += [f"  Emptied: {visible(name)} ({how})" for name, how in difference.emptied.items()]
    lines += [f"  Rescaled: {visible(name)} ({how})" for name, how in difference.rescaled.items()]
    lines += [f"  New categories: {visible(name)} ({n})" for name, n in difference.unseen.items()]
    lines += [
        f"  {visible(name)} alone predicts the target; make sure that it is known before the "
        "target is"
        for name in difference.leaks
    ]
    if difference.explains_less:
        lines.append(f"  Explains less: {difference.explains_less}")
    if difference.loss is not None:
        if taken := taken_in_words(difference.loss):
            lines.append(f"  Perhaps a leak: {taken}")
        lines.append(_loss_line(difference, difference.loss))
    elif not difference.is_same:
        lines.append(f"What that does to the loss is not known: {difference.why_no_loss}.")
    moved = sorted(difference.drift, key=_distance, reverse=True)[:_MOST_MOVED]
    if moved and not _distance(moved[0]):
        lines.append("No feature of either moved between the tables.")
    elif moved:
        lines.append(
            "Largest drift between the tables (0: same distribution, 1: no overlap): "
            f"{', '.join(map(_describe_drift, moved))}."
        )
    elif difference.why_no_drift:
        lines.append(f"How the features moved is not known: {difference.why_no_drift}.")
    return lines


def _features_line(difference: Difference) -> str:
    if not (difference.gained or difference.lost):
        by_name = " by name" * bool(difference.gone)
        return f"Both keep the same {counted(difference.n_after, 'feature')}{by_name}."
    changed = len(difference.gained) + len(difference.lost)
    either = difference.n_before + len(difference.gained)
    gained, lost = (listed(map(visible, of)) for of in (difference.gained, difference.lost))
    return (
        f"Gained: {gained}. Lost: {lost}. "
        f"Changed: {number(changed)} of the {counted(either, 'feature')} of either, "
        f"{share(round(difference.share_changed, 3))}."
    )


def _loss_line(difference: Difference, loss: LossDifference) -> str:
    former = f"the former {difference.n_before}"
    if difference.gone:
        former = f"what is left of the former {number(difference.n_before)}"
    text = (
        f"Refitted on the newer rows, the loss ({loss_in_words(loss.name)}) is "
        f"{number(loss.after)} with the new {counted(difference.n_after, 'feature')} against "
        f"{number(loss.before)} with {former}; "
        f"difference {number(loss.difference, '+')}, "
    ) + (
        "of one unit there is no interval"
        if loss.interval is None
        else f"{100 * loss.confidence:.4g}% interval {interval(loss.interval)}"
    )
    if loss.units < FEWEST_UNITS:
        return f"{text}. {too_few_units(loss.units)}."
    if difference.new_leaks:
        return f"{text}. That shows nothing: the new set rests on {quoted(difference.new_leaks)}."
    if loss.verdict == "cannot tell":
        return f"{text}. These rows cannot tell which set is better."
    return f"{text}. The new set is {loss.verdict}."


def _distance(drift: FeatureDrift) -> float:
    values = 0.0 if drift.distance is None else drift.distance
    return max(values, abs(drift.missing_after - drift.missing_before))


def _describe_drift(drift: FeatureDrift) -> str:
    about = []
    if drift.missing_before != drift.missing_after:
        about.append(f"missing {share(drift.missing_before)}, now {share(drift.missing_after)}")
    if min(drift.values_before, drift.values_after) < FEWEST_UNITS:
        about.append(f"of {number(drift.values_before)} values, now {number(drift.values_after)}")
    distance, shown = drift.distance, number(drift.distance)
    if distance is not None and 0 < distance < 1:  # nothing is rounded to 0 or 1
        shown = number(round(distance, 3))
        shown = "under 0.001" if distance < 0.001 else "over 0.999" if distance > 0.999 else shown
    text = f"{visible(drift.feature)} {shown}"
    return f"{text} ({'; '.join(about)})" if about else text
