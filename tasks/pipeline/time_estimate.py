"""Estimate of the time that the fits of a run take, from two fits on a few of its rows."""

from __future__ import annotations

from time import perf_counter

from chaffinch.storage.errors import InputError
from chaffinch.tasks.methods.fitting import tuning_candidates
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.selection.core import Rows

_ROWS, _VALUES = 4_000, 2_000_000  # of the larger of the two fits
_FITS_AROUND = 5  # the base model, refits of candidates, both final models


def seconds_of_fits(run: SelectionRun) -> float | None:
    """Return about how many seconds the fits of a run take; None if their number is not known.

    A fit takes as much longer as it has more rows and features. Masked losses, scores of rankings
    and networks are not included.
    """
    model, n_features = run.settings.model, len(run.schema.features)
    n_rows = run.dataset.n_rows - len(run.splits.test)
    searched = run.method.fits(n_rows, n_features, model.folds)
    if searched is None:
        return None
    rows = run.rows("train")
    tuned = tuning_candidates(run.untuned_recipe, run.settings, run.schema, len(rows))
    n_tuned = len(tuned) * model.folds if len(tuned) > 1 else 0
    many = min(len(rows), _ROWS, max(200, _VALUES // n_features))
    few = many // 2
    try:
        _seconds_of_fit(run, rows.take(slice(few)))  # loads libraries
        of_few, of_many = (_seconds_of_fit(run, rows.take(slice(n))) for n in (few, many))
    except InputError:  # as where a rare class is in none of the few rows
        return None

    def seconds(n: int) -> float:
        return of_many + max(0.0, of_many - of_few) * (n - many) / (many - few)

    all_features = sum(searched) / n_features + _FITS_AROUND
    return all_features * seconds(n_rows) + n_tuned * seconds(min(len(rows), model.tuning_rows))


def _seconds_of_fit(run: SelectionRun, rows: Rows) -> float:
    began = perf_counter()
    run.untuned_recipe.fit(rows, run.schema)
    return perf_counter() - began
