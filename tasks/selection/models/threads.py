"""One thread for numeric work, so that no result depends on how many there are.

BLAS has one number of threads for the whole process. So threads that hold it at 1 at the same time
are counted: the first notes the former number, and the last that leaves gives it back. OpenMP and
torch have a number for each thread, and each thread gives back its own.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread in BLAS and OpenMP; the former number comes back, in BLAS with the last."""
    blas, openmp = _controllers(len(sys.modules))
    holder = _Holder()
    with openmp.limit(limits=1):
        try:
            _BLAS.hold(holder, blas)
            yield
        finally:
            _BLAS.let_go(holder)


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Use one torch thread and give the former number back.

    Once a number has been set, torch's BLAS heeds that one and no longer `single_thread`. A thread
    that is new to torch begins with the number that was set last in any thread: where that is the
    1 of a thread in here, the number noted before is given back.
    """
    import torch

    holder, former = _Holder(), torch.get_num_threads()
    try:
        former = _TORCH.hold(holder, former)
        torch.set_num_threads(1)
        yield
    finally:
        _TORCH.let_go(holder)
        torch.set_num_threads(former)


class _Holder:
    """One use of a context, by the thread that makes it."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()


class _Holders:
    """Those that hold a number at 1 at present.

    One that an interrupt kept from leaving is gone with its frame, and no longer counts.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._inside: weakref.WeakSet[_Holder] = weakref.WeakSet()

    def in_forked_child(self) -> None:
        """Forget the threads that a forked child does not have, and the lock that one may hold."""
        here = threading.get_ident()
        self._lock = threading.RLock()
        self._inside = weakref.WeakSet([each for each in self._inside if each.thread == here])


class _BLASHolders(_Holders):
    """Those that hold BLAS at one thread, and the numbers that it had before."""

    def __init__(self) -> None:
        super().__init__()
        self._former: dict[str, tuple[Any, int]] = {}

    def hold(self, holder: _Holder, libraries: Iterable[Any]) -> None:
        with self._lock:
            self._inside.add(holder)
            for library in libraries:
                number = library.num_threads
                if number != 1:
                    self._former[library.filepath] = library, number
                    _set_threads(library, 1)

    def let_go(self, holder: _Holder) -> None:
        with self._lock:
            self._inside.discard(holder)
            if not self._inside:
                for library, number in self._former.values():
                    if library.num_threads == 1:  # else another number was asked for meanwhile
                        _set_threads(library, number)
                self._former.clear()


def _set_threads(library: Any, number: int) -> None:
    """Set a library's number of threads, whichever thread set it before.

    threadpoolctl heeds one thread at a time for OpenBLAS. From another one it is taken, and left
    free, so that the other can set the number again when it ends its own limit.
    """
    leave_free = getattr(library, "clear_controlling_thread", None)  # the newest have it
    if leave_free is not None:
        leave_free(force=True)
    library.set_num_threads(number)
    if leave_free is not None:
        leave_free(force=True)


class _TorchHolders(_Holders):
    """Those that hold torch at one thread, and the number that new threads had before."""

    def __init__(self) -> None:
        super().__init__()
        self._former = 1

    def hold(self, holder: _Holder, number: int) -> int:
        """Return the number that a thread which has `number` now is to have afterwards."""
        with self._lock:
            is_first = not self._inside
            is_nested = any(each.thread == holder.thread for each in self._inside)
            self._inside.add(holder)
            if is_first:
                self._former = number
            return self._former if number == 1 and not is_nested else number

    def let_go(self, holder: _Holder) -> None:
        with self._lock:
            self._inside.discard(holder)


@functools.lru_cache(maxsize=1)
def _controllers(n_modules: int) -> tuple[list[Any], Any]:
    """Find the libraries that have threads; 3 ms, so only anew after something was imported.

    Those of BLAS come one by one, those of OpenMP together.
    """
    from threadpoolctl import ThreadpoolController

    found = ThreadpoolController()
    return found.select(user_api="blas").lib_controllers, found.select(user_api="openmp")


_BLAS, _TORCH = _BLASHolders(), _TorchHolders()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_BLAS.in_forked_child)
    os.register_at_fork(after_in_child=_TORCH.in_forked_child)
