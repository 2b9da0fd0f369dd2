"""The base model: its hyper-parameters by cross-validation, then one fit on the training part."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.checkpoints import Checkpoints
from chaffinch.storage.errors import StorageError
from chaffinch.storage.files import FORMAT_VERSION, is_sealed, parse_json, sealed
from chaffinch.storage.memory import give_back
from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.checking import TableDescription
from chaffinch.tasks.errors import said_to_the_user
from chaffinch.tasks.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.matrix import baseline_values
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.losses import Loss, resolve_loss
from chaffinch.tasks.selection.vocabulary import FittedModel, Floats, Rows, Schema
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.splits import fold_indices
from chaffinch.tasks.stage import Context, stage
from chaffinch.tasks.workers import InProcess, OnDone, Workers

logger = logging.getLogger(__name__)

_FITS = "fits.json"
_SHARE = 0.05  # of the time that keeping the losses of fits may take

# The papers draw 20 candidates of their grids (RandomizedSearchCV, n_iter 20).
_MOST_CANDIDATES = 20

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True)
class Recipe:
    """How to fit the model, whatever the rows and columns.

    Attributes
    ----------
    name : str
        The model's name in the registry.
    parameters : mapping
        Hyper-parameters by the library's own names.
    seed : int
        Of everything random in the fit.
    estimator : object, optional
        An unfitted scikit-learn estimator that is fitted instead.
    """

    name: str
    parameters: Mapping[str, Any]
    seed: int
    estimator: Any = None

    def fit(self, rows: Rows, schema: Schema) -> FittedModel:
        """Fit on all of `rows`.

        Raises
        ------
        InputError
            If the model cannot be fitted to them.
        """
        with said_to_the_user(f"model {self.name} cannot be fitted, try another: "):
            model: FittedModel
            if self.estimator is not None:
                model = models.fit_estimator(self.estimator, rows, schema, seed=self.seed)
            else:
                model = models.fit(self.name, rows, schema, self.parameters, seed=self.seed)
        give_back()  # a fit leaves behind up to twice the rows
        return model


@dataclass(frozen=True)
class Tuned:
    """What tuning chose.

    Attributes
    ----------
    recipe : Recipe
        With the hyper-parameters of the best candidate.
    candidates : list of dict
        What was to choose from.
    losses : list of float, or None
        Mean held-out loss of each candidate; None if there was no choice.
    """

    recipe: Recipe
    candidates: list[dict[str, Any]]
    losses: list[float] | None


@dataclass(frozen=True)
class Tuner:
    """Chooses hyper-parameters in this process, whatever the columns.

    Attributes
    ----------
    recipe : Recipe
        With the hyper-parameters that are fixed.
    settings : SelectionSettings
        Says what to try.
    """

    recipe: Recipe
    settings: SelectionSettings

    def recipe_for(self, rows: Rows, schema: Schema, folds: Sequence[Fold]) -> Recipe:
        """Return the recipe with the hyper-parameters that do best over the folds of `rows`."""
        return tune(
            self.recipe, self.settings, rows, schema, lambda: list(folds), InProcess()
        ).recipe


@dataclass(frozen=True)
class _CrossValidation:
    """What every candidate and fold has in common."""

    rows: Rows
    schema: Schema
    folds: tuple[Fold, ...]
    loss: Loss
    recipe: Recipe


@stage
def train_base_model(
    context: Context, writer: StageWriter, described: StageRecord, divided: StageRecord
) -> None:
    """Tune the model on the training part, fit it there, and note the baseline of each feature."""
    settings = context.settings
    description = description_of(described)
    schema = description.schema
    rows = part_rows(context, described, divided, "train")
    loss = loss_of(settings, schema)

    def folds() -> list[Fold]:
        roles = part_roles(context, described, divided, "train")
        return fold_indices(rows.y, settings, groups=roles.groups, times=roles.times)

    def tell(done: int, total: int) -> None:
        context.on_progress("train_base_model", done, total)

    tuned = tune(
        recipe_of(settings, context.estimator),
        settings,
        rows,
        schema,
        folds,
        context.workers,
        tell,
        writer.checkpoints if context.is_kept else None,
    )
    model = tuned.recipe.fit(rows, schema)
    write_model(writer, "base_model", model)
    writer.result = {
        "kind": model.kind,
        "parameters": dict(tuned.recipe.parameters),
        "candidates": [
            {"parameters": candidate, "loss": None if tuned.losses is None else tuned.losses[i]}
            for i, candidate in enumerate(tuned.candidates)
        ],
        "folds": settings.model.folds if tuned.losses is not None else 0,
        "loss": loss.name,
        "baseline": baseline_of(settings, rows, description).tolist(),
        "base_model_loss": {"train": loss(rows.y, model.predict(rows.X), rows.weight)},
    }


def tune(
    recipe: Recipe,
    settings: SelectionSettings,
    rows: Rows,
    schema: Schema,
    folds: Callable[[], list[Fold]],
    workers: Workers,
    on_done: OnDone | None = None,
    checkpoints: Checkpoints | None = None,
) -> Tuned:
    """Choose the hyper-parameters by cross-validation, where there is a choice.

    Parameters
    ----------
    recipe : Recipe
        With the hyper-parameters that are fixed.
    settings : SelectionSettings
        Says what to try.
    rows : Rows
        The training part.
    schema : Schema
        What its columns mean.
    folds : callable
        Makes pairs of row numbers, to fit on and held out.
    workers : Workers
        Who computes.
    on_done : callable, optional
        Called with the number of fits done and the number in all.
    checkpoints : Checkpoints, optional
        Where the loss of each fit is kept, so that no fit is repeated after a stop.

    Raises
    ------
    InputError
        If the model cannot be fitted to the rows.
    """
    candidates = tuning_candidates(recipe, settings, schema, len(rows))
    losses: list[float] | None = None
    if len(candidates) > 1:
        loss = loss_of(settings, schema)
        shared = _CrossValidation(rows, schema, tuple(folds()), loss, recipe)
        losses = _cross_validate(workers, shared, candidates, on_done, checkpoints)
    best = 0 if losses is None else int(np.argmin(losses))
    chosen = replace(recipe, parameters={**recipe.parameters, **candidates[best]})
    return Tuned(chosen, candidates, losses)


def baseline_of(settings: SelectionSettings, rows: Rows, description: TableDescription) -> Floats:
    """Return what each feature is set to when it is masked, shape (d,), from the training part."""
    asked = settings.baseline
    if isinstance(asked, str):
        return baseline_values(rows, description.schema, asked)
    values = baseline_values(rows, description.schema, "mean")
    for name, value in asked.items():
        if name not in description.features:
            continue  # of a former run, and gone since
        known = description.categories.get(name)
        position = description.features.index(name)
        values[position] = float(value) if known is None else known.index(str(value))
    return values


def loss_of(settings: SelectionSettings, schema: Schema) -> Loss:
    """Return the loss that the settings ask for."""
    return resolve_loss(settings.loss, schema, weighted=settings.columns.weight is not None)


def recipe_of(settings: SelectionSettings, estimator: Any = None) -> Recipe:
    """Return the recipe with the hyper-parameters that the settings fix."""
    return Recipe(settings.model.name, settings.model.parameters, settings.seed, estimator)


def tuned_recipe(context: Context, trained: StageRecord) -> Recipe:
    """Return the recipe with the hyper-parameters that tuning chose."""
    recipe = recipe_of(context.settings, context.estimator)
    return replace(recipe, parameters=trained.result["parameters"])


def write_model(writer: StageWriter, folder: str, model: FittedModel) -> None:
    """Write a model's native files into a folder of the run."""
    for name, content in model.to_files().items():
        writer.write(f"{folder}/{name}", content)


