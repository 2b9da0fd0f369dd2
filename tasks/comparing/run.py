"""Run of a comparison: read tables, measure every cell once, write results and a report.

Each step is a plain function; the Prefect flow makes it a task. Results of a cell are stored
immediately, so that a stopped comparison resumes.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from chaffinch.errors import InputError, StorageError, short_repr
from chaffinch.storage.datasets.dataset import LazyTable
from chaffinch.storage.runs.stages import StageRecord
from chaffinch.storage.runs.store import Run, Store
from chaffinch.storage.sources import Source
from chaffinch.tasks.comparing.cells import CellRequest, Compared, as_table, measure
from chaffinch.tasks.comparing.library_warnings import remarks_of
from chaffinch.tasks.comparing.notebook import draw_differences, frame_of, html_of
from chaffinch.tasks.comparing.plan import (
    NONE,
    Cell,
    ComparedTable,
    Plan,
    Planned,
    labels_of,
    name_of,
    number_of,
    planned,
    refuse_copies,
)
from chaffinch.tasks.comparing.report import render_comparison
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.comparing.summary import Summary, summarise
from chaffinch.tasks.comparing.text import errors_of, heading_of, lines_of
from chaffinch.tasks.data.matrix import load_roles, load_rows
from chaffinch.tasks.data.reselection_fit import with_hints_for
from chaffinch.tasks.data.table_check import TableDescription, describe_table
from chaffinch.tasks.pipeline.ingestion import errors_with_source_rows, ingest
from chaffinch.tasks.pipeline.memory import check_memory, workers_for
from chaffinch.tasks.pipeline.progress import (
    OnProgress,
    Say,
    Warn,
    as_progress,
    no_messages,
    no_progress,
    no_warnings,
)
from chaffinch.tasks.pipeline.run import WrapStep, check_fit, check_settings
from chaffinch.tasks.pipeline.selection_run import LoadedTable, SelectionRun
from chaffinch.tasks.selection.models import kind_of
from chaffinch.tasks.settings.identity import (
    NO_CUSTOM_OBJECTS,
    CustomObjects,
    digest,
    versions,
)
from chaffinch.tasks.settings.selection import ExecutionSettings
from chaffinch.tasks.warnings import refuse_warnings

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


REFUSED = "refuse"  # stage with the errors if every measurement failed


@dataclass(frozen=True, repr=False)
class ComparisonResult:
    """Result of a comparison: every scored set, and the summary.

    Attributes
    ----------
    name : str
        Name of the comparison.
    folder : Path or None
        Folder with ``results.parquet`` and ``report.html``.
    table : pyarrow.Table
        Results; see `chaffinch.tasks.comparing.plan`.
    planned : Planned
        Planned measurements.
    warnings : tuple of str
        Data-quality warnings, each with the table's name.
    remarks : tuple of str
        Warnings of libraries while cells were measured, each with the table's name.
    """

    name: str
    folder: Path | None
    table: pa.Table
    planned: Planned
    warnings: tuple[str, ...]
    remarks: tuple[str, ...]

    @cached_property
    def results(self) -> pd.DataFrame:
        """Return a row for each scored set of features."""
        results: pd.DataFrame = self.table.to_pandas()
        return results

    @cached_property
    def summary(self) -> Summary:
        """Return differences, intervals, verdicts, ranks and stability."""
        return summarise(self.table, self.planned, self.warnings, self.remarks)

    @property
    def not_reached(self) -> tuple[tuple[str, str], ...]:
        """Return the pairs of table and model without results, such as after the time limit."""
        return self.summary.not_reached

    @property
    def lines(self) -> list[str]:
        """Return the summary as lines for a terminal."""
        return lines_of(self.summary)

    def __repr__(self) -> str:
        """Return the lines as text."""
        return "\n".join(self.lines)

    def _repr_html_(self) -> str:
        return html_of(self.summary)

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each table, model, and method at a size, from the summary.

        Returns
        -------
        pandas.DataFrame
            ``table``, ``model``, ``method`` (``"all"`` has all features) and the ``size`` asked
            for, missing where a method chose its own; the mean ``n_features`` kept, the mean
            ``loss`` and its standard ``deviation``; the mean ``difference`` to all features, and
            the ends ``low`` and ``high`` of its 95 % interval; ``corrected_p`` and ``verdict``;
            ``stability``; ``selection_seconds`` and ``training_seconds``, means of a cell; and
            ``n_cells``, the number of cells with a loss. Missing where it is not defined.
        """
        return frame_of(self.summary)

    def plot(
        self, ax: Axes | None = None, *, table: str | None = None, model: str | None = None
    ) -> Axes:
        """Draw the difference of each method to all features, with its 95 % interval.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default in a new figure.
        table, model : str, optional
            Which to draw, if the comparison has several.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InputError
            If `table` and `model` do not name one pair with results, or it has no differences.
        """
        pairs = {
            (results.table, results.model): results
            for results in self.summary.tables
            if table in (None, results.table) and model in (None, results.model)
        }
        if len(pairs) != 1:
            known = "; ".join(map(heading_of, self.summary.tables))
            raise InputError(
                f"a plot is of one table with one model, but table={table!r} and model={model!r} "
                f"leave {len(pairs)}; name one of: {known}"
            )
        return draw_differences(pairs.popitem()[1], ax)


