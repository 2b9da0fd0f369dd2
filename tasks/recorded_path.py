"""What a search found, in the files of a run and back; `storage/README.md` says how it looks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.storage.runs import StageRecord, StageWriter
from chaffinch.tasks.candidates import Path
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.rivals.elimination_by_refits import CrossValidatedPath
from chaffinch.tasks.selection.rivals.found import FoundMasks
from chaffinch.tasks.selection.rivals.ranking import RankedPath
from chaffinch.tasks.selection.vocabulary import Schema

PATH_FILE = "elimination.parquet"


def write_path(writer: StageWriter, schema: Schema, path: Path, unmasked_loss: float) -> None:
    """Write a row per removal, or per mask found, and the stage's result.

    Parameters
    ----------
    writer : StageWriter
        Of the stage that searched.
    schema : Schema
        The d features.
    path : EliminationPath, RankedPath or FoundMasks
        What was found.
    unmasked_loss : float
        Of the base model on the mask-validation part, with every feature.
    """
    result: dict[str, Any] = {"unmasked_loss": unmasked_loss}
    columns: dict[str, pa.Array]
    if isinstance(path, FoundMasks):
        names = [[schema.features[j] for j in np.flatnonzero(mask)] for mask in path.masks]
        columns = {
            "features": pa.array(names, pa.list_(pa.string())),
            "loss": pa.array(path.losses, pa.float64()),
        }
        left = [len(kept) for kept in names]
    else:
        columns = {"feature": pa.array([schema.features[j] for j in path.removed], pa.string())}
        if isinstance(path, RankedPath):
            columns["score"] = pa.array([path.scores[j] for j in path.removed], pa.float64())
            result["scores"] = dict(zip(schema.features, path.scores, strict=True))
        else:
            columns["loss"] = pa.array(path.losses, pa.float64())
        left = [path.n_features - step for step in range(1, len(path.removed) + 1)]
    if isinstance(path, CrossValidatedPath):
        result["sizes"] = [
            {"n_features": size, "loss": loss, "standard_error": error}
            for size, loss, error in zip(path.sizes, path.losses, path.standard_errors, strict=True)
        ]
    steps = pa.table(
        {
            "step": pa.array(range(1, len(left) + 1), pa.int64()),
            **columns,
            "features_left": pa.array(left, pa.int64()),
        }
    )
    writer.write_with(PATH_FILE, lambda file: pq.write_table(steps, file))
    writer.result = result


def path_of(eliminated: StageRecord, schema: Schema) -> Path:
    """Return what `write_path` wrote."""
    steps = pq.read_table(eliminated.path(PATH_FILE))
    result = eliminated.result
    if "features" in steps.column_names:
        masks = [np.isin(schema.features, names) for names in steps["features"].to_pylist()]
        return FoundMasks(tuple(masks), tuple(steps["loss"].to_pylist()))
    position = {name: j for j, name in enumerate(schema.features)}
    removed = tuple(position[name] for name in steps["feature"].to_pylist())
    if "scores" not in result:
        losses = tuple(steps["loss"].to_pylist())
        return EliminationPath(len(schema.features), result["unmasked_loss"], removed, losses)
    scores = tuple(result["scores"][name] for name in schema.features)
    if "sizes" not in result:
        return RankedPath(scores, removed)
    sizes = result["sizes"]
    return CrossValidatedPath(
        scores,
        removed,
        tuple(entry["n_features"] for entry in sizes),
        tuple(entry["loss"] for entry in sizes),
        tuple(entry["standard_error"] for entry in sizes),
    )


def step_of_each(steps: pa.Table) -> dict[str, int]:
    """Return the step at which each feature left; none did where whole masks were found."""
    if "feature" not in steps.column_names:
        return {}
    return dict(zip(steps["feature"].to_pylist(), steps["step"].to_pylist(), strict=True))
