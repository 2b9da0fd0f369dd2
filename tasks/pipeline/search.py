"""Which features to keep: what a search finds, the masks read off it, and the winner."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.data.splits import fold_indices
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.methods.bmo import search
from chaffinch.tasks.methods.candidates import candidates
from chaffinch.tasks.methods.fitting import Fold, Tuner, loss_of, recipe_of
from chaffinch.tasks.methods.inputs import Material
from chaffinch.tasks.methods.path_files import path_of, write_path
from chaffinch.tasks.methods.wrappers import Refit, check_losses, refitted_loss
from chaffinch.tasks.pipeline.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.pipeline.stage import Context, stage
from chaffinch.tasks.pipeline.training import read_model, tuned_recipe
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.statistics.bootstrap import resampling_units


@stage
def optimise_mask(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
) -> None:
    """Search for the features to keep: by masked losses, by a ranking, or by refits."""
    schema = description_of(described).schema
    material = replace(
        material_of(context, described, divided, trained, "optimise_mask"),
        checkpoints=writer.checkpoints if context.is_kept else None,
    )
    path = search(context.settings.method, material)
    if isinstance(path, EliminationPath):
        unmasked_loss = path.unmasked_loss
    else:
        held_out = material.rows("mask_validation")
        prediction = material.model.predict(held_out.X)
        unmasked_loss = material.loss(held_out.y, prediction, held_out.weight)
        check_losses(material.loss.name, [np.ones(len(schema.features), bool)], [unmasked_loss])
    write_path(writer, schema, path, unmasked_loss)


@stage
def choose_mask(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
) -> None:
    """Refit on the features of each candidate mask; the best on the model-validation part wins.

    Of equals, the smaller mask wins.
    """
    schema = description_of(described).schema
    standing = candidates(path_of(eliminated, schema), context.settings.method)
    masks, loss = [candidate.mask for candidate in standing], loss_of(context.settings, schema)
    losses = context.workers.map(
        refitted_loss,
        Refit(
            part_rows(context, described, divided, "train"),
            part_rows(context, described, divided, "model_validation"),
            schema,
            tuned_recipe(context, trained),
            loss,
        ),
        masks,
        lambda done, total: context.on_progress("choose_mask", done, total),
    )
    check_losses(loss.name, masks, losses)
    writer.result = {
        "mask": masks[int(np.argmin(losses))].tolist(),
        "candidates": [
            {
                "n_features": int(candidate.mask.sum()),
                "settings": candidate.settings,
                "model_validation_loss": of_candidate,
            }
            for candidate, of_candidate in zip(standing, losses, strict=True)
        ],
    }


def mask_of(chosen: StageRecord) -> Mask:
    """Return the mask that `choose_mask` recorded, shape (d,)."""
    return np.array(chosen.result["mask"], dtype=bool)


def material_of(
    context: Context,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    step: str,
) -> Material:
    """Return what a search may look at, which is a step of the story."""
    description, settings = description_of(described), context.settings
    schema = description.schema
    kept = settings.columns.keep
    return Material(
        schema=schema,
        recipe=tuned_recipe(context, trained),
        tuner=Tuner(recipe_of(settings, context.estimator), settings),
        model=read_model(context, trained, "base_model", trained.result["kind"], schema),
        baseline=np.array(trained.result["baseline"]),
        loss=loss_of(context.settings, schema),
        keep=tuple(j for j, name in enumerate(schema.features) if name in kept),
        seed=settings.seed,
        rows=lambda *parts: part_rows(context, described, divided, *parts),
        folds=lambda *parts: _folds(context, described, divided, *parts),
        workers=context.workers,
        on_progress=lambda done, total: context.on_progress(step, done, total),
        warnings=description.warnings,
        units=lambda: _units(context, described, divided),
    )


def _units(context: Context, described: StageRecord, divided: StageRecord) -> Index:
    """Return the unit of each mask-validation row: what belongs together is resampled together."""
    roles = part_roles(context, described, divided, "mask_validation")
    return resampling_units(len(roles.y), groups=roles.groups, times=roles.times)


def _folds(
    context: Context, described: StageRecord, divided: StageRecord, *parts: str
) -> list[Fold]:
    """Return the folds inside some parts; inside the training part those of the tuning."""
    roles = part_roles(context, described, divided, *parts)
    return fold_indices(roles.y, context.settings, groups=roles.groups, times=roles.times)
