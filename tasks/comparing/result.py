"""What a comparison gives back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.runs import Run
from chaffinch.tasks.comparing.lines import lines_of
from chaffinch.tasks.comparing.planned import Planned, planned
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.comparing.summary import Summary, summarise

if TYPE_CHECKING:
    import pandas as pd


REFUSED = "refuse"  # the stage that says why nothing could be measured


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Every set that was scored, and what follows from them.

    Attributes
    ----------
    name : str
        Of the comparison.
    folder : Path or None
        Where it is kept, with ``results.parquet`` and ``report.html``.
    table : pyarrow.Table
        See `chaffinch.tasks.comparing.results`.
    planned : Planned
        What was meant to be measured.
    warnings : tuple of str
        What is odd about the tables, each with the table's name.
    remarks : tuple of str
        What libraries warned of while cells were measured, each with the table's name.
    """

    name: str
    folder: Path | None
    table: pa.Table
    planned: Planned
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]

    @cached_property
    def results(self) -> pd.DataFrame:
        """Return a row for each set of features that was scored."""
        results: pd.DataFrame = self.table.to_pandas()
        return results

    @cached_property
    def summary(self) -> Summary:
        """Return differences, intervals, verdicts, ranks and stability."""
        return summarise(self.table, self.planned, self.warnings, self.remarks)

    @property
    def not_reached(self) -> tuple[tuple[str, str], ...]:
        """Return the tables and models that nothing was measured of, as where the time was up."""
        return self.summary.not_reached

    @property
    def lines(self) -> list[str]:
        """Return the summary as lines for a terminal."""
        return lines_of(self.summary)

    def __repr__(self) -> str:
        """Return the lines."""
        return "\n".join(self.lines)


def load_comparison(run: Run, *, keep_folder: bool = True) -> ComparisonResult:
    """Read a finished comparison back, as it was written.

    Raises
    ------
    InputError
        If nothing could be measured; it says why.
    StorageError
        If it is not finished, or damaged.
    """
    records = {record.stage: record for record in run.records()}
    concluded, refused = records.get("conclude"), records.get(REFUSED)
    if concluded is None and refused is not None:
        raise InputError(
            f"comparison {run.name} is not finished, since nothing could be measured: "
            f"{'; '.join(map(str, refused.result['errors']))}"
        )
    if concluded is None:
        raise StorageError(f"comparison {run.name} is not finished; give its command again")
    warnings, remarks, sizes = map(concluded.result.get, ("warnings", "remarks", "sizes"))
    if not (isinstance(warnings, list) and isinstance(remarks, list) and isinstance(sizes, dict)):
        raise StorageError(
            f"comparison {run.name} does not say what is odd about its tables, or what was meant "
            "to be measured on each; give its command again and it is concluded anew"
        )
    table = concluded.read_table("results.parquet")
    settings = ComparisonSettings(**run.description["settings"])
    folder = run.folder if keep_folder else None
    meant = planned(settings, sizes)
    return ComparisonResult(run.name, folder, table, meant, tuple(warnings), tuple(remarks))
