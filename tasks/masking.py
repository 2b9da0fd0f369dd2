"""Which features to keep: the path by which they leave, the masks read off it, and the winner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.ingestion import description_of, part_rows
from chaffinch.tasks.material import Material
from chaffinch.tasks.searching import Path, candidate_sizes, search
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.rivals.ranking import RankedPath
from chaffinch.tasks.selection.vocabulary import Mask, Rows, Schema, mask_of_size
from chaffinch.tasks.stage import Context, stage
from chaffinch.tasks.training import Recipe, loss_of, read_model, tuned_recipe


@dataclass(frozen=True)
class _Refit:
    """What every candidate mask has in common."""

    train: Rows
    validation: Rows
    schema: Schema
    recipe: Recipe
    loss: Loss


@stage
def optimise_mask(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
) -> None:
    """Walk the base model's elimination path on the mask-validation part, or rank the features."""
    schema = description_of(described).schema
    material = _material(context, described, divided, trained)
    path = search(context.settings.method, material)
    if isinstance(path, RankedPath):
        _write_path(writer, schema, path, {"score": [path.scores[j] for j in path.removed]})
        held_out = material.rows("mask_validation")
        prediction = material.model.predict(held_out.X)
        writer.result = {
            "unmasked_loss": material.loss(held_out.y, prediction, held_out.weight),
            "scores": dict(zip(schema.features, path.scores, strict=True)),
        }
        return
    _write_path(writer, schema, path, {"loss": list(path.losses)})
    writer.result = {"unmasked_loss": path.unmasked_loss}


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
    path = path_of(eliminated, schema)
    labels = candidate_sizes(path, context.settings.method)
    sizes = sorted(labels)
    losses = context.workers.map(
        _refitted_loss,
        _Refit(
            part_rows(context, described, divided, "train"),
            part_rows(context, described, divided, "model_validation"),
            schema,
            tuned_recipe(context, trained),
            loss_of(context.settings, schema),
        ),
        [mask_of_size(path.n_features, path.removed, size) for size in sizes],
        lambda done, total: context.on_progress("choose_mask", done, total),
    )
    winner = mask_of_size(path.n_features, path.removed, sizes[int(np.argmin(losses))])
    writer.result = {
        "mask": winner.tolist(),
        "candidates": [
            {"n_features": size, "settings": labels[size], "model_validation_loss": loss}
            for size, loss in zip(sizes, losses, strict=True)
        ],
    }


def path_of(eliminated: StageRecord, schema: Schema) -> Path:
    """Return the path that `optimise_mask` recorded."""
    steps = pq.read_table(eliminated.path("elimination.parquet"))
    position = {name: j for j, name in enumerate(schema.features)}
    removed = tuple(position[name] for name in steps["feature"].to_pylist())
    if "scores" in eliminated.result:
        scores = eliminated.result["scores"]
        return RankedPath(tuple(scores[name] for name in schema.features), removed)
    losses = tuple(steps["loss"].to_pylist())
    return EliminationPath(
        len(schema.features), eliminated.result["unmasked_loss"], removed, losses
    )


def mask_of(chosen: StageRecord) -> Mask:
    """Return the mask that `choose_mask` recorded, shape (d,)."""
    return np.array(chosen.result["mask"], dtype=bool)


def _write_path(
    writer: StageWriter, schema: Schema, path: Path, figures: dict[str, list[float]]
) -> None:
    """Write a row per removal, with its masked loss or its score."""
    n_removed = len(path.removed)
    steps = pa.table(
        {
            "step": pa.array(range(1, n_removed + 1), pa.int64()),
            "feature": pa.array([schema.features[j] for j in path.removed], pa.string()),
            **{name: pa.array(values, pa.float64()) for name, values in figures.items()},
            "features_left": pa.array(
                [path.n_features - step for step in range(1, n_removed + 1)], pa.int64()
            ),
        }
    )
    writer.write_with("elimination.parquet", lambda file: pq.write_table(steps, file))


def _material(
    context: Context, described: StageRecord, divided: StageRecord, trained: StageRecord
) -> Material:
    """Return what the search may look at."""
    description, settings = description_of(described), context.settings
    schema = description.schema
    kept = settings.columns.keep
    return Material(
        schema=schema,
        recipe=tuned_recipe(context, trained),
        model=read_model(context, trained, "base_model", trained.result["kind"], schema),
        baseline=np.array(trained.result["baseline"]),
        loss=loss_of(context.settings, schema),
        keep=tuple(j for j, name in enumerate(schema.features) if name in kept),
        seed=settings.seed,
        rows=lambda part: part_rows(context, described, divided, part),
        workers=context.workers,
        on_progress=lambda done, total: context.on_progress("optimise_mask", done, total),
        warnings=description.warnings,
    )


def _refitted_loss(shared: _Refit, mask: Mask) -> float:
    model = shared.recipe.fit(shared.train.select(mask), shared.schema.select(mask))
    held_out = shared.validation.select(mask)
    return shared.loss(held_out.y, model.predict(held_out.X), held_out.weight)
