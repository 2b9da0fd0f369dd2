"""Workers: real schedulers and processes, the same numbers whoever computes, sudden death."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

from chaffinch.tasks import cluster
from chaffinch.tasks.cluster import OverDask, open_workers
from chaffinch.tasks.errors import WorkersError
from chaffinch.tasks.selection.bmo import eliminate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.vocabulary import Rows, Schema
from chaffinch.tasks.workers import InProcess

pytestmark = pytest.mark.xdist_group("dask")


@pytest.fixture(scope="module")
def two_workers() -> Iterator[OverDask]:
    with open_workers("local", 2) as workers:
        assert isinstance(workers, OverDask)
        yield workers


@pytest.fixture(scope="module", params=["lightgbm", "mlp", "RandomForestClassifier"])
def evaluator(request) -> MaskEvaluator:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 12))
    y = (X[:, 0] + X[:, 1] ** 2 + rng.normal(0, 0.5, 400) > 1).astype(np.int64)
    schema = Schema(tuple(f"x{j}" for j in range(12)), (0,) * 12, 2)
    parameters = {"mlp": {"max_iter": 30}, "RandomForestClassifier": {"n_estimators": 10}}
    model = fit(
        request.param,
        Rows(X[:200], y[:200]),
        schema,
        parameters.get(request.param, {}),
        seed=0,
    )
    return MaskEvaluator(
        model, Rows(X[200:], y[200:]), Loss("log_loss", "classification"), X[:200].mean(axis=0)
    )


def add(shared: int, item: int) -> int:
    return shared + item


def process_id(shared: object, item: float) -> int:
    time.sleep(item)
    return os.getpid()


def die_once(marker: str, item: int) -> int:
    """Take the worker down the first time item 5 comes by."""
    if item == 5 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return item * item


def die(shared: object, item: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("n_items", [0, 1, 7, 100])
def test_results_come_in_the_order_of_the_items(two_workers, n_items: int) -> None:
    items = list(range(n_items))
    expected = InProcess().map(add, 10, items)
    assert two_workers.map(add, 10, items) == expected == [10 + i for i in items]


@pytest.mark.parametrize("kind", ["in process", "dask"])
def test_progress_reaches_the_number_of_items(two_workers, kind: str) -> None:
    workers = InProcess() if kind == "in process" else two_workers
    seen: list[tuple[int, int]] = []
    workers.map(add, 0, list(range(9)), lambda done, total: seen.append((done, total)))
    assert seen[-1] == (9, 9)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


def test_work_leaves_this_process_and_reaches_both_workers(two_workers) -> None:
    pids = set(two_workers.map(process_id, None, [0.05] * 16))
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_masked_losses_are_the_same_to_the_last_bit(two_workers, evaluator, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_WORTH_SPREADING", 0.0)
    masks = np.random.default_rng(1).random((40, 12)) < 0.6
    here, there = BlackBox(evaluator), two_workers.masked_loss(BlackBox(evaluator))
    assert there(masks).tolist() == here(masks).tolist()
    assert eliminate(there) == eliminate(here)


def test_small_problems_stay_in_this_process(two_workers, evaluator, monkeypatch) -> None:
    monkeypatch.setattr(cluster, "_WORTH_SPREADING", 1e9)
    monkeypatch.setattr(two_workers, "map_batches", lambda *_: pytest.fail("it was sent away"))
    spread = two_workers.masked_loss(BlackBox(evaluator))
    assert eliminate(spread) == eliminate(BlackBox(evaluator))


def test_a_worker_killed_in_the_middle_changes_nothing(two_workers, tmp_path) -> None:
    marker = str(tmp_path / "died")
    assert two_workers.map(die_once, marker, list(range(20))) == [i * i for i in range(20)]
    assert Path(marker).exists()


def test_the_only_worker_killed_changes_nothing_either(tmp_path) -> None:
    marker = str(tmp_path / "died")
    with open_workers("local", 1) as workers:
        assert workers.map(die_once, marker, list(range(20))) == [i * i for i in range(20)]
    assert Path(marker).exists()


def test_work_that_kills_every_worker_is_said_so() -> None:
    with (
        open_workers("local", 1) as workers,
        pytest.raises(WorkersError, match="the batch from item 0 of 1 killed every worker"),
    ):
        workers.map(die, None, [0])


def test_a_scheduler_by_its_address() -> None:
    with scheduler_and_worker() as address, open_workers(address) as workers:
        assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]


def test_a_scheduler_that_dies_is_said_so() -> None:
    programs = scheduler_and_worker()
    with programs as address, open_workers(address) as workers:
        workers.map(add, 1, [1])
        programs.scheduler.kill()
        with pytest.raises(WorkersError, match="the Dask scheduler went away"):
            workers.map(process_id, None, [0.1] * 20)


def test_a_script_needs_no_guard_around_its_main(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from operator import add\n"
        "from chaffinch.tasks.cluster import open_workers\n"
        "with open_workers('local', 1) as workers:\n"
        "    print(workers.map(add, 1, [1, 2]))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("[2, 3]\n", 0), done.stderr
    assert done.stderr == ""


class scheduler_and_worker:  # noqa: N801 - used as a context manager
    """A scheduler and one worker as programs of their own, as an operator starts them."""

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        options = ["--port", "0", "--no-dashboard", "--host", "127.0.0.1"]
        self.scheduler = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        address = next(
            line.split()[-1] for line in self.scheduler.stderr if "Scheduler at:" in line
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address]
        self.worker = subprocess.Popen(
            [*worker, "--nthreads", "1", "--no-dashboard"], stderr=subprocess.DEVNULL
        )
        return address

    def __exit__(self, *_: object) -> None:
        for process in (self.worker, self.scheduler):
            process.terminate()
            process.wait(20)
        self.scheduler.stderr.close()


WORKING = """
import os, signal, time
from chaffinch.tasks.cluster import open_workers
def nap(shared, item):
    time.sleep(item)
    return os.getpid()
with open_workers("local", 1) as workers:
    print(os.getpid(), *workers.map(nap, None, [0.0]), flush=True)
    workers.map(nap, None, [60.0])
"""


def test_nothing_is_left_running_when_the_program_is_killed() -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", WORKING], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with program:
        program.stdout.readline()
        children = psutil.Process(program.pid).children(recursive=True)
        assert len(children) >= 3  # the scheduler, the nanny and the worker
        program.kill()
    _, alive = psutil.wait_procs(children, timeout=30)
    assert [process.cmdline() for process in alive] == []
