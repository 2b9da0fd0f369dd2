"""The process that serves deployments: it starts their runs, and ends with them.

Prefect's own `serve` gives up a server that is away for some time, and kills its runs. On SIGTERM
it exits immediately: schedules stay active, and the runs are shown as running.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from signal import SIGINT
from typing import NoReturn, cast
from uuid import UUID

import click
import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import State
from prefect.client.schemas.responses import SetStateStatus
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.settings import PREFECT_UI_URL, get_current_settings
from prefect.states import Cancelled, Crashed, Pending

from chaffinch.flows.prefect_runtime.cancellation import CANCELLED_MESSAGE, SERVED_RUN
from chaffinch.flows.prefect_runtime.events import server_url
from chaffinch.flows.prefect_runtime.server import unauthorized
from chaffinch.flows.serving.health import health_served
from chaffinch.tasks.workers.signals import Stopped, helpers_shielded, stop_once, stopped_by_signals

_AHEAD = timedelta(seconds=10)  # a process takes some of them to start, and waits for the others
_TIME_TO_END = timedelta(seconds=30)

Processes = dict[UUID, subprocess.Popen[bytes]]  # by the ids of their runs

logger = get_logger("chaffinch.serve")


def serve_until_stopped(deployments: Sequence[RunnerDeployment]) -> int:
    """Register deployments and run what is started; return the number of the signal that stops it.

    Then scheduled deployments are paused, no new run begins, and the active runs are ended, which
    marks them as crashed, so that automations react. Only the first signal counts. For the main
    thread.
    """
    processes: Processes = {}
    with stopped_by_signals(), health_served() as looked:
        try:
            # no event loop runs here
            ids = [cast(UUID, deployment.apply()) for deployment in deployments]
            click.echo(_served_lines(deployments))
            _serve(ids, processes, looked)
        except KeyboardInterrupt as error:
            stop_once()
            _end_runs(
                processes,
                [deployment.full_name for deployment in deployments if deployment.schedules],
            )
            return error.signal if isinstance(error, Stopped) else SIGINT


def _serve(deployments: list[UUID], processes: Processes, looked: Callable[[], None]) -> NoReturn:
    """Look after runs for ever; log once if the server is unreachable or refuses access."""
    settings = get_current_settings().runner
    problem = ""
    while True:
        before, problem, reason = problem, "", ""
        try:
            # a client that was never connected says at once that the server is away
            with get_client(sync_client=True) as client:
                _reap_processes(client, processes)
                _start_due(client, deployments, processes, settings.process_limit)
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            status = getattr(getattr(error, "response", None), "status_code", 503)
            if status == 401:
                problem = unauthorized(str(server_url()))
            elif status >= 500:
                problem = "the Prefect server does not answer"
                reason = f" ({(str(error) or type(error).__name__).splitlines()[0]})"
            else:
                raise
        if problem and problem != before:
            logger.warning(f"{problem}{reason}; asking it again")
        elif before and not problem:
            logger.warning("the Prefect server answers again")
        looked()
        time.sleep(settings.poll_frequency)


def _start_due(
    client: SyncPrefectClient, deployments: list[UUID], processes: Processes, limit: int
) -> None:
    """Start the next runs, as many as may run at the same time."""
    due = client.get_scheduled_flow_runs_for_deployments(
        deployments, scheduled_before=datetime.now(UTC) + _AHEAD
    )
    for run in due:
        if len(processes) >= limit:
            return
        if run.id in processes:  # it tries again later, and has not ended yet
            continue
        if client.set_flow_run_state(run.id, Pending()).status is not SetStateStatus.ACCEPT:
            continue  # cancelled, or it waits for others of its deployment
        with helpers_shielded():
            processes[run.id] = subprocess.Popen(  # noqa: S603 - our own
                (sys.executable, "-m", "chaffinch.flows.serving.served_run", str(run.id)),
                env={**os.environ, SERVED_RUN: str(run.id)},
            )


def _reap_processes(client: SyncPrefectClient, processes: Processes) -> None:
    """Set the final state of runs whose process has ended; kill cancelled runs that go on."""
    for run, process in list(processes.items()):
        code = process.poll()
        with suppress(ObjectNotFound):  # deleted meanwhile
            state = cast(State, client.read_flow_run(run).state)
            if code is None:
                if state.is_cancelling() and datetime.now(UTC) - state.timestamp > _TIME_TO_END:
                    process.kill()  # in a long fit in compiled code, say
            elif state.is_cancelling():
                client.set_flow_run_state(run, Cancelled(message=CANCELLED_MESSAGE))
            elif state.is_pending() or state.is_running() or (state.is_paused() and code):
                message = f"Its process ended with code {code}; started again, the run goes on"
                client.set_flow_run_state(run, Crashed(message=message))
        if code is not None:
            del processes[run]


def _end_runs(processes: Processes, scheduled: Sequence[str]) -> None:
    """Pause the schedules, and end all runs."""
    try:
        with get_client(sync_client=True) as client:
            for name in scheduled:
                with suppress(ObjectNotFound):  # deleted meanwhile, or not created yet
                    client.pause_deployment(client.read_deployment_by_name(name).id)
    except httpx.HTTPError as error:
        logger.warning(f"schedules are not paused ({error}); pause them in the UI")
    for process in processes.values():
        process.terminate()
    end = time.monotonic() + _TIME_TO_END.total_seconds()
    for process in processes.values():
        try:
            process.wait(max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with suppress(httpx.HTTPError), get_client(sync_client=True) as client:
        _reap_processes(client, processes)


def _served_lines(deployments: Sequence[RunnerDeployment]) -> str:
    url = PREFECT_UI_URL.value()
    where = f" at {url}/deployments" if url else ""
    return "\n".join(
        [
            "These deployments are served until this is stopped:",
            *(f"  {deployment.full_name}" for deployment in deployments),
            f"Start one in the Prefect UI{where}, or by `prefect deployment run NAME`.",
        ]
    )