def load_comparison(run: Run, *, keep_folder: bool = True) -> ComparisonResult:
    """Return the stored result of a finished comparison."""
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
            f"comparison {run.name} lacks the warnings about its tables, or what was to be "
            "measured on each; give its command again to complete it"
        )
    table = concluded.read_table("results.parquet")
    settings = ComparisonSettings(**run.description["settings"])
    folder = run.folder if keep_folder else None
    # earlier writers stored no leaks
    meant = planned(settings, sizes, concluded.result.get("leaks", {}))
    return ComparisonResult(run.name, folder, table, meant, tuple(warnings), tuple(remarks))


STEPS = ("read_table", "measure_cells", "conclude")


def compare_methods(
    sources: Sequence[Source],
    settings: ComparisonSettings,
    execution: ExecutionSettings,
    *,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
    time_budget: float | None = None,
    wrap_step: WrapStep = lambda step: step,
    on_progress: OnProgress = no_progress,
    say: Say = no_messages,
    warn: Warn = no_warnings,
    is_kept: bool = True,
) -> Run:
    """Run or resume a comparison, and return its finished run."""
    check_time_budget(time_budget)
    labels = labels_of(sources)
    for model in settings.models:
        for method in settings.methods:
            check_settings(settings.selection(model, 0, method), custom)
        if (of_method := kind_of(model.name).of_method) is not None:
            raise InputError(
                f"model {model.name} cannot be compared, as a comparison fits a model to each set "
                f"and this one is trained by the search of {of_method}; take mlp"
            )
    store, progress = Store.open(execution.store), as_progress(on_progress)
    read = []
    with progress.stage("read_table"):
        for source, label in zip(sources, labels, strict=True):
            read.append(wrap_step(read_table)(source, label, settings, store, custom))
            progress("read_table", len(read), len(sources))
    refuse_copies(read)
    plan = Plan(settings, tuple(read), custom)
    refuse_warnings(plan.warnings, strict=execution.strict)
    warn(plan.warnings)
    run = store.comparison(name_of(plan))
    with run.lock():
        run.describe(
            {
                "tables": {source.label: source.dataset.hash for source in read},
                "settings": settings.model_dump(mode="json"),
                "versions": versions(),
            }
        )
        progress.expect({"measure_cells": None, "conclude": (0.0,)})
        with progress.stage("measure_cells"):
            wrap_step(measure_cells)(plan, execution, store, time_budget, progress, say, is_kept)
        with progress.stage("conclude"):
            wrap_step(conclude)(plan, store, run)
    return run


def check_time_budget(time_budget: float | None) -> None:
    """Raise InputError unless the time budget is None or above 0."""
    if time_budget is None:
        return
    if isinstance(time_budget, bool) or not isinstance(time_budget, Real):
        raise InputError(
            f"the time budget must be a number of seconds but is {short_repr(time_budget)}"
        )
    if not time_budget > 0:
        raise InputError(f"the time budget must be above 0 but is {time_budget:g}; leave it out")


def read_table(
    source: Source,
    label: str,
    settings: ComparisonSettings,
    store: Store,
    custom: CustomObjects = NO_CUSTOM_OBJECTS,
) -> ComparedTable:
    """Ingest and check a table; raise InputError if no cell could use it."""
    source.check()
    of_any = settings.selection(settings.models[0], 0)
    check_memory(source, of_any, in_files=False)
    try:
        with with_hints_for(of_any):
            dataset = ingest(source, of_any, store.datasets)
            with errors_with_source_rows(dataset, of_any, settings.outer_folds):
                description = describe_table(LazyTable(dataset), of_any, settings.outer_folds)
    except InputError as error:
        error.message = f"in {label}, {error.message}"
        raise
    run = SelectionRun(of_any, dataset, custom=custom)
    run.description = description
    for model in settings.models:
        for method in settings.methods:
            check_fit(settings.selection(model, 0, method), description.schema, loss=run.loss)
    _check_sizes(label, settings, description)
    return ComparedTable(label, dataset, description)


