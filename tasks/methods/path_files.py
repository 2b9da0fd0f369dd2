"""What a search found, in the files of a run and back; `storage/README.md` says how it looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.methods.candidates import Path
from chaffinch.tasks.selection.afs_bm import MaskingRound, MaskingWalk, MaskingWalks
from chaffinch.tasks.selection.baselines.ranking import RankedPath
from chaffinch.tasks.selection.baselines.wrappers import CrossValidatedPath, FoundMasks
from chaffinch.tasks.selection.bmo import EliminationPath
from chaffinch.tasks.selection.core import Mask, Schema
from chaffinch.tasks.selection.pefs.results import (
    ProbabilisticSearch,
    ProbabilisticSearches,
    Sweep,
    stability,
)
from chaffinch.tasks.selection.reselection import Revision


def columns_of_sweeps(path: ProbabilisticSearches) -> dict[str, pa.Array]:
    """Return a row for each sweep of each search, one search after the other."""
    rows = [
        (number, sweep, stability(one.sweeps[: n + 1]))
        for number, one in enumerate(path.searches, 1)
        for n, sweep in enumerate(one.sweeps)
    ]
    sweeps = [sweep for _, sweep, _ in rows]
    return {
        "search": pa.array([number for number, _, _ in rows], pa.int64()),
        "iteration": pa.array([sweep.iteration for sweep in sweeps], pa.int64()),
        "penalty": pa.array([sweep.penalty for sweep in sweeps], pa.float64()),
        "loss": pa.array([sweep.loss for sweep in sweeps], pa.float64()),
        "entropy": pa.array([sweep.entropy for sweep in sweeps], pa.float64()),
        "stability": pa.array([share for _, _, share in rows], pa.float64()),
        "probabilities": pa.array(
            [sweep.probabilities for sweep in sweeps], pa.list_(pa.float64())
        ),
    }


def said_of_searches(path: ProbabilisticSearches) -> list[dict[str, Any]]:
    """Return what was asked of each search, and the loss of its network."""
    return [
        {
            "n_features" if isinstance(one.asked, int) else "penalty": one.asked,
            "seed": one.seed,
            "held_out_loss": one.held_out_loss,
        }
        for one in path.searches
    ]


def searches_of(steps: pa.Table, said: Sequence[Mapping[str, Any]]) -> ProbabilisticSearches:
    """Return what the two above were made of."""
    sweeps: dict[int, list[Sweep]] = {number: [] for number in range(1, len(said) + 1)}
    names = ("search", "iteration", "loss", "penalty", "probabilities")
    for row in zip(*(steps[name].to_pylist() for name in names), strict=True):
        number, iteration, loss, penalty, probabilities = row
        sweeps[number].append(Sweep(iteration, loss, penalty, np.array(probabilities)))
    return ProbabilisticSearches(
        tuple(
            ProbabilisticSearch(
                one["n_features"] if "n_features" in one else one["penalty"],
                one["seed"],
                tuple(sweeps[number]),
                one["held_out_loss"],
            )
            for number, one in enumerate(said, 1)
        )
    )


def scores_of_result(
    steps: pa.Table, result: Mapping[str, Any], names: Sequence[str], kept: Sequence[bool]
) -> dict[str, float] | None:
    """Return the score of each feature: of a ranking, or the probability behind the chosen mask."""
    if "probabilities" not in steps.column_names:
        scores: dict[str, float] | None = result.get("scores")
        return scores
    path = searches_of(steps, result["searches"])
    behind = path.behind(np.array(kept, dtype=bool))
    if not path.is_made(behind):
        return None
    values = path.probabilities(behind)
    return dict(zip(names, values.tolist(), strict=True))


PATH_FILE = "elimination.parquet"
_NAMES, _FLOATS = pa.list_(pa.string()), pa.list_(pa.float64())


def write_path(writer: StageWriter, schema: Schema, path: Path, unmasked_loss: float) -> None:
    """Write a row per removal, per round, per sweep or per mask found, and the stage's result."""
    result: dict[str, Any] = {"unmasked_loss": unmasked_loss}
    columns: dict[str, pa.Array]
    if isinstance(path, MaskingWalks):
        rounds = [one for walk in path.walks for one in walk.rounds]
        columns = _columns_of_rounds(path, schema)
        columns |= _columns_of_masks(
            [one.mask for one in rounds], [one.loss for one in rounds], schema
        )
        left = [int(one.mask.sum()) for one in rounds]
    elif isinstance(path, ProbabilisticSearches):
        masks = [sweep.mask for one in path.searches for sweep in one.sweeps]
        columns = columns_of_sweeps(path)
        columns["features"] = pa.array(
            [_names(np.flatnonzero(mask).tolist(), schema) for mask in masks], _NAMES
        )
        result["searches"] = said_of_searches(path)
        left = [int(mask.sum()) for mask in masks]
    elif isinstance(path, FoundMasks):
        columns = _columns_of_masks(path.masks, path.losses, schema)
        left = [int(mask.sum()) for mask in path.masks]
        if isinstance(path, Revision):
            result["trials"] = _trials(path, schema)
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
    steps = eliminated.read_table(PATH_FILE)
    result = eliminated.result
    if "tried" in steps.column_names:
        return _walks_of(steps.to_pylist(), schema)
    if "probabilities" in steps.column_names:
        return searches_of(steps, result["searches"])
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


