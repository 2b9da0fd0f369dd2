"""An engine that several threads ask, that a forked child asks, or that is copied."""

from __future__ import annotations

import copy
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from chaffinch.tasks.selection.core import MaskedLoss, Rows, Schema
from chaffinch.tasks.selection.losses import resolve_loss
from chaffinch.tasks.selection.masked_loss import BlackBox, MaskEvaluator, masked_loss
from chaffinch.tasks.selection.masked_loss.base import Threads
from chaffinch.tasks.selection.models import fit

pytestmark = pytest.mark.usefixtures("one_thread")

D = 12
SCHEMA = Schema(tuple(f"x{j}" for j in range(D)), (0,) * D)
LOSS = resolve_loss("squared_error", SCHEMA)
X = np.random.default_rng(0).normal(size=(8000, D))
ROWS = Rows(X, X.sum(axis=1) + X[:, 0] * X[:, 1])
MODELS = {
    name: fit(name, ROWS.take(slice(500)), SCHEMA, parameters, seed=0)
    for name, parameters in (
        ("lightgbm", {"n_estimators": 40}),
        ("mlp", {"hidden_layer_sizes": [8], "max_iter": 2}),
        ("linear", {}),
    )
}
KINDS = ["lightgbm", "mlp", "linear", "black box"]


def engine_of(kind: str, threads: int) -> MaskedLoss:
    if kind == "black box":
        return BlackBox(MaskEvaluator(MODELS["linear"], ROWS.take(slice(300)), LOSS, np.zeros(D)))
    return masked_loss(MODELS[kind], ROWS, LOSS, np.zeros(D), threads=threads)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_two_threads_are_answered_as_one_is(kind: str, threads: int) -> None:
    for _ in range(4):
        alone, shared = engine_of(kind, 1), engine_of(kind, threads)
        for feature in (1, 5, 7):
            alone.remove(feature)
            shared.remove(feature)
        both = threading.Barrier(2)

        def ask(engine=shared, both=both):
            both.wait()
            return engine.without_each().tolist()

        with ThreadPoolExecutor(2) as pool:
            first, second = pool.submit(ask), pool.submit(ask)
        expected = alone.without_each().tolist()
        assert first.result() == second.result() == expected
        assert shared.without_each().tolist() == expected


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_child_goes_on_by_itself(kind: str, threads: int) -> None:
    engine, parent = engine_of(kind, threads), engine_of(kind, threads)
    engine.without_each()
    engine.remove(3)
    parent.remove(3)
    parent.remove(4)
    expected = parent.without_each().tolist()
    child = os.fork()
    if child == 0:
        same = False
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(5)  # a child that waits for threads it has not would wait for ever
            engine.remove(4)
            same = engine.without_each().tolist() == expected
        finally:
            os._exit(0 if same else 1)
    assert os.waitpid(child, 0)[1] == 0
    engine.remove(4)
    assert engine.without_each().tolist() == expected


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy])
@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_goes_its_own_way(kind: str, make_copy) -> None:
    engine = engine_of(kind, 2)
    engine.remove(3)
    before = engine.without_each().tolist()
    other = make_copy(engine)
    assert other.without_each().tolist() == before
    other.remove(4)
    assert engine.mask[4]
    assert engine.without_each().tolist() == before
    engine.remove(4)
    assert engine.without_each().tolist() == other.without_each().tolist()


def test_threads_that_are_left_at_work_are_waited_for() -> None:
    threads, done = Threads(2), []
    goes_on = threading.Event()

    def work(piece: int) -> None:
        if piece == 0:
            raise KeyboardInterrupt
        goes_on.wait(5)
        done.append(piece)

    threading.Timer(0.2, goes_on.set).start()
    with pytest.raises(KeyboardInterrupt):
        threads.each(work, [0, 1, 2])
    assert sorted(done) == [1, 2]
    threads.each(done.append, [3, 4])
    assert sorted(done) == [1, 2, 3, 4]
