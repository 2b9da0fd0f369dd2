"""Arrays and a few words as bytes: safetensors, which executes nothing, with a seal over all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SEAL = "sha256"


def sealed(tensors: Mapping[str, NDArray[Any]], words: Mapping[str, str]) -> bytes:
    """Return arrays and words as bytes, of which `unsealed` tells whether they were changed."""
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return bytes(save(whole, metadata={**words, _SEAL: _digest(whole, words)}))


def unsealed(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str], bool]:
    """Return what `sealed` made bytes of, and whether they are as they were.

    Raises
    ------
    ValueError
        If they are no arrays.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors, words = load(content), _words(content)
    except (SafetensorError, ValueError) as error:
        raise ValueError(str(error)) from error
    seal = words.pop(_SEAL, None)
    return tensors, words, seal == _digest(tensors, words)


def seal_of(content: bytes) -> str:
    """Return the seal of what `sealed` returned: 64 hexadecimal digits over arrays and words.

    Equal contents have one seal, while their bytes may differ: safetensors has words in any order.
    """
    return _words(content)[_SEAL]


def _words(content: bytes) -> dict[str, str]:
    length = int.from_bytes(content[:8], "little")
    words: dict[str, str] = json.loads(content[8 : 8 + length]).get("__metadata__", {})
    return words


def _digest(tensors: Mapping[str, NDArray[Any]], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
