"""How much there is to do, and how long it will take, said before it begins."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.comparing.cells import Asked, Compared, Loaded, measure, steered_sizes
from chaffinch.tasks.comparing.plan import ALL, Cell, Plan
from chaffinch.tasks.data.splits import Splits
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.methods.candidates import sizes_asked_for
from chaffinch.tasks.methods.fitting import Recipe, recipe_of, tuning_candidates
from chaffinch.tasks.selection.baselines.wrappers import (
    n_refits_backward,
    n_refits_forward,
    sizes_on_the_way,
)
from chaffinch.tasks.selection.core import Mask, Rows, Schema
from chaffinch.tasks.selection.models.runtime import single_thread
from chaffinch.tasks.selection.robust_elimination import n_stages, sizes_down
from chaffinch.tasks.settings.methods import (
    AfsBm,
    Gbmo,
    ParticleSwarm,
    Pefs,
    Rfe,
    Rfecv,
    RobustElimination,
    Sequential,
)
from chaffinch.tasks.settings.selection import Method

# How long fits and searches take, by trying them: fits on all rows, searches on some of them.
#
# What a method does beside fitting models depends on the machine, the model and the table, and is
# most of the time of some. So each search is tried once, on a cell cut down to some rows and
# columns, and its seconds are scaled up. Searches that do little but fit models are counted
# instead, and so are those whose models nobody can cut down.

_ROWS, _COLUMNS = 1000, 40  # of a part, and of the table, that searches are tried on
_ONCE_BEFORE = 100, 8
_MOST_FITS = 4  # candidates of tuning that are timed
_LEAST_SECONDS = 1e-6  # of a fit, to divide by
_BY_PAIRS = {"gbmo", "flbmo", "afs_bm", "mrmr", "fcbf", "permutation"}  # go by columns squared
# PEFS: sweeps that are tried, and what goes by the columns of it.
_SWEEPS, _FEWEST_ITERATIONS, _UNITS = 2, 128, 400
# Sweeps as a rule: of six tables of 10 to 100 features 7 to 30 on the mean of the default
# penalties, and 28 to 50 on that of three sizes, as steering often goes on to the last.
_SWEEPS_OF_A_PENALTY, _SWEEPS_TO_A_SIZE = 20, 40
_SOME_PENALTY = 0.1  # with which a search is tried that is steered to sizes


@dataclass(frozen=True)
class Pace:
    """How long things take on one table with one model, on one thread.

    Attributes
    ----------
    fit : float
        Seconds of a fit on the training part, on average over candidates of tuning.
    quarter : float
        The same on a quarter of the columns.
    refit_rows : float
        How many times as many rows a final model is fitted on.
    n_candidates : int
        Of tuning.
    searches : mapping of str to float
        Seconds of each search that was tried, by method; of PEFS those for each of the sizes too.
    """

    fit: float
    quarter: float
    refit_rows: float
    n_candidates: int
    searches: Mapping[str, float]

    def fit_on(self, share: float) -> float:
        """Return the seconds of a fit on a share of the columns, by those on all and a quarter."""
        by_columns = (self.fit - self.quarter) / 0.75
        return max(self.quarter + by_columns * (share - 0.25), self.quarter / 2)


@dataclass(frozen=True)
class _CutDown(Compared):
    """A comparison with given parts of the rows."""

    parts: Splits

    def splits(self, cell: Cell) -> Splits:
        """Return the parts, whatever the cell."""
        return self.parts


def is_counted(method: Method | None) -> bool:
    """Return whether a method's time is that of the fits it is counted to need."""
    if isinstance(method, AfsBm):
        return method.tune_every_round
    return isinstance(method, ParticleSwarm | Rfe | Rfecv | RobustElimination | Sequential)


