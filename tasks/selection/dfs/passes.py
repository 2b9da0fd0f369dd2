"""Blocks of a source distributed to workers: each part reads its own.

Results for a block, and the order in which they are added, do not depend on the number of parts.
For figures of all rows the blocks are assigned to eight partitions: each is summed in the order of
its blocks, and then the partitions in order. A step has one batch from each of some blocks, and
their mean is taken in the order in which they were drawn.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from chaffinch.tasks.selection.core import Floats, Task
from chaffinch.tasks.selection.dfs.batches import Batch, dense_z, sparse_z
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
from chaffinch.tasks.selection.dfs.tables import SparseTable, Table, chain_weights

_PARTITIONS = 8

Ask = Callable[[Callable[[Any, Any], Any], Any], list[Any]]


def here(things: Sequence[Any]) -> Ask:
    """Keep objects in this process; return a function that applies a question to all of them."""

    def ask(function: Callable[[Any, Any], Any], question: Any) -> list[Any]:
        return [function(thing, question) for thing in things]

    return ask


def _one() -> int:
    return 1


@dataclass(frozen=True)
class Sharing:
    """Distribution of work.

    Attributes
    ----------
    for_each : callable
        Distributes objects, as `here` keeps them.
    count_threads : callable
        Returns the number of threads; called only when there is work to distribute, as the workers
        may have to be started for it.
    """

    for_each: Callable[[Sequence[Any]], Ask] = here
    count_threads: Callable[[], int] = _one

    def n_parts(self, n_tasks: int) -> int:
        """Return the number of parts for so many tasks."""
        return 1 if n_tasks == 1 else min(self.count_threads(), n_tasks)

    def of(self, parts: Sequence[Any]) -> Ask:
        """Distribute parts; a single one stays here."""
        return self.for_each(parts) if len(parts) > 1 else here(parts)


class Partitions:
    """One of those who read all blocks: asked in waves, it takes a partition in each.

    Parameters
    ----------
    source : RowSource
    number, n_parts : int
        Which of how many.
    """

    def __init__(self, source: RowSource, number: int, n_parts: int) -> None:
        self.source, self._number, self._n_parts = source, number, n_parts

    @staticmethod
    def count(source: RowSource, sharing: Sharing) -> tuple[int, int]:
        """Return how many of them there are, and how many waves they are asked in."""
        n_partitions = min(_PARTITIONS, len(source.block_rows))
        n_parts = sharing.n_parts(n_partitions)
        return n_parts, -(-n_partitions // n_parts)

    def blocks(self, wave: int) -> range:
        """Return the blocks of the partition of a wave; none where there is none left."""
        n_blocks = len(self.source.block_rows)
        n_partitions = min(_PARTITIONS, n_blocks)
        partition = wave * self._n_parts + self._number
        return range(partition, n_blocks if partition < n_partitions else 0, n_partitions)


Known = tuple[Moments, Outputs]


class Surveyor:
    """Computes statistics of the columns and the target.

    Parameters
    ----------
    partitions : Partitions
    labels : ndarray or None
        See `Outputs`.
    """

    def __init__(self, partitions: Partitions, labels: NDArray[Any] | None) -> None:
        self._partitions, self._labels = partitions, labels

    def survey(self, wave: int) -> Known | None:
        """Return what is known of a partition, if there is one."""
        found: Known | None = None
        source = self._partitions.source
        name_column = partial(name_in, source)
        for block in self._partitions.blocks(wave):
            X, y = source.read(block)
            one = moments_of(read_rows(X), name_column), outputs_of(y, self._labels)
            found = one if found is None else both(found, one, name_column)
        return found


def both(one: Known, other: Known, name_column: NameColumn) -> Known:
    """Return what is known of the rows of both; see `moments_of`."""
    return merged(one[0], other[0], name_column), merged_outputs(one[1], other[1])


class Multiplier:
    """Multiplies standardised rows U with a direction.

    Parameters
    ----------
    partitions : Partitions
    scale : Scale
    """

    def __init__(self, partitions: Partitions, scale: Scale) -> None:
        self._partitions, self._scale = partitions, scale
        self._only: tuple[Any, ...] | None = None

    def image(self, asked: tuple[int, Floats | None]) -> Floats | None:
        """Return U' U direction / N, shape (D,), of a partition, if there is one.

        Parameters
        ----------
        asked : tuple
            The wave; and a direction, shape (D,), or None: then it is U' times random numbers.
        """
        wave, direction = asked
        source, total = self._partitions.source, None
        for block, operands in self._prepared(wave):
            n_rows = source.block_rows[block]
            if direction is None:
                lengths = random_lengths(sum(source.block_rows[:block]), n_rows)
            else:
                lengths = self._scale.lengths(operands, direction)
                lengths *= n_rows / source.shape[0]
            part = self._scale.image(operands, lengths)
            total = part if total is None else total + part
        return total

    def _prepared(self, wave: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """Yield the blocks of a wave, standardised; if there is one in all, it is kept."""
        source = self._partitions.source
        for block in self._partitions.blocks(wave):
            operands = self._only or self._scale.prepared(read_rows(source.read(block)[0]))
            if len(source.block_rows) == 1:
                self._only = operands
            yield block, operands


@dataclass(frozen=True, eq=False)
class Estimate:
    """Estimate from a batch.

    Attributes
    ----------
    z : float
        Share of the target's variance that the kept features explain.
    for_all : float
        Times `Scale.squares`: what the slope of every column has.
    touched : ndarray of int32, shape (u,), or None
        The columns with a value in the batch; None for all.
    slopes : ndarray, shape (u,) or (D,)
        The remaining part of their dz/ds.
    """

    z: float
    for_all: float
    touched: NDArray[np.int32] | None
    slopes: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Asked:
    """Parameters of a step, the same for every part; only `kept` is large.

    Attributes
    ----------
    kept : ndarray, shape (D,)
        s.
    everywhere : float
        The sum of kept times `Scale.squares`.
    batches : list of Batch
    """

    kept: NDArray[Any]
    everywhere: float
    batches: list[Batch]


class Estimator:
    """Estimates from the batches of a step: one part takes every n-th batch.

    Parameters
    ----------
    source : RowSource
    number, n_parts : int
        Which of how many.
    scale : Scale
    top : float
        The top singular value.
    outputs : Outputs
    order : int in 1..8
        Of the estimate.
    """

    def __init__(
        self,
        source: RowSource,
        number: int,
        n_parts: int,
        scale: Scale,
        top: float,
        outputs: Outputs,
        order: int,
    ) -> None:
        self._source, self._number, self._n_parts = source, number, n_parts
        self._scale, self._top, self._outputs, self._order = scale, top, outputs, order
        self._held: dict[int, tuple[int, Table, Floats]] = {}
        self._room: NDArray[np.int32] | None = None

    def estimates(self, asked: Asked) -> list[Estimate]:
        """Return the estimates from this part's batches, in order."""
        own = range(self._number, len(asked.batches), self._n_parts)
        return [self._estimate(place, asked) for place in own]

    def _estimate(self, place: int, asked: Asked) -> Estimate:
        block, rows = asked.batches[place]
        table, outputs = self._block(place, block)
        alphas, y = chain_weights(self._order, len(rows)), outputs[rows]
        if not isinstance(table, SparseTable):
            z, slopes = dense_z(table, rows, asked.kept, y, alphas)
            return Estimate(z, 0.0, None, slopes)
        if self._room is None:
            self._room = np.full(table.shape[1], -1, np.int32)
        return Estimate(
            *sparse_z(table, rows, asked.kept, y, alphas, asked.everywhere / len(rows), self._room)
        )

    def _block(self, place: int, block: int) -> tuple[Table, Floats]:
        """Return a block as a table, and its outputs; one is kept for each place of a step."""
        if place not in self._held or self._held[place][0] != block:
            self._held.pop(place, None)  # or two would be held
            X, y = self._source.read(block)
            table = self._scale.table(self._scale.prepared(read_rows(X)), self._top)
            self._held[place] = block, table, self._outputs.of(y)
        return self._held[place][1:]


