"""How much there is to do, and how long it will take, said before it begins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from chaffinch.tasks.candidates import sizes_asked_for
from chaffinch.tasks.comparing.cells import Asked, Compared
from chaffinch.tasks.comparing.results import ALL
from chaffinch.tasks.mask_settings import AfsBm, Gbmo
from chaffinch.tasks.pefs_settings import Pefs
from chaffinch.tasks.refit_settings import ParticleSwarm, Rfe, Rfecv, Sequential
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.selection.rivals.elimination_by_refits import sizes_on_the_way
from chaffinch.tasks.selection.rivals.sequential import n_refits_backward, n_refits_forward
from chaffinch.tasks.settings import Method, SelectionSettings
from chaffinch.tasks.training import MOST_CANDIDATES, recipe_of

# Of AFS-BM, for each slack: a few rounds mask nearly all that can go.
_TRAININGS_OF_A_WALK = 6


@dataclass(frozen=True)
class Estimate:
    """What is still to do.

    Attributes
    ----------
    cells, selections, fits : int
        Fits of models are the most of it, and counted roughly: what a method looks at besides
        is not.
    seconds : float
        Until it is done, from the time of one fit for each table and model.
    """

    cells: int
    selections: int
    fits: int
    seconds: float

    def __str__(self) -> str:
        """Return it in words."""
        return (
            f"To do: {self.selections:,} selections in {self.cells:,} cells, about "
            f"{self.fits:,} fits of models, about {_in_words(self.seconds)}."
        )


def estimate(compared: Compared, asked: Sequence[Asked], n_workers: int) -> Estimate:
    """Count what is to do, and time one fit for each table and model.

    Parameters
    ----------
    compared : Compared
        What is compared.
    asked : sequence of Asked
        What is to do.
    n_workers : int
        How many cells are measured at a time.
    """
    seconds_of: dict[tuple[int, int], float] = {}
    selections = fits = 0
    seconds = 0.0
    for one in asked:
        which = one.cell.table, one.cell.model
        if which not in seconds_of:
            seconds_of[which] = _seconds_of_a_fit(compared, one)
        n_fits = _fits(compared, one)
        selections += len(one.methods)
        fits += n_fits
        seconds += n_fits * seconds_of[which] / min(n_workers, len(asked))
    return Estimate(len(asked), selections, fits, seconds)


def _seconds_of_a_fit(compared: Compared, asked: Asked) -> float:
    table = compared.tables[asked.cell.table]
    settings = compared.plan.selection(asked.cell)
    rows = table.rows.take(compared.splits(asked.cell).train)
    schema = compared.plan.sources[asked.cell.table].description.schema
    begin = time.perf_counter()
    with single_thread():
        recipe_of(settings).fit(rows, schema)
    return time.perf_counter() - begin


def _fits(compared: Compared, asked: Asked) -> int:
    plan = compared.plan
    source = plan.sources[asked.cell.table]
    settings = plan.selection(asked.cell)
    n_features, n_folds = len(source.description.features), settings.model.folds
    n_tuning = _tuning(settings, source.description.task, source.dataset.n_rows)
    per_method = 0
    for name in asked.methods:
        method = plan.method(name)
        if method is not None:
            n_scored = 1 + len(plan.settings.sizes)
            per_method += _fits_of(method, n_features, n_folds, n_tuning) + n_scored
        elif name == ALL:
            per_method += 1
    return n_tuning + 1 + per_method


def _tuning(settings: SelectionSettings, task: str, n_rows: int) -> int:
    model = settings.model
    grid = models.parameter_grid(model.name, model.tuning, task, n_rows)  # type: ignore[arg-type]
    n = min(len(grid), MOST_CANDIDATES)
    return n * model.folds if n > 1 else 0


def _fits_of(method: Method, n_features: int, n_folds: int, n_tuning: int) -> int:
    """Return how often a search and the choice from what it finds fit a model, at most.

    Of AFS-BM nobody knows the most; it is about what it takes.
    """
    if isinstance(method, Gbmo):
        return len(method.slacks)
    if isinstance(method, AfsBm):
        n_fits = 1 + (n_tuning if method.tune_every_round else 0)
        return len(method.slacks) * (_TRAININGS_OF_A_WALK * n_fits + 1)
    if isinstance(method, ParticleSwarm):
        return method.individuals * method.generations
    if isinstance(method, Rfecv):
        return (n_folds + 1) * len(sizes_on_the_way(n_features, 1, method.step))
    if isinstance(method, Pefs):
        return len(method.n_features or method.penalties or ())
    n_sizes = len(method.n_features or ())
    if isinstance(method, Rfe):
        return n_sizes + len(sizes_on_the_way(n_features, 1, method.step))
    if isinstance(method, Sequential):
        sizes = sizes_asked_for(method, n_features, 1)
        if method.kind == "sequential_forward":
            return n_sizes + n_refits_forward(n_features, max(sizes), 0)
        return n_sizes + n_refits_backward(n_features, min(sizes), 0)
    return n_sizes


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
