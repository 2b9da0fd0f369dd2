"""Tables in batches of Arrow: data sets, readers, and others with its stream interface."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from chaffinch.errors import InputError, raise_if_out_of_memory
from chaffinch.storage.sources.memory import MemorySource
from chaffinch.storage.sources.source import ArrowSource

_ROWS = 100_000
# of frames that are in memory as a whole, of columns, and of what has its own way to be read
_OTHERS = ("iloc", "hstack", "to_frame", "column_names")


@dataclass(frozen=True, eq=False)
class StreamSource(ArrowSource, MemorySource):
    """A data set, a reader or a relation, whose rows need not be in memory at once."""

    @classmethod
    def of(cls, data: Any, scheme: str | None) -> Self | None:
        is_stream = isinstance(data, pa.RecordBatchReader) or hasattr(data, "scanner")
        is_stream |= hasattr(data, "__arrow_c_stream__") and not any(
            hasattr(data, name) for name in _OTHERS
        )
        return cls(data) if scheme is None and is_stream else None

    def check(self) -> None:
        self.columns()

    def names(self, opened: Any) -> list[str]:
        if hasattr(opened, "columns"):  # a relation would begin to read
            return list(opened.columns)
        return list(self.batches(opened).schema.names)

    def batches(self, opened: Any) -> pa.RecordBatchReader:
        if isinstance(opened, pa.RecordBatchReader):
            return opened
        if hasattr(opened, "scanner"):  # which else reads far ahead
            return opened.scanner(batch_readahead=1, fragment_readahead=1).to_reader()
        if hasattr(opened, "to_arrow_reader"):  # of DuckDB, whose batches else have a million rows
            return opened.to_arrow_reader(_ROWS)
        return pa.RecordBatchReader.from_stream(opened)

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Give the table, or, as a reader can be read once, what was read of it before."""
        try:
            yield vars(self).get("_computed", self.table)
        except (pa.ArrowException, TypeError, ValueError, OSError) as error:
            raise_if_out_of_memory(error)
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"the table cannot be read ({reason}); give it again") from error
