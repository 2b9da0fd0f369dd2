"""Estimate of the seconds that each stage of a run takes, from fits on a few of its rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from chaffinch.errors import InputError, StorageError
from chaffinch.tasks.methods.auto import Auto
from chaffinch.tasks.methods.fitting import Recipe, tuning_candidates
from chaffinch.tasks.pipeline.explanation import MOST_PRICES
from chaffinch.tasks.pipeline.progress import Estimate, duration
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.statistics.bootstrap import seconds_of_interval

_ROWS, _VALUES = 250, 4_000_000  # rows of the smallest and values of the largest timed fit
_LONG_ENOUGH, _VERY_LONG = 0.3, 1.0  # seconds of a fit, to extrapolate from
_REPEATS = 3  # of a fit that is shorter
_CANDIDATES = 4  # of tuning, that are timed: the first fold tells the others
_BEFORE_ESTIMATE = {"split", "train_base_model"}
_BEFORE_PRICES = "choose_mask"  # says how many columns have a price
_LEAST_VALUES = 100_000  # of a table; a run on fewer takes seconds
_LONG = 600  # seconds; a longer run has a warning
_NARROWING = 8  # divisor of the features, for the fit that measures their effect
_MANY_ROWS = 20_000  # from which on a search on some of them is offered
_SECONDS_OF_REPORT = 0.5
_SECONDS_OF_EVALUATION, _INTERVALS = 0.5, 5  # the latter take most of it on many rows


@dataclass(frozen=True)
class _TimedFits:
    """Seconds of a fit by its rows and features, extrapolated from timed fits.

    Attributes
    ----------
    fixed : float
        Share of a fit's seconds that does not depend on the features.
    of_candidates : list of float
        Seconds of each candidate of tuning over those without tuning.
    tuned : float
        The same of the tuned model.
    """

    n_rows: int
    n_features: int
    at_rows: float
    per_row: float
    fixed: float
    of_candidates: list[float]
    tuned: float

    def with_base_fit(self, seconds: float, n_rows: int) -> _TimedFits:
        """Return them with the seconds that the tuned model took on so many rows."""
        return replace(self, tuned=seconds / self.seconds(n_rows))

    def seconds(self, n_rows: float) -> float:
        return self.at_rows + self.per_row * (n_rows - self.n_rows)

    def tuned_seconds(self, n_rows: float, n_features: int | None = None) -> float:
        width = 1.0 if n_features is None else n_features / self.n_features
        return self.tuned * self.seconds(n_rows) * (self.fixed + (1 - self.fixed) * width)


class TimeEstimate:
    """Estimate of the seconds of a run's stages, first by timed fits, then by its own.

    There is none for a small table, where no model can be fitted on a few of its rows, or where the
    fits were finished before.
    """

    def __init__(self, run: SelectionRun) -> None:
        self._run = run
        self._timed: _TimedFits | None = None
        self._searched: Sequence[int] | None = None  # features of the search's fits
        n_values = run.dataset.n_rows * len(run.schema.features)
        self._is_short = n_values < _LEAST_VALUES or _is_evaluated(run)

    def after(self, stage: str) -> tuple[Estimate, str] | None:
        """Return the seconds of the stages to come, and a warning if they are many."""
        run = self._run
        prices = run.settings.price_columns and stage == _BEFORE_PRICES
        if self._is_short or not (stage in _BEFORE_ESTIMATE or prices):
            return None
        if self._timed is None:
            self._timed = _timed_fits(run)
            run.on_leader, run.on_fits = self._expect_of, self._expect_fits
        if self._timed is None:
            return None
        if run.base_fit_seconds is not None:
            self._timed = self._timed.with_base_fit(run.base_fit_seconds, len(run.splits.train))
        estimate = self._seconds(self._timed)
        known = _total(estimate)
        return estimate, "" if known < _LONG or _is_tuned(run) else _warning(run, estimate, known)

    def _expect_of(self, leader: int, seconds: Sequence[float], n_rows: int) -> None:
        """Expect that the other folds take as long, and that the candidate that leads is best."""
        if self._timed is not None:
            of_candidates = [taken / self._timed.seconds(n_rows) for taken in seconds]
            self._timed = replace(
                self._timed, of_candidates=of_candidates, tuned=of_candidates[leader]
            )
            self._run.progress.expect(self._seconds(self._timed))

    def _expect_fits(self, searched: Sequence[int]) -> None:
        """Expect that the search fits models of so many features."""
        self._searched = searched
        if self._timed is not None:
            self._run.progress.expect(self._seconds(self._timed))

    def _seconds(self, timed: _TimedFits) -> Estimate:
        run = self._run
        return _seconds_by_stage(run, timed, self._searched) | {
            "evaluate": (
                _SECONDS_OF_EVALUATION + _INTERVALS * self._of_interval,
                *self._fits_of_prices(timed),
            ),
            "write_report": (0.0 if run.stored is None else _SECONDS_OF_REPORT,),
        }

    def _fits_of_prices(self, timed: _TimedFits) -> Sequence[float]:
        """Return the seconds of each fit without one kept feature."""
        run = self._run
        if not run.settings.price_columns:
            return ()
        n_kept = len(run.schema.features) // 2 + 1  # about half, until it is known
        if _BEFORE_PRICES in run.records:
            n_kept = int(run.mask.sum())
        n_rows, n_folds = run.dataset.n_rows - len(run.splits.test), 1
        if not len(run.splits.test):
            n_folds = run.settings.model.folds
            n_rows -= n_rows // n_folds
        seconds = timed.tuned_seconds(n_rows, n_kept)
        return [seconds] * (n_folds * (1 + min(MOST_PRICES, n_kept)))

    @cached_property
    def _of_interval(self) -> float:
        judge = "test" if len(self._run.splits.test) else "train"
        return seconds_of_interval(int(self._run.units(judge).max()) + 1)


def _is_evaluated(run: SelectionRun) -> bool:
    try:
        return run.stored is not None and run.stored.record("evaluate") is not None
    except StorageError:  # damaged: it is evaluated again
        return False


def _is_tuned(run: SelectionRun) -> bool:
    return "train_base_model" in run.records


def _total(estimate: Estimate) -> float:
    return sum(map(sum, filter(None, estimate.values())))


def _warning(run: SelectionRun, estimate: Estimate, known: float) -> str:
    tuning, remedies = sum(estimate["train_base_model"] or ()), ["fewer rows"]
    if run.settings.search_rows is None and (n := len(run.splits.train)) >= _MANY_ROWS:
        remedies = [f"--search-rows {10 ** int(math.log10(n / 2))}"]
    if isinstance(run.settings.method, Auto) and run.settings.method.validation != "holdout":
        remedies = ["--validation holdout", *remedies]
    if tuning > known / 4:
        remedies = ["--tuning none, or fewer --tuning-rows", *remedies]
    return f"the run takes about {duration(known)}; {' or '.join(remedies)} would shorten it"


def seconds_of_fits(run: SelectionRun) -> float | None:
    """Return the estimated seconds of the fits of a run; None if their number is not known.

    Seconds grow with the rows and features of a fit. Masked losses, scores of rankings
    and networks are not included.
    """
    timed = _timed_fits(run)
    if timed is None:
        return None
    estimate = _seconds_by_stage(run, timed)
    return None if estimate["optimise_mask"] is None else _total(estimate)


def _seconds_by_stage(
    run: SelectionRun, timed: _TimedFits, searched: Sequence[int] | None = None
) -> dict[str, Sequence[float] | None]:
    """Return the seconds of each fit, by stage; None for a stage if their number is not known."""
    model, n_rows = run.settings.model, run.dataset.n_rows - len(run.splits.test)
    n_training, n_features = len(run.splits.train), len(run.schema.features)
    estimate: dict[str, Sequence[float] | None] = {}
    if not _is_tuned(run):
        n_tuning = min(n_training, model.tuning_rows) * (model.folds - 1) / model.folds
        of_fold = [timed.seconds(n_tuning) * factor for factor in timed.of_candidates]
        tuning = of_fold * model.folds if len(of_fold) > 1 else []
        base = [timed.tuned_seconds(n_training)] if run.has_base_model else []
        estimate["train_base_model"] = (*tuning, *base) or (0.0,)
    # a search fits on the rows that it folds, or on the training part
    parts = run.method.traits.folded_parts or ("train",)
    n_fitted = sum(len(getattr(run.splits, part)) for part in parts)
    if searched is None:
        searched = run.method.fits(n_rows, n_features, model.folds)
    search_times = None
    if searched is not None:
        search_times = [timed.tuned_seconds(n_fitted, d) if d else 0.0 for d in searched]
    final = timed.tuned_seconds(n_rows)
    # or the base model is the final one
    is_refitted = bool(len(run.splits.mask_validation)) or not run.has_base_model
    return estimate | {
        # masked losses alone take about as long as a fit
        "optimise_mask": search_times if search_times != [] else (final,),
        "choose_mask": (final,) if len(run.splits.model_validation) else (0.0,),
        "retrain": (final, final) if is_refitted else (0.0, final),
    }


def _timed_fits(run: SelectionRun) -> _TimedFits | None:
    """Time fits on a few of the training rows; None where these give no model."""
    rows, n_features = run.rows("train"), len(run.schema.features)
    recipe = run.recipe if _is_tuned(run) else run.untuned_recipe
    most, narrow = max(200, _VALUES // n_features), max(1, n_features // _NARROWING)
    tuned = [] if _is_tuned(run) else tuning_candidates(recipe, run.settings, run.schema, len(rows))
    try:
        (few, few_time), (many, many_time) = _time_two_fits(run, recipe, min(most, len(rows)))
        narrow_time = _time_fit(run, recipe, many, narrow)
        recipes = [replace(recipe, parameters={**recipe.parameters, **some}) for some in tuned]
        apart = max(1, len(recipes) // _CANDIDATES)
        times = [_time_fit(run, some, few) for some in recipes[::apart]]
    except InputError:  # such as a rare class in none of the few rows
        return None
    # at most in proportion to the rows, since a busy machine may have slowed a fit
    per_row = float(np.clip((many_time - few_time) / (many - few), 0, many_time / many))
    width = narrow / n_features
    fixed = np.clip((narrow_time / many_time - width) / (1 - width), 0, 1) if width < 1 else 0.0
    of_candidates = [float(np.mean(times)) / few_time] * len(tuned) if times else [1.0]
    return _TimedFits(
        many,
        n_features,
        many_time,
        per_row,
        float(fixed),
        of_candidates,
        of_candidates[0],
    )


def _time_two_fits(run: SelectionRun, recipe: Recipe, most: int) -> list[tuple[int, float]]:
    """Return the rows and seconds of two fits, of up to `most` rows.

    The larger has half of them and takes long enough, or takes very long.
    """
    n = min(_ROWS, most // 2)
    _time_fit(run, recipe, n, repeats=1)  # loads libraries
    while n < most:
        seconds = _time_fit(run, recipe, n, repeats=1)
        if seconds > _VERY_LONG or (seconds > _LONG_ENOUGH and n >= most / 2):
            break
        n = min(2 * n, most)
    return [(rows, _time_fit(run, recipe, rows)) for rows in (n // 2, n)]


def _time_fit(
    run: SelectionRun,
    recipe: Recipe,
    n_rows: int,
    n_features: int | None = None,
    repeats: int = _REPEATS,
) -> float:
    rows, schema = run.rows("train").take(slice(n_rows)), run.schema
    if n_features is not None:
        mask = np.arange(len(schema.features)) < n_features
        rows, schema = rows.select(mask), schema.select(mask)
    taken: list[float] = []
    while len(taken) < repeats and sum(taken) < _LONG_ENOUGH:
        began = perf_counter()
        recipe.fit(rows, schema)
        taken.append(perf_counter() - began)
    return min(taken)  # a busy machine slows some repeats
