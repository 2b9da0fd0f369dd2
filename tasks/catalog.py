"""What a store's listing says of a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chaffinch.storage.errors import StorageError
from chaffinch.storage.runs import Run, StageRecord
from chaffinch.tasks.steps import steps_of


def summary(run: Run) -> dict[str, Any]:
    """Return a run in one line of a catalog; what a run has not come to yet is None.

    Reads the manifests alone, so that a store of many runs is listed quickly: a file that was
    changed since is found when the run is read back. The state is "finished", "unfinished" (it
    waits, failed or is at work: the store cannot tell) or "damaged" (a manifest is; reading the
    run back says which).

    Raises
    ------
    StorageError
        If the run's description is damaged.
    """
    stages, state = _readable(run)
    to_do = None if state else next_stage(run, stages)
    results = {name: record.result for name, record in stages.items()}
    evaluated, chosen = results.get("evaluate"), results.get("choose_mask")
    test = evaluated["losses"]["test"] if evaluated else {}
    return {
        "run": run.name,
        "created": run.created,
        "state": state or ("unfinished" if to_do else "finished"),
        "next_stage": to_do,
        "kept": sum(chosen["mask"]) if chosen else None,
        "candidates": len(chosen["mask"]) if chosen else None,
        "test_loss_all": test.get("all_features"),
        "test_loss_selected": test.get("selected"),
        "verdict": evaluated["comparison"]["verdict"] if evaluated else None,
    }


def is_unfinished_comparison(comparison: Run) -> bool:
    """Return whether a comparison was begun and not concluded; a damaged one is none of these."""
    stages, state = _readable(comparison)
    return state is None and "conclude" not in stages


def _readable(run: Run) -> tuple[dict[str, StageRecord], str | None]:
    """Return the records of a run, or none and that it is damaged: a listing names every run."""
    try:
        return {record.stage: record for record in run.records()}, None
    except StorageError:
        return {}, "damaged"


def next_stage(run: Run, stages: Mapping[str, StageRecord]) -> str | None:
    """Return the first stage of a run that is not recorded; None if the run is finished.

    Raises
    ------
    StorageError
        If the run's description is damaged.
    """
    settings = run.description["settings"]
    steps = steps_of(
        with_alternatives=settings.get("alternatives") is not None,
        with_changes=settings["method"]["kind"] == "reselect",
    )
    # ingestion is no stage: the dataset is its record
    return next((step for step in steps[1:] if step not in stages), None)
