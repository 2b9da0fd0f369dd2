"""Workers: real schedulers and processes, the same numbers whoever computes, sudden death."""

from __future__ import annotations

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import dask
import numpy as np
import psutil
import pytest
from distributed import Future, Security
from distributed.comm.core import CommClosedError
from hypothesis import given
from hypothesis import strategies as st

from chaffinch.errors import InputError, WorkersError, as_input_error
from chaffinch.tasks.selection.core import FittedModel, Rows, Schema
from chaffinch.tasks.selection.elimination.bmo import eliminate
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss import masked_loss
from chaffinch.tasks.selection.masked_loss.distributed_rows import PartedLoss
from chaffinch.tasks.selection.masked_loss.row_blocks import nodes_of, root_of, runs_of_blocks
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.workers import dask_cluster, dask_map, distributed_masked_loss
from chaffinch.tasks.workers.dask_cluster import open_workers
from chaffinch.tasks.workers.interface import InProcess
from tests.flows.cli.programs import eventually

pytestmark = pytest.mark.xdist_group("dask")

RELEASED = "released"  # the file that lets items end


def add(shared: int, item: int) -> int:
    return shared + item


def too_large(shared: float, item: int) -> float:
    if item:
        raise ValueError("std::bad_alloc")  # as XGBoost has it
    return float(np.full(2**50, shared)[0])


@pytest.mark.parametrize("item", [0, 1])
def test_memory_that_runs_out_in_a_worker_is_told_as_that(two_workers, item: int) -> None:
    with pytest.raises(MemoryError, match=r"Unable to allocate|bad_alloc"), as_input_error():
        two_workers.map(too_large, 0.5, [item])


def process_id(shared: object, item: float) -> int:
    time.sleep(item)
    return os.getpid()


def n_known(dask_worker: object) -> int:
    """Return how many items a worker is at, or is to do."""
    return sum(task.state in ("executing", "ready") for task in dask_worker.state.tasks.values())


def touch(folder: str, item: int) -> None:
    """Say that an item is begun; all but the first are done only when they are told to be."""
    (Path(folder) / str(item)).touch()
    while item and not (Path(folder) / RELEASED).exists():
        time.sleep(0.01)


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


def test_the_scheduler_imports_nothing_that_only_workers_need(two_workers) -> None:
    two_workers.map(add, 10, [1, 2])
    client = two_workers.client
    assert all(client.run(lambda: __name__ in sys.modules).values())
    assert not client.run_on_scheduler(lambda: {__name__, "lightgbm", "sklearn"} & set(sys.modules))


@pytest.mark.parametrize("kind", ["in process", "dask"])
def test_results_come_as_they_are_done(two_workers, kind: str) -> None:
    workers = InProcess() if kind == "in process" else two_workers
    naps = [0.6] + [0.01] * 5
    done = list(workers.as_done(process_id, None, naps))
    assert sorted(number for number, _ in done) == list(range(6))
    assert (done[0][0] == 0) == (kind == "in process")
    assert list(workers.as_done(process_id, None, [])) == []


def test_what_is_handed_over_is_begun_before_anybody_asks(two_workers, tmp_path) -> None:
    results = two_workers.as_done(touch, str(tmp_path), [7])
    eventually(lambda: len(list(tmp_path.iterdir())) == 1)
    (tmp_path / RELEASED).touch()
    assert [number for number, _ in results] == [0]


@pytest.mark.parametrize("kind", ["in process", "dask"])
def test_what_nobody_waits_for_is_not_begun(two_workers, tmp_path, kind: str) -> None:
    workers = InProcess() if kind == "in process" else two_workers
    results = workers.as_done(touch, str(tmp_path), list(range(40)))
    next(results)
    results.close()
    if kind == "dask":
        eventually(lambda: sum(two_workers.client.run(n_known).values()) <= 2)
    (tmp_path / RELEASED).touch()
    assert workers.map(add, 1, list(range(20))) == list(range(1, 21))  # after all that was begun
    assert 1 <= len(set(tmp_path.iterdir()) - {tmp_path / RELEASED}) < 20


