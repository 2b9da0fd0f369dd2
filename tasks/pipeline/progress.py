"""Steps of a run, and the callbacks for progress, messages and warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence

OnProgress = Callable[[str, int, int], None]
Say = Callable[[str], None]
Warn = Callable[[Sequence[str]], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress; the default of `on_progress`."""


def no_messages(line: str) -> None:
    """Ignore a message; the default callback."""


def no_warnings(warnings: Sequence[str]) -> None:
    """Ignore warnings; the default callback, because results include the warnings."""


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
    """Return the steps of a selection, optionally with those of alternatives and a reselection."""
    further = (*_OF_ALTERNATIVES * with_alternatives, *_OF_CHANGES * with_changes)
    return (*STEPS[:-1], *further, STEPS[-1])
