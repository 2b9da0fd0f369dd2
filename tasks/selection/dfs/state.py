"""Where a descent is, to be kept and gone on from; and as bytes: safetensors, executing nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs.descent import Descent, Held
from chaffinch.tasks.selection.dfs.draws import Draws
from chaffinch.tasks.selection.dfs.learning import Learned
from chaffinch.tasks.selection.dfs.moments import Moments
from chaffinch.tasks.selection.dfs.target import Outputs, n_outputs
from chaffinch.tasks.selection.sealed_tensors import sealed, unsealed

FILE = "state.safetensors"  # what `chaffinch descend` calls it
_WHAT, _VERSION = "chaffinch differentiable descent", 1
_NAME_IT = f"name the state that a descent left, such as {FILE}"
_OF_MASK = ("v", "kept", "mean", "mean_square", "peaks")
_OF_COLUMNS = {"mean": "<f8", "rest": "<f8", "variance": "<f8", "varies": "|b1", "example": "<f8"}
_STORED, _NAMES = "columns_stored", "columns_names"


@dataclass(frozen=True, eq=False)
class DescentState:
    """Where a descent is after a step.

    Attributes
    ----------
    held : Held
        The mask and the state of Adam.
    learned : Learned
        Number of rows so far, the moments of columns and target, the top singular value, and the
        names of the columns, if they have some.
    draws : Draws
        The batches of the rows that were seen last, of which `held.n_drawn` steps are used.
    """

    held: Held
    learned: Learned
    draws: Draws

    @property
    def n_columns(self) -> int:
        """D."""
        return len(self.held.v)


def state_of(descent: Descent) -> DescentState:
    """Return where a descent is, between two of its steps."""
    return DescentState(descent.held(), descent.learned, descent.draws)


def to_bytes(state: DescentState, words: Mapping[str, str] | None = None) -> bytes:
    """Return a state as bytes, `from_bytes` of which is the same to the last bit.

    Parameters
    ----------
    state : DescentState
    words : mapping of str to str, optional
        What is to be kept with it; `with_words` gives it back.
    """
    held, columns, outputs = state.held, state.learned.columns, state.learned.outputs
    tensors = {name: getattr(held, name) for name in _OF_MASK}
    tensors |= {f"columns_{name}": getattr(columns, name) for name in _OF_COLUMNS}
    if columns.stored is not None:
        tensors[_STORED] = columns.stored
    if state.learned.names is not None:
        # no words of the metadata, as the header of a file has a limit and names may be a million
        names = json.dumps(state.learned.names).encode()
        tensors[_NAMES] = np.frombuffer(names, np.uint8)
    tensors |= {"outputs_mean": outputs.mean, "outputs_example": outputs.example}
    said = {
        "held": _scalars(held, "n_steps", "n_drawn", "pressure", "total", "everywhere"),
        "n_rows": columns.n_rows,
        "top": state.learned.top,
        "latest": state.learned.latest,
        "outputs": _scalars(outputs, "largest", "variance", "varies"),
        "labels": None if outputs.labels is None else outputs.labels.tolist(),
        "draws": asdict(state.draws),
    }
    metadata = {"what": _WHAT, "format_version": str(_VERSION), "state": json.dumps(said)}
    return sealed(tensors, {**(words or {}), **metadata})


def from_bytes(content: bytes) -> DescentState:
    """Return the state that `to_bytes` made bytes of.

    Raises
    ------
    ValueError
        If it is none, was written by a later release, or does not fit together.
    """
    return with_words(content)[0]


def with_words(content: bytes) -> tuple[DescentState, dict[str, str]]:
    """Return the state that `to_bytes` made bytes of, and what was kept with it.

    Raises
    ------
    ValueError
        See `from_bytes`.
    """
    try:
        tensors, metadata, is_whole = unsealed(content)
    except ValueError as error:
        raise ValueError(
            f"the state cannot be read ({error}); {_NAME_IT}, or begin anew, without start"
        ) from error
    if metadata.get("what") != _WHAT:
        raise ValueError("the state is not of a differentiable selection; " + _NAME_IT)
    if metadata.get("format_version") != str(_VERSION):
        raise ValueError(
            f"the state has format {metadata.get('format_version')} but this release reads "
            f"{_VERSION}; update chaffinch, or begin anew, without start"
        )
    if not is_whole:
        raise ValueError("the state is damaged (it was changed); begin anew, without start")
    try:
        state = _state(tensors, json.loads(metadata["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the state is damaged ({error}); begin anew, without start") from error
    _check(state)
    return state, metadata


def _scalars(of: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


def _state(tensors: dict[str, NDArray[Any]], said: dict[str, Any]) -> DescentState:
    of_mask: dict[str, Any] = {name: tensors[name] for name in _OF_MASK}
    held = Held(**of_mask, **said["held"])
    of_columns: dict[str, Any] = {name: tensors[f"columns_{name}"] for name in _OF_COLUMNS}
    columns = Moments(
        n_rows=said["n_rows"], stored=tensors.get(_STORED), kind=str(held.v.dtype), **of_columns
    )
    outputs = Outputs(
        n_rows=said["n_rows"],
        labels=None if said["labels"] is None else np.array(said["labels"]),
        mean=tensors["outputs_mean"],
        example=tensors["outputs_example"],
        **said["outputs"],
    )
    draws = Draws(**{**said["draws"], "block_rows": tuple(said["draws"]["block_rows"])})
    names = tuple(json.loads(tensors[_NAMES].tobytes())) if _NAMES in tensors else None
    return DescentState(held, Learned(columns, outputs, said["top"], said["latest"], names), draws)


def _check(state: DescentState) -> None:
    """Refuse what no descent can have been at."""
    held, columns, outputs = state.held, state.learned.columns, state.learned.outputs
    shape, kind = (state.n_columns,), held.v.dtype
    fits = kind in (np.float32, np.float64)
    fits = fits and all(
        (part.shape, part.dtype, bool(np.isfinite(part).all())) == (shape, kind, True)
        for part in (getattr(held, name) for name in _OF_MASK)
    )
    for name, type_of in _OF_COLUMNS.items():
        part = getattr(columns, name)
        fits = fits and (part.shape, part.dtype) == (shape, np.dtype(type_of))
        fits = fits and bool(np.isfinite(part).all())
    if columns.stored is not None:
        fits = fits and (columns.stored.shape, columns.stored.dtype) == (shape, np.dtype("<i8"))
    fits = fits and bool((held.mean_square >= 0).all())
    fits = fits and bool(((held.kept >= 0) & (held.kept <= 1)).all())
    if state.learned.names is not None:
        fits = fits and len(state.learned.names) == state.n_columns
        fits = fits and all(isinstance(name, str) for name in state.learned.names)
    fits = fits and outputs.mean.shape == outputs.example.shape == (n_outputs(outputs.labels),)
    fits = fits and min(held.n_steps, held.n_drawn) >= 0 and columns.n_rows >= 1
    fits = fits and state.learned.top > 0 and outputs.variance > 0 and outputs.largest > 0
    if not fits:
        raise ValueError("the state is damaged (its parts do not fit); begin anew, without start")
