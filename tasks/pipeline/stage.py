"""What every stage of a run shares: its context, and how a finished stage is not done twice.

A stage is a plain function of the context, a writer and the records of the stages before it. The
decorator `stage` gives it its key: the version of everything that computes, the settings, the
dataset's hash, and the files and results of the stages it builds on. A stage with the same key and
intact files is read back instead of run again, so a killed run goes on where it stopped.
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
from chaffinch.tasks.data.reselection_fit import within_reach
from chaffinch.tasks.errors import mendable
from chaffinch.tasks.selection.errors import UnusableError, UnusableLossError
from chaffinch.tasks.settings.identity import digest, identity
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.workers.interface import InProcess, Workers
from chaffinch.tasks.workers.logging import logging_about

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int, int], None]
Say = Callable[[str], None]
Warn = Callable[[Sequence[str]], None]


def no_progress(stage: str, done: int, total: int) -> None:
    """Swallow progress: the default where nobody watches."""


def no_messages(line: str) -> None:
    """Swallow a line: the default where nobody listens."""


def no_warnings(warnings: Sequence[str]) -> None:
    """Swallow warnings: the default where nobody listens, since a result holds them as well."""


@dataclass(frozen=True)
class Context:
    """What the stages of one run work with.

    Attributes
    ----------
    dataset : Dataset
        The ingested table.
    run : Run
        Where products go.
    settings : SelectionSettings
        Everything that can change the result.
    workers : Workers
        Who computes; never changes the result.
    on_progress : callable
        Called with the stage's name, the number of its items done, and the number in all.
    estimator : object, optional
        An unfitted scikit-learn estimator in place of a model by name.
    store : Store, optional
        Where what runs share is kept; without one each run measures it by itself.
    is_kept : bool
        Whether the run's folder outlives the call; if not, nothing is drawn before it is asked for,
        and there are no checkpoints.
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
    """Turn ``body(context, writer, *records)`` into a stage that is not done twice."""
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
            except UnusableLossError as error:
                with within_reach(context.settings):
                    raise mendable(error) from error
            except UnusableError as error:
                raise InputError(str(error)) from error
        give_back()  # what was read is not read again
        context.on_progress(name, 1, 1)
        return writer.record

    # Not functools.wraps: what is called takes no writer, and Prefect looks at the signature.
    resumable.__name__, resumable.__doc__ = name, body.__doc__
    return resumable


def stage_key(name: str, context: Context, records: tuple[StageRecord, ...] = ()) -> str:
    """Return the key under which a stage is recorded that builds on `records`."""
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
    """Return the steps of a selection, with those of alternatives and a reselection or without."""
    further = (*_OF_ALTERNATIVES * with_alternatives, *_OF_CHANGES * with_changes)
    return (*STEPS[:-1], *further, STEPS[-1])
