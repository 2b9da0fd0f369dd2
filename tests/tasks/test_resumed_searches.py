"""A run by PEFS that is killed amid its searches goes on with them, to the very bits of another."""

from __future__ import annotations

import logging
import math
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

import chaffinch
from chaffinch import Pefs
from chaffinch.storage import checkpoints as module
from chaffinch.storage.checkpoints import Checkpoints
from chaffinch.storage.runs import Run
from chaffinch.tasks import story
from chaffinch.tasks.cluster import open_workers
from chaffinch.tasks.probabilistic import search_by_probabilities
from chaffinch.tasks.selection.pefs.search import Search
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings
from tests.made_up import good_table
from tests.tasks.hastened import all_sweeps, hasten, kept, n_sweeps
from tests.tasks.test_probabilistic import material_of

LONG = Pefs(hidden_layer_sizes=(16,), most_sweeps=10, penalties=(0.001, 0.01, 0.02))
SHORT = Pefs(hidden_layer_sizes=(8,), most_sweeps=3, penalties=(0.05, 0.2))
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


# What is kept, and what is done with what is of no use


@pytest.fixture
def hasty(monkeypatch) -> None:
    monkeypatch.setattr(module, "_SECONDS_APART", 0.0)
    monkeypatch.setattr(module, "_SHARE", math.inf)


@pytest.fixture(scope="module")
def clean():
    """What searches find that nothing disturbs."""
    return search_by_probabilities(SHORT, material_of())


def same_searches(found, other) -> None:
    for one, another in zip(found.searches, other.searches, strict=True):
        assert (one.asked, one.seed) == (another.asked, another.seed)
        assert type(one.asked) is type(another.asked)
        assert one.held_out_loss == another.held_out_loss
        for sweep, same in zip(one.sweeps, another.sweeps, strict=True):
            assert sweep.iteration == same.iteration
            assert str(sweep.loss) == str(same.loss)  # which may be NaN
            assert sweep.penalty == same.penalty
            assert (sweep.probabilities == same.probabilities).all()


def left_behind(checkpoints: Checkpoints, monkeypatch, method=SHORT) -> None:
    """Leave what a run does that is stopped amid its second search."""
    sweep, made = Search.sweep, []

    def stopping(search: Search) -> None:
        if len(made) == 4:
            raise KeyboardInterrupt
        made.append(sweep(search))

    with monkeypatch.context() as patch:
        patch.setattr(Search, "sweep", stopping)
        with pytest.raises(KeyboardInterrupt):
            search_by_probabilities(method, replace(material_of(), checkpoints=checkpoints))


def read_back(checkpoints: Checkpoints, monkeypatch, method=SHORT):
    """Search where something may be left, and return what was found and the sweeps made for it."""
    sweep, made = Search.sweep, []
    with monkeypatch.context() as patch:
        patch.setattr(Search, "sweep", lambda search: made.append(sweep(search)))
        seen: list[tuple[int, int]] = []
        material = replace(
            material_of(),
            checkpoints=checkpoints,
            on_progress=lambda done, total: seen.append((done, total)),
        )
        found = search_by_probabilities(method, material)
    assert seen[-1] == (len(found.searches), len(found.searches))
    return found, len(made)


def test_what_had_ended_is_read_back_and_it_says_so(
    clean, hasty, tmp_path, monkeypatch, caplog
) -> None:
    checkpoints = Checkpoints(tmp_path / "key")
    left_behind(checkpoints, monkeypatch)
    with caplog.at_level(logging.INFO, logger="chaffinch"):
        found, n_made = read_back(checkpoints, monkeypatch)
    same_searches(found, clean)
    assert n_made == sum(len(one.sweeps) for one in clean.searches) - 4
    assert caplog.messages[0] == (
        "pefs goes on after a stop; searches: 2, ended before: 1, under way: 1"
    )
    again, n_made = read_back(checkpoints, monkeypatch)
    same_searches(again, clean)
    assert n_made == 0


def test_a_search_for_a_size_and_one_with_nothing_to_search_are_read_back(
    tmp_path, monkeypatch
) -> None:
    checkpoints = Checkpoints(tmp_path / "key")
    method = Pefs(hidden_layer_sizes=(8,), most_sweeps=3, n_features=(2, 6))
    first, _ = read_back(checkpoints, monkeypatch, method)
    back, n_made = read_back(checkpoints, monkeypatch, method)
    same_searches(back, first)
    assert n_made == 0


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda content: content[:-1], "the checkpoint cannot be read ("),
        (lambda content: b"", "the checkpoint cannot be read ("),
        (
            lambda content: content[:-1] + bytes([content[-1] ^ 1]),
            "the checkpoint is damaged (it was changed)",
        ),
    ],
)
def test_one_that_is_damaged_is_warned_of_and_its_search_begins_anew(
    clean, hasty, tmp_path, monkeypatch, caplog, number, damage, reason
) -> None:
    checkpoints, clean = (
        Checkpoints(tmp_path / "key"),
        search_by_probabilities(SHORT, material_of()),
    )
    left_behind(checkpoints, monkeypatch)
    path = tmp_path / "key" / f"search-{number}.safetensors"
    path.write_bytes(damage(path.read_bytes()))
    found, n_made = read_back(checkpoints, monkeypatch)
    same_searches(found, clean)
    (said,) = (r.getMessage() for r in caplog.records if r.levelno == logging.WARNING)
    assert said.startswith(f"what checkpoint {path} is about begins anew: {reason}")
    intact = 1 if number == 1 else 3
    assert n_made == sum(len(one.sweeps) for one in clean.searches) - intact


def test_those_of_another_table_or_of_other_settings_are_not_used(
    clean, hasty, tmp_path, monkeypatch, caplog
) -> None:
    left_behind(Checkpoints(tmp_path / "of-another"), monkeypatch)
    n_clean = sum(len(one.sweeps) for one in clean.searches)
    found, n_made = read_back(Checkpoints(tmp_path / "key"), monkeypatch)
    same_searches(found, clean)
    assert n_made == n_clean
    assert not caplog.messages
    (tmp_path / "of-another").rename(tmp_path / "by-hand")
    found, n_made = read_back(Checkpoints(tmp_path / "by-hand"), monkeypatch)
    same_searches(found, clean)
    assert n_made == n_clean
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(said) == 2
    assert all(
        one.endswith("the checkpoint is of a search of other rows, settings or seed")
        for one in said
    )


def test_a_disk_that_is_full_stops_no_search(hasty, tmp_path, monkeypatch, caplog) -> None:
    (tmp_path / "key" / "search-1.safetensors" / "in the way").mkdir(parents=True)
    one = SHORT.model_copy(update={"penalties": (0.1,)})
    found, _ = read_back(Checkpoints(tmp_path / "key"), monkeypatch, one)
    same_searches(found, search_by_probabilities(one, material_of()))
    said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert sum("the work goes on without this checkpoint" in one for one in said) == 2


def test_without_a_store_none_are_written(monkeypatch) -> None:
    begun = []
    monkeypatch.setattr(Checkpoints, "begin", begun.append)
    options = {"method": SHORT, "model": chaffinch.ModelSettings(name="linear", tuning="none")}
    chaffinch.select(good_table(200), "churned", **options)
    assert not begun