def test_a_worker_killed_in_the_middle_changes_nothing(two_workers, tmp_path) -> None:
    for way in ("map", "as_done"):
        marker = tmp_path / way
        found = getattr(two_workers, way)(die_once, str(marker), list(range(20)))
        found = dict(enumerate(found) if way == "map" else found)
        assert found == {i: i * i for i in range(20)}
        assert marker.exists()


CASES = [
    ("lightgbm", 0, "squared_error"),
    ("lightgbm", 3, "log_loss"),
    ("xgboost", 2, "log_loss"),
    ("RandomForestClassifier", 2, "log_loss"),
    ("mlp", 0, "absolute_error"),
    ("mlp", 3, "log_loss"),
    ("LogisticRegression", 2, "log_loss"),
    ("GradientBoostingRegressor", 0, "squared_error"),  # a black box
]
N_CATEGORIES = (0, 0, 4, 0, 0, 3, 0, 0, 0, 0)
Request = tuple[FittedModel, Rows, Loss, np.ndarray]


@functools.cache
def trained(name: str, n_classes: int, loss: str, n_rows: int = 3000) -> Request:
    """Return a model and the rows to ask about: 24 blocks of a forest, 6 of a network."""
    rng = np.random.default_rng(0)
    d = len(N_CATEGORIES)
    X = rng.normal(size=(n_rows + 300, d))
    for j in np.flatnonzero(N_CATEGORIES):
        X[:, j] = rng.integers(0, N_CATEGORIES[j], len(X))
    y = X[:, 0] + X[:, 1] ** 2 + (X[:, 2] == 1) + rng.normal(0, 0.5, len(X))
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    parameters = {
        "mlp": {"max_iter": 4, "hidden_layer_sizes": [7, 5]},
        "LogisticRegression": {"max_iter": 2000},
    }
    settings = parameters.get(name, {"n_estimators": 10})
    schema = Schema(tuple(f"x{j}" for j in range(d)), N_CATEGORIES, n_classes)
    model = fit(name, Rows(X[:300], y[:300]), schema, settings, seed=0)
    weight = rng.uniform(0.5, 2, n_rows)
    of = Loss(loss, schema.task)
    baseline = np.where(np.array(N_CATEGORIES) > 0, 1.0, X[:300].mean(axis=0))
    return model, Rows(X[300:], y[300:], weight), of, baseline


@pytest.fixture
def always_spread(monkeypatch) -> None:
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_BATCH", -1.0)
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_STEP", -1.0)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def test_masked_losses_are_the_same_to_the_last_bit(two_workers, always_spread, case) -> None:
    asked = trained(*case)
    here = InProcess().masked_loss(*asked)
    there = two_workers.masked_loss(*asked)
    assert type(there).__name__ == ("BlackBox" if "Boosting" in case[0] else "PartedLoss")
    masks = np.random.default_rng(1).random((5, 10)) < 0.6
    assert there(masks).tolist() == here(masks).tolist()
    assert there.without_each().tolist() == here.without_each().tolist()
    assert eliminate(there) == eliminate(here)
    assert there.mask.tolist() == here.mask.tolist()
    assert there.loss == here.loss


@pytest.mark.parametrize("n_workers", [1, 3])
@pytest.mark.e2e
def test_nor_does_the_number_of_workers_change_a_bit(always_spread, n_workers) -> None:
    with open_workers("local", n_workers) as workers:
        for case in CASES[1], CASES[5]:
            model, rows, loss, baseline = trained(*case)
            threaded = masked_loss(model, rows, loss, baseline, threads=3)
            there = workers.masked_loss(model, rows, loss, baseline)
            assert isinstance(there, PartedLoss)
            assert eliminate(there) == eliminate(threaded)


