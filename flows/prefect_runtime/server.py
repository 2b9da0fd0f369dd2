"""Prefect's environment, and the server of a run: the configured server, or its own.

Importing this module does not import Prefect, so that its environment can be set before. Prefect
can embed a server too, but starts it only at the first request, lets the first SIGTERM end it
before the run, and leaves it running after `kill -9`.
"""

import atexit
import json
import logging
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

from chaffinch.storage.extras import lacks
from chaffinch.tasks.workers.signals import Stopped, helpers_shielded

if TYPE_CHECKING:
    import httpx

_GOES_ON = "the same command continues where it stopped"
# The first start in a home migrates its database: 16 s on 2 cores.
_SECONDS_TO_START = 120
_SECONDS_TO_ANSWER = 10
_SECONDS_TO_STOP = 30
# The last line of a traceback: an error's name and message.
_REASON = re.compile(r"[\w.]*(Error|Exception)\b.*")

_FILES = (".env", "prefect.toml", "pyproject.toml")  # that Prefect reads in the present folder
_DEFAULTS = {
    # Works offline, without telemetry.
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "DO_NOT_TRACK": "1",
    # The first start of the embedded server migrates its database: 16 s on 2 cores, 20 allowed.
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "120",
    # A run without a heartbeat for three times as long is marked as crashed: see `automations`.
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "60",
    # Send our log lines to the flow run; ignore those logged before it begins.
    "PREFECT_LOGGING_EXTRA_LOGGERS": "chaffinch",
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
}


def prepare(*, quiet: bool = False) -> None:
    """Set Prefect's environment defaults; call it before Prefect is imported.

    `quiet` keeps Prefect's own log lines out of the terminal; the server still gets them.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    if quiet:
        for handler in ("CONSOLE", "DEBUG"):
            os.environ.setdefault(f"PREFECT_LOGGING_HANDLERS_{handler}_LEVEL", "CRITICAL")
        logging.raiseExceptions = False  # no reports of log lines that cannot be sent


class ServerError(RuntimeError):
    """The Prefect server does not answer, or lacks the deployment that a command starts."""


def is_configured() -> bool:
    """Return whether Prefect's environment or files name a server.

    Prefect is imported only if its files may name a server, as that takes two seconds.
    """
    if os.environ.get("PREFECT_API_URL"):
        return True
    home = Path(os.environ.get("PREFECT_HOME") or "~/.prefect").expanduser()
    files = (os.environ.get("PREFECT_PROFILES_PATH") or home / "profiles.toml", *_FILES)
    if lacks("prefect") or not any(map(_names_prefect, map(Path, files))):
        return False
    prepare()
    from prefect.settings import PREFECT_API_URL

    return PREFECT_API_URL.value() is not None


def _names_prefect(path: Path) -> bool:
    try:
        content = path.read_bytes()  # OSError if there is no such file
        return path.name == "prefect.toml" or b"prefect" in content.lower()
    except OSError:
        return False


def check_versions() -> None:
    """Raise ServerError if a server of the installed Prefect fails beside the installed FastAPI."""
    from packaging.version import Version

    prefect, fastapi = (Version(version(package)) for package in ("prefect", "fastapi"))
    if prefect < Version("3.7.8") and fastapi >= Version("0.137"):
        raise ServerError(
            f"the server of Prefect {prefect} fails beside FastAPI {fastapi}: run "
            'pip install "fastapi<0.137", or pip install "prefect>=3.7.8"'
        )


class Server:
    """The server of this run; created first, so that an embedded server can start early.

    Call `check`, `start` and `in_use` in this order. The server is stopped when the program ends,
    after Prefect's threads have sent their data.
    """

    def __init__(self) -> None:
        self._url = os.environ.get("PREFECT_API_URL", "")
        if not self._url:
            os.environ.pop("PREFECT_API_URL", None)  # empty means unset, as for Prefect
        self._embedded = None if self._url else _Embedded()
        self._is_up = self._embedded is None

    def check(self) -> None:
        """Raise ServerError if the configured server does not answer, or none may be embedded."""
        if self._embedded is not None:
            configured = self._embedded.configured()
            if configured["url"] is not None:
                self._embedded.stop()
                self._url, self._embedded = configured["url"], None
            elif not configured["embeds"]:
                raise ServerError(
                    "no Prefect server is named and embedding one is switched off: set "
                    "PREFECT_API_URL, or PREFECT_SERVER_EPHEMERAL_ENABLED=true"
                )
            else:
                check_versions()
        if self._embedded is None:
            _check_answer(self._url)

    def start(self) -> None:
        """Start the embedded server, if any, and point Prefect to it; before its import."""
        # a remote server may be restarted soon; an embedded server is not
        retries = "3" if self._embedded is None else "2"
        os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", retries)
        if self._embedded is not None:
            os.environ["PREFECT_API_URL"] = self._embedded.url
            os.environ["PREFECT_API_AUTH_STRING"] = self._embedded.auth_string
            self._embedded.serve()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Wait until the server is up; raise an error if it is lost in the block."""
        import httpx
        from prefect.exceptions import CancelledRun

        try:
            if self._embedded is not None:
                httpx.get(f"{self._embedded.url}/health", timeout=_SECONDS_TO_START)
                self._is_up = True
            yield
        except CancelledRun as error:
            raise Stopped(signal.SIGTERM) from error
        except (httpx.HTTPError, RuntimeError) as error:
            # Prefect raises RuntimeError for an answer that it cannot interpret
            reason = error if isinstance(error, httpx.HTTPError) else error.__cause__
            if not isinstance(reason, httpx.HTTPError):
                raise
            raise ServerError(self._lost(reason)) from error

    def _lost(self, error: "httpx.HTTPError") -> str:
        import httpx

        if self._embedded is None:
            if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 401:
                return unauthorized(self._url)
            return (
                f"the Prefect server at {self._url} failed ({str(error).splitlines()[0]}); see to "
                f"it, or to PREFECT_API_URL, and {_GOES_ON}"
            )
        if not self._is_up:
            return (
                f"the Prefect server of this run did not start: it {self._embedded.exit_reason()}; "
                "see to the folder of PREFECT_HOME, or name a server with PREFECT_API_URL"
            )
        return f"the Prefect server of this run {self._embedded.exit_reason()}; {_GOES_ON}"


