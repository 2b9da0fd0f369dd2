"""What commands in this process need, which would start a server of Prefect as programs do."""

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest


@pytest.fixture(scope="module", autouse=True)
def _undrawn(undrawn: None) -> None:
    """Leave charts undrawn, but where a test asks for `drawn` ones."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where somebody answers; else each command starts a server that lasts as long as the tests."""
    with HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/api"
        server.shutdown()


@pytest.fixture
def served(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands that start a flow take that for a server of Prefect."""
    monkeypatch.setenv("PREFECT_API_URL", address)
    monkeypatch.setattr(BaseHTTPRequestHandler, "log_message", lambda *_: None)
