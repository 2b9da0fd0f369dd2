"""Numeric work has one thread as long as it lasts, and no number of threads is lost afterwards."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import scipy.linalg  # noqa: F401 - has a BLAS of its own, beside numpy's
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from chaffinch.tasks.selection.models.threads import single_thread, single_torch_thread

FORMER = 3


def of_blas() -> set[int]:
    return {found["num_threads"] for found in threadpool_info() if found["user_api"] == "blas"}


def of_torch() -> set[int]:
    return {torch.get_num_threads()}


both = pytest.mark.parametrize(
    ("limit", "number"), [(single_thread, of_blas), (single_torch_thread, of_torch)]
)


@pytest.fixture(autouse=True)
def _three_threads():
    before = torch.get_num_threads()
    with threadpool_limits(limits=FORMER, user_api="blas"):
        torch.set_num_threads(FORMER)
        yield
    torch.set_num_threads(before)


class InThread:
    """A thread that enters a limit and leaves it when told to."""

    def __init__(self, limit: Callable[[], AbstractContextManager[None]], number) -> None:
        self._limit, self._number = limit, number
        self._is_in, self._leave = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_in.wait(60)

    def _run(self) -> None:
        with self._limit():
            self._is_in.set()
            assert self._leave.wait(60)
            self.inside = self._number()
        self.outside = self._number()

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(60)


@both
@pytest.mark.parametrize("first_out", [0, 1])
def test_threads_that_overlap_give_the_number_back(limit, number, first_out: int) -> None:
    threads = [InThread(limit, number), InThread(limit, number)]
    threads[first_out].leave()
    threads[1 - first_out].leave()
    assert [thread.inside for thread in threads] == [{1}, {1}]
    assert threads[1 - first_out].outside == {FORMER}
    assert number() == {FORMER}
    after = InThread(limit, number)
    after.leave()
    assert after.outside == {FORMER}


@both
def test_a_limit_in_a_limit_ends_with_the_outer_one(limit, number) -> None:
    other = InThread(limit, number)
    with limit():
        with limit():
            assert number() == {1}
        assert number() == {1}
        other.leave()
        assert number() == {1}
    assert number() == {FORMER}


@both
def test_an_error_inside_gives_the_number_back(limit, number) -> None:
    with pytest.raises(KeyboardInterrupt), limit():
        raise KeyboardInterrupt
    assert number() == {FORMER}


def test_a_limit_that_ends_meanwhile_has_the_last_word() -> None:
    before = of_blas()
    with threadpool_limits(limits=2, user_api="blas"):
        other = InThread(single_thread, of_blas)
        assert of_blas() == {1}
    other.leave()
    assert of_blas() == before == {FORMER}


def test_a_forked_child_does_not_wait_for_the_threads_of_its_parent() -> None:
    other = InThread(single_thread, of_blas)
    child = os.fork()
    if not child:
        with single_thread():
            inside = of_blas()
        os._exit(0 if (inside, of_blas()) == ({1}, {FORMER}) else 1)
    _, status = os.waitpid(child, 0)
    other.leave()
    assert os.waitstatus_to_exitcode(status) == 0
