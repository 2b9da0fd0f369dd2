"""Stages of a run: their context, and the reuse of finished stages.

A stage is a plain function of the context, a writer and the records of earlier stages. The
decorator `stage` computes its key from the versions of packages, the settings, the dataset's hash,
and the files and results of the earlier stages. A finished stage with the same key and intact files
is read back instead of run again, so that a killed run resumes where it stopped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.errors import InputError
from chaffinch.storage.memory import give_back
from chaffinch.storage.runs.stages import StageRecord
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.selection.errors import UnusableError
from chaffinch.tasks.settings.identity import digest, identity
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.interface import InProcess, Workers
from chaffinch.tasks.workers.logging import logging_about

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int, int], None]
Say = Callable[[str], None]
Warn = Callable[[Sequence[str]], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """Ignore progress; the default of `on_progress`."""


def no_messages(line: str) -> None:
    """Ignore a message; the default callback."""


def no_warnings(warnings: Sequence[str]) -> None:
    """Ignore warnings; the default callback, because results include the warnings."""


@dataclass(frozen=True)
class Context:
    """Inputs that the stages of a run share.

    Attributes
    ----------
    dataset : Dataset
        The ingested table.
    run : Run
        Run that stores the results of stages.
    settings : SelectionSettings
        Settings that can change the result.
    workers : Workers
        Workers; they do not change the result.
    on_progress : callable
        Called with the stage's name, the number of finished items and the total.
    estimator : object, optional
        Unfitted scikit-learn estimator instead of a model by name.
    store : Store, optional
        Store of results that runs share; without it each run computes them.
    is_kept : bool
        Whether the run's folder outlives the call; if not, the report is rendered on request and
        there are no checkpoints.
    """

    dataset: Dataset
    run: Run
    settings: SelectionSettings
    workers: Workers = field(default_factory=InProcess)
    on_progress: OnProgress = no_progress
    estimator: Any = None
    store: Store | None = None
    is_kept: bool = True


StageBody = Callable[..., None]
Stage = Callable[..., StageRecord]


def stage(body: StageBody) -> Stage:
    """Return ``body(context, writer, *records)`` as a stage that reuses its finished result."""
    name = body.__name__

    def resumable(context: Context, *records: StageRecord) -> StageRecord:
        with logging_about(stage=name):
            return done(context, *records)

    def done(context: Context, *records: StageRecord) -> StageRecord:
        key = stage_key(name, context, records)
        finished = context.run.finished(name, key)
        if finished is not None:
            logger.info("finished before, read back")
            context.on_progress(name, 1, 1)
            return finished
        context.on_progress(name, 0, 1)
        with context.run.stage(name, key) as writer:
            try:
                body(context, writer, *records)
            except UnusableError as error:
                raise InputError(error.message, error.hint) from error
        give_back()  # frees memory of rows that are not read again
        context.on_progress(name, 1, 1)
        return writer.record

    # Not functools.wraps: Prefect inspects the signature, and the wrapper takes no writer.
    resumable.__name__, resumable.__doc__ = name, body.__doc__
    return resumable


def stage_key(name: str, context: Context, records: tuple[StageRecord, ...] = ()) -> str:
    """Return the key of a stage that depends on `records`."""
    return digest(
        {
            "stage": name,
            "identity": identity(context.settings, context.dataset.hash, context.estimator),
            "after": [[r.stage, r.key, r.files, r.result] for r in records],
        }
    )


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