@pytest.mark.parametrize("n_rows", [1, 128, 129, 700])
def test_nor_do_few_rows(two_workers, always_spread, n_rows) -> None:
    model, rows, loss, baseline = trained(*CASES[0])
    few = rows.take(np.arange(n_rows))
    there = two_workers.masked_loss(model, few, loss, baseline)
    assert eliminate(there) == eliminate(masked_loss(model, few, loss, baseline))


@pytest.mark.parametrize(
    ("case", "n_workers"), [(CASES[0], 2), (CASES[5], 2)], ids=["trees", "network"]
)
@pytest.mark.e2e
def test_a_worker_killed_between_removals_changes_no_bit(always_spread, case, n_workers) -> None:
    asked = trained(*case)
    expected = eliminate(InProcess().masked_loss(*asked))
    with open_workers("local", n_workers) as workers:
        there = workers.masked_loss(*asked)
        killed = []

        def kill_one(done: int, total: int) -> None:
            if done in (2, 5):
                pids = workers.map(process_id, None, [0.01] * 4)
                os.kill(pids[0], signal.SIGKILL)
                killed.append(pids[0])

        assert eliminate(there, on_removal=kill_one) == expected
        assert len(set(killed)) == 2


@pytest.mark.e2e
def test_a_worker_killed_while_it_computes_changes_no_bit(always_spread) -> None:
    asked = trained(*CASES[0], n_rows=20_000)
    expected = eliminate(InProcess().masked_loss(*asked))
    with open_workers("local", 2) as workers:
        there = workers.masked_loss(*asked)
        pid = workers.map(process_id, None, [0.0])[0]
        killer = threading.Timer(0.05, os.kill, (pid, signal.SIGKILL))
        killer.start()
        assert eliminate(there) == expected
        killer.join()


def test_small_problems_stay_in_this_process(two_workers, caplog, monkeypatch) -> None:
    monkeypatch.setattr(
        distributed_masked_loss, "_WORTH_A_BATCH", 60.0
    )  # whatever else this machine does
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_STEP", 60.0)
    for way in ("for_each", "for_batches"):
        monkeypatch.setattr(two_workers, way, lambda *_: pytest.fail("it was sent away"))
    with caplog.at_level(logging.DEBUG, "chaffinch"):
        for case in CASES[0], CASES[5], CASES[7]:
            few = trained(*case, n_rows=100)
            assert eliminate(two_workers.masked_loss(*few)) == eliminate(
                InProcess().masked_loss(*few)
            )
    assert "stay in this process: that is less than it takes to ask the workers" in caplog.text


def test_one_mask_alone_stays_as_nobody_could_share_it(two_workers, always_spread) -> None:
    asked = trained(*CASES[7])
    there, here = two_workers.masked_loss(*asked), InProcess().masked_loss(*asked)
    assert there.without_each().tolist() == here.without_each().tolist()  # sent there
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(two_workers, "map_batches", lambda *_: pytest.fail("it was sent away"))
        for mask in ~np.eye(10, dtype=bool):
            assert there(mask[np.newaxis]).tolist() == here(mask[np.newaxis]).tolist()


