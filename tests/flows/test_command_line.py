"""`chaffinch run` as a program of its own, with no server but the one that Prefect embeds."""

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.flows.programs import (
    CHAFFINCH,
    environment,
    eventually,
    started,
    still_running,
)

# One after the other, since the first start of the embedded server migrates the database.
pytestmark = pytest.mark.xdist_group("embedded")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty home, so that Prefect meets this machine for the first time."""
    return tmp_path_factory.mktemp("home")


def run(*command: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*CHAFFINCH, "run", *command),
        env=environment(home),
        cwd=home,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def manifests(store: Path) -> dict[str, int]:
    """Return when each stage was recorded, in nanoseconds."""
    return {p.stem: p.stat().st_mtime_ns for p in store.glob("runs/*/stages/*.json")}


def test_a_first_run_needs_nothing_and_leaves_nothing_running(home, table):
    quick = ("--tuning", "none", "--cluster", "none", "--n-features", "2")
    ended = run(str(table), "--target", "yield", *quick, home=home)
    assert ended.returncode == 0, ended.stderr
    assert still_running(home) == []

    (report,) = home.glob("chaffinch-store/runs/*/report.html")
    *table_lines, last = ended.stdout.splitlines()
    assert last == f"Report: {report}"
    shown = "\n".join(table_lines)
    for words in ("model validation", "test", "Kept 2 of 6: first, second"):
        assert words in shown

    assert "9/9 write report" in ended.stderr
    for words in ("Flow run", "Task run", "INFO", "prefect.", "Traceback"):
        assert words not in ended.stdout + ended.stderr


def test_bad_input_is_one_line_on_stderr_and_exit_code_2(home, table):
    ended = run(str(table), "--target", "yeild", "--store", "bad", home=home)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.splitlines()[-1] == (
        "Error: target 'yeild' is no column of the table; did you mean 'yield'?"
    )
    assert "Traceback" not in ended.stderr


@pytest.fixture(scope="module")
def slow_run(tmp_path_factory: pytest.TempPathFactory, home: Path) -> tuple[str, ...]:
    """A command whose elimination takes some seconds: boosted regressors are a black box."""
    random = np.random.default_rng(3)
    X = random.normal(size=(300, 40))
    y = X[:, :5].sum(axis=1)
    path = tmp_path_factory.mktemp("slow") / "slow.csv"
    names = [*(f"feature_{j}" for j in range(40)), "y"]
    np.savetxt(path, np.column_stack([X, y]), "%.5f", ",", header=",".join(names), comments="")
    model = ("--model", "AdaBoostRegressor", "--tuning", "none")
    method = ("--method", "flbmo", "--n-features", "4")
    where = ("--workers", "2", "--store", str(home / "slow"))
    return (str(path), "--target", "y", *model, *method, *where)


def test_stopped_in_the_middle_it_goes_on_where_it_was(home, slow_run):
    store, log = home / "slow", home / "slow.log"
    with started(*CHAFFINCH, "run", *slow_run, env=environment(home), log=log) as program:
        eventually(lambda: "train_base_model" in manifests(store))
        eventually(lambda: any("distributed.Nanny" in command for command in still_running(home)))
        os.killpg(program.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
        assert program.wait(60) == 130
        assert still_running(home) == []
    before = manifests(store)
    assert set(before) == {"describe", "split", "train_base_model"}
    assert log.read_text().splitlines()[-1] == ("Stopped. The same command goes on where it was.")
    assert "Traceback" not in log.read_text()

    ended = run(*slow_run, home=home)
    assert ended.returncode == 0, ended.stderr
    assert "Kept " in ended.stdout
    after = manifests(store)
    assert {name: after[name] for name in before} == before
    assert "write_report" in after
    assert still_running(home) == []
