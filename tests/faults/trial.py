"""One fault at one random moment: the runs that it meets, and what is wrong afterwards."""

from __future__ import annotations

import random
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from tests.faults import checks
from tests.faults.ground import Ground
from tests.faults.jobs import OPTIONS
from tests.faults.starter import Running
from tests.flows.cli.programs import eventually

BY_ITSELF, SAME_COMMAND = "by itself", "same command"


class Missed(Exception):  # noqa: N818 - nothing is wrong, the run was just too quick
    """The run had ended before the fault came."""


@dataclass(frozen=True)
class Undisturbed:
    """What a run gives that nothing disturbs.

    Attributes
    ----------
    results : dict
        By the name of each run what each of its files holds, less times.
    seconds : float
        From when the first of them begins to write until its end.
    """

    results: dict[str, dict[str, Any]]
    seconds: float


@dataclass
class Trial:
    """A store, the runs on it, and what was found wrong.

    Attributes
    ----------
    ground : Ground
        What the runs stand on.
    name : str
        Names the folder, and marks every process.
    draws : random.Random
        Where moments and victims are drawn.
    store : Path
        Where runs are kept.
    moment : float
        Seconds after which the fault came.
    struck : float
        When the fault came, by the monotonic clock.
    problems : list of str
        What was found wrong.
    recovered : str
        How the result came in the end.
    is_identical : bool
        Whether it is that of the undisturbed run.
    parts : ExitStack
        What is taken away at its end.
    mark : str
        In the environment of all its processes; by default its folder, as others may run at once.
    stays : set of int
        The numbers of those that are to stay.
    """

    ground: Ground
    name: str
    draws: random.Random
    store: Path
    moment: float = 0.0
    struck: float = 0.0
    problems: list[str] = field(default_factory=list)
    recovered: str = BY_ITSELF
    is_identical: bool = False
    parts: ExitStack = field(default_factory=ExitStack)
    mark: str = ""
    stays: set[int] = field(default_factory=set)
    _started: list[Running] = field(default_factory=list)
    _finished: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.mark = self.mark or str(self.folder)

    @property
    def folder(self) -> Path:
        """Where its logs go."""
        folder = self.ground.folder / self.name
        folder.mkdir(exist_ok=True)
        return folder

    def run(self, *options: str, cluster: str, url: str | None = None) -> Running:
        """Start ``chaffinch run`` of the table with a Prefect server, by default that on SQLite."""
        store = ("--store", str(self.store), "--cluster", cluster, "--verbose")
        workers = ("--workers", "2") if cluster == "local" else ()
        server = ("--prefect",) if url == "" else ()  # of its own
        command = ("run", str(self.ground.table), *OPTIONS, *store, *workers, *server, *options)
        return self.start("command_line", *command, url=url)

    def start(self, job: str, *arguments: str, url: str | None = None) -> Running:
        """Start a job that is marked as one of this trial."""
        starter = self.ground.starter(self.ground.server.api.url if url is None else url)
        log = self.folder / f"run-{len(self._started)}.log"
        self._started.append(starter.start(job, *arguments, log=log, mark=self.mark))
        return self._started[-1]

    def wait_for_all(self) -> None:
        """Wait until all that it has started has ended."""
        for running in self._started:
            running.wait()

    def wait_for_moment(self, running: Running, seconds: float) -> None:
        """Wait until the run writes, and from then on for a time that is drawn from 0 to `seconds`.

        Raises
        ------
        Missed
            If the run has ended by then.
        """
        has_begun = self.store / "runs"
        eventually(lambda: has_begun.exists() or running.code is not None)
        self.moment = self.draws.uniform(0, seconds)
        end = time.monotonic() + self.moment
        while time.monotonic() < end:
            self.missed_if(running.code is not None)
            time.sleep(0.005)

    def missed_if(self, has_ended: bool) -> None:
        """Raise Missed if the run has ended."""
        if has_ended:
            raise Missed

    def strike(self, fault: Callable[[], Any]) -> Any:
        """Let the fault happen, and note when, and what was finished by then."""
        self._finished = checks.manifests(self.store)
        self.struck = time.monotonic()
        return fault()

    def look_at_what_is_left(self) -> None:
        """Note what is finished, and whether it is whole, where nobody is writing any more."""
        self._finished = checks.manifests(self.store)
        self.problems += checks.half_written(self.store)

    def expect(self, is_so: bool, otherwise: str) -> None:
        """Note a problem unless something is so."""
        if not is_so:
            self.problems.append(otherwise)

    def expect_one_line(self, running: Running, *beginnings: str) -> None:
        """Note a problem unless a run ended with one line of an error that begins like one."""
        lines = running.said()
        last = lines[-1] if lines else ""
        said = any(last.startswith(f"Error: {beginning}") for beginning in beginnings)
        self.expect(said, f"it said {last!r}")
        text = "\n".join(lines)
        self.expect("Traceback" not in text, f"it shows a traceback: {text}")

    def go_on(self, again: Callable[[], Running]) -> None:
        """Give the same command again and see that it ends well."""
        self.recovered = SAME_COMMAND
        self.expect_success(again())

    def expect_success(self, running: Running) -> None:
        """Note a problem unless a run ends with the code 0."""
        code = running.wait()
        self.expect(code == 0, f"a run ended with {code}: {' / '.join(running.said()[-3:])}")

    def expect_done_once(self, *running: Running) -> None:
        """Note a problem unless each stage was done by one of several runs alone."""
        lines = [line for one in running for line in one.said()]
        done = Counter(re.findall(r"\d+/\d+ (?!read the table)([a-z ]+): done", "\n".join(lines)))
        self.problems += [f"stage {stage} was done {n} times" for stage, n in done.items() if n > 1]

    def conclude(self, undisturbed: Undisturbed) -> None:
        """Compare with the undisturbed run, and look for whatever must not be left."""
        now = checks.manifests(self.store)
        repeated = [stage for stage, when in self._finished.items() if now.get(stage) != when]
        self.problems += [f"{stage} was finished and done again" for stage in repeated]
        self.is_identical = True
        for run, results in undisturbed.results.items():
            folder = self.store / "runs" / run
            different = checks.differences(folder, results) if folder.exists() else [run]
            self.problems += [f"{name} is not as undisturbed" for name in different]
            self.is_identical &= not different
        self.problems += checks.half_written(self.store) + checks.unreadable(self.store)
        self.problems += checks.left_aside(self.store) + checks.held_locks(self.store)
        self.expect_nothing_runs()

    def expect_nothing_runs(self) -> None:
        """Note a problem unless every process of this trial ends soon."""
        try:
            eventually(lambda: not self._processes())
        except TimeoutError:
            self.problems += [f"still running: {command}" for command in self._processes()]

    def _processes(self) -> list[str]:
        """Return the commands of what runs of this trial."""
        commands = []
        for process in checks.processes_of(self.mark):
            with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                if process.pid in self.stays:
                    continue
                commands.append(" ".join(process.cmdline())[:100])
        return commands
