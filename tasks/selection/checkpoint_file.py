"""Arrays and strings as bytes: safetensors, which executes no code, with a checksum."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError

_SEAL = "sha256"
_ALIGNED = 8  # bytes: alignment of arrays


def sealed(tensors: Mapping[str, NDArray[Any]], words: Mapping[str, str]) -> bytes:
    from safetensors.numpy import save

    whole = {name: np.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    return _in_order(bytes(save(whole, metadata={**words, _SEAL: _digest(whole, words)})))


def unsealed(content: bytes) -> tuple[dict[str, NDArray[Any]], dict[str, str], bool]:
    """Return the content of `sealed` bytes, and whether it is unchanged; may raise ValueError."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors, words = load(content), _words(content)
    except (SafetensorError, ValueError) as error:
        raise InputError(str(error)) from error
    seal = words.pop(_SEAL, None)
    return tensors, words, seal == _digest(tensors, words)


def _in_order(content: bytes) -> bytes:
    """Return the bytes with the header's strings sorted; safetensors writes them in any order."""
    header, end = _header(content)
    written = json.dumps(header, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    padded = written + b" " * (-len(written) % _ALIGNED)
    return len(padded).to_bytes(8, "little") + padded + content[end:]


def _words(content: bytes) -> dict[str, str]:
    words: dict[str, str] = _header(content)[0].get("__metadata__", {})
    return words


def _header(content: bytes) -> tuple[dict[str, Any], int]:
    end = 8 + int.from_bytes(content[:8], "little")
    header: dict[str, Any] = json.loads(content[8:end])
    return header, end


def _digest(tensors: Mapping[str, NDArray[Any]], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(words, sort_keys=True).encode())
    for name in sorted(tensors):
        digest.update(f"{name} {tensors[name].dtype.str} {tensors[name].shape}".encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()
