"""A table in random order on disk, sparse or dense, read block by block.

One Parquet file, each of whose row groups is a sample of all rows; see `README.md`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.errors import InputError, StorageError, raise_if_out_of_memory
from chaffinch.storage.files import parse_json, path_from
from chaffinch.storage.shuffled.row_blocks import by_names, check_rows, check_sparse
from chaffinch.storage.sources.files import reading
from chaffinch.storage.sources.formats.parquet import WIDE, begins_as_parquet

FOOTER, FORMAT = b"chaffinch", "chaffinch shuffled table"
_FIELDS = {"format": str, "form": str, "n_rows": int, "n_columns": int, "hash": str}


@dataclass(frozen=True)
class ShuffledTable:
    """A table in random order on disk; returned by `open_shuffled` and the writers.

    Attributes
    ----------
    path : Path
    shape : tuple of int
        Rows, and columns without the target.
    block_rows : tuple of int
        Rows per block.
    columns : tuple of str, or None
        Column names, if the source had any.
    target_type : numpy.dtype
        Integer, float, boolean or text.
    labels : ndarray or None
        Distinct values of the target, ascending; None with more than 1,000.
    hash : str
        Hash of rows and blocks, 64 hexadecimal digits.
    counted_from : int
        0 or 1: number of the first column where the source numbers its columns.
    """

    path: Path
    shape: tuple[int, int]
    block_rows: tuple[int, ...] = field(repr=False)
    columns: tuple[str, ...] | None = field(repr=False)
    target_type: np.dtype[Any]
    labels: NDArray[Any] | None = field(repr=False, compare=False)
    hash: str
    counted_from: int = 0

    def name_of(self, column: int) -> str:
        """Return a column's name in the source by its position from 0."""
        return str(column + self.counted_from) if self.columns is None else self.columns[column]

    def read(self, block: int) -> tuple[Any, NDArray[Any]]:
        """Return the rows of a block, an array or csr_array of shape (n, D), and their targets.

        Raises
        ------
        InputError
            If the block or the file does not exist, or a row is invalid.
        StorageError
            If the file is damaged, or was replaced since it was opened.
        """
        if block not in range(len(self.block_rows)):
            last = len(self.block_rows) - 1
            raise InputError(f"block must be a whole number in 0..{last} but is {block!r}")
        with reading(self.path), _parquet(self.path) as file:
            if _read_metadata(file, self.path)["hash"] != self.hash:
                raise StorageError(f"{self.path} was rewritten since it was opened; open it again")
            rows = file.read_row_group(block, use_threads=False)
        before = sum(self.block_rows[:block])

        def name_row(row: int) -> str:
            return f"row {before + row + 1} of {self.path.name}"

        name_column = self.name_of if self.columns is None else by_names(self.columns)
        target = rows["target"].combine_chunks().to_numpy(zero_copy_only=False)
        values = rows["values"].combine_chunks()
        numbers = values.flatten().to_numpy().copy()  # writable
        if "indices" not in rows.column_names:
            X: Any = numbers.reshape(rows.num_rows, -1)
            check_rows(X, self.shape[1], name_row, name_column)
            return X, target
        lists = rows["indices"].combine_chunks()
        indices, starts = lists.flatten().to_numpy().copy(), _starts(lists)
        if not np.array_equal(starts, _starts(values)):
            raise StorageError(_damaged(self.path, "a row has not as many indices as values"))
        check_sparse(starts, indices, numbers, self.shape[1], name_row, name_column)
        X = scipy.sparse.csr_array((numbers, indices, starts), (rows.num_rows, self.shape[1]))
        X.has_canonical_format = True  # checked above
        return X, target


def open_shuffled(path: str | Path) -> ShuffledTable:
    """Open a table in random order, as written by `shuffle_svmlight` and its siblings.

    No row is read before it is needed; blocks are read one at a time.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    ShuffledTable
        With `path`, `shape` (rows, and columns without the target), `block_rows`, `columns`,
        `labels` (classes) and `hash`. No rows are in memory.

    Raises
    ------
    InputError
        If the file does not exist, is text, or was not written in random order.
    StorageError
        If it is damaged, or was written by a later release.

    Examples
    --------
    >>> import chaffinch
    >>> table = chaffinch.open_shuffled("clicks.parquet")  # doctest: +SKIP
    >>> chaffinch.differentiable_selection(table, n_features=100)  # doctest: +SKIP
    """
    path = path_from(path, "the table")
    with reading(path), _parquet(path) as file:
        metadata = _read_metadata(file, path)
        groups = [file.metadata.row_group(block) for block in range(file.num_row_groups)]
        schema = file.schema_arrow
    block_rows = tuple(group.num_rows for group in groups)
    needed = {"sparse": ["indices", "values", "target"], "dense": ["values", "target"]}
    if schema.names != needed.get(metadata["form"]) or sum(block_rows) != metadata["n_rows"]:
        raise StorageError(_damaged(path, "its columns or rows are not those that it names"))
    kind, labels = schema.field("target").type, metadata.get("labels")
    target_type = np.dtype(np.str_ if pa.types.is_string(kind) else kind.to_pandas_dtype())
    known = None if labels is None else np.array(labels, target_type)
    columns = metadata.get("columns")
    return ShuffledTable(
        path,
        (metadata["n_rows"], metadata["n_columns"]),
        block_rows,
        None if columns is None else tuple(columns),
        target_type,
        known,
        metadata["hash"],
        metadata.get("counted_from", 0),
    )


@contextmanager
def _parquet(path: Path) -> Iterator[Any]:
    """Open a Parquet file; raise short errors."""
    if path.is_dir():
        raise InputError(f"{path} is a folder; name a file that chaffinch shuffle wrote")
    if not begins_as_parquet(path):
        raise InputError(
            f"{path} is not a table in random order, as it is not Parquet; write one with "
            "chaffinch shuffle"
        )
    try:
        with pyarrow.parquet.ParquetFile(
            path, pre_buffer=False, page_checksum_verification=True, **WIDE
        ) as file:
            yield file
    except (PermissionError, StorageError):
        raise
    except (pa.ArrowException, OSError) as error:
        raise_if_out_of_memory(error)
        raise StorageError(_damaged(path, str(error).splitlines()[0])) from error


def _read_metadata(file: Any, path: Path) -> dict[str, Any]:
    content = (file.metadata.metadata or {}).get(FOOTER)
    if content is None:
        raise InputError(
            f"{path} may have its rows in an order of their own, which gives wrong features; write "
            "it in random order, with chaffinch shuffle or by chaffinch.shuffle_parquet"
        )
    metadata = parse_json(content, path, _FIELDS)
    if metadata["format"] != FORMAT:
        raise StorageError(_damaged(path, f"its format is {metadata['format']!r}"))
    return metadata


def check_not_shuffled(file: Any, path: Path) -> None:
    """Refuse a table that is already in random order; InputError."""
    if FOOTER in (file.metadata.metadata or {}):
        raise InputError(
            f"{path.name} is a table in random order already, whose columns are in its rows; give "
            "it to chaffinch descend as it is, or shuffle the files that it was made of"
        )


def _starts(lists: pa.ListArray) -> NDArray[np.int32]:
    offsets = lists.offsets.to_numpy()
    starts: NDArray[np.int32] = offsets - offsets[0]
    return starts


def _damaged(path: Path, why: str) -> str:
    return f"{path} is damaged: {why}; write it again"
