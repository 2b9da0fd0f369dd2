"""The devices that torch sees: which one is meant, and how much memory is free there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

_SHARE_OF_FREE_MEMORY = 0.8  # libraries take some for themselves, and so may others
_BYTES_ON_A_CPU = 1 << 30

_precision = threading.RLock()


def device_named(name: str) -> torch.device | None:
    """Return one of torch's devices, or None for ``"cpu"``, which needs no torch.

    Parameters
    ----------
    name : str
        ``"cpu"``, ``"cuda"`` for torch's present CUDA device, or ``"cuda:1"`` for one by number.

    Raises
    ------
    ValueError
        If there is no such device.
    """
    if name == "cpu":
        return None
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    numbered = [f"cuda:{i}" for i in range(count)]
    if count and name == "cuda":
        return torch.device("cuda", torch.cuda.current_device())
    if name in numbered:
        return torch.device(name)
    known = ", ".join(["cpu", *["cuda"][:count], *numbered])
    raise ValueError(
        f"device must be {'one of ' if count else ''}{known} but is {name!r}: "
        f"torch {torch.__version__} sees {count} CUDA devices"
    )


def usable_memory(device: torch.device) -> int:
    """Return how many bytes may be used on a device, a fixed number for a CPU."""
    import torch

    if device.type != "cuda":
        return _BYTES_ON_A_CPU
    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return int(_SHARE_OF_FREE_MEMORY * (free + kept))


@contextmanager
def whole_float32() -> Iterator[None]:
    """Let products of float32 keep its digits; TF32, if it was on in this process, comes back."""
    import torch

    products = torch.backends.cuda.matmul
    with _precision:
        before = products.fp32_precision
        if before != "tf32":
            yield
            return
        products.fp32_precision = "ieee"
        try:
            yield
        finally:
            products.fp32_precision = before