def read_model(
    context: Context, record: StageRecord, folder: str, kind: str, schema: Schema
) -> FittedModel:
    """Read back what `write_model` wrote; whoever brings an estimator trusts its package."""
    names = [name for name in record.files if name.startswith(f"{folder}/")]
    files = {name.removeprefix(f"{folder}/"): record.read(name) for name in names}
    own = () if context.estimator is None else models.packages_of(context.estimator)
    return models.load(kind, files, schema, own)


def tuning_candidates(
    recipe: Recipe, settings: SelectionSettings, schema: Schema, n_rows: int
) -> list[dict[str, Any]]:
    """Return the hyper-parameters to choose from; those that are fixed take part in none.

    Parameters
    ----------
    recipe : Recipe
        With the hyper-parameters that are fixed.
    settings : SelectionSettings
        Says what to try.
    schema : Schema
        Of the rows to train on.
    n_rows : int
        How many they are.

    Returns
    -------
    list of dict
        At least one, and at most 20; a single one is no choice.
    """
    if recipe.estimator is not None:
        return [{}]
    grid = models.parameter_grid(recipe.name, settings.model.tuning, schema.task, n_rows)
    free = [{k: v for k, v in c.items() if k not in recipe.parameters} for c in grid]
    distinct = [c for i, c in enumerate(free) if c not in free[:i]]
    if len(distinct) <= _MOST_CANDIDATES:
        return distinct
    drawn = np.random.default_rng(settings.seed).choice(
        len(distinct), _MOST_CANDIDATES, replace=False
    )
    return [distinct[i] for i in sorted(drawn)]


