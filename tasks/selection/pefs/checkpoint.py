"""A search in progress, or its result, as bytes and back: safetensors, which executes no code.

A resumed search makes the same sweeps, to the last bit, as an uninterrupted search.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed
from chaffinch.tasks.selection.core import Floats
from chaffinch.tasks.selection.pefs.network import Prepared
from chaffinch.tasks.selection.pefs.results import ProbabilisticSearch, Sweep
from chaffinch.tasks.selection.pefs.search import Search

if TYPE_CHECKING:
    import torch

_PLAIN = ("order", "probabilities", "of_sweeps", "figures")  # all else is of the network
_PARAMETER, _NETWORK = "parameter_", "chaffinch network of PEFS"
_ON_ITS_WAY, _FOUND = "chaffinch search by PEFS", "chaffinch search by PEFS, at its end"


def fingerprint(prepared: Prepared, settings: Mapping[str, Any]) -> str:
    """Return a hash of the rows and settings (numbers and text) that identifies a search."""
    plain = json.dumps(settings, sort_keys=True, default=lambda number: number.item())
    digest = hashlib.sha256(plain.encode())
    for array in (prepared.inputs, prepared.target, prepared.weight):
        if array is not None:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def to_bytes(search: Search, of: str) -> bytes:
    """Return the state of a search after a sweep; `of` is its fingerprint."""
    training, sweeps = search.training, search.sweeps
    tensors: dict[str, Any] = {"order": search.order, "probabilities": search.probabilities}
    for name, tensor in training.tensors.items():
        tensors[name] = tensor.detach().numpy()
    tensors.update(_tensors_of(sweeps, len(search.probabilities)))
    state = {
        "inputs": search.n_inputs,
        "place": search.place,
        "step": training.step,
        "penalty": search.penalty,
        "random": search.random.bit_generator.state,
    }
    return sealed(tensors, {"what": _ON_ITS_WAY, "of": of, "state": json.dumps(state)})


def restore(search: Search, content: bytes, of: str) -> None:
    """Restore the state of a search in a fresh search of the same rows, rules and seed.

    It may make more sweeps. InputError if `content`, from `to_bytes`, is no checkpoint,
    of another network or search, or has made more sweeps than this search may.
    """
    import torch

    tensors, metadata = _open(content, [_ON_ITS_WAY])
    state = json.loads(metadata["state"])
    # earlier formats lack it, but begin with weights (inputs, units)
    width = state["inputs"] if "inputs" in state else len(tensors["parameters_0"])
    fresh = search.n_inputs
    if width != fresh:
        raise InputError(
            f"the network of the checkpoint has {width} inputs but the table gives {fresh}; name "
            "another file, or give the table that it was trained on"
        )
    _check_fingerprint(of, metadata)
    n_made, most = len(tensors["figures"]), search.rules.most_sweeps
    if n_made > most:
        raise InputError(
            f"most_sweeps must be at least {n_made}, which the search of the checkpoint has made, "
            f"but is {most}; ask for as many, or name another file"
        )
    training = search.training
    _check_tensors(tensors, training.tensors)
    with torch.no_grad():
        for name, tensor in training.tensors.items():
            tensor.copy_(torch.from_numpy(tensors[name]).reshape(tensor.shape))
    training.step, search.place, search.penalty = state["step"], state["place"], state["penalty"]
    search.order, search.probabilities = tensors["order"], tensors["probabilities"]
    search.random.bit_generator.state = state["random"]
    search.sweeps = _sweeps_of(tensors)


def result_to_bytes(result: ProbabilisticSearch, of: str) -> bytes:
    """Return the result of a search as bytes; `of` is its fingerprint."""
    tensors = _tensors_of(result.sweeps, len(result.probabilities))
    for place, parameter in enumerate(result.parameters or ()):
        tensors[f"{_PARAMETER}{place}"] = parameter
    state = {"asked": result.asked, "seed": result.seed, "held_out_loss": result.held_out_loss}
    return sealed(tensors, {"what": _FOUND, "of": of, "state": json.dumps(state)})


def read_result(content: bytes, of: str) -> ProbabilisticSearch | None:
    """Return the result of a search; None for the checkpoint of an unfinished search.

    InputError if the bytes are neither, or of another search.
    """
    tensors, metadata = _open(content, [_ON_ITS_WAY, _FOUND])
    _check_fingerprint(of, metadata)
    if metadata["what"] == _ON_ITS_WAY:
        return None
    parameters = tuple(_parameters_of(tensors)) or None
    state = json.loads(metadata["state"])
    return ProbabilisticSearch(sweeps=tuple(_sweeps_of(tensors)), parameters=parameters, **state)


def parameters_to_bytes(parameters: Sequence[Floats]) -> bytes:
    """Return the parameters of a network, `Training.layers`, as bytes."""
    tensors = {
        f"{_PARAMETER}{place}": parameter.astype(np.float32)
        for place, parameter in enumerate(parameters)
    }
    return sealed(tensors, {"what": _NETWORK})


def parameters_from_bytes(content: bytes) -> list[Floats]:
    """Return the parameters in the bytes of `parameters_to_bytes`."""
    tensors, _ = _open(content, [_NETWORK])
    return [parameter.astype(np.float64) for parameter in _parameters_of(tensors)]


def _parameters_of(tensors: Mapping[str, NDArray[Any]]) -> list[NDArray[Any]]:
    n_parameters = sum(name.startswith(_PARAMETER) for name in tensors)
    return [tensors[f"{_PARAMETER}{place}"] for place in range(n_parameters)]


def _open(content: bytes, kinds: Sequence[str]) -> tuple[dict[str, NDArray[Any]], dict[str, str]]:
    """Return tensors and metadata of some kinds; InputError if unreadable or changed."""
    try:
        tensors, metadata, is_whole = unsealed(content)
    except ValueError as error:
        raise InputError(
            f"the checkpoint cannot be read ({error}); it may be none, so name another file"
        ) from error
    if metadata.get("what") not in kinds:
        raise InputError("the checkpoint is not of a search by pefs; name another file")
    if not is_whole:
        raise InputError("the checkpoint is damaged (it was changed); remove it")
    return tensors, metadata


def _check_fingerprint(of: str, metadata: Mapping[str, str]) -> None:
    if metadata["of"] != of:
        raise InputError(
            "the checkpoint is of a search of other rows, settings or seed, or of a network that "
            "began with other weights; give those again (seed torch before a network is made), "
            "name another file, or remove it to begin again"
        )


def _check_tensors(tensors: Mapping[str, NDArray[Any]], own: Mapping[str, torch.Tensor]) -> None:
    """Refuse a checkpoint whose tensors are not, by name, shape and type, a network's own."""
    there = {name: (t.shape, str(t.dtype)) for name, t in tensors.items() if name not in _PLAIN}
    here = {  # what has no dimension is kept with a single dimension
        name: (tuple(t.shape) or (1,), str(t.dtype).removeprefix("torch."))
        for name, t in own.items()
    }
    name = next((name for name in {**here, **there} if there.get(name) != here.get(name)), None)
    if name is not None:
        in_it, in_network = (" in ".join(map(str, of.get(name, ["none"]))) for of in (there, here))
        raise InputError(
            f"the checkpoint must hold the tensors of the network, but for {name} it has {in_it} "
            f"where the network has {in_network}; name another file, or remove it to begin again"
        )


def _tensors_of(sweeps: Sequence[Sweep], d: int) -> dict[str, NDArray[np.float64]]:
    figures = [(sweep.iteration, sweep.loss, sweep.penalty) for sweep in sweeps]
    return {
        "of_sweeps": np.array([sweep.probabilities for sweep in sweeps]).reshape(-1, d),
        "figures": np.array(figures, dtype=np.float64).reshape(-1, 3),
    }


def _sweeps_of(tensors: Mapping[str, NDArray[Any]]) -> list[Sweep]:
    return [
        Sweep(int(iteration), float(loss), float(penalty), probabilities)
        for (iteration, loss, penalty), probabilities in zip(
            tensors["figures"], tensors["of_sweeps"], strict=True
        )
    ]
