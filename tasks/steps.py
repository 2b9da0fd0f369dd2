"""The steps of a selection, in their order; the story tells what they do."""

from __future__ import annotations

STEPS = (
    "ingest",
    "describe",
    "split",
    "train_base_model",
    "optimise_mask",
    "choose_mask",
    "retrain",
    "evaluate",
    "write_report",
)
_OF_ALTERNATIVES = ("search_alternatives", "score_alternatives")
_OF_CHANGES = ("judge_changes",)


def steps_of(*, with_alternatives: bool = False, with_changes: bool = False) -> tuple[str, ...]:
    """Return the steps of a selection, with those of alternatives and a reselection or without."""
    further = (*_OF_ALTERNATIVES * with_alternatives, *_OF_CHANGES * with_changes)
    return (*STEPS[:-1], *further, STEPS[-1])
