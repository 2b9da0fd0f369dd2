"""``make test-faults``: faults at random moments, and a table of what became of the runs.

Each fault meets a fresh run at a moment that is drawn over the length of an undisturbed one. The
results must be those of the undisturbed run, byte for byte less times; nothing may be left half
written, repeated, locked or running. The seed is printed, and draws the same moments again.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from tests.faults import checks, run_faults, server_faults, worker_faults
from tests.faults.ground import Ground, ground
from tests.faults.starter import Running
from tests.faults.trial import Missed, Trial, Undisturbed
from tests.postgres import programs

RESULTS = Path("bench-results/faults.jsonl")
_MOST_MISSES = 10
NO_POSTGRES = "there is no PostgreSQL here; make e2e-needs installs it"
_HEADINGS = (
    f"{'fault':27} {'times':>5} {'recovered':>9} {'identical':>9} {'median':>7} {'max s':>7}  "
    f"{'how':32} what"
)

Start = Callable[[Trial], Running]


@dataclass(frozen=True)
class Fault:
    """A fault, and the runs that it meets.

    Attributes
    ----------
    happens : callable
        Lets it happen to a trial, over so many seconds.
    starts : tuple of callable
        Start each run of the trial as if nothing were to happen.
    """

    happens: Callable[[Trial, float], None]
    starts: tuple[Start, ...]

    @property
    def name(self) -> str:
        """What it is called on the command line."""
        return self.happens.__name__.replace("_", "-")


@dataclass
class Outcome:
    """What became of all trials of a fault."""

    fault: str
    times: int
    missed: int
    recovered: dict[str, int]
    identical: int
    seconds: list[float]
    moments: list[float]
    problems: list[str]


FAULTS = (
    Fault(worker_faults.worker_killed, (run_faults.with_workers,)),
    Fault(worker_faults.every_worker_killed, (worker_faults.on_cluster,)),
    Fault(worker_faults.machine_lost, (worker_faults.on_cluster,)),
    Fault(worker_faults.scheduler_killed, (worker_faults.on_cluster,)),
    Fault(worker_faults.poisoned_batch, (worker_faults.with_given_model,)),
    Fault(run_faults.run_killed, (run_faults.with_server,)),
    Fault(run_faults.all_killed, (run_faults.with_workers,)),
    Fault(run_faults.disk_full, (run_faults.on_small_disk,)),
    Fault(run_faults.two_at_once, (run_faults.alone,)),
    Fault(run_faults.two_at_once_and_one_killed, (run_faults.alone,)),
    Fault(run_faults.two_methods_at_once, (run_faults.alone, run_faults.by_another_method)),
    Fault(server_faults.server_killed, (run_faults.alone,)),
    Fault(server_faults.database_restarted, (server_faults.on_postgres,)),
    Fault(server_faults.cancelled, (server_faults.from_the_form,)),
    Fault(server_faults.command_cancelled, (run_faults.with_workers,)),
)
NAMES = [fault.name for fault in FAULTS]


def can_happen(fault: Fault) -> bool:
    """Return whether what a fault needs is installed."""
    return fault.happens is not server_faults.database_restarted or programs() is not None


def suffer(fault: Fault, times: int, seed: int, here: Ground) -> Outcome:
    """Let a fault happen so many times; return what became of the runs."""
    if fault.starts not in here.undisturbed:
        here.undisturbed[fault.starts] = undisturbed(fault.name, fault.starts, here)
    expected = here.undisturbed[fault.starts]
    outcome = Outcome(fault.name, times, 0, {}, 0, [], [], [])
    draws = random.Random(f"{seed} {fault.name}")  # noqa: S311 - moments, no secrets
    number = 0
    while len(outcome.seconds) < times:
        number += 1
        trial = _trial(f"{fault.name}-{number}", draws, here)
        has_met = True
        with trial.parts:
            try:
                # sooner each time that it is missed: a machine may have slowed the first run
                fault.happens(trial, expected.seconds * 0.8**outcome.missed)
            except Missed:
                trial.wait_for_all()
                has_met = False
            except TimeoutError as error:
                trial.problems.append(f"it hangs: {error}")
            if has_met:
                outcome.seconds.append(time.monotonic() - trial.struck)
                trial.conclude(expected)
        if has_met:
            _note(trial, outcome)
        shutil.rmtree(trial.folder)
        outcome.missed += not has_met
        if outcome.missed > _MOST_MISSES * times:
            raise RuntimeError(f"{fault.name} never meets a run that is at work")
    return outcome


def undisturbed(name: str, starts: Sequence[Start], here: Ground) -> Undisturbed:
    """Run all that a fault is to meet; at first twice, because things are made ready then."""
    for attempt in ("first", "second")[len(here.undisturbed) > 0 :]:
        trial = _trial(f"{name}-undisturbed-{attempt}", random.Random(0), here)  # noqa: S311
        with trial.parts:
            seconds = [_seconds_of(start(trial), trial) for start in starts]
            runs = sorted((trial.store / "runs").iterdir())
            results = {run.name: checks.results(run) for run in runs}
    return Undisturbed(results, seconds[0])


def _trial(name: str, draws: random.Random, here: Ground) -> Trial:
    return Trial(here, name, draws, here.folder / name / "disk" / "store")


def _note(trial: Trial, outcome: Outcome) -> None:
    outcome.moments.append(trial.moment)
    outcome.identical += trial.is_identical
    how = trial.recovered if trial.is_identical and not trial.problems else "not"
    outcome.recovered[how] = outcome.recovered.get(how, 0) + 1
    said = [f"at {trial.moment:.2f} s: {problem}" for problem in trial.problems]
    outcome.problems += said
    for line in said:
        click.echo(f"    {trial.name} {line}", err=True)


def _seconds_of(running: Running, trial: Trial) -> float:
    while not (trial.store / "runs").exists() and running.code is None:
        time.sleep(0.005)
    began = time.monotonic()
    trial.expect_success(running)
    if trial.problems:
        raise RuntimeError("; ".join(trial.problems))
    return time.monotonic() - began


def _line(fault: Fault, outcome: Outcome) -> str:
    how = ", ".join(f"{n} {way}" for way, n in sorted(outcome.recovered.items()))
    recovered = outcome.times - outcome.recovered.get("not", 0)
    median, longest = statistics.median(outcome.seconds), max(outcome.seconds)
    counts = f"{outcome.times:5} {recovered:9} {outcome.identical:9}"
    what = str(fault.happens.__doc__).partition("\n")[0]
    return f"{fault.name:27} {counts} {median:7.1f} {longest:7.1f}  {how:32} {what}"


@click.command()
@click.option("--times", default=20, show_default=True, help="How often each fault happens.")
@click.option("--fault", "names", multiple=True, type=click.Choice(NAMES), help="Only this one.")
@click.option("--seed", default=0, show_default=True, help="Draws the moments.")
def main(times: int, names: Sequence[str], seed: int) -> None:
    """Let faults happen to real runs and print what became of them."""
    chosen = [fault for fault in FAULTS if not names or fault.name in names]
    RESULTS.parent.mkdir(exist_ok=True)
    click.echo(f"{times} times each, seed {seed}")
    click.echo(_HEADINGS)
    problems = 0
    with RESULTS.open("a") as lines, ground() as here:
        for fault in chosen:
            if not can_happen(fault):
                click.echo(f"{fault.name:27} {NO_POSTGRES}")
                continue
            outcome = suffer(fault, times, seed, here)
            problems += len(outcome.problems)
            click.echo(_line(fault, outcome))
            lines.write(json.dumps({"seed": seed, **asdict(outcome)}) + "\n")
            lines.flush()
    click.echo(f"{problems} problems; kept in {RESULTS}")
    sys.exit(problems > 0)


if __name__ == "__main__":
    main()
