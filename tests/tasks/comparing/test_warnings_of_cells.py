"""Warnings of libraries inside a cell are collected there, and nowhere else."""

import threading
import warnings

import numpy as np
import pytest

from chaffinch.tasks.comparing.library_warnings import collected_warnings

OVERFLOW = "numbers overflowed, were divided by zero, or came to no number"


def warn_from(module: str, category: type[Warning], message: str = "odd") -> None:
    warnings.warn_explicit(message, category, f"{module}.py", 1, module=module)


def test_each_kind_is_heard_once_in_words() -> None:
    with collected_warnings() as found:
        for _ in range(3):
            np.float64(1) / np.float64(0)
            warn_from("library.part", UserWarning, "too narrow.\nmore")
    assert found == {OVERFLOW, "a library warned (UserWarning: too narrow)"}


def test_what_speaks_of_later_releases_is_not_passed_on() -> None:
    with collected_warnings() as found:
        warn_from("library", FutureWarning)
    assert found == set()


@pytest.mark.parametrize("category", [UserWarning, RuntimeWarning, FutureWarning])
def test_what_we_warn_of_ourselves_stays_an_error_in_tests(category) -> None:
    with collected_warnings() as found, pytest.raises(category):
        warn_from("chaffinch.tasks.pipeline.search", category)
    assert found == set()


def test_afterwards_everything_is_as_before() -> None:
    before = list(warnings.filters), warnings.showwarning
    with pytest.raises(ZeroDivisionError), collected_warnings():
        _ = 1 / 0
    assert (list(warnings.filters), warnings.showwarning) == before
    with pytest.raises(UserWarning):
        warn_from("library", UserWarning)


def test_the_inner_of_two_hears_it() -> None:
    with collected_warnings() as outer:
        with collected_warnings() as inner:
            warn_from("library", UserWarning, "first")
        warn_from("library", UserWarning, "second")
    assert inner == {"a library warned (UserWarning: first)"}
    assert outer == {"a library warned (UserWarning: second)"}


def test_threads_that_listen_at_once_hear_their_own_and_leave_nothing_behind() -> None:
    before = list(warnings.filters), warnings.showwarning
    both, first_left = threading.Barrier(2), threading.Event()
    found: dict[str, set[str]] = {}

    def listen(name: str, *, leaves_first: bool) -> None:
        with collected_warnings() as found[name]:
            both.wait(10)
            warn_from("library", UserWarning, name)
            both.wait(10)
            if not leaves_first:
                first_left.wait(10)
                warn_from("library", UserWarning, f"{name} alone")
        first_left.set()

    threads = [
        threading.Thread(target=listen, args=(name,), kwargs={"leaves_first": name == "one"})
        for name in ("one", "two")
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found["one"] == {"a library warned (UserWarning: one)"}
    assert found["two"] == {
        "a library warned (UserWarning: two)",
        "a library warned (UserWarning: two alone)",
    }
    assert (list(warnings.filters), warnings.showwarning) == before
