"""Output in the terminal: progress of a run, then its result as a table or JSON."""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from chaffinch.errors import StorageError, is_out_of_memory, printable
from chaffinch.flows.cli.sections import console_of_results, print_line, print_table
from chaffinch.flows.cli.terminal import Showing, echo, echo_json
from chaffinch.storage.runs.decisions import needed_decision
from chaffinch.storage.runs.promotions import Promotion, Promotions
from chaffinch.storage.runs.store import Run, Store
from chaffinch.tasks.comparing.run import ComparisonResult
from chaffinch.tasks.pipeline.memory import gigabytes
from chaffinch.tasks.pipeline.progress import STEPS, RunProgress, duration
from chaffinch.tasks.pipeline.progress.display import bar, lines
from chaffinch.tasks.pipeline.run import Preflight
from chaffinch.tasks.reporting.alternatives import (
    joint_proof,
    n_requested,
    near_copies_in_words,
    proof,
    suggest_remedies,
    summarise_alternatives,
    why_undecided,
    why_worthless,
)
from chaffinch.tasks.reporting.certified_sets import lines_of_certified_sets
from chaffinch.tasks.reporting.changes import lines_of_changes
from chaffinch.tasks.reporting.losses import (
    beyond_the_search,
    class_shares,
    judged_part,
    losses_by_part,
    metrics,
)
from chaffinch.tasks.reporting.section import Kind, Table
from chaffinch.tasks.reporting.text import (
    costs_in_words,
    explained_in_words,
    how_stable,
    interval,
    listed,
    made_of_earlier_rows,
    number,
)
from chaffinch.tasks.results.history import read_promotions
from chaffinch.tasks.results.previous_run import read_contract
from chaffinch.tasks.results.result import (
    SelectionResult,
    is_unfinished_comparison,
    prices_of,
    summary,
)
from chaffinch.tasks.selection.losses import loss_in_words
from chaffinch.tasks.settings.method import declared
from chaffinch.tasks.settings.selection import SelectionSettings
from chaffinch.tasks.settings.stage_titles import title_of
from chaffinch.tasks.statistics.verdict import judged_on, part_in_words, too_few_units
from chaffinch.tasks.workers.logging import ContextFilter

NAMES_SHOWN, NAMES_MISSING = 40, 5


def lines_of_alternatives(
    alternatives: dict[str, Any], loss_name: str, n_units: int
) -> Iterator[str]:
    """Yield the content of ``alternatives.json`` in lines: what is missing, and two lines per set.

    `n_units` are the rows, groups or blocks of time that judge.
    """
    n_sets, part = n_requested(alternatives["settings"]), part_in_words(judged_on(alternatives))
    yield summarise_alternatives(alternatives)
    if len(alternatives["sets"]) < n_sets and (room := suggest_remedies(alternatives)):
        yield f"  {room}"
    for describe in (near_copies_in_words, joint_proof, why_worthless):
        if note := describe(alternatives):
            yield f"  {note}."
    chosen = alternatives["chosen"]["quality"]
    of_chosen = "" if chosen is None else f" (chosen: {chosen:.4g})"
    for place, alternative in enumerate(alternatives["sets"], start=1):
        difference = number(alternative["difference"], "+")
        if alternative["interval"] is not None:
            difference += f" {interval(alternative['interval'])}"
        known = proof(alternatives, alternative)
        yield (
            f"  {place}. {part} {loss_name} {alternative['test_loss']:.4g}, {difference} "
            f"to the chosen; quality {alternative['quality']:.4g}{of_chosen}"
            f"{known and f', {known}'}"
        )
        where = " (--json lists all)" if len(alternative["features"]) > NAMES_SHOWN else ""
        yield f"     {listed(alternative['features'], NAMES_SHOWN)}{where}"
    if undecided := why_undecided(alternatives, n_units):
        yield f"  {undecided}."
    if "certified" in alternatives:
        certified, copies = alternatives["certified"], alternatives.get("near_copies") or {}
        yield from lines_of_certified_sets(
            certified, judged_on(alternatives), loss_name, NAMES_SHOWN, copies
        )


# State of a run -> what to do about it.
_REMEDIES = {
    "unfinished": "Give the command that began an unfinished run again: it continues; on a table "
    "that has changed it begins another run.",
    "refused": "chaffinch show RUN gives the reason of a refused run.",
    "damaged": "chaffinch show RUN reports what is damaged and how to repair it.",
}


