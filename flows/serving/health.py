"""The answer of `chaffinch serve` to health checks, at the address of Prefect's runner settings."""

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fastapi import FastAPI, HTTPException
from prefect.settings import get_current_settings

from chaffinch.flows.prefect_runtime.reports import served


@contextmanager
def health_served() -> Iterator[Callable[[], None]]:
    """Answer at ``/health`` if Prefect's settings enable it; yield what notes a look for runs.

    A look counts even if the Prefect server is away: a restart would end the active runs.
    """
    settings = get_current_settings().runner
    longest = settings.server.missed_polls_tolerance * settings.poll_frequency
    last = -math.inf

    def looked() -> None:
        nonlocal last
        last = time.monotonic()

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @app.get("/health")
    def health() -> str:
        if time.monotonic() - last > longest:
            raise HTTPException(503, "it does not look for runs")
        return "OK"

    if not settings.server.enable:
        yield looked
        return
    remedy = "give another by PREFECT_RUNNER_SERVER_PORT"
    with served(app, settings.server.host, settings.server.port, "health", remedy):
        yield looked
