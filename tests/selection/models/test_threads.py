"""One thread for whoever asks for it, and the former numbers back for everyone."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest
import torch
from threadpoolctl import ThreadpoolController

from chaffinch import masked_loss
from chaffinch.tasks.selection.models.runtime import single_thread, single_torch_thread


def blas() -> list:
    return ThreadpoolController().select(user_api="blas").lib_controllers


def of_blas() -> int:
    numbers = {library.num_threads for library in blas()}
    assert len(numbers) == 1
    return numbers.pop()


def set_blas(number: int) -> None:
    for library in blas():
        library.set_num_threads(number)
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(
                force=True
            )  # so that no thread is heeded before others


@pytest.fixture(autouse=True)
def _three_threads():
    former, of_torch = of_blas(), torch.get_num_threads()
    set_blas(3)
    torch.set_num_threads(3)
    yield
    set_blas(former)
    torch.set_num_threads(of_torch)


@pytest.mark.parametrize(
    ("single", "number"),
    [(single_thread, of_blas), (single_torch_thread, torch.get_num_threads)],
    ids=["BLAS", "torch"],
)
def test_who_overlaps_leaves_the_former_number(single, number) -> None:
    inside, go_on, seen = threading.Barrier(2), threading.Event(), []

    def first() -> None:
        with single():
            inside.wait(10)  # the other one comes while this one is here
            go_on.wait(10)  # and stays when this one has left
        inside.wait(10)

    thread = threading.Thread(target=first)
    thread.start()
    inside.wait(10)
    with single():
        seen.append(number())
        go_on.set()
        inside.wait(10)
        seen.append(number())
    thread.join()
    assert seen == [1, 1]
    assert number() == 3


def test_it_holds_inside_itself() -> None:
    with single_thread():
        with single_thread():
            assert of_blas() == 1
        assert of_blas() == 1
    assert of_blas() == 3


def test_a_forked_child_holds_what_its_own_thread_holds() -> None:
    inside, done = threading.Event(), threading.Event()

    def hold() -> None:
        with single_thread():
            inside.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait(10)
    children = [_told_by_a_child(lambda: of_blas() == 3)]
    with single_thread():
        children.append(_told_by_a_child(lambda: of_blas() == 1))
    done.set()
    thread.join()
    assert children == [True, True]
    assert of_blas() == 3


def _told_by_a_child(holds) -> bool:
    child = os.fork()
    if child == 0:
        is_so = False
        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(10)
            is_so = holds()
        finally:
            os._exit(0 if is_so else 1)
    return os.waitpid(child, 0)[1] == 0


def test_engines_that_two_threads_ask_leave_the_former_number() -> None:
    X = np.random.default_rng(0).normal(size=(400, 8))
    weights = np.arange(8.0)

    def ask() -> None:
        engine = masked_loss(lambda table: table @ weights, X, X[:, 0], loss="squared_error")
        for feature in range(6):
            engine.without_each()
            engine.remove(feature)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert of_blas() == 3
