"""Estimate of the seconds that each stage of a run takes, from fits on a few of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.methods.auto import Auto
from chaffinch.tasks.methods.fitting import Recipe, tuning_candidates
from chaffinch.tasks.pipeline.progress import Estimate, duration
from chaffinch.tasks.pipeline.selection_run import SelectionRun

_ROWS, _VALUES = 2_000, 4_000_000  # rows of the smallest and values of the largest timed fit
_LONG_ENOUGH = 0.1  # seconds of a fit, to extrapolate from
_REPEATS = 3  # of a short fit
_LEAST_VALUES = 100_000  # of a table; a run on fewer takes seconds
_LONG = 600  # seconds; a longer run has a warning
_FINAL_MODELS = 2  # on the kept and on all features
_NARROWING = 8  # divisor of the features, for the fit that measures their effect
_SECONDS_OF_REPORT = 0.5
_SECONDS_OF_EVALUATION, _SECONDS_PER_ROW = 0.5, 1e-4  # mostly bootstraps; without fits


def stage_estimate(run: SelectionRun) -> tuple[Estimate, str] | None:
    """Return the estimated seconds of the stages to come, and a warning if they are many.

    None for a small table, or where no model can be fitted on the few rows. Once the base model is
    tuned, the timed fits have its hyper-parameters.
    """
    if run.dataset.n_rows * len(run.schema.features) < _LEAST_VALUES:
        return None
    estimate = _seconds_by_stage(run)
    if estimate is None:
        return None
    evaluate = estimate["evaluate"] or ()
    n_judged = len(run.splits.test) or run.dataset.n_rows
    estimate |= {
        "evaluate": (sum(evaluate) + _SECONDS_OF_EVALUATION + _SECONDS_PER_ROW * n_judged,),
        "write_report": (0.0 if run.stored is None else _SECONDS_OF_REPORT,),
    }
    known = _total(estimate)
    return estimate, "" if known < _LONG or _is_tuned(run) else _warning(run, estimate, known)


def _is_tuned(run: SelectionRun) -> bool:
    return "train_base_model" in run.records


def _total(estimate: Estimate) -> float:
    return sum(map(sum, filter(None, estimate.values())))


def _warning(run: SelectionRun, estimate: Estimate, known: float) -> str:
    tuning, remedies = sum(estimate["train_base_model"] or ()), ["fewer rows"]
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
    estimate = _seconds_by_stage(run)
    if estimate is None or estimate["optimise_mask"] is None:
        return None
    return _total(estimate)


def _seconds_by_stage(run: SelectionRun) -> dict[str, Sequence[float] | None] | None:
    """Return the seconds of each stage's fits; None where the few rows give no model."""
    model, n_rows = run.settings.model, run.dataset.n_rows - len(run.splits.test)
    rows, n_features = run.rows("train"), len(run.schema.features)
    searched = run.method.fits(n_rows, n_features, model.folds)
    most, narrow = max(200, _VALUES // n_features), max(1, n_features // _NARROWING)
    recipe = run.recipe if _is_tuned(run) else run.untuned_recipe
    candidates = (
        [] if _is_tuned(run) else tuning_candidates(recipe, run.settings, run.schema, len(rows))
    )
    try:
        (few, few_time), (many, many_time) = _time_two_fits(run, recipe, min(most, len(rows)))
        narrow_time = _time_fit(run, recipe, many, narrow)
        times = [
            _time_fit(run, replace(recipe, parameters={**recipe.parameters, **some}), few)
            for some in candidates
        ]
    except InputError:  # such as a rare class in none of the few rows
        return None
    # the share of a fit's seconds that does not depend on the features
    width = narrow / n_features
    fixed = np.clip((narrow_time / many_time - width) / (1 - width), 0, 1) if width < 1 else 0.0
    # a fit of tuning takes as long as the mean candidate; the tuned model may take longer
    mean, largest = np.mean(times or [few_time]), max(times, default=few_time)
    tuned_factor = float(np.sqrt(mean * largest) / few_time)
    # at most in proportion to the rows, since a busy machine may have slowed a fit
    row_time = float(np.clip((many_time - few_time) / (many - few), 0, many_time / many))

    def seconds(n: int, size: int = n_features) -> float:
        untuned = many_time + row_time * (n - many)
        return tuned_factor * untuned * float(fixed + (1 - fixed) * size / n_features)

    estimate: dict[str, Sequence[float] | None] = {}
    if not _is_tuned(run):
        n_tuned = len(candidates) * model.folds if len(candidates) > 1 else 0
        tuning_time = n_tuned * seconds(min(len(rows), model.tuning_rows)) * np.sqrt(mean / largest)
        estimate["train_base_model"] = (tuning_time + seconds(len(rows)),)
    # a search fits on the rows that it folds, or on the training part
    parts = run.method.traits.folded_parts or ("train",)
    n_fitted = sum(len(getattr(run.splits, part)) for part in parts)
    search_times = None if searched is None else [seconds(n_fitted, size) for size in searched]
    return estimate | {
        # masked losses alone take about as long as a fit
        "optimise_mask": search_times if search_times != [] else (seconds(n_rows),),
        "choose_mask": (seconds(n_rows),),
        "retrain": (_FINAL_MODELS * seconds(n_rows),),
        "evaluate": (seconds(n_rows),),
    }


def _time_two_fits(run: SelectionRun, recipe: Recipe, most: int) -> list[tuple[int, float]]:
    """Return the rows and seconds of two fits; the larger takes long enough, or `most` rows."""
    n = min(_ROWS, most // 2)
    _time_fit(run, recipe, n)  # loads libraries
    timed = [(n, _time_fit(run, recipe, n))]
    while len(timed) == 1 or (timed[-1][1] < _LONG_ENOUGH and n < most):
        n = min(2 * n, most)
        timed.append((n, _time_fit(run, recipe, n)))
    return timed[-2:]


def _time_fit(
    run: SelectionRun, recipe: Recipe, n_rows: int, n_features: int | None = None
) -> float:
    rows, schema = run.rows("train").take(slice(n_rows)), run.schema
    if n_features is not None:
        mask = np.arange(len(schema.features)) < n_features
        rows, schema = rows.select(mask), schema.select(mask)
    taken: list[float] = []
    while len(taken) < _REPEATS and sum(taken) < _LONG_ENOUGH * _REPEATS:
        began = perf_counter()
        recipe.fit(rows, schema)
        taken.append(perf_counter() - began)
    return min(taken)  # a busy machine slows some repeats
