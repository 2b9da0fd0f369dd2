"""Blocks of a source distributed to workers: each part reads its own.

Results for a block, and the order in which they are added, do not depend on the number of parts.
For figures of all rows the blocks are assigned to eight partitions: each is summed in the order of
its blocks, and then the partitions in order. A step has a batch from each of some blocks, and
their mean is taken in the order in which they were drawn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Floats, Task
from chaffinch.tasks.selection.dfs.batches import Batches
from chaffinch.tasks.selection.dfs.estimate import (
    SparseTable,
    Table,
    chain_weights,
    dense_z,
    sparse_z,
)
from chaffinch.tasks.selection.dfs.scaling import (
    Effort,
    Moments,
    NameColumn,
    Scale,
    merged,
    moments_of,
    random_lengths,
    scale_of,
    top_singular_value,
)
from chaffinch.tasks.selection.dfs.sources import (
    Outputs,
    RowSource,
    in_words,
    labels_for,
    merged_outputs,
    name_in,
    names_in,
    outputs_of,
    read_rows,
)

_PARTITIONS = 8

Ask = Callable[[Callable[[Any, Any], Any], Any], list[Any]]


def here(things: Sequence[Any]) -> Ask:
    """Keep objects in this process; return a function that applies a question to all of them."""
    return lambda function, question: [function(thing, question) for thing in things]


@dataclass(frozen=True)
class Sharing:
    """Distribution of work: `for_each` distributes objects, as `here` keeps them."""

    for_each: Callable[[Sequence[Any]], Ask] = here
    # called only when there is work to distribute, as workers may have to be started for it
    count_threads: Callable[[], int] = lambda: 1

    def n_parts(self, n_tasks: int) -> int:
        """Return the number of parts for so many tasks."""
        return 1 if n_tasks == 1 else min(self.count_threads(), n_tasks)

    def of(self, parts: Sequence[Any]) -> Ask:
        """Distribute parts; a single part stays here."""
        return self.for_each(parts) if len(parts) > 1 else here(parts)


@dataclass(eq=False)
class _Reader:
    """One of `n_parts` readers of all blocks; in each wave it reads the blocks of a partition."""

    source: RowSource
    number: int
    n_parts: int

    def blocks(self, wave: int) -> range:
        """Return the blocks of the partition of a wave; none if there is none left."""
        n_blocks = len(self.source.block_rows)
        n_partitions = min(_PARTITIONS, n_blocks)
        partition = wave * self.n_parts + self.number
        return range(partition, n_blocks if partition < n_partitions else 0, n_partitions)


Known = tuple[Moments, Outputs]


@dataclass(eq=False)
class Surveyor(_Reader):
    """Computes statistics of the columns and the target."""

    labels: NDArray[Any] | None

    def survey(self, wave: int) -> Known | None:
        """Return the statistics of a partition, None if it has no block."""
        total: Known | None = None
        name_column = partial(name_in, self.source)
        for block in self.blocks(wave):
            X, y = self.source.read(block)
            known = moments_of(read_rows(X), name_column), outputs_of(y, self.labels)
            total = known if total is None else merge_known(total, known, name_column)
        return total


def merge_known(known: Known, other: Known, name_column: NameColumn) -> Known:
    """Return the statistics of the rows of both."""
    return merged(known[0], other[0], name_column), merged_outputs(known[1], other[1])


@dataclass(eq=False)
class Multiplier(_Reader):
    """Multiplies standardised rows U with a direction."""

    scale: Scale
    _only: Any = None

    def image(self, request: tuple[int, Floats | None]) -> Floats | None:
        """Return U' U direction / N, shape (D,), of a wave's partition, None if it has no block.

        Without a direction it is U' times random numbers.
        """
        (wave, direction), total = request, None
        for block in self.blocks(wave):
            operands, n_rows = self._prepared(block), self.source.block_rows[block]
            if direction is None:
                lengths = random_lengths(sum(self.source.block_rows[:block]), n_rows)
            else:
                lengths = self.scale.lengths(operands, direction)
                lengths *= n_rows / self.source.shape[0]
            part = self.scale.image(operands, lengths)
            total = part if total is None else total + part
        return total

    def _prepared(self, block: int) -> Any:
        """Return a standardised block; the only block of a source is kept."""
        operands = self._only or self.scale.prepared(read_rows(self.source.read(block)[0]))
        if len(self.source.block_rows) == 1:
            self._only = operands
        return operands


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimate from a batch.

    Column d has dz/ds = slopes + for_all squares, where `Scale.squares`, shape (D,), are 0 for a
    dense table. The slopes are those of the touched columns, shape (u,); of None all, (D,).
    """

    z: float
    for_all: float
    touched: NDArray[np.int32] | None
    slopes: NDArray[Any]


