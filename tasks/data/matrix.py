"""Conversion of a typed table to a model's inputs: feature matrix, target, weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.memory import release_memory
from chaffinch.tasks.data.arrow import as_numbers, column_of, kind_of
from chaffinch.tasks.data.roles import encode_target, rows_with_roles
from chaffinch.tasks.data.splitting.splits import Roles
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Schema
from chaffinch.tasks.settings.columns import ROW_ROLES
from chaffinch.tasks.settings.selection import BaselineKind, SelectionSettings

Index = NDArray[np.int64]

# cells of a dataset that are read at once: 32 MiB
_CELLS_AT_A_TIME = 2**22


class DatasetLike(Protocol):
    """Dataset that can read some of its columns; the order of the rows is fixed."""

    def read(self, columns: list[str], /) -> Any:
        """Return a pyarrow.Table."""
        ...


def feature_matrix(
    table: Any, features: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Floats:
    """Return the features as numbers, shape (n, d)."""
    matrix = np.empty((table.num_rows, len(features)), order="F")
    for position, values in enumerate(feature_columns(table, features, categories)):
        matrix[:, position] = values
    return matrix


def load_roles(
    dataset: DatasetLike, settings: SelectionSettings, description: TableDescription
) -> Roles:
    """Return target, weights, groups, times and user's parts of all rows; reads no feature."""
    names = [settings.target, *(getattr(settings.columns, role) for role in ROW_ROLES)]
    return roles_of(dataset.read([name for name in names if name]), settings, description)


def roles_of(table: Any, settings: SelectionSettings, description: TableDescription) -> Roles:
    """Return target, weights, groups, times and user's parts of a table in memory."""
    target, weight = column_of(table, settings.target, "target"), settings.columns.weight
    y = encode_target(target, settings.target, description.task, description.classes)
    rows = rows_with_roles(table, settings, y, description.classes)
    if weight is None:
        return rows
    return replace(rows, weight=as_numbers(column_of(table, weight, "weight")))


def load_rows(
    dataset: DatasetLike,
    settings: SelectionSettings,
    description: TableDescription,
    index: Index | None = None,
    mask: Mask | None = None,
) -> Rows:
    """Return rows as inputs of a model, with the features of the description, or a mask of them.

    Features are read in blocks of columns, so that memory holds the requested rows and about 64 MiB
    more.
    """
    roles = load_roles(dataset, settings, description)
    rows = slice(None) if index is None else index
    y, features = roles.y[rows], description.features
    if mask is not None:
        features = tuple(name for name, is_kept in zip(features, mask, strict=True) if is_kept)
    matrix = np.empty((len(y), len(features)), order="F")
    at_a_time = max(1, _CELLS_AT_A_TIME // max(1, len(roles.y)))
    for start in range(0, len(features), at_a_time):
        block = features[start : start + at_a_time]
        table = dataset.read(list(block))
        columns = feature_columns(table, block, description.categories)
        for position, values in enumerate(columns, start):
            matrix[:, position] = values[rows]
        del table, columns, values  # free memory before the next block
    release_memory()
    return Rows(matrix, y, None if roles.weight is None else roles.weight[rows])


def baseline_values(rows: Rows, schema: Schema, kind: BaselineKind) -> Floats:
    """Return the values of masked features, shape (d,).

    Means and medians are weighted and ignore missing values; a feature without any value gets 0.
    A categorical feature gets its most frequent code for every `kind`; ties: the lowest code.
    """
    if kind not in get_args(BaselineKind):
        raise InputError(f"baseline must be mean, median, minimum or zero but is {kind!r}")
    weight = np.ones(len(rows)) if rows.weight is None else rows.weight
    baseline = np.zeros(len(schema.features))
    columns = rows.columns(range(len(schema.features)))
    for position, (values, n_categories) in enumerate(
        zip(columns, schema.n_categories, strict=True)
    ):
        present = ~np.isnan(values)
        values, weights = values[present], weight[present]
        if not len(values):
            continue
        if n_categories:
            baseline[position] = np.argmax(np.bincount(values.astype(np.int64), weights=weights))
        elif kind == "mean":
            baseline[position] = np.average(values, weights=weights)
        elif kind == "median":
            baseline[position] = _weighted_median(values, weights)
        elif kind == "minimum":
            baseline[position] = values.min()
    return baseline


def _weighted_median(values: Floats, weights: Floats) -> float:
    """Return the weighted median; between two values, their mean."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    half = reached[-1] / 2
    middle = [np.searchsorted(reached, half, side=side) for side in ("left", "right")]
    low, high = values[order[middle]]
    return float(low / 2 + high / 2)


def feature_columns(
    table: Any, features: Sequence[str], categories: Mapping[str, Sequence[str]]
) -> Iterator[Floats]:
    """Yield each feature as numbers, shape (n,)."""
    place = {name: position for position, name in enumerate(table.column_names)}
    for name in features:
        # to search the names for every feature takes longer than to read the columns
        column = table.column(place[name]) if name in place else column_of(table, name, "feature")
        if column.null_count == len(column):  # an empty column has no kind
            yield np.full(len(column), np.nan)
            continue
        kind = kind_of(name, column)
        if kind == "timestamp":
            raise InputError(f"feature {name!r} holds timestamps: drop it")
        if (kind == "category") != (name in categories):
            held, known = ("text", "numbers") if kind == "category" else ("numbers", "categories")
            raise InputError(
                f"feature {name!r} holds {held} but was described as {known}: convert it, or "
                "describe the table again"
            )
        yield as_numbers(column, categories.get(name))
