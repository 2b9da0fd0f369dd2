"""The base model: tuned by cross-validation, then fitted on the training set."""

from __future__ import annotations

import logging
from dataclasses import replace

from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.data.splits import fold_indices
from chaffinch.tasks.methods.fitting import Fold, Recipe, baseline_of, loss_of, recipe_of, tune
from chaffinch.tasks.pipeline.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.pipeline.stage import Context, stage
from chaffinch.tasks.selection import models
from chaffinch.tasks.selection.core import FittedModel, Schema

logger = logging.getLogger(__name__)


@stage
def train_base_model(
    context: Context, writer: StageWriter, described: StageRecord, divided: StageRecord
) -> None:
    """Tune and fit the model on the training set, and record the baseline of each feature."""
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


def tuned_recipe(context: Context, trained: StageRecord) -> Recipe:
    """Return the recipe with the tuned hyper-parameters."""
    recipe = recipe_of(context.settings, context.estimator)
    return replace(recipe, parameters=trained.result["parameters"])


def write_model(writer: StageWriter, folder: str, model: FittedModel) -> None:
    """Write a model's native files into a folder of the run."""
    for name, content in model.to_files().items():
        writer.write(f"{folder}/{name}", content)


def read_model(
    context: Context, record: StageRecord, folder: str, kind: str, schema: Schema
) -> FittedModel:
    """Return a model written by `write_model`; packages of a user's estimator are trusted."""
    names = [name for name in record.files if name.startswith(f"{folder}/")]
    files = {name.removeprefix(f"{folder}/"): record.read(name) for name in names}
    own = () if context.estimator is None else models.packages_of(context.estimator)
    return models.load(kind, files, schema, own)
