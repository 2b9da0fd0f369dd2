"""What a comparison found; the report and the lines of a terminal are made of it alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from chaffinch.tasks.comparing.outcomes import TableSummary, summarise_table
from chaffinch.tasks.comparing.planned import Planned
from chaffinch.tasks.comparing.ranking import Ranking, rankings_of
from chaffinch.tasks.comparing.scores import read_scores


@dataclass(frozen=True)
class Summary:
    """What a comparison found.

    Attributes
    ----------
    tables : tuple of TableSummary
        Of every table with every model that anything was measured of, by their names.
    rankings : tuple of Ranking
        By model, and by the size that methods were asked for.
    warnings : tuple of str
        What is odd about the tables, each with the table's name.
    remarks : tuple of str
        What libraries warned of while cells were measured, each with the table's name.
    planned : Planned
        What was meant to be measured.
    """

    tables: tuple[TableSummary, ...]
    rankings: tuple[Ranking, ...]
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]
    planned: Planned

    @property
    def not_reached(self) -> tuple[tuple[str, str], ...]:
        """Tables and models that were meant together, and of which nothing was measured."""
        reached = {(table.table, table.model) for table in self.tables}
        return tuple(pair for pair in self.planned.pairs if pair not in reached)

    @property
    def n_planned(self) -> int:
        """Number of losses that were meant to be: of all tables, models, contenders and cells."""
        return sum(self.planned.n_losses(table) for table, _ in self.planned.pairs)

    @property
    def n_missing(self) -> int:
        """Number of losses without a row."""
        not_reached = sum(self.planned.n_losses(table) for table, _ in self.not_reached)
        return not_reached + sum(table.n_missing for table in self.tables)

    @property
    def n_failed(self) -> int:
        """Number of losses with an error in their place."""
        return sum(table.n_failed for table in self.tables)


def summarise(
    results: pa.Table,
    planned: Planned | None = None,
    warnings: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> Summary:
    """Return what a comparison found.

    Parameters
    ----------
    results : pyarrow.Table
        One row per scored feature set, with the columns of `chaffinch.tasks.comparing.scores`, in
        any order; rows may be missing.
    planned : Planned, optional
        What was meant to be measured; without it, see `read_scores`.
    warnings : sequence of str
        What is odd about the tables, which results do not say.
    remarks : sequence of str
        What libraries warned of, likewise.

    Raises
    ------
    InputError
        If the results are none of a comparison's; see `read_scores`.
    """
    read, meant = read_scores(results, planned)
    measured = [(scores, summarise_table(scores)) for scores in read]
    tables = tuple(summary for _, summary in measured)
    return Summary(tables, tuple(rankings_of(measured)), tuple(warnings), tuple(remarks), meant)
