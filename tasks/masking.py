"""Which features to keep: the path by which they leave, the masks read off it, and the winner."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.storage.errors import InputError
from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.ingestion import description_of, part_rows
from chaffinch.tasks.ranking import rank
from chaffinch.tasks.selection.bmo import EliminationPath, eliminate
from chaffinch.tasks.selection.losses import Loss, loss_in_words
from chaffinch.tasks.selection.rivals.ranking import RankedPath
from chaffinch.tasks.selection.vocabulary import Mask, MaskedLoss, Rows, Schema, mask_of_size
from chaffinch.tasks.settings import Gbmo, Ranking, SelectionSettings
from chaffinch.tasks.stage import Context, stage
from chaffinch.tasks.training import Recipe, loss_of, read_model, tuned_recipe

Path = EliminationPath | RankedPath


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
    keep = _protected(context.settings, schema)
    if isinstance(context.settings.method, Ranking):
        ranked = rank(context, described, divided, trained, keep)
        scores = [ranked.path.scores[j] for j in ranked.path.removed]
        _write_path(writer, schema, ranked.path, {"score": scores})
        writer.result = {
            "unmasked_loss": ranked.unmasked_loss,
            "scores": dict(zip(schema.features, ranked.path.scores, strict=True)),
        }
        return
    model = read_model(context, trained, "base_model", trained.result["kind"], schema)
    engine = context.workers.masked_loss(
        model,
        part_rows(context, described, divided, "mask_validation"),
        loss_of(context, schema),
        np.array(trained.result["baseline"]),
    )
    path = eliminate(
        engine,
        keep=keep,
        on_removal=lambda done, total: context.on_progress("optimise_mask", done, total),
    )
    _check_that_features_matter(context, path, engine, trained.result["loss"], described)
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
    labels = candidate_sizes(path, context.settings)
    sizes = sorted(labels)
    losses = context.workers.map(
        _refitted_loss,
        _Refit(
            part_rows(context, described, divided, "train"),
            part_rows(context, described, divided, "model_validation"),
            schema,
            tuned_recipe(context, trained),
            loss_of(context, schema),
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


def candidate_sizes(path: Path, settings: SelectionSettings) -> dict[int, list[float]]:
    """Return the sizes that the method's settings lead to, and which settings lead to each.

    Returns
    -------
    dict
        Number of features -> slacks (GBMO) or sizes asked for (any other method).

    Raises
    ------
    ValueError
        If the path is a ranking but the method GBMO.
    """
    method = settings.method
    fewest = path.n_features - len(path.removed)
    sizes: dict[int, list[float]] = {}
    if not isinstance(method, Gbmo):
        for asked in method.n_features:
            size = asked if isinstance(asked, int) else round(asked * path.n_features)
            sizes.setdefault(max(size, fewest), []).append(asked)
        return sizes
    if not isinstance(path, EliminationPath):
        raise ValueError("gbmo reads masks off masked losses, which a ranking does not have")
    for slack in method.slacks:
        mask = path.gbmo(slack, n_features=method.n_features, drift_cap=method.drift_cap)
        sizes.setdefault(int(mask.sum()), []).append(slack)
    return sizes


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


def _check_that_features_matter(
    context: Context,
    path: EliminationPath,
    walked: MaskedLoss,
    loss: str,
    described: StageRecord,
) -> None:
    """Refuse a base model to which every mask is the same: what it kept would be arbitrary."""
    if context.settings.columns.keep or any(value != path.unmasked_loss for value in path.losses):
        return
    if walked.without_each().min() != path.unmasked_loss:
        return  # it uses one feature, and that is the one that is left
    odd = "; ".join(description_of(described).warnings)
    raise InputError(
        f"model {context.settings.model.name} makes no use of any of the {path.n_features} "
        f"features: whichever are masked, its {loss_in_words(loss)} is {path.unmasked_loss:.4g}; "
        + (f"mend what is odd ({odd})" if odd else "give more rows, or another model or loss")
    )


def _protected(settings: SelectionSettings, schema: Schema) -> list[int]:
    return [j for j, name in enumerate(schema.features) if name in settings.columns.keep]


def _refitted_loss(shared: _Refit, mask: Mask) -> float:
    model = shared.recipe.fit(shared.train.select(mask), shared.schema.select(mask))
    held_out = shared.validation.select(mask)
    return shared.loss(held_out.y, model.predict(held_out.X), held_out.weight)