def pace(compared: Compared, cell: Cell, methods: Sequence[str]) -> Pace:
    """Try fits and searches of a cell."""
    plan = compared.plan
    settings, splits = plan.selection(cell), compared.splits(cell)
    schema = plan.sources[cell.table].description.schema
    train = compared.tables[cell.table].rows.take(splits.train)
    recipe = recipe_of(settings)
    candidates = tuning_candidates(recipe, settings, schema, len(train))
    parameters = {**recipe.parameters, **candidates[len(candidates) // 2]}
    searched = [m for name in methods if (m := plan.method(name)) and not is_counted(m)]
    # what is loaded or compiled once is no part of any cell's time
    _tried(compared, cell, searched, parameters, *_ONCE_BEFORE)
    searches = _tried(compared, cell, searched, parameters, _ROWS, _COLUMNS)
    places = np.linspace(0, len(candidates) - 1, min(len(candidates), _MOST_FITS)).round()
    some = [replace(recipe, parameters={**recipe.parameters, **candidates[int(p)]}) for p in places]
    seconds = [_seconds_of_a_fit(one, train, schema) for one in some]
    few = _some_columns(schema.features, (), max(1, len(schema.features) // 4))
    of_few = _seconds_of_a_fit(some[0], train.select(few), schema.select(few))
    mean = float(np.mean(seconds))
    return Pace(
        fit=mean,
        quarter=mean * of_few / max(seconds[0], _LEAST_SECONDS),
        refit_rows=1 + len(splits.mask_validation) / len(splits.train),
        n_candidates=len(candidates),
        searches=searches,
    )


def _seconds_of_a_fit(recipe: Recipe, rows: Rows, schema: Schema) -> float:
    began = time.perf_counter()
    with single_thread(), suppress(ValueError):  # what cannot be fitted is told by its cells
        recipe.fit(rows, schema)
    return time.perf_counter() - began


def _tried(
    compared: Compared,
    cell: Cell,
    methods: Sequence[Method],
    parameters: Mapping[str, Any],
    most_rows: int,
    most_columns: int,
) -> dict[str, float]:
    """Return the seconds of each search, by its seconds on some of the rows and columns.

    One that cannot be used takes none.
    """
    plan, splits = compared.plan, compared.splits(cell)
    source, loaded = plan.sources[cell.table], compared.tables[cell.table]
    schema = source.description.schema
    parts = Splits(*(_some_of(part, loaded.roles.y, most_rows) for part in vars(splits).values()))
    columns = _some_columns(schema.features, plan.settings.columns.keep, most_columns)
    n_columns, d = int(columns.sum()), len(schema.features)
    cut = schema.select(columns)
    description = replace(source.description, features=cut.features, n_categories=cut.n_categories)
    model = plan.model(cell).model_copy(update={"tuning": "none", "parameters": dict(parameters)})
    shortened = tuple(_shortened(method, n_columns, len(parts.train)) for method in methods)
    asked = plan.settings.model_copy(update={"methods": shortened, "models": (model,), "sizes": ()})
    results = measure(
        _CutDown(
            Plan(asked, (replace(source, description=description),)),
            (Loaded(loaded.rows.select(columns), loaded.roles),),
            parts,
        ),
        Asked(replace(cell, table=0, model=0), tuple(method.kind for method in methods)),
    )
    rows = len(splits.train) / len(parts.train)

    def times_as_long(method: Method) -> float:
        if isinstance(method, Pefs):
            return _times_of_pefs(method, pefs_searches(plan, cell, method), n_columns, d)
        return _times_as_long(method, rows, n_columns, d)

    return {
        method.kind: found[0]["selection_seconds"] * times_as_long(method)
        for method in methods
        if (found := results[method.kind]["sets"])
    }


def pefs_searches(plan: Plan, cell: Cell, method: Pefs) -> tuple[int, int]:
    """Return how many searches PEFS makes in a cell for penalties, and how many to sizes.

    A size that leaves nothing to search takes none.
    """
    names = plan.sources[cell.table].description.features
    d, n_kept = len(names), len(set(names).intersection(plan.settings.columns.keep))
    own = sizes_asked_for(method, d, max(1, n_kept)) if method.n_features else {}
    _, further = steered_sizes(method, plan.sizes(cell.table), d, n_kept)
    sizes = {*own, *further} - {n_kept, d}
    return len(method.penalties or ()) * method.seeds, len(sizes) * method.seeds


def _times_of_pefs(method: Pefs, searches: tuple[int, int], n_columns: int, d: int) -> float:
    """Return how many times as long all searches take on all d columns as the one that is tried."""
    for_penalties, to_sizes = searches
    sweeps = for_penalties * min(method.most_sweeps, _SWEEPS_OF_A_PENALTY)
    sweeps += to_sizes * min(method.most_sweeps, _SWEEPS_TO_A_SIZE)
    iterations = max(d, _FEWEST_ITERATIONS) / max(n_columns, _FEWEST_ITERATIONS)
    times = sweeps / min(method.most_sweeps, _SWEEPS)
    return times * iterations * (d + _UNITS) / (n_columns + _UNITS)


def _times_as_long(method: Method, rows: float, n_columns: int, d: int) -> float:
    """Return how many times as long a search takes on all rows and all d columns."""
    n_searches = len(method.slacks) if isinstance(method, AfsBm) else 1
    return n_searches * rows * float((d / n_columns) ** (2 if method.kind in _BY_PAIRS else 1))


def _shortened(method: Method, n_columns: int, n_rows: int) -> Method:
    """Return a method that does the same of fewer columns and rows, with one of its searches."""
    changes: dict[str, Any] = {}
    if isinstance(method.n_features, tuple):
        changes["n_features"] = tuple(min(size, n_columns) for size in method.n_features)
    if isinstance(method, AfsBm):
        changes |= {"start": (), "slacks": method.slacks[:1]}
    if isinstance(method, Pefs):
        # to a size that the few columns do not have there would be nothing to search
        changes = {"penalties": (method.penalties or (_SOME_PENALTY,))[:1], "n_features": None}
        changes["batch_size"] = method.batch_size and min(method.batch_size, n_rows)
        changes |= {"seeds": 1, "most_sweeps": min(method.most_sweeps, _SWEEPS)}
    return method.model_copy(update=changes)


def _some_of(part: Index, y: NDArray[Any], most: int) -> Index:
    """Return some row numbers of a part, sorted: evenly by the target, and of every class one."""
    if len(part) <= most:
        return part
    by_target = part[np.argsort(y[part], kind="stable")]
    some = by_target[np.linspace(0, len(part) - 1, most).astype(np.int64)]
    if np.issubdtype(y.dtype, np.integer):
        some = np.concatenate((some, part[np.unique(y[part], return_index=True)[1]]))
    return np.unique(some)


def _some_columns(names: Sequence[str], keep: Collection[str], most: int) -> Mask:
    """Return a mask of some columns, evenly spaced, and of those to keep."""
    mask = np.isin(names, list(keep))
    mask[np.linspace(0, len(names) - 1, min(len(names), most)).astype(np.int64)] = True
    return mask


# Of AFS-BM, for each slack: a few rounds mask nearly all that can go.
_TRAININGS_OF_A_WALK = 6


@dataclass(frozen=True)
class Estimate:
    """What is still to do.

    Attributes
    ----------
    cells, selections, fits : int
        Fits of models are counted roughly, and each search by PEFS, which trains a network of its
        own, is one; keeping every feature is no selection.
    seconds : float
        Until it is done, from the time of a few fits and small searches for each table and model.
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
    """Count what is to do, and try what it takes for each table and model."""
    alike: dict[tuple[int, int], list[Asked]] = {}
    for one in asked:
        alike.setdefault((one.cell.table, one.cell.model), []).append(one)
    selections = fits = 0
    seconds = 0.0
    for several in alike.values():
        methods = dict.fromkeys(name for one in several for name in one.methods)
        tried = pace(compared, several[0].cell, list(methods))
        for one in several:
            selections += sum(compared.plan.method(name) is not None for name in one.methods)
            n_fits, of_cell = _of_cell(compared, one, tried)
            fits += n_fits
            seconds += of_cell
    return Estimate(len(asked), selections, fits, seconds / min(n_workers, len(asked)))


def _of_cell(compared: Compared, asked: Asked, tried: Pace) -> tuple[int, float]:
    """Return how many fits a cell takes, and how many seconds."""
    plan = compared.plan
    settings = plan.selection(asked.cell)
    n_features = len(plan.sources[asked.cell.table].description.features)
    n_folds = settings.model.folds
    n_tuning = tried.n_candidates * n_folds if tried.n_candidates > 1 else 0
    in_a_fold = 1 - 1 / n_folds  # of the rows
    n_fits, seconds = n_tuning + 1, tried.fit * (n_tuning * in_a_fold + 1)
    for name in asked.methods:
        method = plan.method(name)
        if method is not None:
            n_searched = _fits_of(method, n_features, n_folds, n_tuning)
            if isinstance(method, Pefs):
                n_searched += sum(pefs_searches(plan, asked.cell, method))
            if is_counted(method):
                of_robust = 2 * tried.refit_rows * in_a_fold  # masked copies, of more rows
                each = of_robust if isinstance(method, RobustElimination) else 1.0
                seconds += n_searched * each * tried.fit_on(_share_of(method, n_features))
            else:
                seconds += tried.searches.get(name, 0.0)
        elif name == ALL:
            n_searched = 0
        else:
            continue
        n_scored = 1
        if method is not None and method.takes_sizes:
            n_scored += len(plan.sizes(asked.cell.table))
        n_fits += n_searched + n_scored
        seconds += n_scored * tried.refit_rows * tried.fit
    return n_fits, seconds


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
    if isinstance(method, RobustElimination):
        n_found = 0 if method.n_features else len(sizes_down(n_features, 1))
        return n_sizes + n_folds * (n_stages(n_features, 1) + n_found)
    if isinstance(method, Rfe):
        return n_sizes + len(sizes_on_the_way(n_features, 1, method.step))
    if isinstance(method, Sequential):
        sizes = sizes_asked_for(method, n_features, 1)
        if method.kind == "sequential_forward":
            return n_sizes + n_refits_forward(n_features, max(sizes), 0)
        return n_sizes + n_refits_backward(n_features, min(sizes), 0)
    return n_sizes


def _share_of(method: Method, n_features: int) -> float:
    """Return which share of the columns a search's fits have, on average."""
    if isinstance(method, Rfe | Rfecv):
        sizes = sizes_on_the_way(n_features, 1, method.step)
        return sum(sizes) / len(sizes) / n_features
    if isinstance(method, Sequential):
        asked = sizes_asked_for(method, n_features, 1)
        is_forward = method.kind == "sequential_forward"
        ends = (0, max(asked)) if is_forward else (min(asked), n_features)
        return sum(ends) / 2 / n_features
    if isinstance(method, RobustElimination):
        n = n_stages(n_features, 1)
        return sum(0.25**stage for stage in range(n)) / max(n, 1)
    return 0.5 if isinstance(method, ParticleSwarm) else 1.0


def _in_words(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