@dataclass(frozen=True, eq=False)
class StepInputs:
    """Parameters of a step, the same for every part; only `kept`, s of shape (D,), is large."""

    kept: NDArray[Any]
    everywhere: float  # the sum of kept times `Scale.squares`
    batches: list[Batches]


@dataclass(eq=False)
class Estimator:
    """Estimates from the batches of a step: one of `n_parts` parts takes every n-th block."""

    source: RowSource
    number: int
    n_parts: int
    scale: Scale
    top: float
    outputs: Outputs
    order: int
    _held: dict[int, tuple[int, Table, Floats]] = field(default_factory=dict)
    _room: NDArray[np.int32] | None = None

    def estimates(self, inputs: StepInputs) -> list[list[Estimate]]:
        """Return the estimates from the batches of each of this part's blocks, in order."""
        own = range(self.number, len(inputs.batches), self.n_parts)
        return [
            [self._estimate(place, rows, inputs) for rows in inputs.batches[place][1]]
            for place in own
        ]

    def _estimate(self, place: int, rows: NDArray[np.int64], inputs: StepInputs) -> Estimate:
        table, outputs = self._block(place, inputs.batches[place][0])
        alphas, y = chain_weights(self.order, len(rows)), outputs[rows]
        if not isinstance(table, SparseTable):
            z, slopes = dense_z(table, rows, inputs.kept, y, alphas)
            return Estimate(z, 0.0, None, slopes)
        if self._room is None:
            self._room = np.full(table.shape[1], -1, np.int32)
        return Estimate(
            *sparse_z(
                table, rows, inputs.kept, y, alphas, inputs.everywhere / len(rows), self._room
            )
        )

    def _block(self, place: int, block: int) -> tuple[Table, Floats]:
        """Return a block as a table, and its outputs; a table is kept for each place of a step."""
        if place not in self._held or self._held[place][0] != block:
            self._held.pop(place, None)  # or two would be held
            X, y = self.source.read(block)
            table = self.scale.table(self.scale.prepared(read_rows(X)), self.top)
            self._held[place] = block, table, self.outputs.of(y)
        return self._held[place][1:]


_TEXT = "OU"  # kinds of array
# of a single block, which is kept; of several, which are read for each iteration
_AT_HAND, _READ_AGAIN = Effort(20, 1e-4), Effort(12, 1e-4)


@dataclass(frozen=True, eq=False)
class Learned:
    """Statistics of all rows so far.

    `top` is the top singular value of the standardised rows over sqrt(N), slightly high; `latest`
    is a hash of the statistics of the rows that were added last.
    """

    columns: Moments
    outputs: Outputs
    top: float
    latest: str
    names: tuple[str, ...] | None = None

    @property
    def scale(self) -> Scale:
        """Of the columns."""
        return scale_of(self.columns)


