"""Memory that a run needs, checked before a table is read.

The figures are measured; docs/troubleshooting.md describes them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager

from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.errors import TableTooLargeError
from chaffinch.storage.memory import free_memory
from chaffinch.storage.sources import Source
from chaffinch.tasks.selection.models.runtime import cores
from chaffinch.tasks.settings.base import STARTED_HERE
from chaffinch.tasks.settings.selection import ExecutionSettings, SelectionSettings
from chaffinch.tasks.workers.dask_cluster import open_workers
from chaffinch.tasks.workers.interface import Workers

logger = logging.getLogger(__name__)

_LIBRARIES, _PER_COLUMN = 300e6, 130e3  # bytes; of a column, its histograms
_PER_VALUE, _PER_VALUE_CROSS_FITTED = 12.0, 20.0  # folds are copies of rows
_WORKER_LIBRARIES, _WORKER_PER_VALUE = 200e6, 16.0


def check_memory(source: Source, settings: SelectionSettings) -> None:
    """Raise TableTooLargeError if a run on a source needs more memory than there is."""
    if (shape := source.shape()) is not None:
        n_columns = shape[1] - len(settings.columns.drop)
        check_shape(source.label, shape[0], n_columns, settings)


def check_shape(what: str, n_rows: int, n_columns: int, settings: SelectionSettings) -> None:
    """Raise TableTooLargeError if a table of this shape needs more memory than there is."""
    needed = _needed(n_rows, n_columns, is_cross_fitted=settings.method.is_cross_fitted)
    free = free_memory()
    if needed > free:
        raise TableTooLargeError(
            f"{what} has {n_rows:,} rows x {n_columns:,} columns, so a run needs about "
            f"{_gigabytes(needed)} of memory but {_gigabytes(free)} is free; drop columns, give "
            "fewer rows, or use a machine with more memory"
        )


def workers_for(
    execution: ExecutionSettings, datasets: Sequence[Dataset]
) -> AbstractContextManager[Workers]:
    """Open the workers; of a local cluster as many as the settings or `n_local_workers` name."""
    n_workers = execution.workers
    if execution.cluster in STARTED_HERE and n_workers is None:
        n_workers = n_local_workers((one.n_rows, len(one.columns)) for one in datasets)
    return open_workers(execution.cluster, n_workers)


def n_local_workers(shapes: Iterable[tuple[int, int]]) -> int:
    """Return how many workers the cores and the memory are enough for, at least 1.

    `shapes` are the rows and columns of the tables; each worker holds a copy of all.
    """
    own, each = 0.0, _WORKER_LIBRARIES
    for n_rows, n_columns in shapes:
        own += _needed(n_rows, n_columns, is_cross_fitted=True)
        each += _WORKER_PER_VALUE * n_rows * n_columns
    n_cores, n_fit = cores(), int((free_memory() - own) // each)
    if n_fit < n_cores:
        logger.warning(
            "memory is enough for %d of %d workers, one for each core", max(1, n_fit), n_cores
        )
    return max(1, min(n_cores, n_fit))


def _needed(n_rows: int, n_columns: int, *, is_cross_fitted: bool) -> float:
    per_value = _PER_VALUE_CROSS_FITTED if is_cross_fitted else _PER_VALUE
    return _LIBRARIES + n_columns * (_PER_COLUMN + per_value * n_rows)


def _gigabytes(n_bytes: float) -> str:
    return f"{n_bytes / 1e9:,.1f} GB"
