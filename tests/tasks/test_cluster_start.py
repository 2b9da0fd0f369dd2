"""A local cluster costs seconds to start, so it is started only for work that takes longer."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from chaffinch.tasks.cluster import OverDask, over_dask
from chaffinch.tasks.selection.losses import Loss
from chaffinch.tasks.selection.masked_loss.black_box import BlackBox, MaskEvaluator
from chaffinch.tasks.selection.models import fit
from chaffinch.tasks.selection.vocabulary import Rows, Schema


def process_of(seconds: float, item: int) -> tuple[int, int]:
    time.sleep(seconds)
    return item, os.getpid()


def thread_of(seconds: float, item: int) -> tuple[int, str]:
    time.sleep(seconds)
    return item, threading.current_thread().name


@pytest.fixture
def connect():
    """Connect to two workers of this process, started at the first call."""
    from distributed import Client, LocalCluster

    opened = []

    def start():
        cluster = LocalCluster(
            n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
        )
        opened.extend([cluster, Client(cluster, set_as_default=False)])
        return opened[-1]

    yield start
    for closing in reversed(opened):
        closing.close()


def never():
    raise AssertionError("the cluster was started")


def test_short_work_starts_no_cluster():
    told = []
    results = OverDask(never, seconds_to_start=60).map(
        process_of, 0.0, range(5), lambda *count: told.append(count)
    )
    assert results == [(item, os.getpid()) for item in range(5)]
    assert told == [(done, 5) for done in range(1, 6)]


def test_the_rest_of_long_work_goes_to_the_cluster_in_order(connect):
    workers = OverDask(connect, seconds_to_start=0.2)
    told = []
    results = workers.map(process_of, 0.05, range(12), lambda *count: told.append(count))
    assert [item for item, _ in results] == list(range(12))
    assert told[0] == (1, 12)
    assert told[-1] == (12, 12)
    assert told == sorted(set(told))
    assert workers.is_worth_it(0.0), "the cluster was started"


def test_a_long_item_that_has_begun_goes_on_here_beside_the_cluster(connect):
    workers = OverDask(connect, seconds_to_start=0.05)
    results = workers.map(thread_of, 0.5, range(3))
    assert [item for item, _ in results] == [0, 1, 2]
    threads = [thread for _, thread in results]
    assert len(set(threads)) == 3


def test_an_error_of_an_item_stops_the_others():
    def fail(done: list[int], item: int) -> None:
        done.append(item)
        time.sleep(0.02)
        raise ValueError(f"item {item} is bad")

    done: list[int] = []
    with pytest.raises(ValueError, match="item 0 is bad"):
        OverDask(never, seconds_to_start=60).map(fail, done, range(50))
    assert len(done) < 5


def test_no_items_need_no_cluster():
    assert OverDask(never, seconds_to_start=1).map(process_of, 0.0, []) == []


def test_masks_stay_until_they_have_taken_as_long_as_a_start():
    random = np.random.default_rng(0)
    X = random.standard_normal((60, 4))
    rows, schema = Rows(X, X[:, 0]), Schema(tuple("abcd"), (0,) * 4)
    model = fit("lightgbm", rows, schema, {"n_estimators": 5}, seed=0)
    evaluator = MaskEvaluator(model, rows, Loss("squared_error", "regression"), X.mean(axis=0))
    masks = random.random((10, 4)) < 0.5
    patient = over_dask(BlackBox(evaluator), OverDask(never, seconds_to_start=60))
    assert np.array_equal(patient(masks), BlackBox(evaluator)(masks))
    assert patient.loss == BlackBox(evaluator).loss
