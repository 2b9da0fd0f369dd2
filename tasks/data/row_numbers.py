"""Row numbers that travel to other processes as a bit for each row, or as the name of a file."""

from __future__ import annotations

import weakref
from pathlib import Path
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from chaffinch.storage.files import ASIDE, one_line_errors

Index = NDArray[np.int64]

_MOST_SENT = 2**16  # bytes that are sent as they are, although there is a folder for files


class RowNumbers:
    """Ascending numbers of some rows of a table of `n_rows`.

    Processes that see the same `folder` find large ones in a file there, which is removed with the
    object that wrote it; without a folder they are sent.
    """

    def __init__(self, index: Index, n_rows: int, folder: Path | None = None) -> None:
        self.index, self._n_rows, self._folder = index, n_rows, folder
        self._sent: bytes | Path | None = None

    def __len__(self) -> int:
        return len(self.index)

    def __getstate__(self) -> tuple[bytes | Path, int]:
        if self._sent is None:
            chosen = np.zeros(self._n_rows, bool)
            chosen[self.index] = True
            bits = np.packbits(chosen)
            self._sent = bits.tobytes()
            if self._folder is not None and len(bits) > _MOST_SENT:
                path = self._folder.absolute() / f"{ASIDE}{uuid4().hex}.rows"
                weakref.finalize(self, path.unlink, missing_ok=True)
                with one_line_errors(path):
                    path.write_bytes(self._sent)
                self._sent = path
        return self._sent, self._n_rows

    def __setstate__(self, state: tuple[bytes | Path, int]) -> None:
        self._sent, self._n_rows = state
        self._folder = None
        sent = self._sent
        bits = np.fromfile(sent, np.uint8) if isinstance(sent, Path) else np.frombuffer(sent, "u1")
        self.index = np.flatnonzero(np.unpackbits(bits, count=self._n_rows))