@pytest.mark.parametrize(
    ("name", "loss"), [("lightgbm", "r2"), ("linear", "squared_error")], ids=["scorer", "linear"]
)
def test_what_does_not_add_up_rows_stays_as_well(
    two_workers, always_spread, caplog, name, loss
) -> None:
    asked = trained(*CASES[0])
    if name == "linear":
        model = fit(name, asked[1], asked[0].schema, {}, seed=0)
        asked = (model, *asked[1:])
    asked = (asked[0], asked[1], Loss(loss, "regression"), asked[3])
    with caplog.at_level(logging.DEBUG, "chaffinch"):
        there = two_workers.masked_loss(*asked)
    assert "stay in this process: their engine does not add up rows" in caplog.text
    assert eliminate(there) == eliminate(InProcess().masked_loss(*asked))


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_rows_that_no_engine_covers_are_found_wherever_they_are(
    two_workers, always_spread, monkeypatch, caplog
) -> None:
    monkeypatch.setattr(distributed_masked_loss, "_ROWS_TO_TIME", 512)
    model, rows, loss, baseline = trained(*CASES[4])
    X = rows.X.copy()
    X[-1, 0] = np.inf
    rows = Rows(X, rows.y, rows.weight)
    with pytest.raises(ValueError, match="absolute_error must be finite"):
        InProcess().masked_loss(model, rows, loss, baseline).without_each()
    with caplog.at_level(logging.DEBUG, "chaffinch"):
        there = two_workers.masked_loss(model, rows, loss, baseline)
    assert "by one prediction each: an encoded value is not finite" in caplog.text
    with pytest.raises(ValueError, match="absolute_error must be finite"):
        there.without_each()


def test_rows_that_take_longer_to_send_than_a_walk_would_gain_stay(
    two_workers, caplog, monkeypatch
) -> None:
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_BATCH", 0.0)
    monkeypatch.setattr(distributed_masked_loss, "_WORTH_A_STEP", 0.0)
    monkeypatch.setattr(distributed_masked_loss, "_BYTES_A_SECOND", 1.0)
    asked = trained(*CASES[0])
    with caplog.at_level(logging.DEBUG, "chaffinch"):
        there = two_workers.masked_loss(*asked)
    assert "would take longer than a walk would gain" in caplog.text
    assert eliminate(there) == eliminate(InProcess().masked_loss(*asked))


@given(data=st.data())
def test_sums_do_not_depend_on_the_runs_of_blocks(data) -> None:
    n_blocks = data.draw(st.integers(1, 70))
    sums = np.random.default_rng(n_blocks).normal(size=(n_blocks, 3)) * 10.0 ** (n_blocks % 7)
    whole = root_of([nodes_of(sums.copy(), 0, n_blocks)], n_blocks)
    np.testing.assert_allclose(whole, sums.sum(axis=0), atol=1e-6)
    cuts = data.draw(st.sets(st.integers(1, n_blocks)))
    bounds = sorted({0, n_blocks} | cuts)
    runs = [nodes_of(sums[a:b].copy(), a, n_blocks) for a, b in pairwise(bounds)]
    assert root_of(runs, n_blocks).tolist() == whole.tolist()
    for run in runs:
        assert len(run) <= 2 * n_blocks.bit_length()
    for n_runs in (1, 2, 3, 8):
        shared = runs_of_blocks(n_blocks, n_runs)
        assert len(shared) == min(n_runs, len(shared))
        assert [a for a, _ in shared] + [n_blocks] == [0] + [b for _, b in shared]


@pytest.mark.e2e
def test_the_only_worker_killed_changes_nothing_either(tmp_path) -> None:
    marker = str(tmp_path / "died")
    with open_workers("local", 1) as workers:
        assert workers.map(die_once, marker, list(range(20))) == [i * i for i in range(20)]
    assert Path(marker).exists()


@pytest.mark.e2e
def test_work_that_kills_every_worker_is_said_so() -> None:
    with (
        open_workers("local", 1) as workers,
        pytest.raises(WorkersError, match="the batch from item 0 of 1 killed every worker"),
    ):
        workers.map(die, None, [0])


@pytest.mark.e2e
def test_a_scheduler_by_its_address() -> None:
    with scheduler_and_worker() as address, open_workers(address) as workers:
        assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]


