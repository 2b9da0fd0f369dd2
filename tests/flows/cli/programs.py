"""Programs that the flow tests start: the command line, a Prefect server, whatever they leave."""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

Found = TypeVar("Found")

PORTS = range(10_000, 32_768)  # Linux deals out those above

# The handlers are set by hand because a shell that starts the tests in the background has SIGINT
# ignored, and `nohup` SIGHUP, and every program below would inherit that.
CHAFFINCH = (
    sys.executable,
    "-c",
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    "signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "from chaffinch.flows.cli.main import main; main()",
)
PREFECT = (sys.executable, "-m", "prefect")
# What the servers of the tests ask for, and their clients send.
AUTH = "tests:let-me-in"
# An empty database as the installed Prefect makes it, which takes its first start in a home long.
_DATABASE = Path(__file__).parents[3] / "build" / f"prefect-{version('prefect')}.db"


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment with a home of its own, which also marks every process below.

    A Prefect server that is started in it asks for authentication.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PREFECT_")}
    return {
        **inherited,
        "HOME": str(home),
        "PREFECT_HOME": str(home / "prefect"),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_SERVER_API_AUTH_STRING": AUTH,
        "PREFECT_API_AUTH_STRING": AUTH,
        "DO_NOT_TRACK": "1",
        "COLUMNS": "100",
        **more,
    }


def with_database(home: Path) -> Path:
    """Put Prefect's empty database into a home, which is made if need be; return the home."""
    (folder := home / "prefect").mkdir(parents=True, exist_ok=True)
    _DATABASE.parent.mkdir(exist_ok=True)
    with FileLock(_DATABASE.with_suffix(".lock")):
        if not _DATABASE.exists():
            upgrade = (*PREFECT, "server", "database", "upgrade", "-y")
            subprocess.run(upgrade, env=environment(home), capture_output=True, check=True)
            made = shutil.copy(folder / "prefect.db", _DATABASE.with_suffix(".aside"))
            Path(made).replace(_DATABASE)
    shutil.copy(_DATABASE, folder / "prefect.db")
    return home


@contextmanager
def started(
    *command: str, env: dict[str, str], log: Path, cwd: Path | None = None
) -> Iterator[subprocess.Popen[str]]:
    """Start a program that continues until the block ends; what it says goes into `log`."""
    with log.open("w") as out:
        program = subprocess.Popen(
            command, env=env, stdout=out, stderr=out, text=True, start_new_session=True, cwd=cwd
        )
        try:
            yield program
        finally:
            stop(program)


def stop(program: subprocess.Popen[str]) -> None:
    """Stop a program and every other of its session, first politely."""
    for wish in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(program.pid, wish)
        except ProcessLookupError:
            break
        try:
            program.wait(20)
        except subprocess.TimeoutExpired:
            continue


def run(*command: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `chaffinch run` to its end in a home, with more of the environment if need be."""
    return chaffinch("run", *command, home=home, **more)


def chaffinch(*command: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a command of `chaffinch` likewise."""
    return subprocess.run(
        (*CHAFFINCH, *command),
        env=environment(home, **more),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def python(code: str, *arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run code of Python to its end as a program; options are those of `subprocess.run`."""
    usual = {"capture_output": True, "text": True, "timeout": 600, "check": False}
    command = (sys.executable, "-c", code, *map(str, arguments))
    return subprocess.run(command, **usual | options)


def in_process(*command: object, **settings: str | None) -> subprocess.CompletedProcess[str]:
    """Run a command of `chaffinch` in this process, with these settings of Prefect.

    A program of its own takes two seconds to import what is imported here already.
    """
    from chaffinch.flows.prefect_runtime.server import prepare
    from tests.refusals import chaffinch_here

    prepare()  # or what Prefect reads of it depends on which test comes first
    from prefect import settings as known

    with known.temporary_settings({getattr(known, name): settings[name] for name in settings}):
        return chaffinch_here(*command)


def still_running(home: Path) -> list[str]:
    """Return the command line of each process whose environment has this home."""
    return _marked(f"PREFECT_HOME={home / 'prefect'}")


def processes_of(flow_run: str) -> list[str]:
    """Return the command line of each process that was started for a flow run."""
    # by `chaffinch serve`, or by Prefect
    return _marked(f"CHAFFINCH_SERVED_RUN={flow_run}", f"PREFECT__FLOW_RUN_ID={flow_run}")


def _marked(*variables: str) -> list[str]:
    marks = {variable.encode() for variable in variables}
    commands = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if not marks.isdisjoint((folder / "environ").read_bytes().split(b"\0")):
                commands.append((folder / "cmdline").read_text().replace("\0", " "))
        except (PermissionError, FileNotFoundError, ProcessLookupError):
            continue  # of another user, or just gone
    return commands


def eventually(look: Callable[[], Found], seconds: float = 300) -> Found:
    """Return the first true thing that `look` gives; look less and less often, as it costs time."""
    end, pause = time.monotonic() + seconds, 0.05
    while not (found := look()):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing after {seconds} s but {found!r}")
        time.sleep(pause)
        pause = min(1.2 * pause, 0.3)
    return found


def free_port() -> int:
    """Return a port of the loopback interface that nobody listens to.

    It is none of those that the system deals out, of which another program's connection may take
    one before who asked for it listens.
    """
    while True:
        port = random.SystemRandom().choice(PORTS)
        with socket.socket() as listener, suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port
