"""Searches by PEFS in the files of a run and back; `storage/README.md` says how they look."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.tasks.selection.pefs.found import (
    ProbabilisticSearch,
    ProbabilisticSearches,
    Sweep,
    stability,
)


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
    """Return what the two above were made of.

    Parameters
    ----------
    steps : pyarrow.Table
        With the columns of the first.
    said : sequence of mapping
        The second.
    """
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
    """Return the score of each feature: of a ranking, or the probability behind the chosen mask.

    Parameters
    ----------
    steps : pyarrow.Table
        Of the stage that searched.
    result : mapping
        Of the same.
    names : sequence of str, length d
        Of the features.
    kept : sequence of bool, length d
        Which were chosen.

    Returns
    -------
    dict or None
        None where the method has neither, or nothing was searched.
    """
    if "probabilities" not in steps.column_names:
        scores: dict[str, float] | None = result.get("scores")
        return scores
    path = searches_of(steps, result["searches"])
    behind = path.behind(np.array(kept, dtype=bool))
    if not path.is_made(behind):
        return None
    values = path.probabilities(behind)
    return dict(zip(names, values.tolist(), strict=True))
