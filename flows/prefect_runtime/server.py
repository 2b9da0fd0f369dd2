"""The Prefect server of a run: the one that is named, or one that the run starts beside itself.

Prefect embeds a server too, but starts it only when it is asked for the first time, lets the first
SIGTERM end it before the run, and leaves it behind after `kill -9`.
"""

import atexit
import json
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
from typing import IO, TYPE_CHECKING, Any, cast

from chaffinch.tasks.workers.signals import Stopped, helpers_shielded

if TYPE_CHECKING:
    import httpx

_GOES_ON = "the same command goes on where it was"
# The first start in a home migrates its database: 16 s on 2 cores.
_SECONDS_TO_START = 120
_SECONDS_TO_ANSWER = 10
_SECONDS_TO_STOP = 30
# The last line of a traceback: an error's name, and what it says.
_REASON = re.compile(r"[\w.]*(Error|Exception)\b.*")


class ServerError(RuntimeError):
    """The Prefect server does not answer, or does not any more."""


class Server:
    """The server of this run; made first of all, so that one that must be started has a start.

    To be used in this order: `check`, `start`, `in_use`. It is stopped when the program ends, after
    Prefect's threads have sent what they hold.
    """

    def __init__(self) -> None:
        self._url = os.environ.get("PREFECT_API_URL", "")
        if not self._url:
            os.environ.pop("PREFECT_API_URL", None)  # empty is none, as Prefect has it
        self._embedded = None if self._url else _Embedded()
        self._is_up = self._embedded is None

    def check(self) -> None:
        """See that the server answers, where one is named; before any work.

        Raises
        ------
        ServerError
            If it does not, or none is named and Prefect must not embed one.
        """
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
        if self._embedded is None:
            _check_answer(self._url)

    def start(self) -> None:
        """Let the server start, where it is our own, and Prefect find it; before its import."""
        # a server that is started again is soon back; nobody starts our own again
        retries = "3" if self._embedded is None else "2"
        os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", retries)
        if self._embedded is not None:
            os.environ["PREFECT_API_URL"] = self._embedded.url
            os.environ["PREFECT_API_AUTH_STRING"] = self._embedded.auth_string
            self._embedded.serve()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Wait until the server is up; while the block runs, say in one line that it was lost."""
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
            # of an answer that makes no sense to it, Prefect makes a RuntimeError
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
                f"the Prefect server of this run did not start: it {self._embedded.last_words()}; "
                "see to the folder of PREFECT_HOME, or name a server with PREFECT_API_URL"
            )
        return f"the Prefect server of this run {self._embedded.last_words()}; {_GOES_ON}"


class _Embedded:
    """The program `ephemeral_server`, from its start to its end."""

    def __init__(self) -> None:
        self._log = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read if the program dies
        with socket.create_server(("127.0.0.1", 0)) as listener, helpers_shielded():
            origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
            self.url = f"{origin}/api"
            self.auth_string = f"chaffinch:{secrets.token_urlsafe()}"
            number = listener.fileno()
            self._program = subprocess.Popen(  # noqa: S603 - our own
                (
                    sys.executable,
                    "-P",
                    "-m",
                    "chaffinch.flows.prefect_runtime.ephemeral_server",
                    str(number),
                ),
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
            self._to, self._from = (
                cast(IO[str], self._program.stdin),
                cast(IO[str], self._program.stdout),
            )
            self._serving = False
            # The first handler made is the last to run: Prefect's, not imported yet, come before
            # it. A signal that has waited comes next, and must not leave the program behind.
            atexit.register(self.stop)

    def configured(self) -> dict[str, Any]:
        """Return the address that Prefect is configured with, and whether it may embed a server."""
        said = self._from.readline()
        if not said:
            raise ServerError(
                f"the Prefect server of this run did not start: it {self.last_words()}"
            )
        return dict(json.loads(said))

    def serve(self) -> None:
        """Let it serve; a connection made before it is ready waits."""
        self._serving = True
        with suppress(BrokenPipeError):  # it has died, which shows when it is asked
            self._to.write("serve\n")
            self._to.flush()

    def stop(self) -> None:
        """End it: at once, or where it has a database open, in order."""
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

    def last_words(self) -> str:
        """Return what is known of its end, or that it goes on without an answer."""
        try:
            code = self._program.wait(_SECONDS_TO_ANSWER)
        except subprocess.TimeoutExpired:
            return "does not answer"
        self._log.seek(0)
        lines = [line.strip() for line in self._log]
        reasons = [line for line in lines if _REASON.match(line)]
        return f"ended by itself ({reasons[-1] if reasons else f'code {code}'})"


def unauthorized(url: str) -> str:
    """Return what is said where a Prefect server refuses our auth string."""
    return (
        f"the Prefect server at {url} answers 401 Unauthorized: set PREFECT_API_AUTH_STRING to the "
        "server's PREFECT_SERVER_API_AUTH_STRING"
    )


def _check_answer(url: str) -> None:
    """Refuse an address where nobody answers; whoever answers may still refuse."""
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=_SECONDS_TO_ANSWER):  # noqa: S310
            return
    except urllib.error.HTTPError:
        return
    except (OSError, ValueError) as error:
        raise ServerError(
            f"no Prefect server answers at {url} ({getattr(error, 'reason', error)}): start it, "
            "or unset PREFECT_API_URL to have one started for the run"
        ) from error
