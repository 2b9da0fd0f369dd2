"""Adam over the relaxed mask s = sigma(2 v), on batches of rows in random order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.checkpoint_file import sealed, unsealed
from chaffinch.tasks.selection.dfs import kernels
from chaffinch.tasks.selection.dfs.batches import Batches, Draws
from chaffinch.tasks.selection.dfs.estimate import Estimator, first_maximum
from chaffinch.tasks.selection.dfs.learning import Learned
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.outputs import Outputs, n_outputs
from chaffinch.tasks.selection.dfs.scaling import Moments

_RATE, _LONGEST = 0.1, 1.0
_OLD, _OLD_SQUARE = 0.9, 0.999
_OUT = -30.0  # v of a constant column: s is 1e-26, and no step moves it
# Of the grid of penalties: the steps at each, the ratio of two that follow each other, how many
# times the requested number of columns the first one leaves, and the least that it may be.
STEPS_AT_A_PENALTY, _RATIO, _WIDE, _LEAST = 15, 2**0.5, 8, 2.0**-10
_BACK = 4.0  # how many times the penalty is lower with newer rows, than it was
_REACH = STEPS_AT_A_PENALTY * _RATE  # |v| that the steps at one penalty can undo


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
    n_steps: int  # of Adam since its means began
    n_drawn: int  # steps whose batches have been drawn
    pressure: float | None  # penalty / D; None before the first step
    total: float  # the sum of s
    everywhere: float  # the sum of s times `Scale.squares`


class Descent:
    """Gradient descent over a relaxed mask.

    It continues from `held`, if any, whose sums and draws must be those of these rows. `varies`,
    shape (D,), are the columns that are not constant. On the grid of penalties a column has left
    where v is not above `left`, which is s = 1/2, or half of where an informative one may rest.
    """

    def __init__(
        self,
        data: Observations,
        learned: Learned,
        draws: Draws,
        order: int,
        held: Held | None = None,
    ) -> None:
        self.learned, self.draws, scale = learned, draws, learned.scale
        table = scale.table(scale.prepared(data.rows), learned.top)
        self._estimator = Estimator(table, learned.outputs.of(data.y), order)
        self._squares = scale.squares(learned.top)
        self.varies = scale.inverse > 0
        # With higher orders the polynomial has its first maximum below s = 1, and an uncorrelated
        # column that is informative rests there.
        rest = min(1.0, first_maximum(order) * learned.top**2)
        self.left = 0.5 * float(np.log(rest / (2 - rest)))
        held = _of_columns(held or start(self._squares), self.varies, self._squares)
        self._now = deepcopy(held)
        self._slopes = np.zeros_like(self._squares)
        self._batches: Iterator[Batches] = islice(draws.steps(), held.n_drawn, None)

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

    @property
    def n_left(self) -> int:
        """How many columns have not left."""
        return int(np.count_nonzero(self._now.v > self.left))

    def leaves(self, n_features: int) -> bool:
        """Return whether the grid has come to a penalty that leaves no more than so many columns.

        The first penalty is not judged: where a descent begins with an earlier mask, columns that
        have left come back at it.
        """
        return self._now.n_drawn >= STEPS_AT_A_PENALTY and self.n_left <= n_features

    def forget(self) -> None:
        """Restart the means of Adam, but continue from this mask."""
        now = self._now
        now.mean[:], now.mean_square[:], now.n_steps = 0, 0, 0

    def step(self, *, penalty: float | None = None, n_features: int = 1) -> Step:
        """Take a step; InputError if the loss or the mask is no longer finite.

        Without a penalty it is that of a grid, which rises from one that leaves more than
        `n_features` columns. It is fixed for 15 steps, so that it does not follow the noise of
        batches; for the next one the means of Adam begin again, as they would hold back columns
        that have been far in.
        """
        z, for_all = self._estimate()
        now, n_columns = self._now, len(self.v)
        if penalty is not None:
            now.pressure = penalty / n_columns
        elif now.pressure is None:
            now.pressure = self._first_pressure(for_all, n_features)
        elif now.n_steps >= STEPS_AT_A_PENALTY:
            now.pressure *= _RATIO
            self.forget()
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
        batches, now = next(self._batches), self._now
        now.n_drawn += 1
        explained, for_all = [], []
        for rows in batches:
            estimate = self._estimator.estimate(rows, now.kept, now.everywhere)
            where = slice(None) if estimate.touched is None else estimate.touched
            self._slopes[where] += estimate.slopes / len(batches)
            explained.append(estimate.z)
            for_all.append(estimate.for_all)
        return sum(explained) / len(batches), sum(for_all) / len(batches)

    def _first_pressure(self, for_all: float, n_features: int) -> float:
        """Return the slope of which eight times `n_features` columns have more, half at most.

        Above 0: below, uninformative features would be pushed up.
        """
        slopes = (self._slopes + self._squares * for_all)[self.varies]
        n = max(n_features, min(_WIDE * n_features, len(slopes) // 2))
        steep = float(np.partition(slopes, len(slopes) - n)[len(slopes) - n])
        return max(steep, _LEAST * float(np.abs(slopes).max()))

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
    v, mean, mean_square = np.zeros((3, n_features), kind)
    kept = np.full(n_features, 0.5, kind)
    everywhere = 0.5 * float(np.sum(squares, dtype=np.float64))
    return Held(v, kept, mean, mean_square, 0, 0, None, 0.5 * n_features, everywhere)


def with_other_rows(held: Held, squares: NDArray[Any], decay: float) -> Held:
    """Return a state to continue from with rows that have other `Scale.squares` (D,).

    Of v the share `decay` is kept, and no more than the steps at one penalty can undo, so that a
    column that has left can come back. The grid goes on from a quarter of the penalty, and the
    means of Adam begin again.
    """
    v = np.clip(decay * held.v, -_REACH, _REACH).astype(held.v.dtype)
    v[held.v == _OUT] = _OUT
    kept = 1 / (1 + np.exp(-2 * v))
    total = float(np.sum(kept, dtype=np.float64))
    everywhere = float(np.sum(kept * squares, dtype=np.float64))
    means = np.zeros_like(v), np.zeros_like(v)
    pressure = None if held.pressure is None else held.pressure / _BACK
    return Held(v, kept, *means, 0, 0, pressure, total, everywhere)


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
    for moment in (held.mean, held.mean_square):
        moment[moved] = 0
    held.total = float(np.sum(held.kept, dtype=np.float64))
    held.everywhere = float(np.sum(held.kept * squares, dtype=np.float64))
    return held


_WHAT, _VERSION = "chaffinch differentiable descent", 3
# The first had a further tensor, which nothing needs; in both rows came in blocks.
_READABLE = ("1", "2", "3")
NAME_IT = "name a file that chaffinch.save_state wrote"
_SCALARS = ("n_steps", "n_drawn", "pressure", "total", "everywhere")
_OF_MASK = ("v", "kept", "mean", "mean_square")
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


def to_bytes(state: DescentState) -> bytes:
    """Return a state as bytes; `from_bytes` restores it to the last bit."""
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
    return sealed(tensors, metadata)


def from_bytes(content: bytes) -> DescentState:
    """Return the state in the bytes of `to_bytes`; InputError if it cannot be read."""
    try:
        tensors, metadata, is_whole = unsealed(content)
    except ValueError as error:
        raise InputError(
            f"the state cannot be read ({error}); {NAME_IT}, or begin again, without start"
        ) from error
    if metadata.get("what") != _WHAT:
        raise InputError("the state is not of a differentiable selection; " + NAME_IT)
    if metadata.get("format_version") not in _READABLE:
        raise InputError(
            f"the state has format {metadata.get('format_version')} but this release reads "
            f"{', '.join(_READABLE)}; update chaffinch, or begin again, without start"
        )
    if not is_whole:
        raise InputError("the state is damaged (it was changed); begin again, without start")
    try:
        state = _state(tensors, json.loads(metadata["state"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the state is damaged ({error}); begin again, without start") from error
    if not _fits(state):
        raise InputError("the state is damaged (its parts do not fit); begin again, without start")
    return state


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
    names = tuple(json.loads(tensors[_NAMES].tobytes())) if _NAMES in tensors else None
    learned = Learned(columns, outputs, fields["top"], fields["latest"], names)
    return DescentState(held, learned, _draws(fields["draws"]))


def _draws(fields: dict[str, Any]) -> Draws:
    """Return the draws of a state; of an earlier format they have the rows of each block.

    After several blocks a descent goes on as with newer rows, even with the same rows: statistics
    of blocks differ by rounding from those of all rows at once.
    """
    if "block_rows" not in fields:
        return Draws(**fields)
    return Draws(sum(fields["block_rows"]), fields["batch_rows"], fields["seed"])


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
