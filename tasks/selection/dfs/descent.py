"""Adam over the relaxed mask s = sigma(2 v), on batches of rows in random order.

The state is a few arrays of D numbers, in the type of the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed
from chaffinch.tasks.selection.dfs import kernels as kernels
from chaffinch.tasks.selection.dfs.batches import Batch, Draws
from chaffinch.tasks.selection.dfs.passes import Asked, Estimate, Estimator, Learned, Sharing
from chaffinch.tasks.selection.dfs.scaling import Moments
from chaffinch.tasks.selection.dfs.sources import Outputs, RowSource, n_outputs

_RATE, _LONGEST = 0.1, 1.0
_OLD, _OLD_SQUARE = 0.9, 0.999
_DECAY = 0.75  # of a peak, each step
_OUT = -30.0  # v of a constant column: s is 1e-26, and no step moves it
_OLD_PRESSURE = 0.7  # with 0.9 the first steps still show after sixty


@dataclass(frozen=True)
class Step:
    """Figures of one step.

    Attributes
    ----------
    loss : float
        The estimated share of the target's variance that is left, and the penalty.
    kept : float
        sum s, before the step.
    penalty : float
        lambda, of the term lambda / D sum s.
    """

    loss: float
    kept: float
    penalty: float


@dataclass(frozen=True, eq=False)
class Held:
    """State of a descent between two steps.

    Attributes
    ----------
    v, kept, mean, mean_square, peaks : ndarray of float32 or float64, shape (D,)
        The mask and s, the means of Adam, and what each dz/ds was at most.
    n_steps : int
        That Adam has made since its means began.
    n_drawn : int
        Steps whose batches have been drawn.
    pressure : float or None
        penalty / D, as it is steered; None before the first step.
    total, everywhere : float
        The sums of s, and of s times `Scale.squares`.
    """

    v: NDArray[Any]
    kept: NDArray[Any]
    mean: NDArray[Any]
    mean_square: NDArray[Any]
    peaks: NDArray[Any]
    n_steps: int
    n_drawn: int
    pressure: float | None
    total: float
    everywhere: float


class Descent:
    """Gradient descent over a relaxed mask.

    Parameters
    ----------
    source : RowSource
        N rows of D features.
    learned : Learned
        What is known of them.
    draws : Draws
        Which rows each step looks at.
    order : int in 1..8
        Of the estimate.
    sharing : Sharing
        Who computes it.
    held : Held, optional
        Where to go on from; its sums and its draws must be those of these rows.

    Attributes
    ----------
    v, kept : ndarray, shape (D,)
        The mask, and s; -30 and next to 0 for a constant column.
    varies : ndarray of bool, shape (D,)
        Which columns are not constant.
    learned, draws
        See above.
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
        n_features, kind = len(self._squares), self._squares.dtype
        self.varies = scale.inverse > 0
        held = _of_columns(held or start(self._squares), self.varies, self._squares)
        self.v, self.kept = held.v.copy(), held.kept.copy()
        self._mean, self._mean_square = held.mean.copy(), held.mean_square.copy()
        self._peaks, self._pressure = held.peaks.copy(), held.pressure
        self._total, self._everywhere = held.total, held.everywhere
        self._n_steps, self._n_drawn = held.n_steps, held.n_drawn
        self._slopes, self._room = np.zeros(n_features, kind), np.empty(n_features, kind)
        self._batches: Iterator[list[Batch]] = islice(draws.steps(), held.n_drawn, None)

    def held(self) -> Held:
        """Return a copy of what is held between two steps."""
        return Held(
            self.v.copy(),
            self.kept.copy(),
            self._mean.copy(),
            self._mean_square.copy(),
            self._peaks.copy(),
            self._n_steps,
            self._n_drawn,
            self._pressure,
            float(self._total),
            float(self._everywhere),
        )

    def forget(self) -> None:
        """Start the means of Adam and of the penalty afresh, but go on from this mask."""
        self._mean[:], self._mean_square[:] = 0, 0
        self._peaks[:] = 0
        self._n_steps, self._pressure = 0, None

    def step(self, *, penalty: float | None = None, n_features: int = 1) -> Step:
        """Go one step down.

        Parameters
        ----------
        penalty : float, optional
            lambda; by default a moving average of what separates the `n_features` steepest features
            from the others.
        n_features : int in 1..D
            How many are to be left.

        Raises
        ------
        ValueError
            If the loss or the mask is no longer finite.
        """
        z, for_all = self._estimate()
        if penalty is not None:
            self._pressure = penalty / len(self.v)
        else:
            steep = self._steepness(for_all, n_features)
            before = steep if self._pressure is None else self._pressure
            self._pressure = _OLD_PRESSURE * before + (1 - _OLD_PRESSURE) * steep
        seen = Step(1 - z + self._pressure * self._total, self._total, self._pressure * len(self.v))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused below
            self._move(for_all)
        if not (np.isfinite(seen.loss) and np.isfinite(self.v).all()):
            raise ValueError(
                f"step {self._n_drawn} gave a loss of {seen.loss:g} with a penalty of "
                f"{seen.penalty:g}, after which scores would not be finite; give X in float64, "
                "or a lower penalty"
            )
        return seen

    def _estimate(self) -> tuple[float, float]:
        """Return the mean z of the next batches and what the squares count for; leave slopes."""
        batches = next(self._batches)
        self._n_drawn += 1
        answers = self._ask(Estimator.estimates, Asked(self.kept, self._everywhere, batches))
        found: list[Estimate] = [
            answers[place % len(answers)][place // len(answers)] for place in range(len(batches))
        ]
        for one in found:
            where = slice(None) if one.touched is None else one.touched
            self._slopes[where] += one.slopes / len(found)
        return sum(one.z for one in found) / len(found), sum(o.for_all for o in found) / len(found)

    def _steepness(self, for_all: float, n_features: int) -> float:
        """Return the n-th largest peak of dz/ds, from candidates only where they suffice.

        At least 0: below, uninformative features would be pushed up, ahead of informative ones at
        rest at their maximum. So the peaks of constant columns, which are 0, do not count.

        For an informative feature, dz/ds falls to 0 well below s = 1, where the polynomial has its
        first maximum: without the memory of peaks, noise features would be level with it.
        """
        kind = self.kept.dtype.type
        now = (self._slopes, self._squares, kind(for_all), self._peaks, kind(_DECAY))
        guess = -np.inf if self._pressure is None else self._pressure / 2
        peaks = self._room[: kernels.peaks_above(*now, kind(guess), self._room)]
        if len(peaks) < n_features:
            peaks = self._peaks
        peak = float(np.partition(peaks, len(peaks) - n_features)[len(peaks) - n_features])
        return max(peak, 0.0)

    def _move(self, for_all: float) -> None:
        self._n_steps += 1
        kind, t = self.kept.dtype.type, self._n_steps
        slope = (self._slopes, self._squares, self.kept, kind(for_all), kind(self._pressure))
        length = np.sqrt(kernels.squared_length(*slope))
        forward, root = _RATE / (1 - _OLD**t), 1 / np.sqrt(1 - _OLD_SQUARE**t)
        clip = min(1.0, _LONGEST / length) if length else 1.0
        shares = (clip, _OLD, 1 - _OLD, _OLD_SQUARE, 1 - _OLD_SQUARE, forward, root)
        state = (self.v, self._mean, self._mean_square, np.array(shares, kind))
        self._total, self._everywhere = kernels.adam_step(*slope, *state)


def start(squares: NDArray[Any]) -> Held:
    """Return where a descent of D columns that vary begins: half of each; see `Scale.squares`."""
    n_features, kind = len(squares), squares.dtype
    v, mean, mean_square, peaks = np.zeros((4, n_features), kind)
    kept = np.full(n_features, 0.5, kind)
    everywhere = 0.5 * float(np.sum(squares, dtype=np.float64))
    return Held(v, kept, mean, mean_square, peaks, 0, 0, None, 0.5 * n_features, everywhere)


def with_other_rows(held: Held, squares: NDArray[Any]) -> Held:
    """Return what is held, to go on with rows whose `Scale.squares` (D,) are others."""
    everywhere = float(np.sum(held.kept * squares, dtype=np.float64))
    return replace(held, n_drawn=0, everywhere=everywhere)


def _of_columns(held: Held, varies: NDArray[np.bool_], squares: NDArray[Any]) -> Held:
    """Return what is held with constant columns out, and those that vary by now back at the start.

    Where all of this is so already it is returned as it is, to the last bit of its sums.
    """
    leaving, back = ~varies & (held.v != _OUT), varies & (held.v == _OUT)
    moved = leaving | back
    if not moved.any():
        return held
    v, kept = np.where(back, 0, held.v), np.where(back, 0.5, held.kept).astype(held.kept.dtype)
    v[leaving], kept[leaving] = _OUT, 1 / (1 + np.exp(-2 * _OUT))
    mean, mean_square, peaks = (
        np.where(moved, held.v.dtype.type(0), one)
        for one in (held.mean, held.mean_square, held.peaks)
    )
    return replace(
        held,
        v=v.astype(held.v.dtype),
        kept=kept,
        mean=mean,
        mean_square=mean_square,
        peaks=peaks,
        total=float(np.sum(kept, dtype=np.float64)),
        everywhere=float(np.sum(kept * squares, dtype=np.float64)),
    )


FILE = "state.safetensors"  # what `chaffinch descend` calls it
_WHAT, _VERSION = "chaffinch differentiable descent", 1
_NAME_IT = f"name the state that a descent left, such as {FILE}"
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


def state_of(descent: Descent) -> DescentState:
    """Return where a descent is, between two of its steps."""
    return DescentState(descent.held(), descent.learned, descent.draws)


def to_bytes(state: DescentState, words: Mapping[str, str] | None = None) -> bytes:
    """Return a state as bytes; `from_bytes` restores it to the last bit.

    Parameters
    ----------
    state : DescentState
    words : mapping of str to str, optional
        Stored with it; `with_words` returns it.
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
    fields = {
        "held": _scalars(held, "n_steps", "n_drawn", "pressure", "total", "everywhere"),
        "n_rows": columns.n_rows,
        "top": state.learned.top,
        "latest": state.learned.latest,
        "outputs": _scalars(outputs, "largest", "variance", "varies"),
        "labels": None if outputs.labels is None else outputs.labels.tolist(),
        "draws": asdict(state.draws),
    }
    metadata = {"what": _WHAT, "format_version": str(_VERSION), "state": json.dumps(fields)}
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
            f"the state cannot be read ({error}); {_NAME_IT}, or begin again, without start"
        ) from error
    if metadata.get("what") != _WHAT:
        raise ValueError("the state is not of a differentiable selection; " + _NAME_IT)
    if metadata.get("format_version") != str(_VERSION):
        raise ValueError(
            f"the state has format {metadata.get('format_version')} but this release reads "
            f"{_VERSION}; update chaffinch, or begin again, without start"
        )
    if not is_whole:
        raise ValueError("the state is damaged (it was changed); begin again, without start")
    try:
        state = _state(tensors, json.loads(metadata["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"the state is damaged ({error}); begin again, without start") from error
    _check(state)
    return state, metadata


def _scalars(of: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(of, name) for name in names}


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


def _check(state: DescentState) -> None:
    """Refuse an impossible state."""
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
        raise ValueError("the state is damaged (its parts do not fit); begin again, without start")