@pytest.mark.e2e
def test_a_scheduler_with_tls_takes_those_with_its_certificates_only(tmp_path) -> None:
    made = Security.temporary()
    (tmp_path / "cert").write_text(made.tls_ca_file)
    (tmp_path / "key").write_text(made.tls_client_key)
    files = {"ca-file": "cert", "cert": "cert", "key": "key"}
    options = [part for key, name in files.items() for part in (f"--tls-{key}", tmp_path / name)]
    names = {"ca-file": "cert", "client.cert": "cert", "client.key": "key"}
    with scheduler_and_worker("tls://127.0.0.1", *options) as address:
        assert address.startswith("tls://")
        with dask.config.set(
            {f"distributed.comm.tls.{k}": str(tmp_path / v) for k, v in names.items()}
        ):
            with open_workers(address) as workers:
                assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]
            (tmp_path / "cert").write_text((other := Security.temporary()).tls_ca_file)
            (tmp_path / "key").write_text(other.tls_client_key)
            refused = pytest.raises(InputError, match="that takes the certificates in Dask's conf")
            with refused, open_workers(address):
                pytest.fail("it was opened")


@pytest.mark.e2e
def test_a_scheduler_without_workers_is_said_so(monkeypatch) -> None:
    monkeypatch.setattr(dask_cluster, "_SECONDS_TO_JOIN", 0.2)
    programs = scheduler_and_worker()
    with programs as address:
        programs.worker.terminate()
        programs.worker.wait(20)
        refused = pytest.raises(InputError, match="has no workers; start some with `dask worker")
        with refused, open_workers(address):
            pytest.fail("it was opened")


@pytest.mark.e2e
def test_a_scheduler_that_dies_is_said_so() -> None:
    programs = scheduler_and_worker()
    with programs as address, open_workers(address) as workers:
        workers.map(add, 1, [1])
        programs.scheduler.kill()
        with pytest.raises(WorkersError, match="the Dask scheduler went away"):
            workers.map(process_id, None, [0.1] * 20)


@pytest.mark.e2e
def test_a_connection_that_is_closed_meanwhile_is_said_so() -> None:
    with scheduler_and_worker() as address, open_workers(address) as workers:
        workers.map(add, 1, [1])
        client = workers.client
        client.sync(client._close)  # as it does itself, once the scheduler has been away for long
        for use in (workers.map, lambda *asked: [*workers.as_done(*asked)]):
            with pytest.raises(WorkersError, match=r"went away \(the connection is closed\)"):
                use(add, 1, [1])


def test_a_result_that_is_lost_on_its_way_is_computed_again(two_workers, monkeypatch) -> None:
    fetch, lost = Future.result, []

    def fetch_all_but_one(future: Future, timeout: float | None = None) -> list[int]:
        if not lost:
            lost.append(future.key)
            raise CommClosedError("in gather: Stream is closed")  # as when the scheduler dies
        return fetch(future, timeout)

    monkeypatch.setattr(Future, "result", fetch_all_but_one)
    assert two_workers.map(add, 10, [1, 2, 3]) == [11, 12, 13]
    assert lost


@pytest.mark.e2e
def test_a_local_scheduler_that_dies_as_it_starts_is_said_so() -> None:
    others = set(psutil.Process().children())

    def kill_the_scheduler() -> None:
        for _ in range(1000):
            for child in set(psutil.Process().children()) - others:
                if "scheduler" in " ".join(child.cmdline()):
                    child.kill()
                    return
            time.sleep(0.005)

    killer = threading.Thread(target=kill_the_scheduler)
    with open_workers("local", 1) as workers:
        killer.start()
        with pytest.raises(WorkersError, match=r"cluster did not start \(.*code -9\); finished"):
            workers.map(add, 1, [1])
    killer.join()


def die_amid_sending(worker: int) -> threading.Timer:
    """Freeze a worker, so that whatever is sent to it waits, and kill it a second later."""
    os.kill(worker, signal.SIGSTOP)
    killer = threading.Timer(1.0, os.kill, (worker, signal.SIGKILL))
    killer.start()
    return killer


@pytest.mark.e2e
def test_a_worker_killed_while_rows_are_sent_to_it_changes_nothing() -> None:
    with open_workers("local", 2) as workers:
        killer = die_amid_sending(workers.map(process_id, None, [0.0])[0])
        assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]
        killer.join()


