"""What a comparison found; the report and the lines of a terminal are made of it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from chaffinch.tasks.comparing.outcomes import TableSummary, summarise_table
from chaffinch.tasks.comparing.ranking import Ranking, rankings_of
from chaffinch.tasks.comparing.scores import Cell, read_scores


@dataclass(frozen=True)
class Summary:
    """What a comparison found.

    Attributes
    ----------
    tables : tuple of TableSummary
        Of every table with every model, by their names.
    rankings : tuple of Ranking
        By model, and by the size that methods were asked for.
    warnings : tuple of str
        What is odd about the tables, each with the table's name.
    """

    tables: tuple[TableSummary, ...]
    rankings: tuple[Ranking, ...]
    warnings: tuple[str, ...]

    @property
    def n_planned(self) -> int:
        """Number of losses that were meant to be, as far as the results show."""
        return sum(table.n_planned for table in self.tables)

    @property
    def n_missing(self) -> int:
        """Number of losses without a row."""
        return sum(table.n_missing for table in self.tables)

    @property
    def n_failed(self) -> int:
        """Number of losses with an error in their place."""
        return sum(table.n_failed for table in self.tables)


def summarise(
    results: pa.Table, cells: Sequence[Cell] | None = None, warnings: Sequence[str] = ()
) -> Summary:
    """Return what a comparison found.

    Parameters
    ----------
    results : pyarrow.Table
        One row per scored feature set, with the columns of `chaffinch.tasks.comparing.scores`, in
        any order; rows may be missing.
    cells : sequence of (int, int), optional
        Every seed and fold that was meant; see `read_scores`.
    warnings : sequence of str
        What is odd about the tables, which results do not say.

    Raises
    ------
    InputError
        If the results are none of a comparison's; see `read_scores`.
    """
    measured = [(scores, summarise_table(scores)) for scores in read_scores(results, cells)]
    tables = tuple(summary for _, summary in measured)
    return Summary(tables, tuple(rankings_of(measured)), tuple(warnings))
