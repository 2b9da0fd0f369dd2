"""torch as it is by default, wherever it is asked for.

Inside a caller's `torch.no_grad()` or `torch.inference_mode()` nothing is recorded that a gradient
could be taken of; inside `torch.autocast` layers compute in fewer bits; after
`torch.set_default_device` tensors are made on a device that the rows are not on, or that is not
there. All these hold for the Python thread, and come back. So does the type of
`torch.set_default_dtype`, which holds for all threads of the process.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def torch_by_default() -> Iterator[None]:
    """Let torch record gradients, and make tensors in float32 on the CPU, and compute in theirs.

    What the caller set comes back.
    """
    import torch

    with (
        made_on_the_cpu(),
        _made_in_float32(),
        _computed_as_made(),
        torch.inference_mode(mode=False),
        torch.enable_grad(),
    ):
        yield


@contextmanager
def made_on_the_cpu() -> Iterator[None]:
    """Let torch make tensors on the CPU where no device is named; the caller's device comes back.

    Where it does so anyway nothing is set, as that would cost a step of training a third.
    """
    import torch

    if _makes_on_the_cpu():
        yield
        return
    with torch.device("cpu"):
        yield


@contextmanager
def _made_in_float32() -> Iterator[None]:
    import torch

    given = torch.get_default_dtype()
    if given == torch.float32:
        yield
        return
    torch.set_default_dtype(torch.float32)
    try:
        yield
    finally:
        torch.set_default_dtype(given)


@contextmanager
def _computed_as_made() -> Iterator[None]:
    """Let torch compute in the type of its tensors; nothing is set where it does so anyway."""
    import torch

    with ExitStack() as stack:
        for kind in ("cpu", "cuda"):
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _makes_on_the_cpu() -> bool:
    import torch

    try:
        return torch.empty(0).device.type == "cpu"
    except (AssertionError, RuntimeError):  # a device that is not there
        return False
