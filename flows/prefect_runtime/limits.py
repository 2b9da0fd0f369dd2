"""Limits of an unattended run: its data set's queue, timeouts and retries.

Prefect's own retries and timeouts are fixed in a flow's code; these are parameters, so that the UI
form, `chaffinch serve` and `prefect.yaml` set them alike.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from functools import cache, wraps
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.states import Failed

from chaffinch.errors import InputError, TableTooLargeError, UnreachableError
from chaffinch.flows.prefect_runtime.events import resource_of
from chaffinch.flows.prefect_runtime.internals import APILogWorker, FlowRunContext
from chaffinch.flows.prefect_runtime.logs import TimeLimitError
from chaffinch.flows.prefect_runtime.tasks import as_task
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources import Source
from chaffinch.storage.sources.data_set_name import name_of_data_set
from chaffinch.tasks.pipeline.run import WrapStep
from chaffinch.tasks.settings.execution import LimitSettings, PromotionSettings
from chaffinch.tasks.settings.stage_titles import title_of
from chaffinch.tasks.workers.signals import OutOfTime, stopped_after

# A fit in compiled code cannot be interrupted; after this grace period its process is ended.
_SECONDS_OF_GRACE = 120
_SECONDS_TO_SEND = 10
_GOES_ON = "finished steps are kept: started again the run continues, and limits can allow it more"


@contextmanager
def within_limits(
    limits: LimitSettings | None,
    sources: Sequence[Source],
    store: Path | str,
    promotion: PromotionSettings | None = None,
) -> Iterator[WrapStep]:
    """Queue the present flow run behind others of its data set, and apply its limits."""
    if limits is None:
        yield cache(as_task)
        return
    is_timed = limits.timeout is not None or limits.stage_timeout is not None
    if is_timed and threading.current_thread() is not threading.main_thread():
        raise InputError(
            "timeouts work in the main thread of a program only, but this flow runs in another; "
            "set timeout and stage_timeout to none, or start it as a deployment"
        )
    names = data_sets(limits, sources, promotion)
    run = _register(limits, names)
    try:
        with ExitStack() as turns:
            for name in names:
                turns.enter_context(Store.open(store).turn(name))
            with _time_limited(limits.timeout, "the run"):
                yield _timed_tasks(limits.stage_timeout)
    except UnreachableError:
        raise  # to be tried again
    except (InputError, TableTooLargeError, TimeLimitError):
        _set_retries(run, retries=0)
        raise


def data_sets(
    limits: LimitSettings, sources: Sequence[Source], promotion: PromotionSettings | None
) -> list[str]:
    name = limits.data_set or (promotion.name if promotion is not None else None)
    if name:
        return [name]
    remedy = "limits.data_set: orders"
    return sorted({name_of_data_set(source, None, remedy) for source in sources})


def _register(limits: LimitSettings, names: Sequence[str]) -> FlowRun:
    """Send the run's retry policy, and its data sets as tags, to the server."""
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(runtime.flow_run.id))
        tags = {*run.tags, *map(resource_of, names)}
        client.update_flow_run(run.id, tags=sorted(tags))
    _set_retries(run, retries=limits.retries, retry_delay=round(60 * limits.retry_delay))
    return run


def stop_retries() -> None:
    """Keep Prefect from trying the present flow run again."""
    with get_client(sync_client=True) as client:
        run = client.read_flow_run(UUID(runtime.flow_run.id))
    _set_retries(run, retries=0)


def _set_retries(run: FlowRun, **tries: int) -> None:
    with get_client(sync_client=True) as client:
        policy = client.read_flow_run(run.id).empirical_policy
        client.update_flow_run(run.id, empirical_policy=policy.model_copy(update=tries))


def _timed_tasks(minutes: float | None) -> WrapStep:
    @cache
    def wrap_step(step: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(step)
        def timed(*arguments: Any) -> Any:
            with _time_limited(minutes, title_of(step.__name__)):
                return step(*arguments)

        return as_task(timed)

    return wrap_step


@contextmanager
def _time_limited(minutes: float | None, what: str) -> Iterator[None]:
    try:
        if minutes is None:
            yield
            return
        message = f"{what} took longer than the {minutes:g} min that it may; {_GOES_ON}"
        seconds = 60 * minutes
        with _killed_after(seconds + _SECONDS_OF_GRACE, message), stopped_after(seconds, message):
            yield
    except OutOfTime as error:
        raise TimeLimitError(error.message) from error


@contextmanager
def _killed_after(seconds: float, message: str) -> Iterator[None]:
    """End the process of this run if the block exceeds the limit; helper processes end with it.

    Only if the process was started for this run, as that of a deployment is: a caller's program is
    left alone.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow_run.deployment_id is None:
        yield
        return

    def end() -> None:
        try:
            with get_client(sync_client=True) as client:
                state: State[Any] = Failed(
                    name="TimedOut", message=f"Flow run failed due to timeout: {message}"
                )
                client.set_flow_run_state(UUID(runtime.flow_run.id), state, force=True)
            APILogWorker.drain_all(timeout=_SECONDS_TO_SEND)
        finally:
            os._exit(1)

    watch = threading.Timer(seconds, copy_context().run, (end,))
    watch.daemon = True
    watch.start()
    try:
        yield
    finally:
        watch.cancel()
