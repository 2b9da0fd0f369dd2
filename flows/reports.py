"""Reports that open from the Prefect UI: a link where somebody serves them, else their path.

A browser follows no link from a server's page to a file. So `chaffinch serve` can serve the reports
of its store on the loopback interface, and nothing else of it.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

import uvicorn
from fastapi import FastAPI, HTTPException
from fastapi.middleware.trustedhost import TrustedHostMiddleware
from fastapi.responses import FileResponse

from chaffinch.storage.errors import InputError
from chaffinch.storage.files import path_in

# What the processes of runs are told: where reports are served, and of which store; of any, if
# that is not set, as where a web server of one's own serves the only one.
_URL, _STORE = "CHAFFINCH_REPORTS_URL", "CHAFFINCH_REPORTS_STORE"
_REPORT = "report.html"
_HOST = "127.0.0.1"
_SECONDS_TO_END = 5
_ALONE = {  # a report asks for nothing and runs nothing
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}

Kind = Literal["runs", "comparisons"]


def report_in_markdown(folder: Path) -> str:
    """Return where the report of a run or comparison is: a link, or the path of the file.

    Parameters
    ----------
    folder : Path
        Of the run or comparison, in its store.
    """
    url, served = os.environ.get(_URL), os.environ.get(_STORE)
    store = folder.parent.parent
    if not url or (served and Path(served).resolve() != store.resolve()):
        return f"Report: `{folder / _REPORT}`"
    name = quote(f"{folder.parent.name}/{folder.name}/{_REPORT}")
    return f"Report: [{folder.name}]({url.rstrip('/')}/{name})"


@contextmanager
def reports_served(store: Path, port: int | None) -> Iterator[None]:
    """Serve the reports of a store to browsers of this machine, and have runs link to them.

    Parameters
    ----------
    store : Path
        Its folder; it need not be there yet.
    port : int in 1..65535, optional
        On the loopback interface. Without one nothing is served.

    Raises
    ------
    InputError
        If the port is taken, or listening there is not allowed.
    """
    if port is None:
        yield
        return
    try:
        listener = socket.create_server((_HOST, port))
    except OSError as error:
        raise InputError(
            f"reports cannot be served on port {port} ({error.strerror}); give another port"
        ) from error
    config = uvicorn.Config(_app(store), log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    os.environ[_URL], os.environ[_STORE] = f"http://{_HOST}:{port}", str(store.resolve())
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_SECONDS_TO_END)
        del os.environ[_URL], os.environ[_STORE]


def _app(store: Path) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    # or a page of elsewhere could have its own name lead here, and read along
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[_HOST, "localhost"])

    @app.get("/{kind}/{name}/report.html")
    def report(kind: Kind, name: str) -> FileResponse:
        try:
            path = path_in(store, f"{kind}/{name}/{_REPORT}")
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        if not path.is_file():
            raise HTTPException(404, f"there is no report of {name}")
        return FileResponse(path, media_type="text/html", headers=_ALONE)

    return app
