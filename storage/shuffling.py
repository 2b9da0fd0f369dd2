"""Rows in a random order, however many there are: sorted by a hash of their number, on the disk.

Rows are scattered to 64 buckets by the first six bits of the hash, buckets that are too large by
the next six, and so on; each is then sorted in memory. So the order depends on the seed alone, and
not on how the rows came or how much memory there is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from chaffinch.storage.content import mix

_BITS = 6
_MOST_BYTES = 2**26  # of a bucket that is sorted in memory, twice
_ORDER = "order"


@dataclass(frozen=True)
class _Bucket:
    path: Path
    n_bytes: int


class Shuffled:
    """Rows that were scattered, to be read in their new order.

    Parameters
    ----------
    folder : Path
        Where buckets may lie; it is there, and empty.
    seed : int, at least 0
        Decides the order.
    most_bytes : int
        Of a bucket that is sorted in memory.
    """

    def __init__(self, folder: Path, seed: int, most_bytes: int = _MOST_BYTES) -> None:
        self._folder, self._most_bytes = folder, most_bytes
        self._seed = mix(np.array([seed], np.uint64))
        self._buckets: list[_Bucket] = []

    def scatter(self, pieces: Iterable[dict[str, pa.Array]]) -> None:
        """Take all rows in; each piece has the same columns."""
        self._buckets = self._scattered(self._numbered(pieces), self._folder, 0)

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rows in their new order, some at a time, and forget them."""
        for table in self._sorted(self._buckets, 1):
            yield table.drop_columns([_ORDER])

    def _numbered(self, pieces: Iterable[dict[str, pa.Array]]) -> Iterator[pa.RecordBatch]:
        n_rows = 0
        for columns in pieces:
            n_more = len(next(iter(columns.values())))
            numbers = np.arange(n_rows, n_rows + n_more, dtype=np.uint64)
            n_rows += n_more
            yield pa.record_batch({_ORDER: pa.array(mix(numbers + self._seed)), **columns})

    def _scattered(
        self, batches: Iterable[pa.RecordBatch], folder: Path, level: int
    ) -> list[_Bucket]:
        paths = [folder / f"{number:02}.arrow" for number in range(2**_BITS)]
        n_bytes = [0] * len(paths)
        writers: dict[int, Any] = {}
        try:
            for batch in batches:
                for number, part in _by_bucket(batch, level):
                    if number not in writers:
                        writers[number] = pa.ipc.new_stream(str(paths[number]), part.schema)
                    writers[number].write_batch(part)
                    n_bytes[number] += part.nbytes
        finally:
            for writer in writers.values():
                writer.close()
        return [_Bucket(paths[number], n_bytes[number]) for number in sorted(writers)]

    def _sorted(self, buckets: list[_Bucket], level: int) -> Iterator[pa.Table]:
        for bucket in buckets:
            if bucket.n_bytes <= self._most_bytes or level * _BITS >= 64:
                yield _in_order(bucket.path)
                bucket.path.unlink()
                continue
            inner = bucket.path.with_suffix("")
            inner.mkdir()
            smaller = self._scattered(_batches_in(bucket.path), inner, level)
            bucket.path.unlink()
            yield from self._sorted(smaller, level + 1)


def _by_bucket(batch: pa.RecordBatch, level: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of each bucket of a level."""
    order = batch.column(_ORDER).to_numpy()
    left = max(0, 64 - _BITS * (level + 1))
    numbers = (order >> np.uint64(left)) & np.uint64(2**_BITS - 1)
    by_number = np.argsort(numbers, kind="stable")
    together = batch.take(pa.array(by_number))
    ends = np.searchsorted(numbers[by_number], np.arange(2**_BITS + 1, dtype=np.uint64))
    for number, (first, last) in enumerate(pairwise(ends.tolist())):
        if first < last:
            yield number, together.slice(first, last - first)


def _in_order(path: Path) -> pa.Table:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        table = stream.read_all()
    order = np.argsort(table[_ORDER].to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


def _batches_in(path: Path) -> Iterator[pa.RecordBatch]:
    with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
        yield from stream
