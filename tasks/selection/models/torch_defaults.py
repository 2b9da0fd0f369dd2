"""torch as it is by default, wherever it is asked for.

Inside a caller's `torch.no_grad()` or `torch.inference_mode()` nothing is recorded that a gradient
could be taken of; after `torch.set_default_device` tensors are made on a device that the rows are
not on, or that is not there. All these hold for the Python thread, and come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def torch_by_default() -> Iterator[None]:
    """Let torch record gradients and make tensors on the CPU; what the caller set comes back."""
    import torch

    with made_on_the_cpu(), torch.inference_mode(mode=False), torch.enable_grad():
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


def _makes_on_the_cpu() -> bool:
    import torch

    try:
        return torch.empty(0).device.type == "cpu"
    except (AssertionError, RuntimeError):  # a device that is not there
        return False
