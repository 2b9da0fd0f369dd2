"""Log filters: one line instead of a traceback if the Prefect server does not answer."""

import asyncio
import logging

import httpx
from prefect.logging import get_logger

# Observers of cancelled and suspended runs; they raise when they are stopped.
_OBSERVERS = ("FlowRunCancellingObserver", "FlowRunSuspendingObserver")
_WHO_ASKS = (*_OBSERVERS, "runner.state_proposer", "events.clients", "_internal.concurrency")


def shorten_tracebacks() -> None:
    """Remove tracebacks from Prefect's log records about an unreachable server."""
    for name in _WHO_ASKS:
        get_logger(name).addFilter(_without_traceback)
    logging.getLogger("asyncio").addFilter(_is_of_use)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Remove the traceback from a record about an unreachable server."""
    if record.exc_info and isinstance(record.exc_info[1], OSError | httpx.HTTPError):
        record.exc_info = None
    return True


def _is_of_use(record: logging.LogRecord) -> bool:
    """Return False for a cancelled task of an observer."""
    error = record.exc_info[1] if record.exc_info else None
    observed = any(name in record.getMessage() for name in _OBSERVERS)
    return not (observed and isinstance(error, asyncio.CancelledError))
