"""Adam over the relaxed mask s = sigma(2 v), on batches of rows in random order."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed
from chaffinch.tasks.selection.dfs import kernels
from chaffinch.tasks.selection.dfs.batches import Batch, Draws
from chaffinch.tasks.selection.dfs.passes import Estimate, Estimator, Learned, Sharing, StepInputs
from chaffinch.tasks.selection.dfs.scaling import Moments
from chaffinch.tasks.selection.dfs.sources import Outputs, RowSource, n_outputs

_RATE, _LONGEST = 0.1, 1.0
_OLD, _OLD_SQUARE = 0.9, 0.999
_DECAY = 0.75  # of a peak, each step
_OUT = -30.0  # v of a constant column: s is 1e-26, and no step moves it
_OLD_PRESSURE = 0.7  # with 0.9 the first steps still show after sixty


@dataclass(frozen=True)
class Step:
    """Figures of a step, before it."""

    loss: float  # the estimated share of the target's variance that is left, and the penalty
    kept: float  # sum s
    penalty: float  # lambda, of the term lambda / D sum s


@dataclass(eq=False)
class Held:
    """State of a descent between two steps; arrays have shape (D,) and the type of the table."""

    v: NDArray[Any]
    kept: NDArray[Any]  # s
    mean: NDArray[Any]  # of Adam, as the next
    mean_square: NDArray[Any]
    peaks: NDArray[Any]  # the largest dz/ds so far
    n_steps: int  # of Adam since its means began
    n_drawn: int  # steps whose batches have been drawn
    pressure: float | None  # penalty / D, as it is steered; None before the first step
    total: float  # the sum of s
    everywhere: float  # the sum of s times `Scale.squares`


class Descent:
    """Gradient descent over a relaxed mask.

    It continues from `held`, if any, whose sums and draws must be those of these rows. `varies`,
    shape (D,), are the columns that are not constant.
    """

    def __init__(
        self,
        source: RowSource,
        learned: Learned,
        draws: Draws,
        order: int,
        sharing: Sharing | None = None,
        held: Held | None = None,
    ) -> None:
        self.learned, self.draws = learned, draws
        sharing, scale = sharing or Sharing(), learned.scale
        n_parts = sharing.n_parts(draws.blocks_per_step)
        known = scale, learned.top, learned.outputs
        self._ask = sharing.of(
            [Estimator(source, i, n_parts, *known, order) for i in range(n_parts)]
        )
        self._squares = scale.squares(learned.top)
        self.varies = scale.inverse > 0
        held = _of_columns(held or start(self._squares), self.varies, self._squares)
        self._now = deepcopy(held)
        self._slopes, self._room = np.zeros_like(self._squares), np.empty_like(self._squares)
        self._batches: Iterator[list[Batch]] = islice(draws.steps(), held.n_drawn, None)

    @property
    def v(self) -> NDArray[Any]:
        """The mask, shape (D,); -30 for a constant column."""
        return self._now.v

    @property
    def kept(self) -> NDArray[Any]:
        """s, shape (D,); next to 0 for a constant column."""
        return self._now.kept

    def state(self) -> DescentState:
        """Return a copy of the state between two steps."""
        return DescentState(deepcopy(self._now), self.learned, self.draws)

    def forget(self) -> None:
        """Restart the means of Adam and of the penalty, but continue from this mask."""
        now = self._now
        now.mean[:], now.mean_square[:], now.peaks[:] = 0, 0, 0
        now.n_steps, now.pressure = 0, None

    def step(self, *, penalty: float | None = None, n_features: int = 1) -> Step:
        """Take a step; InputError if the loss or the mask is no longer finite.

        Without a penalty it is a moving average of what separates the `n_features` steepest
        features from the others.
        """
        z, for_all = self._estimate()
        now, n_columns = self._now, len(self.v)
        if penalty is not None:
            now.pressure = penalty / n_columns
        else:
            steep = self._steepness(for_all, n_features)
            before = steep if now.pressure is None else now.pressure
            now.pressure = _OLD_PRESSURE * before + (1 - _OLD_PRESSURE) * steep
        seen = Step(1 - z + now.pressure * now.total, now.total, now.pressure * n_columns)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            self._move(for_all, now.pressure)
        if not (np.isfinite(seen.loss) and np.isfinite(now.v).all()):
            raise InputError(
                f"step {now.n_drawn} gave a loss of {seen.loss:g} with a penalty of "
                f"{seen.penalty:g}, after which scores would not be finite; give X in float64, "
                "or a lower penalty"
            )
        return seen

    def _estimate(self) -> tuple[float, float]:
        """Return the mean z and `Estimate.for_all` of the next batches; write the slopes."""
        batches = next(self._batches)
        self._now.n_drawn += 1
        answers = self._ask(
            Estimator.estimates, StepInputs(self.kept, self._now.everywhere, batches)
        )
        estimates: list[Estimate] = [
            answers[place % len(answers)][place // len(answers)] for place in range(len(batches))
        ]
        n = len(estimates)
        for estimate in estimates:
            where = slice(None) if estimate.touched is None else estimate.touched
            self._slopes[where] += estimate.slopes / n
        return sum(e.z for e in estimates) / n, sum(e.for_all for e in estimates) / n

    def _steepness(self, for_all: float, n_features: int) -> float:
        """Return the n-th largest peak of dz/ds, from candidates only where they suffice.

        At least 0: below, uninformative features would be pushed up, ahead of informative ones at
        rest at their maximum. So the peaks of constant columns, which are 0, do not count.

        For an informative feature, dz/ds falls to 0 well below s = 1, where the polynomial has its
        first maximum: without the memory of peaks, noise features would be level with it.
        """
        kind, now = self.kept.dtype.type, self._now
        operands = (self._slopes, self._squares, kind(for_all), now.peaks, kind(_DECAY))
        guess = -np.inf if now.pressure is None else now.pressure / 2
        peaks = self._room[: kernels.peaks_above(*operands, kind(guess), self._room)]
        if len(peaks) < n_features:
            peaks = now.peaks
        peak = float(np.partition(peaks, len(peaks) - n_features)[len(peaks) - n_features])
        return max(peak, 0.0)

    def _move(self, for_all: float, pressure: float) -> None:
        now, kind = self._now, self.kept.dtype.type
        now.n_steps += 1
        slope = (self._slopes, self._squares, now.kept, kind(for_all), kind(pressure))
        length = np.sqrt(kernels.squared_length(*slope))
        forward = _RATE / (1 - _OLD**now.n_steps)
        root = 1 / np.sqrt(1 - _OLD_SQUARE**now.n_steps)
        clip = min(1.0, _LONGEST / length) if length else 1.0
        shares = (clip, _OLD, 1 - _OLD, _OLD_SQUARE, 1 - _OLD_SQUARE, forward, root)
        state = (now.v, now.mean, now.mean_square, np.array(shares, kind))
        now.total, now.everywhere = kernels.adam_step(*slope, *state)


def start(squares: NDArray[Any]) -> Held:
    """Return the start of a descent with `Scale.squares` (D,): half of each column."""
    n_features, kind = len(squares), squares.dtype
    v, mean, mean_square, peaks = np.zeros((4, n_features), kind)
    kept = np.full(n_features, 0.5, kind)
    everywhere = 0.5 * float(np.sum(squares, dtype=np.float64))
    return Held(v, kept, mean, mean_square, peaks, 0, 0, None, 0.5 * n_features, everywhere)


def with_other_rows(held: Held, squares: NDArray[Any]) -> Held:
    """Return a state to continue from with rows that have other `Scale.squares` (D,)."""
    everywhere = float(np.sum(held.kept * squares, dtype=np.float64))
    return replace(held, n_drawn=0, everywhere=everywhere)


def _of_columns(held: Held, varies: NDArray[np.bool_], squares: NDArray[Any]) -> Held:
    """Return a state with constant columns out, and those that vary by now back at the start.

    A state in which this holds already is returned unchanged, with its sums.
    """
    leaving, back = ~varies & (held.v != _OUT), varies & (held.v == _OUT)
    moved = leaving | back
    if not moved.any():
        return held
    held = deepcopy(held)
    held.v[back], held.kept[back] = 0, 0.5
    held.v[leaving], held.kept[leaving] = _OUT, 1 / (1 + np.exp(-2 * _OUT))
    for moment in (held.mean, held.mean_square, held.peaks):
        moment[moved] = 0
    held.total = float(np.sum(held.kept, dtype=np.float64))
    held.everywhere = float(np.sum(held.kept * squares, dtype=np.float64))
    return held


FILE = "state.safetensors"  # what `chaffinch descend` calls it
_WHAT, _VERSION = "chaffinch differentiable descent", 1
_NAME_IT = f"name the state that a descent left, such as {FILE}"
_SCALARS = ("n_steps", "n_drawn", "pressure", "total", "everywhere")
_OF_MASK = ("v", "kept", "mean", "mean_square", "peaks")
_OF_COLUMNS = {"mean": "<f8", "rest": "<f8", "variance": "<f8", "varies": "|b1", "example": "<f8"}
_STORED, _NAMES = "columns_stored", "columns_names"


@dataclass(frozen=True, eq=False)
class DescentState:
    """State of a descent after a step.

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