def measure_cells(
    plan: Plan,
    execution: ExecutionSettings,
    store: Store,
    time_budget: float | None,
    on_progress: OnProgress,
    say: Say,
    is_kept: bool,
) -> None:
    """Measure every cell without stored results."""
    cells, kept = plan.cells, store.cells
    lacking = {
        cell: tuple(name for name in plan.methods if _stored_result(plan, cell, name, kept) is None)
        for cell in cells
    }
    requests: list[CellRequest] = [(cell, names) for cell, names in lacking.items() if names]
    n_before = len(cells) - len(requests)
    on_progress("measure_cells", n_before, len(cells))
    if not requests:
        return
    compared = _loaded(plan)
    with workers_for(execution, [source.dataset for source in plan.sources]) as workers:
        began = time.monotonic()
        results = workers.as_done(measure, compared, requests)
        with closing(results):
            for done, (number, result) in enumerate(results, start=1):
                for name, of_method in result.items():
                    key = plan.key(requests[number][0], name)
                    with kept.stage(key, key) as writer:
                        writer.result = of_method
                on_progress("measure_cells", n_before + done, len(cells))
                if time_budget is not None and time.monotonic() - began > time_budget:
                    remedy = "call it again to continue" if is_kept else "give a store to continue"
                    n_done = f"{n_before + done} of {len(cells)}"
                    say(f"The time is up with {n_done} cells measured; {remedy}.")
                    break


def conclude(plan: Plan, store: Store, run: Run) -> None:
    """Write the table of results and the report.

    If every measurement failed, only the errors are written.
    """
    kept = store.cells
    measured = {
        (cell, name): record.result
        for cell in plan.cells
        for name in plan.methods
        if (record := _stored_result(plan, cell, name, kept)) is not None
    }
    results, remarks = as_table(plan, measured), remarks_of(plan, measured)
    summary = summarise(results, plan.planned, plan.warnings, remarks)
    key = digest({"cells": [plan.key(*which) for which in measured]})
    refusal = _refusal(plan, measured)
    if refusal is not None:
        with run.stage(REFUSED, key) as writer:
            writer.result = {"errors": list(errors_of(summary))}
    # opening the stage removes an earlier conclusion, such as that after the time limit
    with run.stage("conclude", key) as writer:
        if refusal is not None:
            raise refusal
        writer.write("results.parquet", lambda path: pq.write_table(results, path))
        writer.write("report.html", render_comparison(summary, name=run.name))
        writer.result = {
            "warnings": list(plan.warnings),
            "remarks": remarks,
            "sizes": {source.label: list(plan.sizes(i)) for i, source in enumerate(plan.sources)},
            "leaks": plan.leaks,
        }


def _refusal(plan: Plan, measured: Mapping[tuple[Cell, str], dict[str, Any]]) -> InputError | None:
    tried = {which: result for which, result in measured.items() if which[1] != NONE}
    n_planned = len(plan.cells) * (len(plan.methods) - 1)
    if len(tried) < n_planned or any(result["sets"] for result in tried.values()):
        return None
    (cell, _), result = next(iter(tried.items()))
    where = f"{plan.sources[cell.table].label}, {plan.model(cell).name}"
    return InputError(f"nothing could be measured: in {where}, {result['error']}")


def _loaded(plan: Plan) -> Compared:
    of_any, tables = plan.settings.selection(plan.settings.models[0], 0), []
    for source in plan.sources:
        about = source.dataset, of_any, source.description
        tables.append(LoadedTable(load_rows(*about), load_roles(*about)))
    return Compared(plan, tuple(tables))


def _stored_result(plan: Plan, cell: Cell, name: str, cells: Run) -> StageRecord | None:
    key = plan.key(cell, name)
    return cells.finished(key, key)


def _check_sizes(label: str, settings: ComparisonSettings, description: TableDescription) -> None:
    """Raise InputError for a size above the number of features or below that of `keep`."""
    n_features, fewest = len(description.features), max(1, len(settings.columns.keep))
    for size in settings.sizes:
        if isinstance(size, int) and not fewest <= size <= n_features:
            raise InputError(
                f"sizes must be in {fewest}..{n_features} for table {label!r} but one is {size}; "
                "a share such as 0.5 goes for every table"
            )
        if (n := number_of(size, n_features)) < fewest:
            raise InputError(
                f"sizes must be in {fewest}..{n_features} for table {label!r} but {size:g} of its "
                f"features comes to {n}; give a larger share, or keep fewer columns"
            )
