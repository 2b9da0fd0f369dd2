"""Statistics of all rows so far: what a descent knows before its first step, and keeps."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from chaffinch.errors import InputError
from chaffinch.tasks.selection.core import Task
from chaffinch.tasks.selection.dfs.observations import Observations
from chaffinch.tasks.selection.dfs.outputs import (
    Outputs,
    in_words,
    labels_for,
    merged_outputs,
    outputs_of,
)
from chaffinch.tasks.selection.dfs.scaling import (
    NEARLY,
    Moments,
    Scale,
    merged,
    moments_of,
    scale_of,
    top_singular_value,
)

_TEXT = "OU"  # kinds of array


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
    data: Observations,
    task: Task | None,
    before: Learned | None = None,
    *,
    check: Callable[[Scale], None] = lambda scale: None,
    decay: float = 1.0,
) -> Learned:
    """Return the moments of rows, and their top singular value.

    If these rows were the last to be added to `before`, it is returned. Rows are else added to
    `before`, each of whose rows counts as the share `decay` of a row; the top singular value is
    then the larger of the two, as it has to be rather high. `check` may refuse the scale.

    A sample of rows would not do: its top singular value is higher, on text with an eighth of the
    rows 2.4 to 2.8 times, as columns that few rows have are as rare among them.
    """
    if before is None:
        labels = labels_for(data.y, task)
    else:
        labels = before.outputs.labels
        _check_same_kind(data, task, before)
    names = data.names or (before.names if before else None)
    columns, outputs = moments_of(data.rows, data.name_of), outputs_of(data.y, labels)
    latest = _digest_statistics(columns, outputs)
    if before is not None:
        if columns.form != before.columns.form:
            was, now = before.columns.form, columns.form
            raise InputError(f"X must be {was}, as at the start, but is {now}; convert it")
        if latest == before.latest:
            check(before.scale)
            return before if names == before.names else replace(before, names=names)
        columns = merged(before.columns.weakened(decay), columns, data.name_of)
        outputs = merged_outputs(before.outputs.weakened(decay), outputs)
    outputs.check()
    scale = scale_of(columns)
    check(scale)
    top = top_singular_value(scale, scale.prepared(data.rows), data.shape[0], NEARLY)
    top = top if before is None else max(top, before.top)
    return Learned(columns, outputs, top, latest, names)


def _digest_statistics(columns: Moments, outputs: Outputs) -> str:
    """Return 64 hexadecimal digits over the statistics of some rows."""
    figures = (columns.n_rows, columns.form, outputs.largest, outputs.variance)
    digest = hashlib.sha256(json.dumps(figures).encode())
    for part in (columns.mean, columns.rest, columns.variance, columns.varies, outputs.mean):
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _check_same_kind(data: Observations, task: Task | None, before: Learned) -> None:
    was = "regression" if before.outputs.labels is None else "classification"
    if task not in (None, was):
        raise InputError(f"task must be {was}, as it was at the start, but is {task!r}")
    dtype, labels = data.y.dtype, before.outputs.labels
    if labels is None and dtype.kind not in "biuf":
        raise InputError(
            f"y must hold numbers, as at the start, but holds {in_words(dtype)}; give numbers"
        )
    if labels is not None and (dtype.kind in _TEXT) != (labels.dtype.kind in _TEXT):
        raise InputError(
            f"y must be of classes like {labels[0]}, as at the start, but holds {in_words(dtype)}; "
            "name them as then"
        )
    n_columns = len(before.columns.mean)
    if data.shape[1] != n_columns:
        raise InputError(
            f"X must have {n_columns} columns, as at the start, but has {data.shape[1]}; give "
            "the same columns in the same order"
        )
    for was_named, is_named in zip(before.names or (), data.names or (), strict=False):
        if is_named != was_named:
            raise InputError(
                f"X must have the column {was_named!r}, as at the start, where it has "
                f"{is_named!r}; give the same columns in the same order"
            )
