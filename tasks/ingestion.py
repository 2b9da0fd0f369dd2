"""From a source to a described, split dataset: the first steps of every run."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pydantic import TypeAdapter

from chaffinch.storage.tables import Dataset
from chaffinch.storage.tables import ingest as ingest_source
from chaffinch.tasks.checking import TableDescription, describe_table
from chaffinch.tasks.matrix import load_rows, target_vector
from chaffinch.tasks.selection.vocabulary import Rows, Schema
from chaffinch.tasks.settings import SelectionSettings
from chaffinch.tasks.splits import split_rows
from chaffinch.tasks.stage import Context, StageRecord, StageWriter, stage

PARTS = ("train", "mask_validation", "model_validation", "test")
_DESCRIPTION = TypeAdapter(TableDescription)


def ingest(source: Any, settings: SelectionSettings, datasets: Path) -> Dataset:
    """Bring a table into typed, content-hashed, hash-shuffled Parquet.

    Parameters
    ----------
    source : path, or pandas, polars or Arrow table
        See `chaffinch.storage.sources.read_source`.
    settings : SelectionSettings
        Says which columns are categorical or numeric whatever they look like.
    datasets : Path
        Folder where datasets are kept.

    Raises
    ------
    InputError
        If the source cannot be read as a table.
    """
    columns = settings.columns
    return ingest_source(source, datasets, categorical=columns.categorical, numeric=columns.numeric)


@stage
def describe(context: Context, writer: StageWriter) -> None:
    """Check the table against the settings and profile its columns."""
    description = describe_table(context.dataset.read(), context.settings)
    writer.write("profile.json", _DESCRIPTION.dump_json(description, indent=2))


@stage
def split(context: Context, writer: StageWriter, described: StageRecord) -> None:
    """Deal the rows out to the four parts."""
    settings, columns = context.settings, context.settings.columns
    roles = [name for name in (columns.group, columns.time) if name]
    table = context.dataset.read([settings.target, *roles])
    y = target_vector(table, settings, description_of(described))
    splits = split_rows(
        y, settings, groups=_values(table, columns.group), times=_values(table, columns.time)
    )
    part = np.empty(len(y), dtype=np.int8)
    for code, name in enumerate(PARTS):
        part[getattr(splits, name)] = code
    column = pa.table({"part": pa.DictionaryArray.from_arrays(part, list(PARTS))})
    writer.write_with("splits.parquet", lambda path: pq.write_table(column, path))
    writer.result = {"rows": {name: len(getattr(splits, name)) for name in PARTS}}


def description_of(described: StageRecord) -> TableDescription:
    """Return the description that `describe` recorded."""
    return _DESCRIPTION.validate_json(described.path("profile.json").read_bytes())


def schema_of(described: StageRecord) -> Schema:
    """Return what the feature columns and the target mean."""
    description = description_of(described)
    n_classes = len(description.classes) if description.task == "classification" else 0
    return Schema(description.features, description.n_categories, n_classes)


def part_index(divided: StageRecord, parts: Collection[str]) -> NDArray[np.int64]:
    """Return the positions of the rows in any of `parts`, in the dataset's order."""
    codes = pq.read_table(divided.path("splits.parquet"))["part"].combine_chunks().indices
    wanted = [PARTS.index(part) for part in parts]
    return np.flatnonzero(np.isin(codes.to_numpy(), wanted))


def part_rows(context: Context, described: StageRecord, divided: StageRecord, *parts: str) -> Rows:
    """Load the rows of some parts, and no others, as a model sees them."""
    return load_rows(
        context.dataset,
        context.settings,
        description_of(described),
        part_index(divided, parts),
    )


def part_values(
    context: Context, divided: StageRecord, column: str | None, *parts: str
) -> NDArray[Any] | None:
    """Load one column of some parts as plain values; None where no column is named."""
    if column is None:
        return None
    values = _values(context.dataset.read([column]), column)
    return None if values is None else values[part_index(divided, parts)]


def _values(table: pa.Table, column: str | None) -> NDArray[Any] | None:
    """Return a column's values, categories as their codes; None where no column is named."""
    if column is None:
        return None
    values = table[column].combine_chunks()
    if pa.types.is_dictionary(values.type):
        values = values.indices
    return np.asarray(values.to_numpy(zero_copy_only=False))
