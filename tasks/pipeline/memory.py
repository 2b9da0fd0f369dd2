"""Memory that a run needs, checked before a table is read.

A run holds its rows in memory, or in files if they are a large share of it and model and method
read them from there. The figures are measured; docs/troubleshooting.md describes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from shutil import disk_usage

from chaffinch.errors import TableTooLargeError
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.datasets.steps import OpenWorkers
from chaffinch.storage.memory import free_memory
from chaffinch.storage.sources import Source
from chaffinch.tasks.data.stored_rows import MOST_BYTES
from chaffinch.tasks.selection.models import MODELS, kind_of
from chaffinch.tasks.selection.models.lightgbm import SAMPLED_ROWS, SAMPLED_VALUES
from chaffinch.tasks.selection.models.runtime import cores
from chaffinch.tasks.settings.base import STARTED_HERE
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.dask_cluster import open_workers, workers_of
from chaffinch.tasks.workers.interface import Needs, Workers

logger = logging.getLogger(__name__)

_LIBRARIES = 300e6  # bytes
_HISTOGRAMS_PER_COLUMN, _HISTOGRAMS = 130e3, 600e6  # at most
_PER_VALUE, _PER_VALUE_CROSS_FITTED = 12.0, 20.0  # a fold is a copy of its rows
_WORKER_LIBRARIES, _WORKER_PER_VALUE = 200e6, 16.0
# With rows in files: roles, scores and gradients of each row; a bin of each value; the libraries
# that a model loads.
_PER_ROW_IN_FILES, _PER_ROW_OF_FOLDS, _PER_VALUE_IN_FILES = 50.0, 60.0, 1.0
_LIBRARIES_OF_MODELS, _PER_SAMPLED_VALUE = 200e6, 18.0
_PER_ROW_TO_SORT = 40.0  # a column, its hashes and the order
_DISK_PER_VALUE, _MUCH_DISK = 24.0, 1e9  # bytes; a value is stored up to three times
SHARE_IN_MEMORY = 0.5  # largest share of the free memory for a run in memory


def check_memory(source: Source, settings: SelectionSettings, *, in_files: bool = True) -> None:
    """Raise TableTooLargeError if a run on a source needs more memory than there is."""
    if (shape := source.shape()) is not None:
        n_columns = shape[1] - len(settings.columns.drop)
        check_shape(source.label, shape[0], n_columns, settings, in_files=in_files)


def check_shape(
    what: str, n_rows: int, n_columns: int, settings: SelectionSettings, *, in_files: bool = True
) -> None:
    """Raise TableTooLargeError if a table of this shape needs more memory than there is.

    `in_files`: whether its rows may be in files, as those of a comparison may not.
    """
    model, method = settings.model.name, settings.method
    needed, free = needed_memory(n_rows, n_columns, settings, in_files=in_files), free_memory()
    remedy = ""
    if (
        in_files
        and not _reads_files(settings, n_columns)
        and _needed_in_files(n_rows, n_columns, settings) <= free
    ):
        remedy = (
            f"method {method.kind} needs the rows of its search in memory, set search_rows to a "
            "number that fits or use auto or gbmo; "
        )
        if not kind_of(model).reads_files:
            others = " or ".join(name for name, kind in MODELS.items() if kind.reads_files)
            remedy = f"model {model} needs its rows in memory, use {others}; "
    if needed > free:
        raise TableTooLargeError(
            f"{what} has {n_rows:,} rows x {n_columns:,} columns, so a run needs about "
            f"{gigabytes(needed)} of memory but {gigabytes(free)} is free; {remedy}drop columns, "
            "give fewer rows, or use a machine with more memory"
        )


def needed_memory(
    n_rows: int, n_columns: int, settings: SelectionSettings, *, in_files: bool = True
) -> float:
    """Return an estimate of the bytes of memory that a run needs at least."""
    needed = _needed_in_memory(n_rows, n_columns, settings)
    if in_files and _reads_files(settings, n_columns):
        needed = min(needed, _needed_in_files(n_rows, n_columns, settings))
    return needed


def is_in_files(dataset: Dataset, settings: SelectionSettings, n_rows: int | None = None) -> bool:
    """Return whether a run holds so many rows, by default all, in files; the result is the same."""
    n_columns = len(dataset.columns)
    needed = _needed_in_memory(dataset.n_rows if n_rows is None else n_rows, n_columns, settings)
    return _reads_files(settings, n_columns) and needed > SHARE_IN_MEMORY * free_memory()


def log_disk_space(source: Source, settings: SelectionSettings, folder: Path) -> None:
    """Log the disk space that a large table needs; a warning where there is less."""
    if (shape := source.shape()) is None:
        return
    n_columns = shape[1] - len(settings.columns.drop)
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    needed, free = _DISK_PER_VALUE * shape[0] * n_columns, disk_usage(existing).free
    if needed > _MUCH_DISK:
        log = logger.warning if needed > free else logger.info
        words = (source.label, gigabytes(needed), folder, gigabytes(free))
        log("%s may need %s of disk in %s, where %s is free", *words)


def workers_for(
    execution: ExecutionSettings, datasets: Sequence[Dataset]
) -> AbstractContextManager[Workers]:
    """Open the workers; of a local cluster as many as the settings or `n_local_workers` name."""
    if execution.client is not None:
        return workers_of(execution.client)
    n_workers = execution.workers
    if execution.cluster in STARTED_HERE and n_workers is None:
        n_workers = n_local_workers((dataset.n_rows, len(dataset.columns)) for dataset in datasets)
    return open_workers(execution.cluster, n_workers)


def workers_that_ingest(execution: ExecutionSettings) -> OpenWorkers | None:
    """Return what opens workers to read a table of so many rows; None for this process.

    `auto` is this process.
    """
    if execution.client is None and execution.cluster in ("none", "auto"):
        return None

    def opened(n_rows: int) -> AbstractContextManager[Workers]:
        n_bytes = _LIBRARIES_OF_MODELS + _PER_ROW_TO_SORT * n_rows
        needs = Needs((), n_bytes, f"reading a table of {n_rows:,} rows")
        return _with_memory(execution, needs)

    return opened


def workers_that_read(
    dataset: Dataset, execution: ExecutionSettings
) -> AbstractContextManager[Workers]:
    """Open workers that read the rows of a dataset from its files, each with memory for a fit."""
    n_rows, n_columns = dataset.n_rows, len(dataset.columns)
    per_row = _PER_ROW_IN_FILES + _PER_VALUE_IN_FILES * n_columns
    n_bytes = _needed_by_a_fit(n_rows, n_columns, per_row)
    about = f"a fit of {n_rows:,} rows x {n_columns:,} columns"
    return _with_memory(execution, Needs((dataset.manifest,), n_bytes, about))


def _with_memory(execution: ExecutionSettings, needs: Needs) -> AbstractContextManager[Workers]:
    """Open workers with what they need; `auto` is this process, whose fits use all of its cores."""
    if execution.client is not None:
        return workers_of(execution.client, needs)
    cluster, n_workers = execution.cluster, execution.workers
    if cluster == "auto":
        cluster = "none"
    if cluster == "local" and n_workers is None:
        n_fit = int(free_memory() // needs.n_bytes) - 1  # one is this process
        n_workers = max(1, min(cores(), n_fit))
    return open_workers(cluster, n_workers, needs)


def n_local_workers(shapes: Iterable[tuple[int, int]]) -> int:
    """Return the number of workers that the cores and the memory allow, at least 1.

    `shapes` are the rows and columns of the tables; each worker holds a copy of all.
    """
    own, per_worker = 0.0, _WORKER_LIBRARIES
    for n_rows, n_columns in shapes:
        own += _needed(n_rows, n_columns, is_cross_fitted=True)
        per_worker += _WORKER_PER_VALUE * n_rows * n_columns
    n_cores, n_fit = cores(), int((free_memory() - own) // per_worker)
    if n_fit < n_cores:
        logger.warning(
            "memory is enough for %d of %d workers, one for each core", max(1, n_fit), n_cores
        )
    return max(1, min(n_cores, n_fit))


def _needed_in_memory(n_rows: int, n_columns: int, settings: SelectionSettings) -> float:
    is_cross_fitted = settings.method.traits.is_cross_fitted
    return _needed(n_rows, n_columns, is_cross_fitted=is_cross_fitted)


def _needed(n_rows: int, n_columns: int, *, is_cross_fitted: bool) -> float:
    per_value = _PER_VALUE_CROSS_FITTED if is_cross_fitted else _PER_VALUE
    return _LIBRARIES + _histograms(n_columns) + per_value * n_rows * n_columns


def _histograms(n_columns: int) -> float:
    return min(_HISTOGRAMS_PER_COLUMN * n_columns, _HISTOGRAMS)


def _needed_in_files(n_rows: int, n_columns: int, settings: SelectionSettings) -> float:
    per_row = _PER_ROW_IN_FILES + _PER_VALUE_IN_FILES * n_columns
    if settings.method.traits.is_cross_fitted:
        per_row += _PER_ROW_OF_FOLDS
    n_trees: int = settings.model.parameters.get("n_estimators", 100)
    masked = 8.0 * min(settings.mask_rows, n_rows) * (2 * n_columns + n_trees)
    # small matrices are in memory all the same, up to three at a time
    held = 8.0 * n_rows * n_columns
    fitted = _needed_by_a_fit(n_rows, n_columns, per_row)
    return max(fitted, _LIBRARIES_OF_MODELS + masked) + (3 * held if held <= MOST_BYTES else 0.0)


def _needed_by_a_fit(n_rows: int, n_columns: int, per_row: float) -> float:
    n_sampled = min(min(n_rows, SAMPLED_ROWS) * n_columns, SAMPLED_VALUES)
    fitted = max(_histograms(n_columns) + n_rows * per_row, _PER_SAMPLED_VALUE * n_sampled)
    return _LIBRARIES_OF_MODELS + fitted


def _reads_files(settings: SelectionSettings, n_columns: int) -> bool:
    """Return whether rows may be in files: the model reads them there, and so does the search.

    A search that does not may hold its own rows in memory, where `search_rows` are few.
    """
    n, searches = settings.search_rows, settings.method.traits.reads_files
    if not searches and n is not None:
        searches = _needed_in_memory(n, n_columns, settings) <= SHARE_IN_MEMORY * free_memory()
    return searches and kind_of(settings.model.name).reads_files


def gigabytes(n_bytes: float) -> str:
    decimals = 1 if n_bytes >= 1e9 else 2
    return f"{n_bytes / 1e9:,.{decimals}f} GB"
