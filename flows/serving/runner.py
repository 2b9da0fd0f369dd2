"""The process that serves deployments, with an orderly shutdown.

Prefect's own `serve` exits immediately on SIGTERM: schedules stay active, runs are killed but shown
as running, and the log ends in a traceback.
"""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import click
import httpx
from prefect.client.orchestration import get_client
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.logging import get_logger
from prefect.runner import Runner
from prefect.settings import PREFECT_UI_URL

from chaffinch.flows.prefect_runtime.events import server_url
from chaffinch.flows.prefect_runtime.server import unauthorized
from chaffinch.flows.prefect_runtime.tasks import shorten_tracebacks

_OF_A_TERMINAL = (signal.SIGINT, signal.SIGHUP)
_SIGNALS = (*_OF_A_TERMINAL, signal.SIGTERM)

# Attributes of Prefect's runner that poll the server, and the method that they use.
_POLLERS = {
    "_scheduled_run_poller": "_get_and_submit_flow_runs",
    "_cancelling_observer": "_check_for_cancelled_flow_runs",
}

logger = get_logger("chaffinch.serve")


def serve_until_stopped(deployments: Sequence[RunnerDeployment]) -> int:
    """Register deployments and run what is started, until a signal stops it.

    Then scheduled deployments are paused, no new run begins, and the active runs are ended, which
    marks them as crashed. Only the first signal counts. For the main thread.
    """
    shorten_tracebacks()
    runner = _Runner()
    scheduled = [one.full_name for one in deployments if one.schedules]
    try:
        for deployment in deployments:
            runner.add_deployment(deployment)
        click.echo(_begun(deployments))
        asyncio.run(_serve(runner, scheduled))
    except KeyboardInterrupt:  # stopped before serving
        _pause(scheduled)
        raise
    return runner.stopped_by or 0


def _tolerant(
    poll: Callable[[], Awaitable[None]], shutdown: asyncio.Event
) -> Callable[[], Awaitable[None]]:
    """Return a polling function that logs once if the server is unreachable or refuses access.

    Prefect's runner ends with a traceback after three failed requests. Nothing is logged in the
    shutdown.
    """
    problem = 0  # status code

    async def tolerant() -> None:
        nonlocal problem
        try:
            await poll()
        except (httpx.TransportError, httpx.HTTPStatusError) as error:
            status = getattr(getattr(error, "response", None), "status_code", 503)
            if status < 500 and status != 401:
                raise
            status = 401 if status == 401 else 503
            if status != problem and not shutdown.is_set():
                message = (
                    f"the Prefect server does not answer ({str(error) or type(error).__name__})"
                )
                if status == 401:
                    message = unauthorized(str(server_url()))
                logger.warning(f"{message}; asking it again")
            problem = status
        else:
            if problem and not shutdown.is_set():
                logger.warning("the Prefect server answers again")
            problem = 0

    return tolerant


class _Runner(Runner):
    """Prefect's runner with an orderly shutdown, tolerant of an unreachable server."""

    def __init__(self) -> None:
        super().__init__(pause_on_shutdown=False)  # deployments served elsewhere too stay active
        self.stopped_by: int | None = None  # number of the signal
        self.asked = asyncio.Event()  # set by the signal

    def __setattr__(self, name: str, value: Any) -> None:
        """Wrap polling functions as soon as they are set, since they may run at once."""
        poll, is_new = _POLLERS.get(name), value is not getattr(self, name, None)
        if poll is not None and is_new:  # it is set again in `__aenter__`
            setattr(value, poll, _tolerant(getattr(value, poll), self.asked))
        super().__setattr__(name, value)

    def handle_sigterm(self, *args: Any, **kwargs: Any) -> None:
        """Note the signal; `start` installs this handler for SIGTERM."""
        if self.stopped_by is None:
            self.stopped_by = int(args[0])
            asyncio.get_running_loop().call_soon_threadsafe(self.asked.set)

    async def cancel_all(self) -> None:
        """End every active run as crashed, not cancelled, so that automations react."""
        processes = self._process_manager
        await asyncio.gather(*map(processes.kill, processes.flow_run_ids()))


async def _serve(runner: _Runner, scheduled: Collection[str]) -> None:
    with _handled_by(runner):
        serving = asyncio.create_task(runner.start())
        asked = asyncio.create_task(runner.asked.wait())
        await asyncio.wait((serving, asked), return_when=asyncio.FIRST_COMPLETED)
        asked.cancel()
        await asyncio.to_thread(_pause, scheduled)
        if serving.done():
            serving.result()
        elif runner.started:
            await runner.astop()
            await serving
        else:
            serving.cancel()
            with suppress(asyncio.CancelledError):
                await serving


@contextmanager
def _handled_by(runner: _Runner) -> Iterator[None]:
    """Let the runner handle the signals that this program was not started to ignore.

    A terminal sends signals to the processes of runs as well, which would interrupt them anywhere.
    They inherit blocked signals from the thread that starts them, so another thread receives these.
    """
    loop, over = asyncio.get_running_loop(), threading.Event()
    threading.Thread(target=over.wait, name="takes signals", daemon=True).start()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _OF_A_TERMINAL)
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    taken = {number: old for number, old in before.items() if old is not signal.SIG_IGN}
    for number in taken:
        loop.add_signal_handler(number, runner.handle_sigterm, number)
    try:
        yield
    finally:
        for number, old in taken.items():
            loop.remove_signal_handler(number)
            signal.signal(number, old)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        over.set()


def _pause(scheduled: Collection[str]) -> None:
    try:
        with get_client(sync_client=True) as client:
            for name in scheduled:
                with suppress(ObjectNotFound):  # deleted meanwhile, or not created yet
                    client.pause_deployment(client.read_deployment_by_name(name).id)
    except httpx.HTTPError as error:
        logger.warning(f"schedules are not paused ({error}); pause them in the UI")


def _begun(deployments: Sequence[RunnerDeployment]) -> str:
    url = PREFECT_UI_URL.value()
    where = f" at {url}/deployments" if url else ""
    return "\n".join(
        [
            "These deployments are served until this is stopped:",
            *(f"  {one.full_name}" for one in deployments),
            f"Start one in the Prefect UI{where}, or by `prefect deployment run NAME`.",
        ]
    )
