"""Search for the features to keep, and choice between the candidate masks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq

from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.data.splits import fold_indices
from chaffinch.tasks.data.stratified_split import Index
from chaffinch.tasks.errors import as_input_error
from chaffinch.tasks.methods.fitting import Fold, Tuner, loss_of, recipe_of
from chaffinch.tasks.methods.protocol import SearchContext, as_search
from chaffinch.tasks.methods.refits import Refit, check_losses, refitted_loss
from chaffinch.tasks.pipeline.ingestion import description_of, part_roles, part_rows
from chaffinch.tasks.pipeline.stage import Context, stage
from chaffinch.tasks.pipeline.training import read_model, tuned_recipe
from chaffinch.tasks.selection.core import Mask
from chaffinch.tasks.statistics.bootstrap import resampling_units

PATH_FILE = "elimination.parquet"  # result of the search


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
    searched = replace(
        search_context(context, described, divided, trained, "optimise_mask"),
        checkpoints=writer.checkpoints if context.is_kept else None,
    )
    method = as_search(context.settings.method)
    with as_input_error():
        found = method.search(searched)
    unmasked_loss = method.unmasked_loss(found)
    if unmasked_loss is None:
        held_out = searched.rows("mask_validation")
        prediction = searched.model.predict(held_out.X)
        unmasked_loss = searched.loss(held_out.y, prediction, held_out.weight)
        check_losses(searched.loss.name, [np.ones(len(schema.features), bool)], [unmasked_loss])
    recorded = method.record(found, schema)
    writer.write_with(PATH_FILE, lambda file: pq.write_table(recorded.to_table(), file))
    writer.result = {"unmasked_loss": unmasked_loss, **recorded.facts}


@stage
def choose_mask(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
) -> None:
    """Refit on each candidate mask and choose the best on the model-validation set.

    Ties: the smaller mask is chosen.
    """
    schema = description_of(described).schema
    method = as_search(context.settings.method)
    found = method.read(eliminated.read_table(PATH_FILE), eliminated.result, schema)
    standing = method.candidates(found)
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
    """Return the mask recorded by `choose_mask`, shape (d,)."""
    return np.array(chosen.result["mask"], dtype=bool)


def search_context(
    context: Context,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    step: str,
) -> SearchContext:
    """Return the inputs of a search in a step of the run."""
    description, settings = description_of(described), context.settings
    schema = description.schema
    kept = settings.columns.keep
    return SearchContext(
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
    """Return the resampling unit of each mask-validation row."""
    roles = part_roles(context, described, divided, "mask_validation")
    return resampling_units(len(roles.y), groups=roles.groups, times=roles.times)


def _folds(
    context: Context, described: StageRecord, divided: StageRecord, *parts: str
) -> list[Fold]:
    """Return the folds of some sets; those of the training set are the folds of tuning."""
    roles = part_roles(context, described, divided, *parts)
    return fold_indices(roles.y, context.settings, groups=roles.groups, times=roles.times)
