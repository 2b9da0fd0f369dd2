"""Rows of a dataset by reference: what names them is sent, and they are read where they are used.

Rows that are larger than memory are read in batches, a fit or a prediction at a time. Sent to a
worker, they are some hundred bytes: the files of the dataset and of the row numbers, and the names
of the columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import disk_usage
from tempfile import NamedTemporaryFile
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.datasets.dataset import Dataset
from chaffinch.storage.files import ASIDE, write_file
from chaffinch.storage.objects.shared_file import SharedFile
from chaffinch.storage.runs.stages import ROWS
from chaffinch.tasks.data.arrow import as_numbers
from chaffinch.tasks.data.matrix import feature_columns
from chaffinch.tasks.data.roles import encode_target
from chaffinch.tasks.data.table_check import TableDescription
from chaffinch.tasks.selection.core import Floats, Mask, Rows, Task
from chaffinch.tasks.settings.selection import SelectionSettings

Index = NDArray[np.int64]

_MOST_SENT = 2**16  # bytes that are sent as they are, although there is a folder for files
MOST_BYTES = 2**26  # of features that are held in memory
# Rows of a table that is never streamed: LightGBM finds its bins in so many rows, and to read all
# of its columns by rows would take more memory than the columns.
FEW_ROWS = 200_000
_CELLS_OF_COLUMNS = 2**22  # that are read at once: 32 MiB of numbers
_CELLS_OF_A_BATCH = 2**19  # 4 MiB


@dataclass(frozen=True)
class StoredTable:
    """A dataset, and how its columns become inputs of a model.

    `folder` is for temporary files, and for large row numbers that are sent.
    """

    dataset: Dataset
    target: str
    weight: str | None
    task: Task
    classes: tuple[str, ...]
    categories: Mapping[str, tuple[str, ...]]
    folder: Path

    @classmethod
    def of(
        cls,
        dataset: Dataset,
        settings: SelectionSettings,
        description: TableDescription,
        folder: Path,
    ) -> StoredTable:
        target, weight = settings.target, settings.columns.weight
        about = description.task, description.classes, description.categories
        return cls(dataset, target, weight, *about, folder.absolute())

    def numbers(self, index: Index) -> RowNumbers:
        return RowNumbers(index, self.dataset.n_rows, self.folder)

    def targets(self) -> NDArray[Any]:
        """Return the target of every row, shape (n,)."""
        column = self.dataset.read([self.target]).column(0)
        return encode_target(column, self.target, self.task, self.classes)

    def weights(self) -> Floats | None:
        """Return the weight of every row, shape (n,)."""
        if self.weight is None:
            return None
        return as_numbers(self.dataset.read([self.weight]).column(0))

    def columns(self, features: Sequence[str]) -> Iterator[Floats]:
        """Yield features of every row, each of shape (n,)."""
        at_a_time = max(1, _CELLS_OF_COLUMNS // self.dataset.n_rows)
        for start in range(0, len(features), at_a_time):
            some = features[start : start + at_a_time]
            yield from feature_columns(self.dataset.read(some), some, self.categories)


class RowNumbers:
    """Numbers of some rows of a table of `n_rows`; ascending ones are sent as a bit for each row.

    The bits of a large table are written to a file in `folder`, which stays until the run ends;
    without a folder they are sent.
    """

    def __init__(self, index: Index, n_rows: int, folder: Path | None = None) -> None:
        self.index = index
        self._n_rows, self._folder = n_rows, folder
        self._sent: bytes | SharedFile | Index | None = None

    @cached_property
    def index(self) -> Index:
        """The row numbers, read at their first use in a process that they were sent to."""
        sent = self._sent
        if isinstance(sent, np.ndarray):
            return sent
        content = sent.use(Path.read_bytes) if isinstance(sent, SharedFile) else sent or b""
        return np.flatnonzero(np.unpackbits(np.frombuffer(content, "u1"), count=self._n_rows))

    def __len__(self) -> int:
        return len(self.index)

    def __getstate__(self) -> tuple[bytes | SharedFile | Index, int]:
        if self._sent is None:
            is_ascending = bool((self.index[1:] > self.index[:-1]).all())
            self._sent = self._bits() if is_ascending else self.index
        return self._sent, self._n_rows

    def __setstate__(self, state: tuple[bytes | SharedFile | Index, int]) -> None:
        self._sent, self._n_rows = state
        self._folder = None

    def _bits(self) -> bytes | SharedFile:
        chosen = np.zeros(self._n_rows, bool)
        chosen[self.index] = True
        bits = np.packbits(chosen).tobytes()
        if self._folder is None or len(bits) <= _MOST_SENT:
            return bits
        digest = hashlib.sha256(bits).hexdigest()
        path = self._folder / ROWS / f"{digest[:16]}.bits"
        write_file(path, bits)
        return SharedFile.of(path, digest)


class StoredRows(Rows):
    """Rows of a stored table, with some of its features.

    Parameters
    ----------
    table : StoredTable
    numbers : RowNumbers
        Numbers of the n rows in the dataset, in any order.
    features : tuple of str
        Names of the d features.
    """

    _table: StoredTable
    _numbers: RowNumbers
    _features: tuple[str, ...]
    _same_rows: Rows | None = None  # whose target and weight these have

    def __init__(self, table: StoredTable, numbers: RowNumbers, features: tuple[str, ...]) -> None:
        self.__dict__ |= {"_table": table, "_numbers": numbers, "_features": features}

    def __reduce__(self) -> tuple[Any, ...]:
        return StoredRows, (self._table, self._numbers, self._features)

    @property
    def _index(self) -> Index:
        return self._numbers.index

    @cached_property
    def y(self) -> NDArray[Any]:
        if self._same_rows is not None:
            return self._same_rows.y
        return self._table.targets()[self._index]

    @cached_property
    def weight(self) -> Floats | None:
        if self._same_rows is not None:
            return self._same_rows.weight
        weights = self._table.weights()
        return None if weights is None else weights[self._index]

    @property
    def X(self) -> Floats:  # noqa: N802
        """The features, shape (n, d): read at each use if they are streamed."""
        return self._by_rows() if self.is_streamed else self._held

    @cached_property
    def _held(self) -> Floats:
        return self._by_columns() if self._table.dataset.n_rows <= FEW_ROWS else self._by_rows()

    @property
    def is_streamed(self) -> bool:
        is_large = 8 * self.n_values > MOST_BYTES
        return is_large and self._table.dataset.n_rows > FEW_ROWS

    @property
    def n_features(self) -> int:
        return len(self._features)

    def __len__(self) -> int:
        return len(self._index)

    def take(self, index: Index | slice, mask: Mask | None = None) -> Rows:
        features = self._features
        if mask is not None:
            features = tuple(name for name, kept in zip(features, mask, strict=True) if kept)
        if isinstance(index, slice) and index == slice(None):
            taken = StoredRows(self._table, self._numbers, features)
            taken.__dict__["_same_rows"] = self  # so that both have one target in memory
            return taken
        taken = StoredRows(self._table, self._table.numbers(self._index[index]), features)
        for name in {"y", "weight"}.intersection(self.__dict__):  # not to be read again
            values = self.__dict__[name]
            taken.__dict__[name] = None if values is None else values[index]
        return taken

    def columns(self, features: Sequence[int]) -> Iterator[Floats]:
        names = [self._features[feature] for feature in features]
        yield from (values[self._index] for values in self._table.columns(names))

    def batches(self) -> Iterator[Rows]:
        if not self.is_streamed:
            yield self.in_memory()
            return
        start = 0
        for X in self.matrices():
            stop = start + len(X)
            weight = None if self.weight is None else self.weight[start:stop]
            yield Rows(X, self.y[start:stop], weight)
            start = stop

    def in_memory(self) -> Rows:
        return Rows(self.X, self.y, self.weight)

    def matrices(self) -> Iterator[Floats]:
        """Yield the features of some rows at a time, each by rows, shape (k, d)."""
        index = self._index
        if (index[1:] < index[:-1]).any():  # as those that one fold after another holds out
            order = np.argsort(index, kind="stable")
            X = np.empty((len(index), self.n_features))
            X[order] = self.take(order).X
            yield X
            return
        most = max(1, _CELLS_OF_A_BATCH // max(1, self.n_features))
        for begin, table in self._table.dataset.batches(self._features, index, most):
            start, stop = np.searchsorted(index, (begin, begin + table.num_rows))
            X, chosen = np.empty((stop - start, self.n_features)), index[start:stop] - begin
            columns = feature_columns(table, self._features, self._table.categories)
            for position, values in enumerate(columns):
                X[:, position] = values[chosen]
            yield X

    def temporary_path(self, n_bytes: float) -> Path:
        """Return a path of the table's folder, or beside its dataset where that is not seen.

        InputError if the disk has less free: a library that writes there may end the process.
        """
        folder = self._table.folder
        if not folder.is_dir():
            folder = self._table.dataset.files[0].here().parent
        if (free := disk_usage(folder).free) < n_bytes:
            raise InputError(
                f"{n_bytes / 1e9:.1f} GB cannot be written to {folder}, where {free / 1e9:.1f} GB "
                "are free; free some space, or name another store"
            )
        return folder / f"{ASIDE}{uuid4().hex}"

    def _by_columns(self) -> Floats:
        """Return the features: in a file without a name if they are large."""
        shape, n_bytes = (len(self), self.n_features), 8 * self.n_values
        if n_bytes <= MOST_BYTES:
            X = np.empty(shape, order="F")
        else:
            folder = self.temporary_path(n_bytes).parent
            with NamedTemporaryFile(dir=folder) as file:
                X = np.memmap(file, np.float64, "w+", shape=shape, order="F")
        for position, values in enumerate(self.columns(range(self.n_features))):
            X[:, position] = values
        return X

    def _by_rows(self) -> Floats:
        X, start = np.empty((len(self), self.n_features), order="F"), 0
        for part in self.matrices():
            X[start : start + len(part)] = part
            start += len(part)
        return X


def packed_index(rows: Rows, index: Index) -> RowNumbers:
    """Return row numbers of rows, as what is sent to workers."""
    folder = rows._table.folder if isinstance(rows, StoredRows) else None
    return RowNumbers(index, len(rows), folder)
