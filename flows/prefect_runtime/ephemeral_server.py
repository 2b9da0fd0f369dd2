"""The Prefect server of one run: a program of its own that ends when the run does, however it ends.

Started by `chaffinch.flows.prefect_runtime.server` with the descriptor of a listening socket. It
says on standard output, as one line of JSON, what Prefect is configured to use, and serves once it
reads a line. Standard input closes when whoever started it wants it to end, or has died. Until it
is told to serve it touches nothing, so it may be killed then.
"""

import gc
import json
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn

_SECONDS_TO_END = 30  # a first start has a database to build


def main() -> None:
    """Run the program."""
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    url, embeds = PREFECT_API_URL.value(), PREFECT_SERVER_EPHEMERAL_ENABLED.value()
    sys.stdout.write(json.dumps({"url": url, "embeds": embeds}) + "\n")
    sys.stdout.flush()
    if url is None and embeds:
        _serve(socket.socket(fileno=int(sys.argv[1])))


def _serve(listener: socket.socket) -> None:
    import uvicorn
    from filelock import FileLock
    from prefect.server.api.server import create_app
    from prefect.settings import PREFECT_HOME

    class OneAtATime(uvicorn.Server):
        """Two first starts in one home would both build its database, and one fail."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            home = PREFECT_HOME.value()
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / ".chaffinch-server.lock"):
                await super().startup(sockets)

    app = create_app(ephemeral=True, final=True)
    server = OneAtATime(uvicorn.Config(app, log_level="error", lifespan="on"))
    if not _read():
        return
    threading.Thread(target=_end_with_the_run, args=(server,), daemon=True).start()
    server.run(sockets=[listener])
    gc.freeze()  # or collecting Prefect's classes at the exit takes a second


def _end_with_the_run(server: "uvicorn.Server") -> None:
    while _read():
        """Nothing is said but the end."""
    server.should_exit = True
    time.sleep(_SECONDS_TO_END)
    os._exit(1)


def _read() -> bytes:
    """Return what comes next on standard input, or nothing at its end."""
    return os.read(0, 1024)  # unbuffered: a thread that waits in a buffer would block the exit


if __name__ == "__main__":
    main()
