"""Tensors of torch as somebody hands them over, where an array is asked for."""

from __future__ import annotations

import sys
from typing import Any


def check_tensor(given: Any, name: str, whole: str | None = None) -> None:
    """Refuse a tensor of torch of which numpy makes no array.

    Parameters
    ----------
    given : object
        Whatever was given.
    name : str
        What it is called in the message.
    whole : str, optional
        What makes one tensor of it, if it is a part of what was given.

    Raises
    ------
    ValueError
        If it is sparse, has gradients, or is of bfloat16.
    """
    torch = sys.modules.get("torch")  # where it is not loaded, there are no tensors
    if torch is None or not isinstance(given, torch.Tensor):
        return
    for is_so, kind, method in (
        (given.layout != torch.strided, "sparse tensor", "to_dense"),
        (given.requires_grad, "tensor with gradients", "detach"),
        (given.dtype == torch.bfloat16, "tensor of bfloat16", "float"),
    ):
        if is_so:
            raise ValueError(f"{name} must be no {kind}; give {whole or name}.{method}()")
