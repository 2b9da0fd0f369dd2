"""A run by PEFS that is killed amid its searches goes on with them, to the very bits of another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from distributed import WorkerPlugin

from chaffinch import Pefs
from chaffinch.storage.checkpoints import Checkpoints
from chaffinch.storage.runs import Run
from chaffinch.tasks import story
from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.probabilistic import search_by_probabilities
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings
from tests.made_up import good_table
from tests.tasks.hastened import all_sweeps, hasten, kept, n_sweeps, same_searches
from tests.tasks.test_probabilistic import material_of

LONG = Pefs(hidden_layer_sizes=(16,), most_sweeps=10, penalties=(0.001, 0.01, 0.02))
SAME = ("selection.json", "elimination.parquet")


@pytest.fixture(scope="module")
def source(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("table") / "made_up.csv"
    good_table(300).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def undisturbed(source, tmp_path_factory) -> Run:
    return run(source, tmp_path_factory.mktemp("store"))


def run(source, store, cluster="none") -> Run:
    settings = {"method": LONG, "model": {"name": "linear", "tuning": "none"}}
    return story.select_features(
        source,
        SelectionSettings(target="churned", **settings),
        ExecutionSettings(store=store, cluster=cluster, workers=2),
    )


# A program whose searches are kept after each sweep, and which counts these.


class Hastened(WorkerPlugin):
    """Do so in every worker, and in those that come in place of dead ones."""

    def __init__(self, counted: Path) -> None:
        self.counted = counted

    def setup(self, worker: object) -> None:
        hasten(self.counted)


@contextmanager
def hastened_workers(counted: Path, cluster: str, n_workers: int | None):
    with open_workers(cluster, n_workers) as workers:
        if cluster != "none":
            workers.client.register_plugin(Hastened(counted))
        yield workers


def hastened_run(source: str, store: str, counted: str, cluster: str) -> None:
    hasten(Path(counted))
    story.open_workers = partial(hastened_workers, Path(counted))
    run(source, store, cluster)


HASTENED = """
import sys
from tests.tasks.test_resumed_searches import hastened_run

hastened_run(*sys.argv[1:])
"""


def counted_in(folder: Path) -> Path:
    folder.mkdir()
    return folder


def killed(source: Path, store: Path, counted: Path, cluster: str, when: str) -> None:
    """Start a run and kill it, and nothing else, as soon as a checkpoint is there."""
    command = [sys.executable, "-c", HASTENED, *map(str, (source, store, counted, cluster))]
    process = subprocess.Popen(command, cwd=Path(__file__).parents[2])
    deadline = time.monotonic() + 120
    while when not in kept(store):
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()


def same(resumed: Run, other: Run) -> None:
    for name in SAME:
        assert (resumed.folder / name).read_bytes() == (other.folder / name).read_bytes()


def test_killed_in_process_it_repeats_no_search_and_goes_on_amid_one(
    source, undisturbed, tmp_path, monkeypatch
) -> None:
    store = tmp_path / "store"
    killed(source, store, counted_in(tmp_path / "before"), "none", "search-2.safetensors")
    before = kept(store)
    assert before["search-1.safetensors"][0] == ", at its end"
    assert before["search-2.safetensors"][0] == ""
    sweep, made = Search.sweep, []
    monkeypatch.setattr(Search, "sweep", lambda search: made.append(sweep(search)))
    resumed = run(source, store)
    assert len(made) == all_sweeps(undisturbed) - sum(n for _, n in before.values())
    same(resumed, undisturbed)
    assert not (resumed.folder / "checkpoints").exists()


@pytest.mark.xdist_group("dask")
def test_killed_with_its_workers_at_work_the_next_one_goes_on_with_other_workers(
    source, undisturbed, tmp_path, monkeypatch
) -> None:
    store, counted = tmp_path / "store", counted_in(tmp_path / "counted")
    killed(source, store, counted_in(tmp_path / "before"), "local", "search-2.safetensors")
    before = kept(store)
    monkeypatch.setattr(story, "open_workers", partial(hastened_workers, counted))
    resumed = run(source, store, "local")
    # workers of the killed run may have made some more, before they noticed
    assert n_sweeps(counted) <= all_sweeps(undisturbed) - sum(n for _, n in before.values())
    same(resumed, undisturbed)


@pytest.mark.xdist_group("dask")
def test_the_search_of_a_killed_worker_goes_on_with_another_worker(tmp_path) -> None:
    counted, checkpoints = counted_in(tmp_path / "counted"), Checkpoints(tmp_path / "key")
    method = LONG.model_copy(update={"penalties": (0.001,)})
    with hastened_workers(counted, "local", 2) as workers:

        def kill_one() -> None:
            while n_sweeps(counted) < 4:
                time.sleep(0.01)
            (path,) = counted.iterdir()
            os.kill(int(path.name), signal.SIGKILL)

        killer = threading.Thread(target=kill_one)
        killer.start()
        found = search_by_probabilities(
            method, replace(material_of(workers), checkpoints=checkpoints)
        )
        killer.join()
    assert len(list(counted.iterdir())) == 2
    n_found = len(found.searches[0].sweeps)
    assert n_found <= n_sweeps(counted) <= n_found + 1  # it was made, but not kept any more
    same_searches(found, search_by_probabilities(method, material_of()))
