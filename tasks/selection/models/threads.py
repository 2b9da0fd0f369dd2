"""One thread for numeric work, so that no result depends on how many there are.

How many threads BLAS uses is one number for the whole process, and so it is of torch; OpenMP has
one for each Python thread. Where several of these are at work here, the last one to leave gives
the numbers of the process back, as they were before the first one came.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class _SingleThread:
    """Libraries that use one thread as long as anyone in the process holds them to it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may ask for it amid its own thread
        self._former: list[tuple[Any, int]] = []  # a library, and its number of threads before
        self._holders: dict[object, int] = {}  # who holds them -> its Python thread
        os.register_at_fork(after_in_child=self._forget_others)

    @contextmanager
    def held(self, libraries: Sequence[Any]) -> Iterator[None]:
        """Hold libraries to one thread, each with `num_threads` and `set_num_threads`."""
        holder = object()
        try:
            with self._lock:
                known = [library for library, _ in self._former]
                new = [library for library in libraries if library not in known]
                self._former += [(library, library.num_threads) for library in new]
                self._holders[holder] = threading.get_ident()
                for library in libraries:
                    _set(library, 1)
            yield
        finally:
            with self._lock:
                self._holders.pop(holder, None)
                self._give_back_if_last()

    def _give_back_if_last(self) -> None:
        if not self._holders:
            for library, number in reversed(self._former):
                _set(library, number)
            self._former = []

    def _forget_others(self) -> None:
        """Forget who is not there any more: a forked child has one of its parent's threads."""
        self._lock, here = threading.RLock(), threading.get_ident()
        self._holders = {holder: at for holder, at in self._holders.items() if at == here}
        self._give_back_if_last()


def _set(library: Any, number: int) -> None:
    """Set a library's number of threads, whichever Python thread set it before.

    threadpoolctl lets but one of them set OpenBLAS's, and ignores the others: of these one may
    come first or leave last.
    """
    forget = getattr(library, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)
    library.set_num_threads(number)
    if forget is not None:
        forget(force=True)


class _Torch:
    """torch as one more library."""

    @property
    def num_threads(self) -> int:
        import torch

        return torch.get_num_threads()

    def set_num_threads(self, number: int) -> None:
        import torch

        torch.set_num_threads(number)


_blas, _of_torch, _torch = _SingleThread(), _SingleThread(), _Torch()


@contextmanager
def single_thread() -> Iterator[None]:
    """Let BLAS and OpenMP use one thread; the former numbers come back."""
    of_this_thread, of_the_process = _controllers(len(sys.modules))
    with of_this_thread.limit(limits=1), _blas.held(of_the_process.lib_controllers):
        yield


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Let torch use one thread; the former number comes back.

    Once a number has been set, torch's BLAS heeds that one and no longer `single_thread`.
    """
    with _of_torch.held([_torch]):
        yield


@functools.lru_cache(maxsize=1)
def _controllers(n_modules: int) -> tuple[Any, Any]:
    """Find the libraries that have threads; 3 ms, so only anew after something was imported."""
    from threadpoolctl import ThreadpoolController

    every = ThreadpoolController()
    return every.select(user_api="openmp"), every.select(user_api="blas")
