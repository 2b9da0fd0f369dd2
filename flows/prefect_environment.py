"""What Prefect must be told before it is imported, and how the server that it embeds is started."""

import os

from chaffinch.tasks.interrupts import helpers_shielded

_DEFAULTS = {
    # Works offline and tells nobody.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The first start of the embedded server migrates its database: 16 s on 2 cores, 20 allowed.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
}


def prepare(*, quiet: bool = False) -> None:
    """Set Prefect's environment, unless the caller has; call it before Prefect is imported.

    Parameters
    ----------
    quiet : bool
        Keep Prefect's own log lines out of the terminal; the server still gets them.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if quiet:
        os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")


def start_server() -> None:
    """Start the server that Prefect embeds, where the environment names no other.

    Prefect would do it by itself, but so that Ctrl-C ends the server before the run can tell it
    that it was stopped.
    """
    with helpers_shielded():
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True):
            """Made for its side effect: the server is up once there is a client."""
