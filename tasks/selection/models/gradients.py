"""Training by torch as it is by default, wherever it is asked for.

Inside a caller's `torch.no_grad()` or `torch.inference_mode()` nothing is recorded that a gradient
could be taken of; both hold for the Python thread, and come back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def gradients_recorded() -> Iterator[None]:
    """Let torch record gradients, also of what is made inside; the caller's mode comes back."""
    import torch

    with torch.inference_mode(mode=False), torch.enable_grad():
        yield
