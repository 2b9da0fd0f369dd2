"""First steps of a run: ingest a source, describe the dataset, split it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.errors import InputError
from chaffinch.storage.column_names import check_known
from chaffinch.storage.datasets import dataset
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.datasets.steps import OpenWorkers
from chaffinch.storage.sources.memory import MemorySource
from chaffinch.storage.sources.source import Source
from chaffinch.tasks.data.lag_features import prepared
from chaffinch.tasks.data.matrix import load_roles
from chaffinch.tasks.data.reselection_fit import (
    optional_columns,
    warnings_since,
)
from chaffinch.tasks.data.roles import roles_of_rows
from chaffinch.tasks.data.splitting.outer_folds import OuterFolds
from chaffinch.tasks.data.splitting.splits import FINAL, PARTS, split_rows
from chaffinch.tasks.data.table_check import check_names, describe_table
from chaffinch.tasks.pipeline.memory import check_memory, check_shape, log_disk_space
from chaffinch.tasks.pipeline.progress import OnProgress, no_progress
from chaffinch.tasks.pipeline.selection_run import (
    DESCRIPTION,
    FOLDS_FILE,
    PROFILE_FILE,
    SPLITS_FILE,
    SelectionRun,
)
from chaffinch.tasks.pipeline.stage import Writer, stage
from chaffinch.tasks.settings.selection import SelectionSettings

_Read = tuple[Source, str]  # a source, and the settings as JSON
_read_before: ContextVar[dict[_Read, Dataset] | None] = ContextVar("read_before", default=None)


@contextmanager
def reads_cached() -> Iterator[None]:
    """Cache remote tables in the block, so that a check and its run read them once."""
    token = _read_before.set({})
    try:
        yield
    finally:
        _read_before.reset(token)


def ingest(
    source: Source,
    settings: SelectionSettings,
    datasets: Path,
    on_progress: OnProgress = no_progress,
    open_workers: OpenWorkers | None = None,
) -> Dataset:
    """Convert a table to typed, content-hashed, hash-shuffled Parquet.

    `open_workers` opens workers that may read a large table.
    """
    cached = _read_before.get()
    if cached is None or source.rereadable:
        return _ingest_anew(source, settings, datasets, on_progress, open_workers)
    read = (source, settings.model_dump_json())
    if read not in cached:
        cached[read] = _ingest_anew(source, settings, datasets, on_progress, open_workers)
    return cached[read]


def _ingest_anew(
    source: Source,
    settings: SelectionSettings,
    datasets: Path,
    on_progress: OnProgress,
    open_workers: OpenWorkers | None,
) -> Dataset:
    check_header(source, settings)
    check_memory(source, settings)
    log_disk_space(source, settings, datasets)
    shape = source.shape() if settings.history is None else None
    label, source = source.label, _with_history(source, settings)
    on_done = partial(on_progress, "ingest")
    ingested = dataset.ingest(
        source,
        datasets,
        **_reading_options(settings),
        open_workers=open_workers,
        on_done=on_done,
    )
    if shape is None:  # known only now
        check_shape(label, ingested.n_rows, len(ingested.columns), settings)
    return ingested


def _reading_options(settings: SelectionSettings) -> dict[str, Any]:
    """Return the options of `dataset.ingest` that the settings determine."""
    columns = settings.columns
    of_rows = [name for _, name in roles_of_rows(settings)]
    return {
        "categorical": columns.categorical,
        "numeric": columns.numeric,
        "ordered": [] if columns.time is None else [columns.time],
        "drop": columns.drop,
        "labels": None if settings.task == "regression" else settings.target,
        "optional": optional_columns(settings),
        "rows_with": settings.target if columns.drop_rows_without_target else None,
        "whole_dates": of_rows if columns.dates == "parts" else None,
    }


def parts_in_order(
    source: Source, settings: SelectionSettings, dataset_hash: str, part: pa.Array
) -> pa.Array:
    """Return the part of each row of a run's table, in the table's own order of rows.

    `part` has the parts in the order of the dataset. Of equal rows the first in the table is the
    first in the dataset. A row without a target has none. InputError if the table is not the run's.
    """
    with TemporaryDirectory(prefix="chaffinch-") as folder:
        ingested = dataset.ingest(
            _with_history(source, settings), Path(folder), **_reading_options(settings)
        )
        rows = ingested.rows_in_source()
    if ingested.hash != dataset_hash:
        raise InputError(
            f"{source.label} does not have the rows, columns and types of columns of the run; give "
            "the table that it was selected from, read in the same way"
        )
    place = np.full(len(rows) + ingested.n_left_out, -1)
    place[rows] = np.arange(len(rows))
    return part.take(pa.array(place, mask=place < 0))


def check_header(source: Source, settings: SelectionSettings) -> None:
    """Raise InputError if a file lacks a column, before its rows are read."""
    # history and dates add features
    adds_none = settings.history is None and settings.columns.dates == "none"
    if adds_none and source.has_header():
        names = source.columns()
        known = optional_columns(settings)
        check_known([name for name in settings.columns.drop if name not in known], names)
        check_names(pa.schema([(name, pa.null()) for name in names]), settings)


def _with_history(source: Source, settings: SelectionSettings) -> Source:
    """Return the source with the lag features of the settings."""
    return source if settings.history is None else MemorySource(prepared(source, settings))


@contextmanager
def errors_with_source_rows(
    table: Dataset, settings: SelectionSettings, outer_folds: OuterFolds | None = None
) -> Iterator[None]:
    """Replace row numbers in an error of the block by row numbers of the source.

    The dataset is shuffled; it is put in order only after an error.
    """
    try:
        yield
    except InputError:
        if table.source_order is not None:
            describe_table(table.in_source_order(), settings, outer_folds)
        raise


@stage()
def describe(run: SelectionRun, writer: Writer) -> None:
    """Check the table against the settings and profile its columns."""
    table, former = dataset.LazyTable(run.dataset), run.settings.former
    on_done = partial(run.progress, "describe")
    with errors_with_source_rows(run.dataset, run.settings):
        description = describe_table(table, run.settings, on_done=on_done)
    if former is not None:
        since = warnings_since(former, description.classes, run.dataset.hash, run.dataset.columns)
        description = replace(description, warnings=(*since, *description.warnings))
    if n := run.dataset.n_left_out:
        rows = "1 row has" if n == 1 else f"{n:,} rows have"
        left_out = (
            f"{rows} no target {run.settings.target!r} and {'is' if n == 1 else 'are'} left out"
        )
        description = replace(description, notes=(left_out, *description.notes))
    if run.custom_folds is not None:
        by_cv = f"the folds are given, by {run.custom_folds.made_by}"
        description = replace(description, notes=(by_cv, *description.notes))
    run.description = description
    writer.write(PROFILE_FILE, DESCRIPTION.dump_json(description, indent=2))


@stage("describe")
def split(run: SelectionRun, writer: Writer) -> None:
    """Split the rows into the sets."""
    roles = load_roles(run.dataset, run.settings, run.description)
    run.splits = splits = split_rows(roles, run.settings)
    part = np.full(len(roles.y), -1, dtype=np.int8)  # rows under an embargo are in no set
    names = (*PARTS, FINAL) if len(splits.final) else PARTS
    for code, name in enumerate(names):
        part[getattr(splits, name)] = code
    codes = pa.array(part, mask=part < 0)
    run.part = pa.DictionaryArray.from_arrays(codes, list(names))
    writer.write(SPLITS_FILE, lambda path: pq.write_table(pa.table({"part": run.part}), path))
    if (folds := run.custom_folds) is not None:
        writer.write(FOLDS_FILE, lambda path: pq.write_table(folds.to_table(), path))
    writer.result = {"rows": {name: len(getattr(splits, name)) for name in names}}