@contextmanager
def progress(steps: Sequence[str] = STEPS, verbosity: str | None = None) -> Iterator[Showing]:
    """Show progress, warnings and messages of the block on standard error."""
    console = Console(stderr=True)

    def say(line: str) -> None:
        if verbosity != "quiet":
            print_line(console, line)

    with _shown(console, steps, verbosity) as run:
        try:
            yield Showing(run, partial(_print_warnings, console), say)
        except Exception as error:
            if is_out_of_memory(error):
                step = "the command" if run.now is None else f"step {title_of(run.now)!r}"
                error.add_note(f"running {step}")
            raise


def _print_path(console: Console, report: Path) -> None:
    # out(): a path is never wrapped, so that it can be copied
    console.out(f"Report: {printable(str(report.resolve()))}", highlight=False)


def _shown(
    console: Console, steps: Sequence[str], verbosity: str | None
) -> AbstractContextManager[RunProgress]:
    if verbosity == "quiet":
        silent = RunProgress(steps)
        silent.wants_estimate = False
        return nullcontext(silent)
    if verbosity == "verbose":
        return _lines_and_log(steps)
    if console.is_terminal:
        return bar(console, steps, keeps_stages=True)
    return _lines(steps)


@contextmanager
def _lines_and_log(steps: Sequence[str]) -> Iterator[RunProgress]:
    log, handler = logging.getLogger("chaffinch"), logging.StreamHandler()
    handler.addFilter(ContextFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with _lines(steps) as run:
            yield run
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


def _lines(steps: Sequence[str]) -> AbstractContextManager[RunProgress]:
    return lines(partial(echo, err=True), steps)


def show(result: SelectionResult, *, as_json: bool, with_warnings: bool = True) -> None:
    """Print a result as a table with the verdict, or as the feature contract in JSON."""
    console = console_of_results()
    undecided = "" if result.folder is None else needed_decision(Run(result.folder))
    if as_json:
        where = {
            "run": result.run,
            "folder": str(result.folder),
            "needs_decision": undecided or None,
        }
        search_results = {
            "ranks": result.ranks,
            "scores": result.scores,
            "curve": json.loads(result.curve.to_json(orient="records", double_precision=15)),
            "alternatives": result.alternatives,
        }
        console.out(
            json.dumps({**where, **result.contract.to_dict(), **search_results}, indent=2),
            highlight=False,
        )
        return
    kept, total = len(result.features), len(result.candidates)
    contract = result.contract
    print_line(console, f"{result.run}: features that predict {contract.target.name}", "bold")
    print_line(console, result.verdict, "bold")
    best_first = list(map(str, sorted(result.candidates, key=result.ranks.__getitem__)))
    is_kept = {*map(str, result.features)}
    of_kept = (name for name in best_first if name in is_kept)
    print_line(console, f"Kept {kept} of {total}: {listed(of_kept, NAMES_SHOWN)}")
    if dropped := [name for name in best_first if name not in is_kept]:
        print_line(console, f"Dropped {len(dropped)}: {listed(dropped, NAMES_SHOWN)}")
    if explained := explained_in_words(contract):
        print_line(console, explained)
    heads = f"all {total}", f"selected {kept}"
    of_metrics = metrics(contract, f"metric, {judged_part(contract)} rows", heads)
    if of_metrics.rows:
        print_table(console, of_metrics)
        if shares := class_shares(contract):
            print_line(console, shares)
    print_line(console, how_stable(contract))
    if result.changes is not None:
        lines = lines_of_changes(result.changes)
        for change in lines[: NAMES_SHOWN + 1]:
            print_line(console, change)
        if len(lines) > NAMES_SHOWN + 1:
            print_line(console, f"  and {len(lines) - NAMES_SHOWN - 1} more (the report lists all)")
    loss_name = loss_in_words(contract.loss)
    heads = f"{loss_name}, all {total}", f"selected {kept}"
    print_table(console, losses_by_part(contract, heads))
    _print_prices(console, result)
    is_cross_fitted = declared(contract.settings["method"]["kind"]).traits.is_cross_fitted
    if "mask_validation" in contract.losses and not is_cross_fitted:
        print_line(console, "Both models were fitted on train and mask validation.")
    if beyond := beyond_the_search(contract):
        print_line(console, beyond)
    for line in filter(None, [costs_in_words(contract), made_of_earlier_rows(result.settings)]):
        print_line(console, line)
    if result.alternatives is not None:
        n_units = contract.comparison.units
        for line in lines_of_alternatives(result.alternatives, loss_name, n_units):
            print_line(console, line)
    if with_warnings:
        _print_warnings(console, result.warnings)
        if undecided:  # a run that has just ended says it with its exit code
            print_line(console, f"Needs a decision: {undecided}", "bold")
    for note in contract.notes:
        print_line(console, f"Note: {note}")
    if result.folder is not None:
        _print_path(console, result.folder / "report.html")


def _print_prices(console: Console, result: SelectionResult) -> None:
    """Print what other numbers of features would lose, where the search knows it."""
    if (prices := prices_of(result)) is None:
        return
    print_table(console, prices)
    n_sizes = len(result.curve)
    more = f" The report has all {n_sizes} numbers." * (n_sizes > len(prices.rows))
    print_line(
        console,
        "At most: with 95% confidence, by Student's t, for a number that these figures did not "
        f"pick. The test that chose is less strict; the verdict resamples rows.{more}",
    )
    if result.folder is not None:
        print_line(console, f"To keep K features: chaffinch at {result.run} K")


def show_check(preflight: Preflight, settings: SelectionSettings, *, as_json: bool) -> None:
    """Print what a run would take the columns of a table for, or its profile in JSON."""
    description, seconds = preflight.description, preflight.seconds_of_fits
    profile = description.profile
    parts = {part: n for part, n in preflight.rows_by_part.items() if n}
    if as_json:
        content = {
            "task": description.task,
            "task_reason": description.task_reason,
            "classes": list(description.classes),
            "features": list(description.features),
            "left_out": description.excluded,
            "rows_by_part": parts,
            "units": preflight.n_units,
            "memory": {"needed": round(preflight.bytes_needed), "free": preflight.bytes_free},
            "seconds_of_fits": None if seconds is None else round(seconds, 1),
            "warnings": list(description.warnings),
            "notes": list(description.notes),
            "columns": profile,
        }
        echo_json(content)
        return
    n_features, classes = len(description.features), len(description.classes)
    echo(f"{sum(parts.values()):,} rows; {n_features} of {len(profile)} columns are features.")
    what = f"{description.task}, {classes} classes" if classes else description.task
    echo(f"Task: {what}: {description.task_reason}.")
    judged = "" if "test" in parts else "; folds of these rows judge"
    words = ", ".join(f"{n:,} {part_in_words(part)}" for part, n in parts.items())
    echo(f"Rows: {words}{judged}.")
    needed, free = gigabytes(preflight.bytes_needed), gigabytes(preflight.bytes_free)
    echo(f"Memory: about {needed} of {free} that are free.")
    if seconds is not None:
        fits = f"fits of {settings.model.name}"
        echo(f"Time: about {duration(seconds)} of {fits}; masked losses and scores are extra.")
    shares = {
        column["name"]: column["missing"] / column["rows"]
        for column in profile
        if column["missing"]
    }
    if shares:
        most = sorted(shares, key=shares.__getitem__, reverse=True)[:NAMES_MISSING]
        named = ", ".join(f"{name!r} {shares[name]:.1%}" for name in most)
        more = f" and {len(shares) - len(most)} more" if len(shares) > len(most) else ""
        echo(f"Missing values: {named}{more}.")
    warnings = list(description.warnings)
    if lacking := too_few_units(preflight.n_units):
        warnings.append(f"{lacking}, so that no verdict will be possible; give more of these")
    for warning in warnings:
        echo(f"Warning: {warning}")
    for note in description.notes:
        echo(f"Note: {note}")


def show_comparison(result: ComparisonResult, *, as_json: bool, with_warnings: bool = True) -> None:
    """Print the verdicts of a comparison in lines, or every scored set in JSON."""
    console = console_of_results()
    if as_json:
        content = {
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
        console.out(json.dumps(content, indent=2), highlight=False)
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
        print_line(console, f"No runs in {store} yet.")
    else:
        _print_table([_in_words(entry) for entry in catalog])
        states = {entry["state"] for entry in catalog}
        for state in sorted(states & _REMEDIES.keys()):
            print_line(console, _REMEDIES[state])
        if any(entry["needs_decision"] for entry in catalog):
            print_line(
                console,
                "chaffinch show RUN says why a person has to decide; chaffinch promote RUN, or "
                "another run, decides.",
            )
    if not as_json:
        comparisons = store.comparisons()
        unfinished = [run.name for run in comparisons if is_unfinished_comparison(run)]
        finished = [run.name for run in comparisons if run.name not in unfinished]
        for about, names in {
            "Comparisons, for chaffinch show": finished,
            "Unfinished comparisons (chaffinch show gives the reason)": unfinished,
        }.items():
            if names:
                print_line(console, f"{about}: {', '.join(names)}")


def _in_words(entry: dict[str, Any]) -> dict[str, str]:
    at, kept, part = entry["next_stage"], entry["kept"], entry["judged_on"]
    rows = "" if part in (None, "test") else f" {part_in_words(part)}"
    return {
        "run": entry["run"],
        "created (UTC)": entry["created"][:19].replace("T", " "),
        "state": f"{entry['state']}{f' at {title_of(at)!r}' if at else ''}"
        + ", needs a decision" * bool(entry["needs_decision"]),
        "target": entry["target"] or "",
        "kept": "" if kept is None else f"{kept} of {entry['candidates']}",
        "loss, all": f"{short(entry['loss_all_features'])}{rows}",
        "selected": short(entry["loss_selected"]),
        "verdict": entry["verdict"] or "",
    }


def _print_warnings(console: Console, warnings: Sequence[str]) -> None:
    for warning in warnings:
        print_line(console, f"Warning: {warning}")


def short(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.4g}"


def show_names(histories: Promotions, *, as_json: bool) -> bool:
    """Print the contract in use of every data set; return whether each can be read.

    Damaged histories go to standard error.
    """
    promotions, damage = read_promotions(histories)
    last = {name: entries[-1] for name, entries in promotions.items() if entries}
    names = sorted(last.keys() | damage.keys())
    if as_json:
        empty = dict.fromkeys(field.name for field in fields(Promotion))
        in_use = {name: asdict(last[name]) if name in last else empty for name in names}
        echo_json([{"name": n, **of, "damage": damage.get(n, "")} for n, of in in_use.items()])
    elif not names:
        echo("Nothing was promoted yet.")
    else:
        _print_table([{"data set": name, **_promotion_in_words(last[name])} for name in last])
    for name, why in damage.items():
        echo(f"Error: what is promoted as {name} cannot be read: {why}", err=True)
    return not damage


def show_history(histories: Promotions, name: str, *, as_json: bool) -> bool:
    """Print the promotions of a data set, newest first; return if the last can be read."""
    newest_first = histories.existing(name)[::-1]
    path = histories.path(newest_first[0])
    damage = {}
    for entry in newest_first:
        try:
            read_contract(histories, entry)
            damage[entry.contract] = ""
        except StorageError as error:
            damage[entry.contract] = str(error)
    if as_json:
        entries = [{**asdict(entry), "damage": damage[entry.contract]} for entry in newest_first]
        echo_json({"name": name, "contract": str(path), "history": entries})
    else:
        _print_table([_promotion_in_words(entry) for entry in newest_first])
        echo(f"The contract in use: {path}")
    in_use = newest_first[0].contract
    for contract, why in damage.items():
        if why and contract == in_use:
            echo(f"Error: the contract in use cannot be read: {why}", err=True)
        elif why:
            echo(f"Warning: no rollback leads to an earlier contract: {why}", err=True)
    return not damage[in_use]


def _promotion_in_words(entry: Promotion) -> dict[str, str]:
    return {
        "run": entry.run,
        "promoted (UTC)": entry.promoted[:19].replace("T", " "),
        "how": entry.how,
        "reason": entry.reason,
    }


def _print_table(rows: Sequence[Mapping[str, str]]) -> None:
    if rows:
        columns: dict[str, Kind] = dict.fromkeys(rows[0], "text")
        # a shortened name is of no use in a command
        columns |= {name: "name" for name in ("run", "data set") if name in columns}
        table = Table("", columns, [tuple(row.values()) for row in rows])
        print_table(console_of_results(), table, wraps_names=False)