class _Embedded:
    """The process `ephemeral_server`."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read if the program dies
        with socket.create_server(("127.0.0.1", 0)) as listener, helpers_shielded():
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.url = f"{origin}/api"
            self.auth_string = f"chaffinch:{secrets.token_urlsafe()}"
            number = listener.fileno()
            module = "chaffinch.flows.prefect_runtime.ephemeral_server"
            self._program = subprocess.Popen(  # noqa: S603 - our own
                (sys.executable, "-P", "-m", module, str(number)),
                pass_fds=(number,),
                env={
                    **os.environ,
                    "PREFECT_SERVER_API_AUTH_STRING": self.auth_string,
                    "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": origin,
                },
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                text=True,
            )
            self._to = cast(IO[str], self._program.stdin)
            self._from = cast(IO[str], self._program.stdout)
            self._serving = False
            # The first exit handler registered runs last: after those of Prefect, not imported
            # yet. A pending signal arrives next, and must not leave the process behind.
            atexit.register(self.stop)

    def configured(self) -> dict[str, Any]:
        """Return Prefect's configured address, and whether it may embed a server."""
        line = self._from.readline()
        if not line:
            raise ServerError(
                f"the Prefect server of this run did not start: it {self.exit_reason()}"
            )
        return dict(json.loads(line))

    def serve(self) -> None:
        """Let it serve; connections made before it is ready wait."""
        self._serving = True
        with suppress(BrokenPipeError):  # it has died, which later requests report
            self._to.write("serve\n")
            self._to.flush()

    def stop(self) -> None:
        """End it: at once, or in order if it has a database open."""
        if not self._serving:
            self._program.kill()
        with suppress(BrokenPipeError):
            self._to.close()
        try:
            self._program.wait(_SECONDS_TO_STOP)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()
        self._from.close()
        self._log.close()

    def exit_reason(self) -> str:
        """Return the reason of its end, or that it does not answer."""
        try:
            code = self._program.wait(_SECONDS_TO_ANSWER)
        except subprocess.TimeoutExpired:
            return "does not answer"
        self._log.seek(0)
        lines = [line.strip() for line in self._log]
        reasons = [line for line in lines if _REASON.match(line)]
        return f"ended by itself ({reasons[-1] if reasons else f'code {code}'})"


def unauthorized(url: str) -> str:
    return (
        f"the Prefect server at {url} answers 401 Unauthorized: set PREFECT_API_AUTH_STRING to the "
        "server's PREFECT_SERVER_API_AUTH_STRING"
    )


def _check_answer(url: str) -> None:
    """Refuse an address where no server answers; an error response is an answer."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=_SECONDS_TO_ANSWER):  # noqa: S310
            return
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError) as error:
        raise ServerError(
            f"no Prefect server answers at {url} ({getattr(error, 'reason', error)}): start it, "
            "or run without one by --no-prefect"
        ) from error
