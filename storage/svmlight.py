"""Text in the format of svmlight and libsvm, read piece by piece: `label column:value ...`."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError
from chaffinch.storage.pieces import Piece

_BYTES_AT_A_TIME = 2**24
_UNUSABLE = (ValueError, OverflowError, IndexError)  # what scikit-learn raises for a line


def svmlight_pieces(source: Path, zero_based: bool, dtype: np.dtype[Any]) -> Iterator[Piece]:
    """Yield the rows of a file, plain or .gz, some 16 MB of text at a time.

    Parameters
    ----------
    source : Path
    zero_based : bool
        Whether columns are counted from 0, or from 1.
    dtype : numpy.dtype
        float32 or float64.

    Raises
    ------
    InputError
        If the file or, naming it, a line cannot be read.
    """
    n_before = 0
    for lines in _whole_lines(source):
        try:
            X, y = _parsed(lines, zero_based, dtype)
        except _UNUSABLE as error:
            where, why = _first_unusable(lines, zero_based, dtype)
            raise InputError(
                f"line {n_before + where} of {source.name} {why}, as in `1 {int(not zero_based)}"
                ":0.5`: a label that is a number, then columns that ascend, each once, with their "
                "values; mend it, and number classes"
            ) from error
        names = _Names(source.name, lines, n_before)
        yield Piece(scipy.sparse.csr_array(X), y, names, partial(_number, zero_based))
        n_before += lines.count(b"\n")


class _Names:
    """Says on which line a row is, if somebody asks."""

    def __init__(self, name: str, lines: bytes, n_before: int) -> None:
        self._name, self._lines, self._n_before = name, lines, n_before

    def __call__(self, row: int) -> str:
        lines = enumerate(self._lines.split(b"\n"), start=1)
        of_rows = (number for number, line in lines if line.partition(b"#")[0].split())
        number = next(islice(of_rows, row, None))
        return f"line {self._n_before + number} of {self._name}"


def _number(zero_based: bool, column: int) -> str:
    """Return the number of a column as the file counts."""
    return str(column + (not zero_based))


def _whole_lines(source: Path) -> Iterator[bytes]:
    opened = gzip.open if source.suffix.lower() == ".gz" else open
    try:
        with opened(source, "rb") as file:
            rest = b""
            while part := file.read(_BYTES_AT_A_TIME):
                whole, newline, rest_of_part = part.rpartition(b"\n")
                if not newline:
                    rest += part
                    continue
                yield rest + whole + newline
                rest = rest_of_part
            if rest:
                yield rest
    except (gzip.BadGzipFile, EOFError, IsADirectoryError, zlib.error) as error:
        raise InputError(f"{source} is no readable text or .gz: {error}") from error


def _parsed(lines: bytes, zero_based: bool, dtype: Any) -> tuple[Any, NDArray[Any]]:
    from sklearn.datasets import load_svmlight_file

    X, y = load_svmlight_file(BytesIO(lines), dtype=dtype, zero_based=zero_based)
    return X, y


def _first_unusable(lines: bytes, zero_based: bool, dtype: Any) -> tuple[int, str]:
    """Return the number, from 1, of the first line that cannot be parsed, and why."""
    each, n_before = lines.splitlines(keepends=True), 0
    while len(each) > 1:
        half = len(each) // 2
        try:
            _parsed(b"".join(each[:half]), zero_based, dtype)
        except _UNUSABLE:
            each = each[:half]
        else:
            each, n_before = each[half:], n_before + half
    try:
        _parsed(each[0], zero_based, dtype)
    except _UNUSABLE as error:
        return n_before + 1, f"cannot be read ({error})"
    return n_before + 1, "cannot be read"
