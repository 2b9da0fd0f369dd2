"""Numbers of threads that do not change results, and torch with its defaults.

The number of threads of BLAS, and of torch, is a global setting of the process; OpenMP has a number
for each Python thread. If several of these work here, the last to leave restores the settings of
the process from before the first.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from joblib import cpu_count

# With fewer values to each thread a fit takes more CPU time, and on busy cores also more time:
# LightGBM on two threads takes 2.3 times the CPU seconds of one at 10,000 values, 1.15 times at a
# million, 1.08 times at two million.
_VALUES_PER_THREAD = 1_000_000


def threads_for(n_values: int) -> int:
    """Return how many threads to fit that many values with: as many as are worth it, up to `cores`.

    For work that gives the same bits on any number of threads only.
    """
    return max(1, min(cores(), n_values // _VALUES_PER_THREAD))


def cores() -> int:
    """Return the cores that this process may use: OMP_NUM_THREADS, or its affinity and quota."""
    n_threads = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(n_threads) if n_threads.isdigit() and int(n_threads) else int(cpu_count())


class _SingleThread:
    """Libraries that use one thread as long as some call in the process holds them to it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a signal's handler may take it in the same thread
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
                self._restore_if_last()

    def _restore_if_last(self) -> None:
        if not self._holders:
            for library, number in reversed(self._former):
                _set(library, number)
            self._former = []

    def _forget_others(self) -> None:
        """Forget holders that do not exist here: a forked child has one of its parent's threads."""
        self._lock, here = threading.RLock(), threading.get_ident()
        self._holders = {holder: at for holder, at in self._holders.items() if at == here}
        self._restore_if_last()


def _set(library: Any, number: int) -> None:
    """Set a library's number of threads, whichever Python thread set it before."""
    # threadpoolctl lets only one of them set OpenBLAS's, and ignores the others: of these one may
    # come first or leave last
    forget = getattr(library, "clear_controlling_thread", None)
    if forget is not None:
        forget(force=True)
    library.set_num_threads(number)
    if forget is not None:
        forget(force=True)


class _Torch:
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
    """Let torch use one thread; the former number comes back."""
    # once a number has been set, torch's BLAS uses that one and no longer `single_thread`
    with _of_torch.held([_torch]):
        yield


@functools.lru_cache(maxsize=1)
def _controllers(n_modules: int) -> tuple[Any, Any]:
    """Find the libraries that have threads; 3 ms, so only again after an import."""
    from threadpoolctl import ThreadpoolController

    every = ThreadpoolController()
    return every.select(user_api="openmp"), every.select(user_api="blas")


@contextmanager
def torch_by_default() -> Iterator[None]:
    """Let torch record gradients, in float32 and on the CPU; the caller's settings come back.

    Inside a caller's `torch.no_grad()` or `torch.inference_mode()` nothing is recorded that a
    gradient could be taken of; inside `torch.autocast` layers compute in fewer bits; after
    `torch.set_default_device` tensors are made on a device that the rows are not on, or that is not
    there. All these hold for the Python thread, and come back. So does the type of
    `torch.set_default_dtype`, which holds for all threads of the process.
    """
    import torch

    with (
        made_on_the_cpu(),
        _float32_as_default(),
        _precision_of_tensors(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
    ):
        yield


@contextmanager
def made_on_the_cpu() -> Iterator[None]:
    """Let torch make tensors on the CPU if no device is named; the caller's device comes back."""
    # where it does so anyway nothing is set, as that would cost a step of training a third
    import torch

    if _is_cpu_default():
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def _float32_as_default() -> Iterator[None]:
    import torch

    dtype = torch.get_default_dtype()
    if dtype == torch.float32:
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)


@contextmanager
def _precision_of_tensors() -> Iterator[None]:
    """Let torch compute in the type of its tensors; nothing is set where it does so anyway."""
    import torch

    if not torch.is_autocast_enabled("cpu"):
        yield
        return
    with torch.autocast("cpu", enabled=False):
        yield


def _is_cpu_default() -> bool:
    import torch

    try:
        return torch.empty(0).device.type == "cpu"
    except (AssertionError, RuntimeError):  # a device that is not there
        return False
