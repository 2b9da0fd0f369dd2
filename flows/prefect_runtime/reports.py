"""Reports served to browsers of this machine, and the links of runs to them."""

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
from fastapi.responses import FileResponse, HTMLResponse

from chaffinch.errors import InputError
from chaffinch.storage.files import path_in, refresh_file, shown
from chaffinch.storage.runs.store import Store
from chaffinch.tasks.reporting.page import TABLES_HASH

# A browser opens no file links from a server's page. So `chaffinch serve` can serve the reports of
# its store, and nothing else, on the loopback interface; in a container, whose port is published
# on that of its machine, on the interface of _LISTEN. Environment of the processes of runs: the
# address of served reports, and their store; any store if that is not set, e.g. with another web
# server.
_URL, _STORE = "CHAFFINCH_REPORTS_URL", "CHAFFINCH_REPORTS_STORE"
_LISTEN = "CHAFFINCH_REPORTS_HOST"
_REPORT = "report.html"
_HOST = "127.0.0.1"
_SECONDS_TO_END = 5
_HEADERS = {  # a report loads nothing, and runs no script but that of its tables
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
    f"script-src '{TABLES_HASH}'",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",
}


def report_in_markdown(folder: Path) -> str:
    """Return the report of a run or comparison as markdown: a link, or the path of the file."""
    url, served = os.environ.get(_URL), os.environ.get(_STORE)
    if not url or (served and Path(served).resolve() != Store.of(folder).path.resolve()):
        return f"Report: `{shown(folder / _REPORT)}`"
    name = quote(f"{folder.parent.name}/{folder.name}/{_REPORT}")
    return f"Report: [{folder.name}]({url.rstrip('/')}/{name})"


@contextmanager
def reports_served(store: Path, port: int | None) -> Iterator[None]:
    """Serve the reports of a store to browsers of this machine, and make runs link to them."""
    if port is None:
        yield
        return
    host = os.environ.get(_LISTEN) or _HOST  # of "", all interfaces would listen
    remedy = f"give another port, or address by {_LISTEN}"
    with served(_app(store), host, port, "reports", remedy):
        os.environ[_URL], os.environ[_STORE] = f"http://{_HOST}:{port}", str(store.resolve())
        try:
            yield
        finally:
            del os.environ[_URL], os.environ[_STORE]


@contextmanager
def served(app: FastAPI, host: str, port: int, what: str, remedy: str) -> Iterator[None]:
    """Serve an app in a thread; InputError if the port is not free."""
    try:
        listener = socket.create_server((host, port))
    except OSError as error:
        raise InputError(
            f"{what} cannot be served on port {port} of {host} ({error.strerror}); {remedy}"
        ) from error
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(_SECONDS_TO_END)


def _app(store: Path) -> FastAPI:
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    # against DNS rebinding, by which a page of another site could read reports
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[_HOST, "localhost"])

    @app.get("/{kind}/{name}/report.html")
    def report(kind: Literal["runs", "comparisons"], name: str) -> FileResponse:
        try:
            path = path_in(store, f"{kind}/{name}/{_REPORT}")
        except InputError as error:
            raise HTTPException(404, str(error)) from error
        refresh_file(path)
        if not path.is_file():
            raise HTTPException(404, f"there is no report of {name}")
        return FileResponse(path, media_type="text/html", headers=_HEADERS)

    @app.get("/")
    def index() -> HTMLResponse:
        from chaffinch.tasks.results.history import history_of
        from chaffinch.tasks.results.history_page import render_history

        try:
            page = render_history(history_of(Store.find(store)))
        except InputError as error:  # before the first run
            raise HTTPException(404, str(error)) from error
        return HTMLResponse(page, headers=_HEADERS)

    return app
