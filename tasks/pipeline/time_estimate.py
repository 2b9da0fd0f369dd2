"""Estimate of the seconds that each stage of a run takes, from two fits on a few of its rows."""

from __future__ import annotations

from time import perf_counter

from chaffinch.errors import InputError
from chaffinch.tasks.methods.auto import Auto
from chaffinch.tasks.methods.fitting import tuning_candidates
from chaffinch.tasks.pipeline.progress import Estimate, duration
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import Rows

_ROWS, _VALUES = 4_000, 2_000_000  # of the larger of the two fits
_LEAST_VALUES = 100_000  # of a table; a run on fewer takes seconds
_LONG = 600  # seconds, of which a user is warned
_OF_BOTH_MODELS = 2  # fits
_SECONDS_OF_BOOTSTRAP, _SECONDS_OF_REPORT = 1.0, 0.5


def stage_estimate(run: SelectionRun) -> tuple[Estimate, str] | None:
    """Return the estimated seconds of the stages to come, and a warning if they are many.

    None for a small table, or where the few rows give no model. Once the base model is tuned, fits
    with its hyper-parameters tell the seconds of the stages that follow.
    """
    if run.dataset.n_rows * len(run.schema.features) < _LEAST_VALUES:
        return None
    seconds = _seconds_by_stage(run)
    if seconds is None:
        return None
    seconds["evaluate"] = (seconds["evaluate"] or 0.0) + _SECONDS_OF_BOOTSTRAP
    seconds["write_report"] = _SECONDS_OF_REPORT
    known = sum(filter(None, seconds.values()))
    estimate = {stage: None if taken is None else (taken,) for stage, taken in seconds.items()}
    return estimate, "" if known < _LONG or _is_tuned(run) else _warning(run, seconds, known)


def _is_tuned(run: SelectionRun) -> bool:
    return "train_base_model" in run.records


def _warning(run: SelectionRun, seconds: dict[str, float | None], known: float) -> str:
    tuning, remedies = seconds["train_base_model"] or 0.0, ["fewer rows"]
    if isinstance(run.settings.method, Auto) and run.settings.method.validation != "holdout":
        remedies = ["--validation holdout", *remedies]
    if tuning > known / 4:
        remedies = ["--tuning none, or fewer --tuning-rows", *remedies]
    return f"the run takes about {duration(known)}; {' or '.join(remedies)} would shorten it"


def seconds_of_fits(run: SelectionRun) -> float | None:
    """Return about how many seconds the fits of a run take; None if their number is not known.

    A fit takes as much longer as it has more rows and features. Masked losses, scores of rankings
    and networks are not included.
    """
    seconds = _seconds_by_stage(run)
    if seconds is None or _fits_of_search(run) is None:
        return None
    return sum(filter(None, seconds.values()))


def _fits_of_search(run: SelectionRun) -> float | None:
    """Return the fits of a search in units of one with all features; None if not known."""
    n_features, n_rows = len(run.schema.features), run.dataset.n_rows - len(run.splits.test)
    searched = run.method.fits(n_rows, n_features, run.settings.model.folds)
    if searched is None:
        return None
    return sum(searched) / n_features if searched else 1.0  # masked losses alone are cheap


def _seconds_by_stage(run: SelectionRun) -> dict[str, float | None] | None:
    """Return the seconds of each stage's fits; None for a search without known fits."""
    model, n_rows = run.settings.model, run.dataset.n_rows - len(run.splits.test)
    rows = run.rows("train")
    tuned = tuning_candidates(run.untuned_recipe, run.settings, run.schema, len(rows))
    n_tuned = len(tuned) * model.folds if len(tuned) > 1 else 0
    many = min(len(rows), _ROWS, max(200, _VALUES // len(run.schema.features)))
    few = many // 2
    try:
        _seconds_of_fit(run, rows.take(slice(few)))  # loads libraries
        of_few, of_many = (_seconds_of_fit(run, rows.take(slice(n))) for n in (few, many))
    except InputError:  # as where a rare class is in none of the few rows
        return None

    def seconds(n: int) -> float:
        return of_many + max(0.0, of_many - of_few) * (n - many) / (many - few)

    of_search = _fits_of_search(run)
    of_training = seconds(len(rows)) + n_tuned * seconds(min(len(rows), model.tuning_rows))
    return {
        **({} if _is_tuned(run) else {"train_base_model": of_training}),
        "optimise_mask": None if of_search is None else of_search * seconds(n_rows),
        "choose_mask": seconds(n_rows),
        "retrain": _OF_BOTH_MODELS * seconds(n_rows),
        "evaluate": seconds(n_rows),
    }


def _seconds_of_fit(run: SelectionRun, rows: Rows) -> float:
    recipe = run.recipe if _is_tuned(run) else run.untuned_recipe
    began = perf_counter()
    recipe.fit(rows, run.schema)
    return perf_counter() - began
