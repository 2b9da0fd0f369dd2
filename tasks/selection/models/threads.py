"""One thread for numeric work, so that no result depends on how many there are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any


def single_thread() -> AbstractContextManager[Any]:
    """Return a context in which BLAS and OpenMP use one thread; the former number comes back."""
    return _controller(len(sys.modules)).limit(limits=1)  # type: ignore[no-any-return]


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Use one torch thread and give the former number back.

    Once a number has been set, torch's BLAS heeds that one and no longer `single_thread`.
    """
    import torch

    former = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(former)


@functools.lru_cache(maxsize=1)
def _controller(n_modules: int) -> Any:
    """Find the libraries that have threads; 3 ms, so only anew after something was imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
