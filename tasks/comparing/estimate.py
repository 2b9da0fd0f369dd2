"""How much there is to do, and how long it will take, said before it begins."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from chaffinch.tasks.comparing.cells import Asked, Compared
from chaffinch.tasks.comparing.plan import ALL, NONE
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.models.threads import single_thread
from chaffinch.tasks.settings import Gbmo, SelectionSettings
from chaffinch.tasks.training import MOST_CANDIDATES, recipe_of


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
    n_sizes = len(plan.settings.sizes)
    per_method = sum(
        1 if name == ALL else _candidates(plan.selection(asked.cell, name)) + 1 + n_sizes
        for name in asked.methods
        if name != NONE
    )
    return _tuning(settings, source.description.task, source.dataset.n_rows) + 1 + per_method


def _tuning(settings: SelectionSettings, task: str, n_rows: int) -> int:
    model = settings.model
    grid = models.parameter_grid(model.name, model.tuning, task, n_rows)  # type: ignore[arg-type]
    n = min(len(grid), MOST_CANDIDATES)
    return n * model.folds if n > 1 else 0


def _candidates(settings: SelectionSettings) -> int:
    method = settings.method
    return len(method.slacks if isinstance(method, Gbmo) else method.n_features)


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
