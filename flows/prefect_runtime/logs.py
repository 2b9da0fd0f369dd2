"""The log of a flow run: lines with their context, and explained errors without a traceback."""

import asyncio
import logging
from weakref import WeakSet

import httpx
from prefect.logging import get_logger

from chaffinch.errors import InputError, StorageError, TableTooLargeError, WorkersError
from chaffinch.flows.prefect_runtime.server import ServerError
from chaffinch.tasks.workers.logging import ContextFilter


class TimeLimitError(TimeoutError):
    """A run or a stage took longer than its limits allow."""


_in_context = ContextFilter()

# Errors whose text has all that a user needs: what is wrong, and how to correct it.
_EXPLAINED = (
    InputError,
    StorageError,
    TableTooLargeError,
    WorkersError,
    ServerError,
    TimeLimitError,
)
# Prefect's loggers of an unreachable server.
_WHO_ASKS = ("FlowRunSuspendingObserver", "events.clients", "_internal.concurrency")
_logged: WeakSet[BaseException] = WeakSet()


def prepare_logs() -> None:
    """Send log lines to the server, prefixed with run, stage and data set."""
    for name in _WHO_ASKS:
        get_logger(name).addFilter(_without_traceback)
    logging.getLogger("asyncio").addFilter(_is_of_use)
    for name in ("prefect.flow_runs", "prefect.task_runs"):
        logging.getLogger(name).addFilter(_in_one_line)
    logging.getLogger("prefect.task_runs").addFilter(_name_completed)
    log = logging.getLogger("chaffinch")
    for handler in log.handlers:
        handler.addFilter(_in_context)
    if log.handlers and log.level == logging.NOTSET:
        log.setLevel(logging.INFO)


def _in_one_line(record: logging.LogRecord) -> bool:
    """Log an explained error once, in one line: Prefect does for task, flow and process."""
    error = record.exc_info[1] if record.exc_info else None
    if not isinstance(error, _EXPLAINED):
        return True
    if error in _logged:
        return False
    _logged.add(error)
    record.msg, record.args, record.exc_info = str(error), (), None
    return True


def _name_completed(record: logging.LogRecord) -> bool:
    """Name the task that is completed: Prefect logs the same line for each."""
    if record.getMessage() == "Finished in state Completed()":
        record.msg, record.args = f"{getattr(record, 'task_run_name', 'task')}: completed", ()
    return True


def _without_traceback(record: logging.LogRecord) -> bool:
    """Log that the server is unreachable without a traceback."""
    if record.exc_info and isinstance(record.exc_info[1], OSError | httpx.HTTPError):
        record.exc_info = None
    return True


def _is_of_use(record: logging.LogRecord) -> bool:
    """Return False for what Prefect cancels when a run ends."""
    return not (record.exc_info and isinstance(record.exc_info[1], asyncio.CancelledError))
