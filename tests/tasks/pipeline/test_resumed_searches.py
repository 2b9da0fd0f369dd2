"""A run by PEFS that is killed during its searches continues them, and has the same result."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from distributed import WorkerPlugin

from chaffinch.methods import Pefs
from chaffinch.storage.runs.stages import Checkpoints
from chaffinch.storage.runs.store import Run
from chaffinch.storage.sources import source_of
from chaffinch.tasks.methods.pefs import searches_of
from chaffinch.tasks.pipeline import memory
from chaffinch.tasks.pipeline import run as story
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.dask_cluster import open_workers
from tests.synthetic import good_table
from tests.tasks.methods.test_pefs_runs import material_of
from tests.tasks.pipeline.hastened import all_sweeps, hasten, kept, n_sweeps, same_searches

LONG = Pefs(hidden_layer_sizes=(16,), most_sweeps=10, penalties=(0.001, 0.01, 0.02))
SAME = ("selection.json", "elimination.parquet")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("table") / "synthetic.csv"
    good_table(300).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory) -> Run:
    return run(source, tmp_path_factory.mktemp("store"))


def run(source, store, cluster="none") -> Run:
    settings = {"method": LONG, "model": {"name": "linear", "tuning": "none"}}
    return story.select_features(
        source_of(source),
        SelectionSettings(target="churned", **settings),
        ExecutionSettings(store=store, cluster=cluster, workers=2 if cluster == "local" else None),
    )


# A program whose searches are kept after each sweep, and which is killed after some of these.


class Hastened(WorkerPlugin):
    """Hasten every worker, and those that come in place of dead ones."""

    def __init__(self, counted: Path, then: Callable[[int], object]) -> None:
        self.counted, self.then = counted, then

    def setup(self, worker: object) -> None:
        hasten(self.counted, self.then)


@contextmanager
def hastened_workers(counted, then, cluster: str, n_workers: int | None):
    with open_workers(cluster, n_workers) as workers:
        workers.client.register_plugin(Hastened(counted, then))
        yield workers


def kill(process: int, after: int, n_made: int) -> None:
    if n_made == after:
        os.kill(process, signal.SIGKILL)


def kill_the_first(counted: Path, n_made: int) -> None:
    if len(list(counted.iterdir())) == 1:
        kill(os.getpid(), 4, n_made)


def nothing(n_made: int) -> None:
    """Let it live."""


def doomed_run(source: str, store: str, counted: str, cluster: str) -> None:
    if cluster == "none":
        hasten(Path(counted), partial(kill, os.getpid(), 14))
    else:  # a worker kills the program that it works for, and works on
        then = partial(kill, os.getpid(), 4)
        memory.open_workers = partial(hastened_workers, Path(counted), then)
    run(source, store, cluster)


DOOMED = """
import sys
from tests.tasks.pipeline.test_resumed_searches import doomed_run

doomed_run(*sys.argv[1:])
"""


def counted_in(folder: Path) -> Path:
    folder.mkdir()
    return folder


def killed(source: Path, store: Path, counted: Path, cluster: str) -> None:
    command = [sys.executable, "-c", DOOMED, *map(str, (source, store, counted, cluster))]
    ended = subprocess.run(command, cwd=Path(__file__).parents[3], timeout=300)
    assert ended.returncode == -signal.SIGKILL


def same(resumed: Run, other: Run) -> None:
    for name in SAME:
        assert (resumed.folder / name).read_bytes() == (other.folder / name).read_bytes()


@pytest.mark.e2e
def test_killed_in_process_it_repeats_no_search_and_goes_on_amid_one(
    source, undisturbed, tmp_path, monkeypatch
) -> None:
    store = tmp_path / "store"
    killed(source, store, counted_in(tmp_path / "before"), "none")
    before = kept(store)
    (ended, n_ended), (under_way, n_under_way) = before.values()
    assert (ended, under_way) == (", at its end", "")
    assert n_ended + n_under_way == 13  # the last one was not kept any more
    sweep, made = Search.sweep, []
    monkeypatch.setattr(Search, "sweep", lambda search: made.append(sweep(search)))
    resumed = run(source, store)
    assert len(made) == all_sweeps(undisturbed) - 13
    same(resumed, undisturbed)
    assert not (resumed.folder / "checkpoints").exists()


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_killed_with_its_workers_at_work_the_next_one_goes_on_with_other_workers(
    source, undisturbed, tmp_path, monkeypatch
) -> None:
    store, counted = tmp_path / "store", counted_in(tmp_path / "counted")
    killed(source, store, counted_in(tmp_path / "before"), "local")
    before = kept(store)
    assert before
    monkeypatch.setattr(memory, "open_workers", partial(hastened_workers, counted, nothing))
    resumed = run(source, store, "local")
    # workers of the killed run may have made some more, before they noticed
    assert n_sweeps(counted) <= all_sweeps(undisturbed) - sum(n for _, n in before.values())
    same(resumed, undisturbed)


@pytest.mark.xdist_group("dask")
@pytest.mark.e2e
def test_the_search_of_a_killed_worker_goes_on_with_another_worker(tmp_path) -> None:
    counted, checkpoints = counted_in(tmp_path / "counted"), Checkpoints(tmp_path / "key")
    method = LONG.model_copy(update={"penalties": (0.001,)})
    with hastened_workers(counted, partial(kill_the_first, counted), "local", 2) as workers:
        found = searches_of(method.search(material_of(workers=workers, checkpoints=checkpoints)))
    assert len(list(counted.iterdir())) == 2
    assert n_sweeps(counted) == len(found.searches[0].sweeps) + 1  # one was not kept any more
    same_searches(found, searches_of(method.search(material_of())))
