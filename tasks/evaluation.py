"""The final models, and the one look at the test part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.comparison import compare, constant_prediction
from chaffinch.tasks.ingestion import (
    description_of,
    part_roles,
    part_rows,
)
from chaffinch.tasks.masking import mask_of
from chaffinch.tasks.paired_bootstrap import resampling_units
from chaffinch.tasks.part_needs import PARTS
from chaffinch.tasks.recorded_path import PATH_FILE, step_of_each
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.vocabulary import Floats, Schema
from chaffinch.tasks.stage import Context, stage, versions
from chaffinch.tasks.target import target_type
from chaffinch.tasks.training import loss_of, read_model, tuned_recipe, write_model

_FITTED = ("train", "mask_validation")  # the parts that the final models are fitted on


@stage
def retrain(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    chosen: StageRecord,
) -> None:
    """Fit the final model on the kept features, and its rival on all of them.

    Both on the training and mask-validation rows together: the published runs used the training
    rows alone, but once the mask is fixed nothing stands against the larger part.
    """
    schema, mask = description_of(described).schema, mask_of(chosen)
    rows = part_rows(context, described, divided, *_FITTED)
    recipe = tuned_recipe(context, trained)
    write_model(writer, "all_features_model", recipe.fit(rows, schema))
    context.on_progress("retrain", 1, 2)
    rows = rows.select(mask)  # the last that is asked of the other columns
    write_model(writer, "model", recipe.fit(rows, schema.select(mask)))
    writer.result = {"kind": trained.result["kind"], "rows": len(rows)}


@stage
def evaluate(
    context: Context,
    writer: StageWriter,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
    chosen: StageRecord,
    retrained: StageRecord,
) -> None:
    """Score both final models on every part, compare them on the test part, write the contract.

    The only stage that reads the test rows, and it reads them once.
    """
    schema, mask = description_of(described).schema, mask_of(chosen)
    kind, loss = retrained.result["kind"], loss_of(context.settings, schema)
    selected = read_model(context, retrained, "model", kind, schema.select(mask))
    everything = read_model(context, retrained, "all_features_model", kind, schema)
    losses: dict[str, dict[str, float]] = {}
    fitted: list[tuple[NDArray[Any], Floats | None]] = []  # targets and weights, for a constant
    for done, part in enumerate(PARTS):
        rows = part_rows(context, described, divided, part)
        before = everything.predict(rows.X)
        after = selected.predict(rows.X[:, mask])
        losses[part] = {
            "all_features": loss(rows.y, before, rows.weight),
            "selected": loss(rows.y, after, rows.weight),
        }
        if part == "test":
            roles = part_roles(context, described, divided, part)
            units = resampling_units(len(rows), groups=roles.groups, times=roles.times)
            constant = _constant(loss, fitted, len(rows), schema.n_classes)
            seed = context.settings.seed
            comparison = compare(loss, rows, before, after, constant, mask, units, seed=seed)
        elif part in _FITTED:
            fitted.append((rows.y, rows.weight))
        context.on_progress("evaluate", done + 1, len(PARTS))
    contract = _contract(context, described, divided, trained, eliminated, chosen)
    contract["losses"] = losses
    contract["comparison"] = asdict(comparison)
    writer.write("selection.json", to_json(contract))
    metrics = {
        "losses": losses,
        "comparison": asdict(comparison),
        "mask_validation_loss_unmasked": eliminated.result["unmasked_loss"],
        "candidates": chosen.result["candidates"],
        "tuning": trained.result["candidates"],
        "seconds": {
            record.stage: record.seconds
            for record in (described, divided, trained, eliminated, chosen, retrained)
        },
    }
    writer.write("metrics.json", to_json({"format_version": FORMAT_VERSION, **metrics}))
    writer.result = {"losses": losses, "comparison": asdict(comparison)}


def _constant(
    loss: Loss, fitted: Sequence[tuple[NDArray[Any], Floats | None]], n_rows: int, n_classes: int
) -> Floats:
    """Return a constant made of the targets and weights of some parts, for rows of another."""
    y = np.concatenate([of_part for of_part, _ in fitted])
    weights = [weight for _, weight in fitted if weight is not None]
    weight = np.concatenate(weights) if weights else None
    return constant_prediction(loss, y, weight, n_rows, n_classes)


def _contract(
    context: Context,
    described: StageRecord,
    divided: StageRecord,
    trained: StageRecord,
    eliminated: StageRecord,
    chosen: StageRecord,
) -> dict[str, Any]:
    """Return what a reader of the feature contract needs, but for the losses."""
    description, mask = description_of(described), mask_of(chosen)
    schema = description.schema
    settings, dataset = context.settings, context.dataset
    step_of = step_of_each(eliminated.read_table(PATH_FILE))
    kept = [j for j in range(len(mask)) if mask[j]]
    method = settings.method.kind
    dropped: list[dict[str, Any]] = [
        {"name": name, "reason": f"removed by {method}", "step": step_of[name]}
        if name in step_of
        else {"name": name, "reason": f"not chosen by {method}"}
        for j, name in enumerate(schema.features)
        if not mask[j]
    ]
    dropped += [{"name": n, "reason": why} for n, why in description.excluded.items()]
    dropped += [{"name": name, "reason": "left out as asked"} for name in settings.columns.drop]
    return {
        "format_version": FORMAT_VERSION,
        "format": "chaffinch feature contract",
        "dataset": {
            "hash": dataset.hash,
            "rows": dataset.n_rows,
            "rows_by_part": divided.result["rows"],
        },
        "target": {
            "name": settings.target,
            "task": schema.task,
            "type": target_type(dataset.columns[settings.target]),
            "classes": list(description.classes),
        },
        "features": [
            _feature(
                schema,
                j,
                dataset.columns[schema.features[j]],
                description.categories,
                trained,
                step_of.get(schema.features[j]),
            )
            for j in kept
        ],
        "dropped": dropped,
        "candidates": list(schema.features),
        "model": {
            "kind": trained.result["kind"],
            "name": settings.model.name,
            "parameters": trained.result["parameters"],
        },
        "loss": trained.result["loss"],
        "warnings": list(description.warnings),
        **_scales(context),
        "settings": settings.model_dump(mode="json"),
        "seed": settings.seed,
        "versions": versions(),
    }


def _scales(context: Context) -> dict[str, Any]:
    """Return the scales of the table's series, where they were scaled."""
    history = context.settings.history
    if history is None or history.scale == "none":
        return {}
    return {"scales": context.run.description["scales"]}


def _feature(
    schema: Schema,
    j: int,
    kind: str,
    categories: dict[str, tuple[str, ...]],
    trained: StageRecord,
    step: int | None,
) -> dict[str, Any]:
    name, value = schema.features[j], trained.result["baseline"][j]
    if not schema.n_categories[j]:
        return {
            "name": name,
            "type": "number",
            "values": "boolean" if kind == "bool" else "number",
            "baseline": value,
            "step": step,
        }
    known = list(categories[name])
    return {
        "name": name,
        "type": "category",
        "baseline": known[int(value)],
        "step": step,
        "categories": known,
    }