def _columns_of_masks(
    masks: Sequence[Mask], losses: Sequence[float], schema: Schema
) -> dict[str, pa.Array]:
    names = [_names(np.flatnonzero(mask).tolist(), schema) for mask in masks]
    return {"features": pa.array(names, _NAMES), "loss": pa.array(losses, pa.float64())}


def _columns_of_rounds(path: MaskingWalks, schema: Schema) -> dict[str, pa.Array]:
    rows = [(walk.slack, n, one) for walk in path.walks for n, one in enumerate(walk.rounds, 1)]
    return {
        "slack": pa.array([slack for slack, _, _ in rows], pa.float64()),
        "round": pa.array([number for _, number, _ in rows], pa.int64()),
        "trained_loss": pa.array([one.trained_loss for _, _, one in rows], pa.float64()),
        "tried": pa.array([_names(one.tried, schema) for _, _, one in rows], _NAMES),
        "tried_losses": pa.array([one.losses for _, _, one in rows], _FLOATS),
        "rejected": pa.array([_names(one.rejected, schema) for _, _, one in rows], _NAMES),
        "removed": pa.array([_names(one.removed, schema) for _, _, one in rows], _NAMES),
    }


def _trials(path: Revision, schema: Schema) -> list[dict[str, Any]]:
    """Return what was tried as what JSON can hold; a bound that is not known is None."""
    return [
        {
            "feature": schema.features[trial.feature],
            "change": "return" if trial.is_return else "leave",
            "difference": trial.difference,
            "highest": trial.highest if np.isfinite(trial.highest) else None,
            "is_made": trial.is_made,
        }
        for trial in path.trials
    ]


def _names(features: Sequence[int], schema: Schema) -> list[str]:
    return [schema.features[j] for j in features]


def _walks_of(rows: list[dict[str, Any]], schema: Schema) -> MaskingWalks:
    position = {name: j for j, name in enumerate(schema.features)}
    walks: list[tuple[float, list[MaskingRound]]] = []
    for row in rows:
        if row["round"] == 1:
            walks.append((row["slack"], []))
        tried, rejected, removed = (
            tuple(position[name] for name in row[column])
            for column in ("tried", "rejected", "removed")
        )
        walks[-1][1].append(
            MaskingRound(
                np.isin(schema.features, row["features"]),
                row["trained_loss"],
                tried,
                tuple(row["tried_losses"]),
                rejected,
                removed,
                row["loss"],
            )
        )
    return MaskingWalks(tuple(MaskingWalk(slack, tuple(rounds)) for slack, rounds in walks))
