"""What a person sees in the terminal: progress while a run goes on, a table when it is done."""

import json
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from chaffinch.flows.alternative_lines import NAMES_SHOWN, lines_of_alternatives
from chaffinch.flows.output import echo
from chaffinch.flows.progress_lines import ProgressLines, numbered
from chaffinch.storage.errors import is_out_of_memory, printable
from chaffinch.storage.runs import Run, Store
from chaffinch.tasks.catalog import is_unfinished_comparison, summary
from chaffinch.tasks.comparing.result import ComparisonResult
from chaffinch.tasks.log_context import ContextFilter
from chaffinch.tasks.paired_bootstrap import difference_of, signed
from chaffinch.tasks.reporting.changes import lines_of_changes
from chaffinch.tasks.reporting.earlier_rows import made_of_earlier_rows, on_scales
from chaffinch.tasks.result import SelectionResult
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.stage import OnProgress, Say, Warn, tell_nobody
from chaffinch.tasks.steps import STEPS

STARTING_PREFECT = "starting Prefect"
SECONDS_BETWEEN_LINES = 30
_WIDTH_OF_A_FILE = 160
# State of a run -> what to do about it.
_REMEDIES = {
    "unfinished": "An unfinished run goes on, or says again why it cannot, when the command that "
    "began it is given again.",
    "damaged": "What is damaged, and how to mend it, is said by chaffinch show RUN.",
}


class Showing(NamedTuple):
    """What a command can show while it works."""

    on_progress: OnProgress
    warn: Warn
    say: Say


@contextmanager
def progress(steps: Sequence[str] = STEPS, verbosity: str | None = None) -> Iterator[Showing]:
    """Show on standard error how far the steps are while the block runs, and what is said.

    Parameters
    ----------
    steps : sequence of str
        Every step, in order.
    verbosity : "quiet" or "verbose", optional
        By default a terminal gets a moving bar per step; a file or a pipe gets lines, see
        `ProgressLines`. Quiet gets warnings alone; verbose lines in any case, and those of the log.
    """
    console = Console(stderr=True)
    under_way = "running the command"

    def noted(step: str, done: int, total: int) -> None:
        nonlocal under_way
        under_way = f"running step {step.replace('_', ' ')!r}"
        on_progress(step, done, total)

    with _shown(console, steps, verbosity) as on_progress:
        warn = partial(_print_warnings, console)
        try:
            yield Showing(noted, warn, partial(_unless_quiet, console, verbosity))
        except Exception as error:
            if is_out_of_memory(error):
                error.add_note(under_way)
            raise


def _unless_quiet(console: Console, verbosity: str | None, line: str) -> None:
    if verbosity != "quiet":
        _print_line(console, line)


def _print_line(console: Console, line: str, style: str = "") -> None:
    console.print(Text(printable(line), style), soft_wrap=True)


def _print_path(console: Console, report: Path) -> None:
    # out(): a path is never wrapped, so that it can be copied
    console.out(f"Report: {printable(str(report.resolve()))}", highlight=False)


def _shown(
    console: Console, steps: Sequence[str], verbosity: str | None
) -> AbstractContextManager[OnProgress]:
    if verbosity == "quiet":
        return nullcontext(tell_nobody)
    if verbosity == "verbose":
        return _lines_and_log(steps)
    return _bars(console, steps) if console.is_terminal else _lines(steps)


