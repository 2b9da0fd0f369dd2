"""What a descent has to know of all rows before its first step."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import numpy as np

from chaffinch.tasks.selection.dfs.moments import Moments
from chaffinch.tasks.selection.dfs.parts import (
    Ask,
    Multiplier,
    Partitions,
    Sharing,
    Surveyor,
    both,
)
from chaffinch.tasks.selection.dfs.scaling import Scale, scale_of
from chaffinch.tasks.selection.dfs.sources import RowSource, name_in, names_in
from chaffinch.tasks.selection.dfs.strongest import Effort, top_singular_value
from chaffinch.tasks.selection.dfs.target import Outputs, in_words, labels_for
from chaffinch.tasks.selection.vocabulary import Floats, Task

_TEXT = "OU"  # kinds of array
_AT_HAND, _READ_AGAIN = Effort(20, 1e-4), Effort(12, 1e-4)  # of one block, which is kept; of more


@dataclass(frozen=True, eq=False)
class Learned:
    """What is known of all rows so far.

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
