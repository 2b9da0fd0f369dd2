"""Stages of a run, and the reuse of finished stages.

A stage is a plain function of the run and a writer. In a run with a folder, the decorator `stage`
computes its key from the versions of packages, the settings, the dataset's hash, and the files and
results of the stages that it reads. A finished stage with the same key and intact files is not run
again, so that a killed run resumes where it stopped.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chaffinch.storage.files import to_json
from chaffinch.storage.memory import release_memory
from chaffinch.storage.runs.stages import StageRecord, StageWriter
from chaffinch.tasks.pipeline.selection_run import SelectionRun
from chaffinch.tasks.settings.identity import digest, identity
from chaffinch.tasks.workers.logging import logging_about

logger = logging.getLogger(__name__)


class MemoryWriter:
    """Writer of a run without a folder: keeps the result, and writes no file."""

    checkpoints = None

    def __init__(self) -> None:
        self.result: dict[str, Any] = {}

    def write(self, name: str, data: bytes | Callable[[Path], None]) -> None:
        pass

    def write_all(self, folder: str, files: Callable[[], Mapping[str, bytes]]) -> None:
        pass


Writer = StageWriter | MemoryWriter
Stage = Callable[[SelectionRun], None]


def stage(*after: str) -> Callable[[Callable[[SelectionRun, Writer], None]], Stage]:
    """Return a decorator that makes a stage of ``body(run, writer)``; `after` are its inputs."""

    def decorate(body: Callable[[SelectionRun, Writer], None]) -> Stage:
        name = body.__name__

        def resumable(run: SelectionRun) -> None:
            with logging_about(stage=name):
                run_or_read(run)

        def run_or_read(run: SelectionRun) -> None:
            key = "" if run.stored is None else stage_key(name, run, after)
            finished = None if run.stored is None else run.stored.finished(name, key)
            if finished is not None:
                logger.info("finished before, read back")
                run.records[name] = finished
                run.progress.end(name, None)
            else:
                run.progress(name, 0, 1)
                with _record_stage(run, name, key) as writer:
                    body(run, writer)
                release_memory()  # frees memory of rows that are not read again
                run.progress.end(name, run.records[name].seconds)

        # Not functools.wraps: Prefect inspects the signature, and the wrapper takes no writer.
        resumable.__name__, resumable.__doc__ = name, body.__doc__
        return resumable

    return decorate


@contextmanager
def _record_stage(run: SelectionRun, name: str, key: str) -> Iterator[Writer]:
    """Record a stage in the run and in its folder, if any, at the end of the block."""
    if run.stored is not None:
        with run.stored.stage(name, key) as stored:
            yield stored
        run.records[name] = stored.record
        return
    writer, began = MemoryWriter(), time.perf_counter()
    yield writer
    seconds, result = time.perf_counter() - began, json.loads(to_json(writer.result))
    run.records[name] = StageRecord(name, key, result, {}, seconds, Path())


def stage_key(name: str, run: SelectionRun, after: tuple[str, ...] = ()) -> str:
    records = [run.records[other] for other in after if other in run.records]
    return digest(
        {
            "stage": name,
            "identity": identity(run.settings, run.dataset.hash, run.custom),
            "after": [[r.stage, r.key, r.files, r.result] for r in records],
        }
    )