_TEXT = "OU"  # kinds of array
_AT_HAND, _READ_AGAIN = Effort(20, 1e-4), Effort(12, 1e-4)  # of one block, which is kept; of more


@dataclass(frozen=True, eq=False)
class Learned:
    """Statistics of all rows so far.

    Attributes
    ----------
    columns : Moments
    outputs : Outputs
    top : float
        The top singular value of the standardised rows over sqrt(N), slightly high.
    latest : str
        What the rows that were added last are known by again: the SHA-256 of their figures.
    names : tuple of str, or None
        Of the columns, if any rows came with them.
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


Check = Callable[[Scale, Outputs], None]


def accept(scale: Scale, outputs: Outputs) -> None:
    """Let any columns and outputs pass."""


def learn(
    source: RowSource,
    task: Task | None,
    sharing: Sharing,
    before: Learned | None = None,
    *,
    check: Check = accept,
    effort: Effort | None = None,
) -> Learned:
    """Read all rows once for their moments, then for the top singular value.

    A sample of rows does not do: its top singular value is higher, on text with an eighth of the
    rows 2.4 to 2.8 times, as columns that few rows have are as rare among them.

    Parameters
    ----------
    source : RowSource
    task : "classification" or "regression", optional
        See `read_target`.
    sharing : Sharing
        Who reads; of no consequence.
    before : Learned, optional
        If these rows were the last to be added it is returned; other rows are as if they were there
        still. The top singular value of both is taken to be the larger one, as it has to be rather
        high.
    check : callable, optional
        Called with what is known of columns and target once the moments are; it may refuse them.
    effort : Effort, optional
        For the top singular value. By default 20 iterations at most for one block and 12 for
        several, each of which reads all rows: it is then within one per cent, mostly above.

    Raises
    ------
    ValueError
        If the rows cannot be used, or are of another kind than those before.
    """
    if before is None:
        labels = labels_for(source.target_type, lambda: source.labels, task)
    else:
        labels = before.outputs.labels
        _check_same_kind(source, task, before)
    names = names_in(source) or (before.names if before else None)
    n_parts, n_waves = Partitions.count(source, sharing)
    parts = [Partitions(source, i, n_parts) for i in range(n_parts)]
    ask = sharing.of([Surveyor(part, labels) for part in parts])
    both_of = partial(both, name_column=partial(name_in, source))
    columns, outputs = reduce(both_of, _waves(ask, Surveyor.survey, range(n_waves)))
    latest = _known_by(columns, outputs)
    if before is not None:
        _check_same_form(columns, before.columns)
        if latest == before.latest:
            check(before.scale, before.outputs)
            return before if names == before.names else replace(before, names=names)
        columns, outputs = both_of((before.columns, before.outputs), (columns, outputs))
    outputs.check()
    scale = scale_of(columns)
    check(scale, outputs)
    multiply = sharing.of([Multiplier(part, scale) for part in parts])

    def image(direction: Floats | None) -> Floats:
        questions = [(wave, direction) for wave in range(n_waves)]
        return reduce(np.add, _waves(multiply, Multiplier.image, questions))

    n_used = int(np.count_nonzero(scale.inverse))
    effort = effort or (_AT_HAND if len(source.block_rows) == 1 else _READ_AGAIN)
    top = top_singular_value(image(None), image, n_used, effort)
    top = top if before is None else max(top, before.top)
    return Learned(columns, outputs, top, latest, names)


def _known_by(columns: Moments, outputs: Outputs) -> str:
    """Return 64 hexadecimal digits over what is known of some rows."""
    figures = (columns.n_rows, columns.form, outputs.largest, outputs.variance)
    digest = hashlib.sha256(json.dumps(figures).encode())
    for part in (columns.mean, columns.rest, columns.variance, columns.varies, outputs.mean):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _waves(ask: Ask, function: Any, questions: Any) -> Iterator[Any]:
    """Yield the answers of all partitions in their order, never those of all at once."""
    for question in questions:
        yield from (answer for answer in ask(function, question) if answer is not None)


def _check_same_kind(source: RowSource, task: Task | None, before: Learned) -> None:
    was = "regression" if before.outputs.labels is None else "classification"
    if task not in (None, was):
        raise ValueError(f"task must be {was}, as it was at the start, but is {task!r}")
    if was == "regression" and source.target_type.kind not in "biuf":
        raise ValueError(
            "y must hold numbers, as at the start, but holds "
            f"{in_words(source.target_type)}; give numbers"
        )
    labels = before.outputs.labels
    if labels is not None and (source.target_type.kind in _TEXT) != (labels.dtype.kind in _TEXT):
        raise ValueError(
            f"y must be of classes like {labels[0]}, as at the start, but holds "
            f"{in_words(source.target_type)}; name them as then"
        )
    n_columns = len(before.columns.mean)
    if source.shape[1] != n_columns:
        raise ValueError(
            f"X must have {n_columns} columns, as at the start, but has {source.shape[1]}; give "
            "the same columns in the same order"
        )
    for was_named, is_named in zip(before.names or (), names_in(source) or (), strict=False):
        if is_named != was_named:
            raise ValueError(
                f"X must have the column {was_named!r}, as at the start, where it has "
                f"{is_named!r}; give the same columns in the same order"
            )


def _check_same_form(columns: Moments, before: Moments) -> None:
    if columns.form != before.form:
        raise ValueError(
            f"X must be {before.form}, as at the start, but is {columns.form}; convert it"
        )
