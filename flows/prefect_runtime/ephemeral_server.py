"""The Prefect server of a run: a separate program that ends with the run, however it ends.

Started by `chaffinch.flows.prefect_runtime.server` with the descriptor of a listening socket. It
prints Prefect's configuration as a line of JSON, and serves once it reads a line. The parent
closes standard input to end it, as does the parent's death. Before it serves it changes nothing,
so it may be killed.
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

_SECONDS_TO_END = 30  # the first start creates a database


def main() -> None:
    from prefect.settings import PREFECT_API_URL, PREFECT_SERVER_EPHEMERAL_ENABLED

    url, embeds = PREFECT_API_URL.value(), PREFECT_SERVER_EPHEMERAL_ENABLED.value()
    sys.stdout.write(json.dumps({"url": url, "embeds": embeds}) + "\n")
    sys.stdout.flush()
    if url is None and embeds:
        _serve(socket.socket(fileno=int(sys.argv[1])))


def _serve(listener: socket.socket) -> None:
    import uvicorn
    from filelock import FileLock
    from prefect.settings import PREFECT_HOME

    from chaffinch.flows.prefect_runtime.internals import server_app

    class OneAtATime(uvicorn.Server):
        """Locks the start: two first starts in the same home would both create the database."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            home = PREFECT_HOME.value()
            home.mkdir(parents=True, exist_ok=True)
            with FileLock(home / ".chaffinch-server.lock"):
                await super().startup(sockets)

    server = OneAtATime(uvicorn.Config(server_app(), log_level="error", lifespan="on"))
    if not _read():
        return
    threading.Thread(target=_end_with_the_run, args=(server,), daemon=True).start()
    server.run(sockets=[listener])
    gc.freeze()  # skips collecting Prefect's classes at exit, which takes a second


def _end_with_the_run(server: "uvicorn.Server") -> None:
    while _read():
        pass
    server.should_exit = True
    time.sleep(_SECONDS_TO_END)
    os._exit(1)


def _read() -> bytes:
    """Return the next bytes of standard input; empty at its end."""
    return os.read(0, 1024)  # unbuffered: a buffered read would block the exit


if __name__ == "__main__":
    main()
