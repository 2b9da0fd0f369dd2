"""Ends a run that is cancelled in the UI and has no runner of Prefect's own.

A run started by `chaffinch run` or `serve`, or by calling a flow, would be shown as cancelling and
continue. So it polls its own state. A served run ends with the program that serves it, too.
"""

import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import wraps
from typing import ParamSpec, TypeVar, cast
from uuid import UUID

import httpx
from prefect import runtime
from prefect.client.orchestration import get_client
from prefect.exceptions import TerminationSignal
from prefect.states import Cancelled

from chaffinch.tasks.workers.signals import raised_again_where_lost

P = ParamSpec("P")
R = TypeVar("R")

SERVED_RUN = "CHAFFINCH_SERVED_RUN"  # in the environment of its process: the id of the flow run
CANCELLED_MESSAGE = "Cancelled; started again, it continues where it stopped."
_SECONDS_BETWEEN_LOOKS = 2.0


def ended_by_cancelling(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a flow function so that it ends soon after its run is cancelled.

    Only in the main thread: no other thread can be interrupted.
    """

    @wraps(function)
    def watched(*args: P.args, **kwargs: P.kwargs) -> R:
        if threading.current_thread() is not threading.main_thread():
            return function(*args, **kwargs)
        is_served = os.environ.get(SERVED_RUN) == runtime.flow_run.id
        has_runner = runtime.deployment.id is not None and not is_served
        raised_again = raised_again_where_lost(
            # a run shows as cancelled only if its runner finds Prefect's own handler in place
            *(signal.SIGTERM, TerminationSignal),
            is_replaced=not has_runner,
        )
        if has_runner:  # which ends it
            with raised_again:
                return function(*args, **kwargs)
        watch = _Watch(UUID(runtime.flow_run.id), os.getppid() if is_served else None)
        try:
            with watch, raised_again:
                return function(*args, **kwargs)
        except TerminationSignal:
            if not watch.is_cancelled:
                raise
            # returned as the flow's own state, so that calling the flow raises CancelledRun
            return cast(R, Cancelled(message=CANCELLED_MESSAGE))

    return watched


class _Watch:
    """Interrupts the main thread if the flow run is cancelled, or the parent process has ended."""

    def __init__(self, flow_run: UUID, parent: int | None) -> None:
        self.is_cancelled = False
        self._flow_run = flow_run
        self._parent = parent
        self._over = threading.Event()
        self._interrupt_lock = threading.Lock()

    def __enter__(self) -> None:
        look = copy_context().run, self._poll_state  # Prefect's settings are in the context
        threading.Thread(target=look[0], args=look[1:], name="cancelled?", daemon=True).start()

    def __exit__(self, *error: object) -> None:
        with self._interrupt_lock:
            self._over.set()

    def _poll_state(self) -> None:
        with get_client(sync_client=True) as client:
            while not self._over.wait(_SECONDS_BETWEEN_LOOKS):
                if self._parent not in (None, os.getppid()):
                    self._interrupt()
                    return
                with suppress(httpx.HTTPError):  # the server may come back
                    state = client.read_flow_run(self._flow_run).state
                    if state is not None and (state.is_cancelling() or state.is_cancelled()):
                        self.is_cancelled = True
                        self._interrupt()
                        return

    def _interrupt(self) -> None:
        with self._interrupt_lock:
            if not self._over.is_set():
                # Prefect raises TerminationSignal for it; a real signal also ends blocking waits
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
