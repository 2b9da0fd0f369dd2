"""Prefect's environment variables, set before it is imported."""

import logging
import os

_DEFAULTS = {
    # Works offline, without telemetry.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The first start of the embedded server migrates its database: 16 s on 2 cores, 20 allowed.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # A run without a heartbeat for three times as long is marked as crashed: see `automations`.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "60",
    # Send our log lines to the flow run; ignore those logged before one begins.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "chaffinch",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def prepare(*, quiet: bool = False) -> None:
    """Set Prefect's environment defaults; call it before Prefect is imported.

    Parameters
    ----------
    quiet : bool
        Keep Prefect's own log lines out of the terminal; the server still gets them.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if quiet:
        for handler in ("CONSOLE", "DEBUG"):
            os.environ.setdefault(f"PREFECT_LOGGING_HANDLERS_{handler}_LEVEL", "CRITICAL")
        logging.raiseExceptions = False  # no reports of log lines that cannot be sent