@contextmanager
def _lines_and_log(steps: Sequence[str]) -> Iterator[OnProgress]:
    log, handler = logging.getLogger("chaffinch"), logging.StreamHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with _lines(steps) as on_progress:
            yield on_progress
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@contextmanager
def _bars(console: Console, steps: Sequence[str]) -> Iterator[OnProgress]:
    columns = (
        SpinnerColumn(finished_text="[green]✓[/]"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console) as bars:
        lines: dict[str, Any] = {}

        def on_progress(step: str, done: int, total: int) -> None:
            if step not in lines:
                lines[step] = bars.add_task(numbered(step, steps), total=total)
            bars.update(lines[step], completed=done, total=total)

        try:
            yield on_progress
        except BaseException:
            bars.live.transient = True  # what is left to read is the error
            raise


@contextmanager
def _lines(steps: Sequence[str]) -> Iterator[OnProgress]:
    lines = ProgressLines(partial(echo, err=True), steps)
    ended = threading.Event()

    def tell_regularly() -> None:
        while not ended.wait(SECONDS_BETWEEN_LINES):
            lines.tell()

    teller = threading.Thread(target=tell_regularly, daemon=True)
    teller.start()
    try:
        yield lines
    finally:
        ended.set()
        teller.join()


def show(result: SelectionResult, *, as_json: bool, with_warnings: bool = True) -> None:
    """Print a result: as a table with the verdict, or as the feature contract in JSON.

    The contract always holds the warnings; the table is followed by them unless they were said.
    """
    console = console_of_results()
    if as_json:
        where = {"run": result.run, "folder": str(result.folder)}
        found = {"scores": result.scores, "alternatives": result.alternatives}
        console.out(json.dumps({**where, **result.contract, **found}, indent=2), highlight=False)
        return
    kept, total = len(result.features), len(result.candidates)
    contract = result.contract
    table = Table(title=f"{result.run}", title_justify="left", title_style="bold")
    table.add_column("part")
    table.add_column("rows", justify="right")
    loss = Text(printable(loss_in_words(contract["loss"])))
    table.add_column(loss + f", all {total}", justify="right")
    table.add_column(f"selected {kept}", justify="right")
    table.add_column("difference", justify="right")
    rows = contract["dataset"]["rows_by_part"]
    for part, losses in result.losses.items():
        before, after = losses["all_features"], losses["selected"]
        table.add_row(
            part.replace("_", " "),
            f"{rows[part]:,}",
            f"{before:.4g}",
            f"{after:.4g}",
            signed(difference_of(after, before)),
            style="bold" if part == "test" else None,
        )
    console.print(table)
    shown = ", ".join(result.features[:NAMES_SHOWN])
    more = f" and {kept - NAMES_SHOWN} more" if kept > NAMES_SHOWN else ""
    _print_line(console, f"Kept {kept} of {total}: {shown}{more}")
    _print_line(console, result.verdict, "bold")
    for line in (on_scales(result.settings), made_of_earlier_rows(result.settings)):
        if line:
            _print_line(console, line)
    if result.alternatives is not None:
        n_units, loss_name = contract["comparison"]["units"], loss_in_words(contract["loss"])
        for line in lines_of_alternatives(result.alternatives, loss_name, n_units):
            _print_line(console, line)
    if result.changes is not None:
        for line in lines_of_changes(result.changes):
            _print_line(console, line)
    if with_warnings:
        _print_warnings(console, result.warnings)
    if result.folder is not None:
        _print_path(console, result.folder / "report.html")


def show_comparison(result: ComparisonResult, *, as_json: bool, with_warnings: bool = True) -> None:
    """Print what a comparison found: in lines, or every scored set in JSON.

    JSON always holds the warnings; the lines are followed by them unless they were said.
    """
    console = console_of_results()
    if as_json:
        found = {
            "comparison": result.name,
            "folder": str(result.folder),
            "warnings": list(result.warnings),
            "remarks": list(result.remarks),
            "losses_planned": result.summary.n_planned,
            "losses_missing": result.summary.n_missing,
            "not_reached": [
                {"table": table, "model": model} for table, model in result.not_reached
            ],
            "tables": [asdict(table) for table in result.summary.tables],
            "rankings": [asdict(ranking) for ranking in result.summary.rankings],
            "results": result.table.to_pylist(),
        }
        console.out(json.dumps(found, indent=2), highlight=False)
        return
    for line in result.lines:
        console.out(printable(line), highlight=False)
    if with_warnings:
        _print_warnings(console, result.warnings)
    if result.folder is not None:
        _print_path(console, result.folder / "report.html")


def show_runs(store: Store, *, as_json: bool) -> None:
    """Print the runs of a store, newest first, and the names of its comparisons."""
    console = console_of_results()
    catalog = [summary(run) for run in store.runs()]
    if as_json:
        console.out(json.dumps(catalog, indent=2), highlight=False)
    elif not catalog:
        _print_line(console, f"No runs in {store.path} yet.")
    else:
        rows = [_in_words(entry) for entry in catalog]
        table = Table()
        for column in rows[0]:
            # a name that is cut short cannot be given to `chaffinch show`
            table.add_column(column, no_wrap=column == "run")
        for row in rows:
            table.add_row(*(Text(printable(value)) for value in row.values()))
        console.print(table)
        states = {entry["state"] for entry in catalog}
        for state in sorted(states & _REMEDIES.keys()):
            _print_line(console, _REMEDIES[state])
    if not as_json:
        for line in _compared(store.comparisons()):
            _print_line(console, line)


def _compared(comparisons: Sequence[Run]) -> Iterator[str]:
    """Yield the names of comparisons, those that are not finished by themselves."""
    unfinished = [one.name for one in comparisons if is_unfinished_comparison(one)]
    finished = [one.name for one in comparisons if one.name not in unfinished]
    if finished:
        yield f"Comparisons, for chaffinch show: {', '.join(finished)}"
    if unfinished:
        yield (
            f"Comparisons that are not finished, of which chaffinch show says why: "
            f"{', '.join(unfinished)}"
        )


def _in_words(entry: dict[str, Any]) -> dict[str, str]:
    """Return a line of the catalog as a person reads it."""
    at, kept = entry["next_stage"], entry["kept"]
    return {
        "run": entry["run"],
        "created (UTC)": entry["created"][:19].replace("T", " "),
        "state": entry["state"] + (f" at {at.replace('_', ' ')}" if at else ""),
        "kept": "" if kept is None else f"{kept} of {entry['candidates']}",
        "test loss, all": short(entry["test_loss_all"]),
        "selected": short(entry["test_loss_selected"]),
        "verdict": entry["verdict"] or "",
    }


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        _print_line(console, f"Warning: {warning}")


def console_of_results() -> Console:
    """Return where results go: as wide as the terminal, or wide enough for a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_OF_A_FILE)


def short(figure: float | None) -> str:
    """Return a figure to four digits, or nothing where there is none."""
    return "" if figure is None else f"{figure:.4g}"
