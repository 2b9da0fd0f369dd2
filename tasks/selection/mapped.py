"""Matrices in files, for rows that are larger than memory.

The system keeps what is read of such a matrix in free memory, and takes that memory back when it is
needed. Rows and columns taken of the matrix are in a file as well, unless they are few.
"""

from __future__ import annotations

import os
from pathlib import Path
from shutil import disk_usage
from tempfile import NamedTemporaryFile

import numpy as np
from numpy.typing import NDArray

from chaffinch.errors import InputError

Floats = NDArray[np.float64]

MOST_BYTES = 2**26  # of a matrix in memory
ASIDE = ".aside-"  # first part of the names of files that a store removes if a process was killed


def empty_matrix(shape: tuple[int, int], folder: Path | None) -> Floats:
    """Return a new matrix by columns: in a file of that folder, if any, and if it is large.

    The file has no name, so that it is removed with its last use. InputError for a full disk.
    """
    n_bytes = 8 * shape[0] * shape[1]
    if folder is None or n_bytes <= MOST_BYTES:
        return np.empty(shape, order="F")
    try:
        with NamedTemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # else a disk that fills up later ends the process
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, np.float64, "r+", shape=shape, order="F")
    except OSError as error:
        raise _write_error(folder, n_bytes, str(error.strerror)) from error


def check_space(folder: Path, n_bytes: int) -> None:
    """Raise InputError if a library, which ends the process on a full disk, needs more."""
    if (free := disk_usage(folder).free) < n_bytes:
        raise _write_error(folder, n_bytes, f"{free / 1e9:.1f} GB are free")


def _write_error(folder: Path, n_bytes: int, reason: str) -> InputError:
    return InputError(
        f"{n_bytes / 1e9:.1f} GB of rows cannot be written to {folder} ({reason})",
        "free some space, or name another store",
    )


def folder_of(X: Floats) -> Path | None:
    """Return the folder that a matrix has its file in; None if it is in memory."""
    path = getattr(X, "filename", None)
    return None if path is None else Path(path).parent


def cells(
    X: Floats, index: NDArray[np.int64] | slice, mask: NDArray[np.bool_] | None = None
) -> Floats:
    """Return rows of a matrix, of the columns of a mask; in a file if the matrix is."""
    folder = folder_of(X)
    if folder is None or (isinstance(index, slice) and mask is None):
        return X[index] if mask is None else X[index][:, mask]
    columns = np.arange(X.shape[1]) if mask is None else np.flatnonzero(mask)
    n_rows = len(range(*index.indices(len(X)))) if isinstance(index, slice) else len(index)
    matrix = empty_matrix((n_rows, len(columns)), folder)
    for position, column in enumerate(columns):
        matrix[:, position] = X[:, column][index]
    return matrix
