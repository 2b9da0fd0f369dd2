"""Starts runs as processes of their own without the seconds that their imports take.

`Starter` starts this file as a program that imports what a run imports and forks for each run. What
it forks is a process as any other: it has a session of its own, and can be killed.
"""

from __future__ import annotations

import importlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from tests.flows.cli.programs import eventually, stop

# In the environment of every process below a run, so that what is left over of it can be found.
MARK = "CHAFFINCH_FAULTS_TRIAL"
_HEAVY = (
    *("chaffinch.flows.cli.commands", "chaffinch.flows.cli.output", "chaffinch.tasks.pipeline.run"),
    *("distributed", "lightgbm", "matplotlib.figure", "numba", "pandas"),
    *("ortools.sat.python.cp_model", "scipy.stats", "sklearn.ensemble"),
)
_OF_PREFECT = (
    "chaffinch.flows.prefect_runtime.artifacts",
    "chaffinch.flows.feature_selection",
    "httpx",
)
_SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True)
class Running:
    """A process that was started.

    Attributes
    ----------
    pid : int
        Its number.
    log : Path
        What it says on standard output and standard error.
    """

    pid: int
    log: Path

    @property
    def code(self) -> int | None:
        """Its exit code, negative for a signal, once it has ended."""
        path = _code_of(self.log)
        return int(path.read_text()) if path.exists() else None

    def wait(self) -> int:
        """Return its exit code when it ends; TimeoutError if that takes too long."""
        eventually(lambda: self.code is not None)
        return int(_code_of(self.log).read_text())

    def kill(self) -> None:
        """Kill it, and it alone, as by ``kill -9``; it may have ended just now."""
        if self.code is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        self.wait()

    def said(self) -> list[str]:
        """Return the lines of what it has said so far."""
        return self.log.read_text().splitlines() if self.log.exists() else []


class Starter:
    """Starts functions of `tests.faults.jobs`, each in a process of its own."""

    def __init__(self, env: dict[str, str], folder: Path) -> None:
        with (folder / "starter.log").open("w") as log:
            self._program = subprocess.Popen(
                (sys.executable, "-m", "tests.faults.starter"),
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def __enter__(self) -> Starter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._program:  # closes what it is told and answers by
            stop(self._program)

    def start(self, job: str, *arguments: str, log: Path, mark: str) -> Running:
        """Start a job; `mark` is in the environment of all that it starts."""
        asked = {"job": job, "arguments": arguments, "log": str(log), "mark": mark}
        self._program.stdin.write(json.dumps(asked) + "\n")
        self._program.stdin.flush()
        return Running(int(self._program.stdout.readline()), log)


def _code_of(log: Path) -> Path:
    return log.with_suffix(".code")


def main() -> None:
    """Run the program: for each line of JSON on standard input one more process."""
    from chaffinch.flows.prefect_runtime.server import prepare

    prepare(quiet=True)
    # without the address of a server Prefect must not be imported before the run has started one
    for module in (*_HEAVY, *(_OF_PREFECT if "PREFECT_API_URL" in os.environ else ())):
        importlib.import_module(module)
    logs: dict[int, Path] = {}
    for line in _lines_while_reaping(logs):
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(asked)
            return
        logs[pid] = Path(asked["log"])
        sys.stdout.write(f"{pid}\n")
        sys.stdout.flush()


def _lines_while_reaping(logs: dict[int, Path]) -> Iterator[str]:
    """Yield what comes on standard input, and meanwhile note how the started processes ended."""
    while True:
        if select.select([sys.stdin], [], [], _SECONDS_BETWEEN_LOOKS)[0]:
            line = sys.stdin.readline()
            if not line:
                return
            yield line
        while logs and (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            path = _code_of(logs.pop(pid))
            aside = path.with_suffix(".aside")
            aside.write_text(str(os.waitstatus_to_exitcode(status)))
            aside.replace(path)


def _become(asked: dict[str, str]) -> None:
    """Do the job in this process, which then ends as any program does."""
    from tests.faults import jobs

    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ[MARK] = asked["mark"]
    for number, way in ((0, os.O_RDONLY), (1, os.O_WRONLY | os.O_CREAT), (2, None)):
        opened = 1 if way is None else os.open("/dev/null" if number == 0 else asked["log"], way)
        os.dup2(opened, number)
    getattr(jobs, asked["job"])(*asked["arguments"])


if __name__ == "__main__":
    main()
