"""Blocks of a source in a known order, the next one being read while one is worked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from numpy.typing import NDArray

from chaffinch.tasks.selection.dfs.sources import RowSource, read_rows

_Block = tuple[Any, NDArray[Any]]


class ReadingAhead:
    """Reads blocks of a source; at most two are held by it.

    Parameters
    ----------
    source : RowSource
    """

    def __init__(self, source: RowSource) -> None:
        self._source = source
        self._ahead: tuple[int, Future[_Block]] | None = None
        self._thread: ThreadPoolExecutor | None = None

    def blocks(
        self, blocks: Sequence[int], after: Sequence[int]
    ) -> Iterator[tuple[int, Any, NDArray[Any]]]:
        """Yield the number, the rows as `read_rows` returns them and the target of each block.

        Parameters
        ----------
        blocks, after : sequence of int
            Which, and what will be asked for next.
        """
        followed_by = [*[*blocks, *after][1:], None]
        for block, following in zip(blocks, followed_by, strict=False):
            X, y = self._read(block, following)
            yield block, read_rows(X), y

    def _read(self, block: int, following: int | None) -> _Block:
        ahead, self._ahead = self._ahead, None
        is_there = ahead is not None and ahead[0] == block
        found = ahead[1].result() if ahead and is_there else self._source.read(block)
        if following is not None:
            self._thread = self._thread or ThreadPoolExecutor(1)
            self._ahead = following, self._thread.submit(self._source.read, following)
        return found
