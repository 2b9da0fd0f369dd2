"""However a run is stopped, it ends quickly, says so, leaves no process, and can go on."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tests.flows.cli.programs import (
    CHAFFINCH,
    environment,
    eventually,
    python,
    run,
    started,
    still_running,
)

pytestmark = pytest.mark.e2e

# Far below the minute that Prefect continues asking a server that is gone.
SECONDS_TO_STOP = 30


@pytest.fixture(scope="module")
def slow_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """A command whose elimination takes some seconds: boosted regressors are a black box."""
    random = np.random.default_rng(3)
    X = random.normal(size=(300, 24))
    y = X[:, :5].sum(axis=1)
    path = tmp_path_factory.mktemp("slow") / "slow.csv"
    names = [*(f"feature_{j}" for j in range(24)), "y"]
    np.savetxt(path, np.column_stack([X, y]), "%.5f", ",", header=",".join(names), comments="")
    model = ("--model", "AdaBoostRegressor", "--tuning", "none")
    method = ("--method", "flbmo", "--n-features", "4")
    return (
        str(path),
        "--target",
        "y",
        *model,
        *method,
        "--cluster",
        "local",
        "--workers",
        "1",
        "--prefect",
    )


def manifests(store: Path) -> dict[str, int]:
    """Return when each stage was recorded, in nanoseconds."""
    return {p.stem: p.stat().st_mtime_ns for p in store.glob("runs/*/stages/*.json")}


def runs_a(kind: str, home: Path) -> bool:
    return any(kind in command for command in still_running(home))


def temporary(store: Path) -> Path:
    """Return the folder, empty at first, in which a run works and writes temporary files."""
    folder = store.with_name("temporary")
    folder.mkdir(exist_ok=True)
    return folder


@contextmanager
def at_work(command: tuple[str, ...], home: Path, store: Path) -> Iterator[subprocess.Popen[str]]:
    """Start a run and wait until its elimination has workers."""
    command = (*CHAFFINCH, "run", *command, "--store", str(store))
    here = temporary(store)
    env = environment(home, PREFECT_CLIENT_MAX_RETRIES="0", TMPDIR=str(here))
    with started(*command, env=env, log=store.with_suffix(".log"), cwd=here) as program:
        eventually(lambda: "train_base_model" in manifests(store))
        eventually(lambda: runs_a("distributed.Nanny", home))
        yield program


def send_to_all(program: subprocess.Popen[str], number: int) -> None:
    os.killpg(program.pid, number)


def send_to_it_alone(program: subprocess.Popen[str], number: int) -> None:
    os.kill(program.pid, number)


def send_again_and_again(program: subprocess.Popen[str], number: int) -> None:
    for _ in range(5):
        if program.poll() is None:
            os.killpg(program.pid, number)
        time.sleep(0.3)


@pytest.mark.parametrize(
    ("send", "number", "code", "server"),
    [
        # Ctrl-C in a terminal, by somebody impatient, and `kill`
        (send_again_and_again, signal.SIGINT, 130, "--prefect"),
        (send_to_it_alone, signal.SIGTERM, 143, "--no-prefect"),
    ],
)
def test_told_to_stop_it_ends_in_order(home, slow_run, tmp_path, send, number, code, server):
    store = tmp_path / "store"
    with at_work((*slow_run, server), home, store) as program:
        send(program, number)
        assert program.wait(SECONDS_TO_STOP) == code
        assert still_running(home) == []
    assert list(temporary(store).iterdir()) == []
    assert set(manifests(store)) == {"describe", "split", "train_base_model"}
    said = store.with_suffix(".log").read_text()
    assert said.splitlines()[-1] == "Stopped. The same command continues where it stopped."
    assert "Traceback" not in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_told_to_stop_while_it_checks_it_leaves_nothing(tmp_path, table, number, code):
    options = ("--target", "yield", "--store", str(tmp_path / "store"), "--prefect")
    command = (*CHAFFINCH, "run", str(table), *options)
    log = tmp_path / "log"
    with started(*command, env=environment(tmp_path), log=log) as program:
        eventually(lambda: runs_a("ephemeral_server", tmp_path))
        send_to_all(program, number)
        assert program.wait(SECONDS_TO_STOP) == code
        assert still_running(tmp_path) == []
    *before, last = log.read_text().splitlines()
    assert last == "Stopped. The same command continues where it stopped."
    assert not any("train" in line or "Traceback" in line for line in before)


STOPPED_AT_THE_START = """
import os, signal, subprocess
from chaffinch.flows.prefect_runtime import server
from chaffinch.tasks.workers.signals import Stopped, stopped_by_signals

class Popen(subprocess.Popen):  # as where the signal comes while the program is being started
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        os.kill(os.getpid(), signal.SIGTERM)

subprocess.Popen = Popen
try:
    with stopped_by_signals():
        server.Server()
except Stopped:
    print("stopped")
"""


def test_told_to_stop_while_its_server_is_being_started_it_leaves_none(tmp_path):
    home = environment(tmp_path, PREFECT_API_URL="")
    ended = python(STOPPED_AT_THE_START, env=home)
    assert (ended.stdout, ended.stderr) == ("stopped\n", "")
    assert still_running(tmp_path) == []


def test_killed_it_leaves_nothing_and_goes_on_where_it_was(home, slow_run, tmp_path):
    store = tmp_path / "store"
    with at_work(slow_run, home, store) as program:
        program.kill()
        program.wait(SECONDS_TO_STOP)
        eventually(lambda: still_running(home) == [])
    assert list(temporary(store).iterdir()) == []
    before = manifests(store)
    assert set(before) == {"describe", "split", "train_base_model"}

    ended = run(*slow_run, "--store", str(store), home=home, TMPDIR=str(temporary(store)))
    assert ended.returncode == 0, ended.stderr
    assert "Kept " in ended.stdout
    assert "4/9 tune and train the model: finished before" in ended.stderr.splitlines()
    after = manifests(store)
    assert {name: after[name] for name in before} == before
    assert "write_report" in after
    assert still_running(home) == []
    assert list(temporary(store).iterdir()) == []


@pytest.mark.parametrize("kind", ["ephemeral_server", "distributed.Scheduler"])
def test_killed_while_a_helper_starts_it_leaves_nothing(home, slow_run, tmp_path, kind):
    command = (*CHAFFINCH, "run", *slow_run, "--store", str(tmp_path / "store"))
    with started(*command, env=environment(home), log=tmp_path / "log") as program:
        eventually(lambda: runs_a(kind, home))
        program.kill()
        program.wait(SECONDS_TO_STOP)
        eventually(lambda: still_running(home) == [])


def test_when_its_server_dies_it_says_so_in_one_line(home, slow_run, tmp_path):
    store = tmp_path / "store"
    with at_work(slow_run, home, store) as program:
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        commands = {child: Path(f"/proc/{child}/cmdline").read_text() for child in children}
        (server,) = (child for child in children if "ephemeral_server" in commands[child])
        os.kill(int(server), signal.SIGKILL)
        assert program.wait(60) == 1
        assert still_running(home) == []
    *progress, last = store.with_suffix(".log").read_text().splitlines()
    assert last == (
        "Error: the Prefect server of this run ended by itself (code -9); "
        "the same command continues where it stopped"
    )
    assert {line.lstrip()[1:4] for line in progress} <= {"/9 ", "tar"}