def learn(
    source: RowSource,
    task: Task | None,
    sharing: Sharing,
    before: Learned | None = None,
    *,
    check: Callable[[Scale, Outputs], None] = lambda scale, outputs: None,
    effort: Effort | None = None,
    decay: float = 1.0,
) -> Learned:
    """Read all rows once for their moments, then for the top singular value.

    If these rows were the last to be added to `before`, it is returned. Rows are else added to
    `before`, each of whose rows counts as the share `decay` of a row; the top singular value is
    then the larger of the two, as it has to be rather high.
    `check` may refuse the moments. 12 iterations leave an error within 1 %, mostly above.

    A sample of rows would not do: its top singular value is higher, on text with an eighth of the
    rows 2.4 to 2.8 times, as columns that few rows have are as rare among them.
    """
    if before is None:
        labels = labels_for(source.target_type, lambda: source.labels, task)
    else:
        labels = before.outputs.labels
        _check_same_kind(source, task, before)
    names = names_in(source) or (before.names if before else None)
    n_partitions = min(_PARTITIONS, len(source.block_rows))
    n_parts = sharing.n_parts(n_partitions)
    n_waves = -(-n_partitions // n_parts)
    ask = sharing.of([Surveyor(source, i, n_parts, labels) for i in range(n_parts)])
    both_of = partial(merge_known, name_column=partial(name_in, source))
    columns, outputs = reduce(both_of, _waves(ask, Surveyor.survey, range(n_waves)))
    latest = _digest_statistics(columns, outputs)
    if before is not None:
        if columns.form != before.columns.form:
            was, now = before.columns.form, columns.form
            raise InputError(f"X must be {was}, as at the start, but is {now}; convert it")
        if latest == before.latest:
            check(before.scale, before.outputs)
            return before if names == before.names else replace(before, names=names)
        earlier = before.columns.weakened(decay), before.outputs.weakened(decay)
        columns, outputs = both_of(earlier, (columns, outputs))
    outputs.check()
    scale = scale_of(columns)
    check(scale, outputs)
    multiply = sharing.of([Multiplier(source, i, n_parts, scale) for i in range(n_parts)])

    def image(direction: Floats | None) -> Floats:
        questions = [(wave, direction) for wave in range(n_waves)]
        return reduce(np.add, _waves(multiply, Multiplier.image, questions))

    n_used = int(np.count_nonzero(scale.inverse))
    effort = effort or (_AT_HAND if len(source.block_rows) == 1 else _READ_AGAIN)
    top = top_singular_value(image(None), image, n_used, effort)
    top = top if before is None else max(top, before.top)
    return Learned(columns, outputs, top, latest, names)


def _digest_statistics(columns: Moments, outputs: Outputs) -> str:
    """Return 64 hexadecimal digits over the statistics of some rows."""
    figures = (columns.n_rows, columns.form, outputs.largest, outputs.variance)
    digest = hashlib.sha256(json.dumps(figures).encode())
    for part in (columns.mean, columns.rest, columns.variance, columns.varies, outputs.mean):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _waves(ask: Ask, function: Any, questions: Any) -> Iterator[Any]:
    """Yield the answers of all partitions in their order, a wave at a time to save memory."""
    for question in questions:
        yield from (answer for answer in ask(function, question) if answer is not None)


def _check_same_kind(source: RowSource, task: Task | None, before: Learned) -> None:
    was = "regression" if before.outputs.labels is None else "classification"
    if task not in (None, was):
        raise InputError(f"task must be {was}, as it was at the start, but is {task!r}")
    if was == "regression" and source.target_type.kind not in "biuf":
        raise InputError(
            "y must hold numbers, as at the start, but holds "
            f"{in_words(source.target_type)}; give numbers"
        )
    labels = before.outputs.labels
    if labels is not None and (source.target_type.kind in _TEXT) != (labels.dtype.kind in _TEXT):
        raise InputError(
            f"y must be of classes like {labels[0]}, as at the start, but holds "
            f"{in_words(source.target_type)}; name them as then"
        )
    n_columns = len(before.columns.mean)
    if source.shape[1] != n_columns:
        raise InputError(
            f"X must have {n_columns} columns, as at the start, but has {source.shape[1]}; give "
            "the same columns in the same order"
        )
    for was_named, is_named in zip(before.names or (), names_in(source) or (), strict=False):
        if is_named != was_named:
            raise InputError(
                f"X must have the column {was_named!r}, as at the start, where it has "
                f"{is_named!r}; give the same columns in the same order"
            )