def _cross_validate(
    workers: Workers,
    shared: _CrossValidation,
    candidates: list[dict[str, Any]],
    on_done: OnDone | None,
    checkpoints: Checkpoints | None,
) -> list[float]:
    """Return each candidate's mean loss over the folds."""
    n_folds = len(shared.folds)
    items = [(candidate, fold) for candidate in candidates for fold in range(n_folds)]
    losses = {} if checkpoints is None else _losses_kept(checkpoints)
    if losses:
        logger.info("%d of %d fits were made before", len(losses), len(items))
        if on_done is not None:
            on_done(len(losses), len(items))
    left = [number for number in range(len(items)) if number not in losses]
    began, spent = monotonic(), 0.0

    def keep() -> None:
        nonlocal spent
        if checkpoints is not None:
            asked = monotonic()
            checkpoints.keep(_FITS, lambda: _as_bytes(losses))
            spent += monotonic() - asked

    try:
        with closing(workers.as_done(_fold_loss, shared, [items[i] for i in left])) as results:
            for position, loss in results:
                losses[left[position]] = loss
                if spent <= _SHARE * (monotonic() - began):
                    keep()
                if on_done is not None:
                    on_done(len(losses), len(items))
    finally:
        keep()
    table = np.reshape([losses[i] for i in range(len(items))], (len(candidates), n_folds))
    return [float(mean) for mean in table.mean(axis=1)]


def _as_bytes(losses: Mapping[int, float]) -> bytes:
    """Return losses by the number of the fit; as text, since one may be infinite or NaN."""
    exact = {str(number): repr(float(loss)) for number, loss in losses.items()}
    return sealed({"format_version": FORMAT_VERSION, "losses": exact})


def _losses_kept(checkpoints: Checkpoints) -> dict[int, float]:
    """Return the losses of the fits that were made before a stop."""
    checkpoints.begin()
    content = checkpoints.read(_FITS)
    if content is None:
        return {}
    try:
        kept = parse_json(content, checkpoints.folder / _FITS, {"losses": dict})
        is_whole = is_sealed(kept)
    except StorageError:
        is_whole = False
    if not is_whole:
        checkpoints.discard(_FITS, "it is damaged")
        return {}
    return {int(number): float(loss) for number, loss in kept["losses"].items()}


def _fold_loss(shared: _CrossValidation, item: tuple[dict[str, Any], int]) -> float:
    candidate, fold = item
    fitting, held_out_rows = shared.folds[fold]
    recipe = replace(shared.recipe, parameters={**shared.recipe.parameters, **candidate})
    model = recipe.fit(shared.rows.take(fitting), shared.schema)
    held_out = shared.rows.take(held_out_rows)
    return shared.loss(held_out.y, model.predict(held_out.X), held_out.weight)