def to_bytes(state: DescentState, words: Mapping[str, str] | None = None) -> bytes:
    """Return a state as bytes, with some words; `from_bytes` restores it to the last bit."""
    held, columns, outputs = state.held, state.learned.columns, state.learned.outputs
    tensors = {name: getattr(held, name) for name in _OF_MASK}
    tensors |= {f"columns_{name}": getattr(columns, name) for name in _OF_COLUMNS}
    if columns.stored is not None:
        tensors[_STORED] = columns.stored
    if state.learned.names is not None:
        # not in the metadata: the header of a file has a limit, and there may be a million names
        names = json.dumps(state.learned.names).encode()
        tensors[_NAMES] = np.frombuffer(names, np.uint8)
    tensors |= {"outputs_mean": outputs.mean, "outputs_example": outputs.example}
    fields = {
        "held": {name: getattr(held, name) for name in _SCALARS},
        "n_rows": columns.n_rows,
        "top": state.learned.top,
        "latest": state.learned.latest,
        "outputs": {name: getattr(outputs, name) for name in ("largest", "variance", "varies")},
        "labels": None if outputs.labels is None else outputs.labels.tolist(),
        "draws": asdict(state.draws),
    }
    metadata = {"what": _WHAT, "format_version": str(_VERSION), "state": json.dumps(fields)}
    return sealed(tensors, {**(words or {}), **metadata})


