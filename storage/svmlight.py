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
from chaffinch.storage.row_checks import MOST_COLUMNS

_BYTES_AT_A_TIME = 2**24
_SHOWN = 80
_GZIP = b"\x1f\x8b"
_COMPRESSED = {b"BZh": "bzip2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd", b"PK\3\4": "zip"}
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
        If the file or, naming it, a line cannot be read, or float32 cannot hold a value.
    """
    n_before = 0
    for lines in _whole_lines(source):
        try:
            X, y = _parsed(lines, zero_based, dtype)
        except _UNUSABLE as error:
            where, why = _first_unusable(lines, zero_based, dtype)
            raise InputError(f"line {n_before + where} of {source.name} {why}") from error
        names = _Names(source.name, lines, n_before)
        if not np.isfinite(X.data).all() and dtype == np.float32:
            _check_fits(X, _parsed(lines, zero_based, np.float64)[0], names, zero_based)
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
    try:
        with _opened(source) as file:
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


def _opened(source: Path) -> Any:
    """Open text, compressed by gzip where its first bytes or its ending say so."""
    with source.open("rb") as file:
        begins = file.read(8)
    for magic, name in _COMPRESSED.items():
        if begins.startswith(magic):
            raise InputError(f"{source} is compressed by {name}; unpack it, or give it as .gz")
    is_gzip = begins.startswith(_GZIP) or source.suffix.lower() == ".gz"
    return gzip.open(source, "rb") if is_gzip else source.open("rb")


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
        return n_before + 1, _why(each[0], zero_based, str(error))
    return n_before + 1, _why(each[0], zero_based, "")


def _why(line: bytes, zero_based: bool, said: str) -> str:
    """Return what is wrong with a line, of which scikit-learn says no more than that."""
    least = int(not zero_based)
    most = MOST_COLUMNS - 1 + least
    entries = [entry.partition(b":")[0] for entry in line.partition(b"#")[0].split()[1:]]
    for column in (entry.lstrip(b"0") or b"0" for entry in entries if entry.isdigit()):
        if column == b"0" and not zero_based:
            return (
                "has column 0 but columns are counted from 1; set zero_based, by --zero-based, if "
                "they begin at 0"
            )
        if len(column) > len(str(most)) or int(column) > most:
            return (
                f"has column {_shown(column.decode())} but columns must be in {least}..{most}; "
                "mend it"
            )
    return (
        f"cannot be read ({_shown(said)}), as in `1 {least}:0.5`: a label that is a number, then "
        "columns that ascend, each once, with their values; mend it, and number classes"
    )


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _check_fits(X: Any, exact: Any, names: _Names, zero_based: bool) -> None:
    """Refuse values that only float64 holds; what is no number there either is refused later."""
    wrong = np.isfinite(exact.data) & ~np.isfinite(X.data)
    if wrong.any():
        entry = int(np.argmax(wrong))
        row = int(np.searchsorted(X.indptr, entry, side="right")) - 1
        raise InputError(
            f"{names(row)} has {exact.data[entry]:g} in column "
            f"{_number(zero_based, X.indices[entry])}, which float32 cannot hold; set dtype to "
            "float64"
        )
