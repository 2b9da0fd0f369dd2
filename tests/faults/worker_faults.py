"""Faults of those who compute: workers, their machine, their scheduler, what they are given."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

from tests.faults.ground import kill, workers_below
from tests.faults.run_faults import with_workers
from tests.faults.starter import Running
from tests.faults.trial import Trial
from tests.flows.cli.programs import eventually

_SECONDS_LOST = 3
_LOST = ("the Dask scheduler went away", "no Dask worker came back", "no Dask scheduler answers")


def on_cluster(trial: Trial) -> Running:
    """Start the run on workers that somebody else has started."""
    return trial.run(cluster=trial.ground.cluster.address)


def with_given_model(trial: Trial) -> Running:
    """Start a run of a model of one's own on these workers."""
    table, address = trial.ground.table, trial.ground.cluster.address
    given = (table, trial.store, address, _poison(trial))
    return trial.start("given_model", *map(str, given))


def worker_killed(trial: Trial, seconds: float) -> None:
    """Kill one of the run's own two workers."""
    running = with_workers(trial)
    trial.wait_for_moment(running, seconds)
    victim = trial.draws.choice(_workers_of(trial, running))
    trial.missed_if(not trial.strike(lambda: kill(victim)))
    trial.expect_success(running)


def every_worker_killed(trial: Trial, seconds: float) -> None:
    """Kill both workers of a cluster at once; their nannies start others."""
    cluster = trial.ground.cluster
    running = on_cluster(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(lambda: [kill(worker) for worker in cluster.workers])
    trial.expect_success(running)
    cluster.wait_until_up()


def machine_lost(trial: Trial, seconds: float) -> None:
    """Kill workers and nannies, and start them again some seconds later."""
    cluster = trial.ground.cluster
    running = on_cluster(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(lambda: cluster.machine.kill(with_all_below=True))
    time.sleep(trial.draws.uniform(0, _SECONDS_LOST))
    cluster.machine.start()
    _take_what_comes(trial, running)


def scheduler_killed(trial: Trial, seconds: float) -> None:
    """Kill the scheduler, and start it and its workers again when the run has ended."""
    cluster = trial.ground.cluster
    running = on_cluster(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(cluster.scheduler.kill)
    running.wait()
    cluster.machine.kill(with_all_below=True)
    cluster.scheduler.start()
    cluster.machine.start()
    _take_what_comes(trial, running)


def poisoned_batch(trial: Trial, seconds: float) -> None:
    """Let the model kill every worker that trains it from some moment on, then correct it."""
    poison = _poison(trial)
    running = with_given_model(trial)
    trial.wait_for_moment(running, seconds)
    trial.strike(poison.touch)
    code = running.wait()
    poison.unlink()
    trial.ground.cluster.wait_until_up()
    trial.missed_if(code == 0)  # no worker was to train any more
    trial.expect(code == 1, f"it ended with {code}")
    trial.expect_one_line(running, "the batch from item ")
    trial.look_at_what_is_left()
    trial.go_on(lambda: with_given_model(trial))


def _poison(trial: Trial) -> Path:
    """Return the file that poisons, which is a setting of the model and so the same for all."""
    return trial.ground.folder / "poison"


def _workers_of(trial: Trial, running: Running) -> list[psutil.Process]:
    """Return the workers that a run has started, once there are any; Missed if it ends before."""

    def found() -> list[psutil.Process] | bool:
        return running.code is not None or workers_below(running.pid)

    workers = eventually(found)
    trial.missed_if(workers is True)
    return workers


def _take_what_comes(trial: Trial, running: Running) -> None:
    """See that the run continues, or says in one line why not and continues by the same command."""
    code = running.wait()
    trial.ground.cluster.wait_until_up()
    if code == 0:
        return
    trial.expect_one_line(running, *_LOST)
    trial.look_at_what_is_left()
    trial.go_on(lambda: on_cluster(trial))
