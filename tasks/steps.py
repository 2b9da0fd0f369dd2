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


def steps_of(*, with_alternatives: bool) -> tuple[str, ...]:
    """Return the steps of a selection, with those of a search for alternatives or without."""
    return (*STEPS[:-1], *_OF_ALTERNATIVES * with_alternatives, STEPS[-1])
