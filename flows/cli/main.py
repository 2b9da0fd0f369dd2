"""The console script's entry point, which minds signals before it imports anything heavy."""

import gc
import signal
import sys

from chaffinch.tasks.workers.signals import Stopped, helpers_shielded, stop_once, stopped_by_signals


def main() -> None:
    """Run the command line; exit codes are those of `chaffinch.flows.cli.commands`."""
    with stopped_by_signals():
        code = _exit_code()
    if code > 128:
        stop_once()
    gc.freeze()  # or collecting Prefect's classes at the exit takes 0.8 s
    sys.exit(code)


def _exit_code() -> int:
    try:
        with helpers_shielded():  # a signal waits: an import may make another error of it
            from chaffinch.flows.cli.commands import cli, exit_code
    except KeyboardInterrupt as error:
        sys.stderr.write("Stopped. The same command begins again.\n")
        return 128 + (error.signal if isinstance(error, Stopped) else signal.SIGINT)
    return exit_code(cli.main)
