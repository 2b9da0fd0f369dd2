"""Tables in batches: data sets, readers, lazy tables, and others with Arrow's interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.sources.memory import MemorySource, as_arrow
from chaffinch.storage.sources.source import ArrowSource

_ROWS = 100_000
# of frames that are in memory as a whole, of columns, and of what has its own way to be read
_OTHERS = ("iloc", "hstack", "to_frame", "column_names")


@dataclass(frozen=True, eq=False)
class StreamSource(ArrowSource, MemorySource):
    """A data set, reader, relation or lazy table, whose rows need not be in memory at once."""

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        is_stream = isinstance(data, pa.RecordBatchReader) or hasattr(data, "scanner")
        is_stream |= hasattr(data, "collect_batches")  # of polars from 1.34 on
        is_stream |= hasattr(data, "__arrow_c_stream__") and not any(
            hasattr(data, name) for name in _OTHERS
        )
        return cls(data) if scheme is None and is_stream else None

    def check(self) -> None:
        self.columns()

    def names(self, opened: Any) -> list[str]:
        if isinstance(opened, pa.Table):
            return list(opened.column_names)
        if hasattr(opened, "collect_schema"):  # whose `columns` would warn
            return list(opened.collect_schema().names())
        if hasattr(opened, "columns"):  # a relation would begin to read
            return list(opened.columns)
        return list(self.batches(opened).schema.names)

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        if isinstance(opened, pa.RecordBatchReader):
            return opened
        if hasattr(opened, "scanner"):  # which else reads far ahead
            return opened.scanner(batch_readahead=1, fragment_readahead=1).to_reader()
        if hasattr(opened, "collect_batches"):
            return _reader_of_lazy(opened)
        if hasattr(opened, "to_arrow_reader"):  # of DuckDB, whose batches else have a million rows
            return opened.to_arrow_reader(_ROWS)
        return pa.RecordBatchReader.from_stream(opened)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Give the table, or, as a reader can be read once, what was read of it before."""
        try:
            read = vars(self).get("_computed")
            yield self.table if read is None else as_arrow(read)
        except (pa.ArrowException, TypeError, ValueError, OSError) as error:
            raise_if_out_of_memory(error)
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"the table cannot be read ({reason}); give it again") from error


def _reader_of_lazy(table: Any) -> pa.RecordBatchReader:
    """Return a reader of what a lazy table of polars computes."""
    schema = as_arrow(table.collect_schema().to_frame()).schema
    frames = table.collect_batches(chunk_size=_ROWS, maintain_order=True, lazy=True)
    batches = (batch for frame in frames for batch in as_arrow(frame).to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)
