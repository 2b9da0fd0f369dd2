"""Where the Prefect server has gone, Prefect's own log says so in lines, not in tracebacks."""

import asyncio
import logging

import httpx
from prefect.logging import get_logger

# They watch for runs to cancel or to suspend, and stumble when they are ended.
_OBSERVERS = ("FlowRunCancellingObserver", "FlowRunSuspendingObserver")
_WHO_ASKS = (*_OBSERVERS, "runner.state_proposer", "events.clients", "_internal.concurrency")


def say_in_lines() -> None:
    """Take tracebacks off what Prefect logs of a server that does not answer, in this process."""
    for name in _WHO_ASKS:
        get_logger(name).addFilter(_without_traceback)
    logging.getLogger("asyncio").addFilter(_is_of_use)


def _without_traceback(record: logging.LogRecord) -> bool:
    """Take the traceback off a record where the server does not answer."""
    if record.exc_info and isinstance(record.exc_info[1], OSError | httpx.HTTPError):
        record.exc_info = None
    return True


def _is_of_use(record: logging.LogRecord) -> bool:
    """Return whether a record tells of more than a task of an observer, cancelled at the end."""
    error = record.exc_info[1] if record.exc_info else None
    observed = any(name in record.getMessage() for name in _OBSERVERS)
    return not (observed and isinstance(error, asyncio.CancelledError))