@pytest.mark.e2e
def test_a_worker_killed_while_it_is_asked_for_its_versions_is_passed_over() -> None:
    with open_workers("local", 2) as workers:
        killer = die_amid_sending(workers.map(process_id, None, [0.0])[0])
        workers.check()
        killer.join()


@pytest.mark.e2e
def test_nor_does_the_only_one_of_a_scheduler() -> None:
    with scheduler_and_worker() as address, open_workers(address) as workers:
        killer = die_amid_sending(workers.map(process_id, None, [0.0])[0])
        assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]
        killer.join()


@pytest.mark.e2e
def test_where_no_worker_comes_back_it_is_said_so(monkeypatch) -> None:
    monkeypatch.setattr(dask_map, "_SECONDS_TO_RETURN", 1.0)
    programs = scheduler_and_worker()
    with programs as address, open_workers(address) as workers:
        (worker,) = workers.map(process_id, None, [0.0])
        programs.worker.kill()  # the nanny, which would start another
        killer = die_amid_sending(worker)
        with pytest.raises(WorkersError, match="no Dask worker came back within 1 s; finished"):
            workers.map(add, 1, [1, 2, 3])
        killer.join()


DIES_AS_IT_STARTS = """
import os, pathlib, signal, sys
if "spawn_main" in " ".join(sys.orig_argv):
    for life in pathlib.Path(__file__).parent.glob("life-*"):
        try:
            life.unlink()
        except FileNotFoundError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def killed_as_they_start(tmp_path, monkeypatch) -> Callable[[int], None]:
    """Return a function that has so many of the workers that start next killed at once."""

    def kill(n: int) -> None:
        (tmp_path / "sitecustomize.py").write_text(DIES_AS_IT_STARTS)
        for number in range(n):
            (tmp_path / f"life-{number}").touch()
        paths = [str(tmp_path), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))

    return kill


@pytest.mark.e2e
def test_what_a_worker_that_dies_as_it_starts_was_to_do_the_others_do(
    killed_as_they_start, caplog
) -> None:
    killed_as_they_start(1)
    with open_workers("local", 2) as workers:
        assert workers.map(add, 1, [1, 2, 3]) == [2, 3, 4]
    assert "1 of 2 workers started, the others died" in caplog.text


@pytest.mark.e2e
def test_where_no_worker_survives_its_start_it_is_said_so(killed_as_they_start) -> None:
    killed_as_they_start(2)
    said = pytest.raises(WorkersError, match=r"did not start \(no worker survived its start\)")
    with open_workers("local", 2) as workers, said:
        workers.map(add, 1, [1, 2, 3])


@pytest.mark.e2e
def test_a_script_needs_no_guard_around_its_main(tmp_path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from operator import add\n"
        "from chaffinch.tasks.workers.dask_cluster import open_workers\n"
        "with open_workers('local', 1) as workers:\n"
        "    print(workers.map(add, 1, [1, 2]))\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("[2, 3]\n", 0), done.stderr
    assert done.stderr == ""


class scheduler_and_worker:  # noqa: N801 - used as a context manager
    """A scheduler and one worker as programs of their own, as an operator starts them."""

    def __init__(self, host: str = "127.0.0.1", *options: str | Path) -> None:
        self.host, self.options = host, options

    def __enter__(self) -> str:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler", *self.options]
        options = ["--port", "0", "--no-dashboard", "--host", self.host]
        self.scheduler = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
        address = next(
            line.split()[-1] for line in self.scheduler.stderr if "Scheduler at:" in line
        )
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, *self.options]
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
from chaffinch.tasks.workers.dask_cluster import open_workers
def nap(shared, item):
    time.sleep(item)
    return os.getpid()
with open_workers("local", 1) as workers:
    print(os.getpid(), *workers.map(nap, None, [0.0]), flush=True)
    workers.map(nap, None, [60.0])
"""


@pytest.mark.e2e
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
