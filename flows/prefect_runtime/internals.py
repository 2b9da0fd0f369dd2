"""What is used of Prefect beyond its documented API.

A release of Prefect may change it without notice: look here first when one breaks something.
`pyproject.toml` says which releases are known to have it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from prefect.context import FlowRunContext
from prefect.engine import handle_engine_signals
from prefect.events.related import related_resources_from_run_context
from prefect.flow_engine import load_flow_and_flow_run, run_flow
from prefect.input import keyset_from_paused_state
from prefect.logging.handlers import APILogWorker
from prefect.settings import PREFECT_API_URL
from prefect.utilities.asyncutils import run_coro_as_sync
from prefect.utilities.engine import propose_state_sync

from chaffinch.flows.prefect_runtime.server import check_versions

if TYPE_CHECKING:
    from fastapi import FastAPI

__all__ = [
    "APILogWorker",
    "FlowRunContext",
    "dates_of_cron",
    "handle_engine_signals",
    "keyset_from_paused_state",
    "load_flow_and_flow_run",
    "propose_state_sync",
    "related_resources_from_run_context",
    "run_coro_as_sync",
    "run_flow",
    "server_app",
]

if not PREFECT_API_URL.value():  # the first flow would start a server
    check_versions()


async def dates_of_cron(cron: str, timezone: str, number: int) -> Sequence[datetime]:
    """Return the next dates of a schedule; ValueError if there are none, as Prefect says it."""
    from prefect.server.schemas.schedules import CronSchedule

    return await CronSchedule(cron=cron, timezone=timezone).get_dates(number)


def server_app() -> "FastAPI":
    """Return a server as Prefect makes it for a program without one."""
    from prefect.server.api.server import create_app

    return create_app(ephemeral=True, final=True)
