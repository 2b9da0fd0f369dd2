"""Progress of a run: as a Prefect artifact, and to whoever watches in this process."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast
from uuid import UUID

from prefect.artifacts import create_progress_artifact, update_progress_artifact

from chaffinch.flows.terminal import STARTING_PREFECT
from chaffinch.tasks.stage import OnProgress, tell_nobody
from chaffinch.tasks.story import STEPS

_watcher: ContextVar[OnProgress] = ContextVar("watcher", default=tell_nobody)

_SECONDS_BETWEEN_UPDATES = 1.0


@contextmanager
def watching(on_progress: OnProgress) -> Iterator[None]:
    """Send the progress of flows called inside to `on_progress` as well."""
    token = _watcher.set(on_progress)
    try:
        yield
    finally:
        _watcher.reset(token)


class ProgressArtifact:
    """Called with a step's progress, keeps the flow run's progress artifact up to date."""

    def __init__(self, key: str) -> None:
        self._tell = _watcher.get()
        self._tell(STARTING_PREFECT, 1, 1)
        self._updated = time.monotonic()
        created = create_progress_artifact(
            progress=0.0, key=key, description="Feature selection: starting"
        )
        self._id = cast(UUID, created)  # a coroutine only where there is an event loop

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of the `total` items of `step` are done."""
        self._tell(step, done, total)
        is_last = step == STEPS[-1] and done == total
        if not is_last and time.monotonic() - self._updated < _SECONDS_BETWEEN_UPDATES:
            return
        self._updated = time.monotonic()
        share = (STEPS.index(step) + done / max(total, 1)) / len(STEPS)
        update_progress_artifact(
            self._id,
            progress=100 * share,
            description=f"Feature selection: {step.replace('_', ' ')}, {done} of {total}",
        )
