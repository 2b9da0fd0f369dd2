"""Fitting and tuning of models on any rows and columns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import StorageError, as_input_error
from chaffinch.storage.files import FORMAT_VERSION, is_sealed, parse_json, sealed
from chaffinch.storage.memory import release_memory
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.tasks.data.matrix import baseline_values
from chaffinch.tasks.data.stored_rows import RowNumbers, packed_index
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.selection.losses import Labels, Loss, resolve_loss
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.interface import InProcess, OnDone, Workers

logger = logging.getLogger(__name__)

_FITS = "fits.json"
_SHARE = 0.05  # largest share of time for saving checkpoints

# The runs of binary mask optimisation draw 20 of its grid (RandomizedSearchCV, n_iter 20).
_MOST_CANDIDATES = 20

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]
# Called after the first fold of tuning with the position of the best candidate, the seconds of each
# candidate's fit, and their rows.
OnLeader = Callable[[int, Sequence[float], int], None]


@dataclass(frozen=True)
class Recipe:
    """Model and hyper-parameters, independent of rows and columns."""

    name: str  # of the model, in the registry
    parameters: Mapping[str, Any]  # by the library's own names
    seed: int
    estimator: Any = None  # unfitted scikit-learn estimator that is fitted instead

    def fit(self, rows: Rows, schema: Schema) -> FittedModel:
        """Fit on all of `rows`."""
        with as_input_error(f"model {self.name} cannot be fitted, try another: "):
            model: FittedModel
            if self.estimator is not None:
                model = models.fit_estimator(self.estimator, rows, schema, seed=self.seed)
            else:
                model = models.fit(self.name, rows, schema, self.parameters, seed=self.seed)
        release_memory()  # a fit leaves up to twice the rows in memory
        return model


@dataclass(frozen=True)
class Tuned:
    """Result of tuning."""

    recipe: Recipe  # with the hyper-parameters of the best candidate
    candidates: list[dict[str, Any]]  # of hyper-parameters
    losses: list[float] | None  # mean held-out loss of a candidate; None for a single candidate


@dataclass(frozen=True)
class Tuner:
    """Tuning of hyper-parameters in this process, for any columns."""

    recipe: Recipe  # with the fixed hyper-parameters
    settings: SelectionSettings
    loss: Loss

    def recipe_for(self, rows: Rows, schema: Schema, folds: Sequence[Fold]) -> Recipe:
        """Return the recipe with the best hyper-parameters over the folds of `rows`."""
        of_rows = (rows, schema, lambda: list(folds), InProcess())
        return tune(self.recipe, self.settings, self.loss, *of_rows).recipe


@dataclass(frozen=True)
class _CrossValidation:
    rows: Rows
    schema: Schema
    folds: tuple[tuple[RowNumbers, RowNumbers], ...]  # fitted on, and held out
    loss: Loss
    recipe: Recipe


def tune(
    recipe: Recipe,
    settings: SelectionSettings,
    loss: Loss,
    rows: Rows,
    schema: Schema,
    folds: Callable[[], list[Fold]],
    workers: Workers,
    on_done: OnDone | None = None,
    checkpoints: Checkpoints | None = None,
    on_leader: OnLeader | None = None,
) -> Tuned:
    """Choose the hyper-parameters by cross-validation if there are several candidates."""
    candidates = tuning_candidates(recipe, settings, schema, len(rows))
    losses: list[float] | None = None
    if len(candidates) > 1:
        n_rows = settings.model.tuning_rows
        rows = rows.take(slice(n_rows))
        packed = tuple(
            (packed_index(rows, fit[fit < n_rows]), packed_index(rows, held[held < n_rows]))
            for fit, held in folds()
        )
        shared = _CrossValidation(rows, schema, packed, loss, recipe)
        losses = _cross_validate(workers, shared, candidates, on_done, checkpoints, on_leader)
    best = 0 if losses is None else int(np.argmin(losses))
    chosen = replace(recipe, parameters={**recipe.parameters, **candidates[best]})
    return Tuned(chosen, candidates, losses)


def baseline_of(settings: SelectionSettings, rows: Rows, description: TableDescription) -> Floats:
    """Return the values of masked features, shape (d,), from the training set."""
    baseline = settings.baseline
    if isinstance(baseline, str):
        return baseline_values(rows, description.schema, baseline)
    values = baseline_values(rows, description.schema, "mean")
    for name, value in baseline.items():
        if name not in description.features:
            continue  # a feature of the former run that the rows lack
        known = description.categories.get(name)
        position = description.features.index(name)
        values[position] = float(value) if known is None else known.index(str(value))
    return values


def loss_of(
    settings: SelectionSettings, schema: Schema, scorer: Any = None, labels: Labels | None = None
) -> Loss:
    """Return the loss of the settings, or of a scorer, which gets the classes by their labels."""
    weighted = settings.columns.weight is not None
    if scorer is None:
        return resolve_loss(settings.loss, schema, weighted=weighted)
    return resolve_loss(scorer, schema, weighted=weighted, labels=labels)


def recipe_of(settings: SelectionSettings, estimator: Any = None) -> Recipe:
    parameters = settings.model.parameters
    if models.kind_of(settings.model.name).of_method is not None:
        parameters = {**parameters, **settings.method.model_parameters}
    return Recipe(settings.model.name, parameters, settings.seed, estimator)


def tuning_candidates(
    recipe: Recipe, settings: SelectionSettings, schema: Schema, n_rows: int
) -> list[dict[str, Any]]:
    """Return the candidates of tuning, without the fixed hyper-parameters."""
    if recipe.estimator is not None:
        return [{}]
    grid = models.parameter_grid(recipe.name, settings.model.tuning, schema.task, n_rows)
    free = [{k: v for k, v in c.items() if k not in recipe.parameters} for c in grid]
    distinct = [c for i, c in enumerate(free) if c not in free[:i]]
    if len(distinct) <= _MOST_CANDIDATES or settings.model.tuning.startswith("paper:"):
        return distinct
    rng = np.random.default_rng(settings.seed)
    drawn = rng.choice(len(distinct), _MOST_CANDIDATES, replace=False)
    return [distinct[i] for i in sorted(drawn)]


def _cross_validate(
    workers: Workers,
    shared: _CrossValidation,
    candidates: list[dict[str, Any]],
    on_done: OnDone | None,
    checkpoints: Checkpoints | None,
    on_leader: OnLeader | None,
) -> list[float]:
    n_folds = len(shared.folds)
    # fold by fold: the fits of a few candidates would not tell the time left
    items = [(candidate, fold) for fold in range(n_folds) for candidate in candidates]
    losses = {} if checkpoints is None else _saved_losses(checkpoints)
    if losses:
        logger.info("%d of %d fits were made before", len(losses), len(items))
        if on_done is not None:
            on_done(len(losses), len(items))
    left = [number for number in range(len(items)) if number not in losses]
    began, spent = monotonic(), 0.0
    taken: dict[int, float] = {}  # seconds of fits

    def keep() -> None:
        nonlocal spent
        if checkpoints is not None:
            started = monotonic()
            # as text because JSON has no infinity or NaN
            exact = {str(number): repr(float(loss)) for number, loss in losses.items()}
            content = {"format_version": FORMAT_VERSION, "fold_losses": exact}
            checkpoints.keep(_FITS, lambda: sealed(content))
            spent += monotonic() - started

    try:
        with closing(workers.as_done(_fold_loss, shared, [items[i] for i in left])) as results:
            for position, (loss, of_fit) in results:
                losses[left[position]], taken[left[position]] = loss, of_fit
                if spent <= _SHARE * (monotonic() - began):
                    keep()
                if on_done is not None:
                    on_done(len(losses), len(items))
                of_first = [losses[i] for i in range(len(candidates)) if i in losses]
                if on_leader is not None and len(of_first) == len(candidates):
                    if taken.keys() >= set(range(len(candidates))):  # none by an earlier process
                        seconds = [taken[i] for i in range(len(candidates))]
                        on_leader(int(np.argmin(of_first)), seconds, len(shared.folds[0][0]))
                    on_leader = None
    finally:
        keep()
    table = np.reshape([losses[i] for i in range(len(items))], (n_folds, len(candidates)))
    return [float(mean) for mean in table.T.mean(axis=1)]


def _saved_losses(checkpoints: Checkpoints) -> dict[int, float]:
    """Return the saved losses of the fits of an earlier process."""
    checkpoints.begin()
    content = checkpoints.read(_FITS)
    if content is None:
        return {}
    try:
        kept = parse_json(content, checkpoints.folder / _FITS, {"fold_losses": dict})
        is_whole = is_sealed(kept)
    except StorageError:
        is_whole = False
    if not is_whole:
        checkpoints.discard(_FITS, "it is damaged")
        return {}
    return {int(number): float(loss) for number, loss in kept["fold_losses"].items()}


def _fold_loss(shared: _CrossValidation, item: tuple[dict[str, Any], int]) -> tuple[float, float]:
    """Return the held-out loss of a candidate, and the seconds of its fit."""
    candidate, fold = item
    fitting, held_out_rows = (numbers.index for numbers in shared.folds[fold])
    recipe = replace(shared.recipe, parameters={**shared.recipe.parameters, **candidate})
    began = monotonic()
    model = recipe.fit(shared.rows.take(fitting), shared.schema)
    seconds = monotonic() - began
    held_out = shared.rows.take(held_out_rows)
    return shared.loss(held_out.y, held_out.predicted_by(model), held_out.weight), seconds