def from_bytes(content: bytes) -> DescentState:
    """Return the state in the bytes of `to_bytes`; InputError if it cannot be read."""
    return with_words(content)[0]


def with_words(content: bytes) -> tuple[DescentState, dict[str, str]]:
    """Return the state in the bytes of `to_bytes`, and the words stored with it."""
    try:
        tensors, metadata, is_whole = unsealed(content)
    except ValueError as error:
        raise InputError(
            f"the state cannot be read ({error}); {_NAME_IT}, or begin again, without start"
        ) from error
    if metadata.get("what") != _WHAT:
        raise InputError("the state is not of a differentiable selection; " + _NAME_IT)
    if metadata.get("format_version") != str(_VERSION):
        raise InputError(
            f"the state has format {metadata.get('format_version')} but this release reads "
            f"{_VERSION}; update chaffinch, or begin again, without start"
        )
    if not is_whole:
        raise InputError("the state is damaged (it was changed); begin again, without start")
    try:
        state = _state(tensors, json.loads(metadata["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the state is damaged ({error}); begin again, without start") from error
    if not _fits(state):
        raise InputError("the state is damaged (its parts do not fit); begin again, without start")
    return state, metadata


def _state(tensors: dict[str, NDArray[Any]], fields: dict[str, Any]) -> DescentState:
    of_mask: dict[str, Any] = {name: tensors[name] for name in _OF_MASK}
    held = Held(**of_mask, **fields["held"])
    of_columns: dict[str, Any] = {name: tensors[f"columns_{name}"] for name in _OF_COLUMNS}
    columns = Moments(
        n_rows=fields["n_rows"], stored=tensors.get(_STORED), kind=str(held.v.dtype), **of_columns
    )
    outputs = Outputs(
        n_rows=fields["n_rows"],
        labels=None if fields["labels"] is None else np.array(fields["labels"]),
        mean=tensors["outputs_mean"],
        example=tensors["outputs_example"],
        **fields["outputs"],
    )
    draws = Draws(**{**fields["draws"], "block_rows": tuple(fields["draws"]["block_rows"])})
    names = tuple(json.loads(tensors[_NAMES].tobytes())) if _NAMES in tensors else None
    return DescentState(
        held, Learned(columns, outputs, fields["top"], fields["latest"], names), draws
    )


def _fits(state: DescentState) -> bool:
    """Return whether parts have shapes and types with which kernels stay within their arrays."""
    held, columns, names = state.held, state.learned.columns, state.learned.names
    shape, kind = (state.n_columns,), held.v.dtype
    parts = [(getattr(held, name), kind) for name in _OF_MASK]
    parts += [(getattr(columns, name), np.dtype(kind)) for name, kind in _OF_COLUMNS.items()]
    if columns.stored is not None:
        parts.append((columns.stored, np.dtype("<i8")))
    return (
        kind in (np.float32, np.float64)
        and all((part.shape, part.dtype) == (shape, kind) for part, kind in parts)
        and all(bool(np.isfinite(part).all()) for part, _ in parts)
        and (names is None or len(names) == state.n_columns)
        and len(state.learned.outputs.mean) == n_outputs(state.learned.outputs.labels)
    )
