"""The command line: ``chaffinch run``, and the others that `chaffinch --help` lists.

Exit codes: 0 done; 1 failure; 2 bad input, in one line; 3 warnings and --strict; 4 out of
memory; 5 done, and a person has to decide; 130 stopped by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
Heavy modules are imported by the command that needs them, so that help is quick.
"""

import errno
import json
import shlex
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import click

from chaffinch.errors import (
    InputError,
    StorageError,
    StrictError,
    TableTooLargeError,
    UnreachableError,
    WorkersError,
    is_out_of_memory,
    one_line,
)
from chaffinch.flows.cli.export import export
from chaffinch.flows.cli.options import (
    AT,
    COMPARISON,
    RESELECTION,
    STRICT,
    Commands,
    config_option,
    defaults_of,
    json_flag,
    nested,
    prefect_flag,
    settings_options,
    store_option,
    verbosity_flags,
)
from chaffinch.flows.cli.promotion import diff, promote, promoted, rollback
from chaffinch.flows.cli.selection import selection_options
from chaffinch.flows.cli.serve import announce, automations, serve
from chaffinch.flows.cli.settings_file import (
    as_toml,
    data_of,
    execution_of,
    group_of,
    merged,
    named_in_errors,
    read_settings,
)
from chaffinch.flows.cli.terminal import (
    STARTING_PREFECT,
    Showing,
    echo,
    echo_exactly,
    echo_json,
    exit_code_of,
)
from chaffinch.flows.prefect_runtime.server import Server, ServerError, is_configured, prepare
from chaffinch.storage.extras import require
from chaffinch.storage.files import path_from, write_file
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.settings.method import declared, kinds, method_of
from chaffinch.tasks.settings.reselection import ReselectionSettings
from chaffinch.tasks.settings.selection import (
    ExecutionSettings,
    SelectionSettings,
)
from chaffinch.tasks.workers.signals import Stopped

if TYPE_CHECKING:
    from chaffinch.storage.runs.stages import Run
    from chaffinch.storage.sources import Source
    from chaffinch.tasks.results.result import SelectionResult

OUT_OF_MEMORY = 4
DIALECTS = ("postgresql", "mysql", "mssql", "oracle", "sqlite")


@click.command(short_help="Print the columns that a job must load.")
@click.argument("run")
@click.option(
    "--as",
    "form",
    type=click.Choice(["sql", "parquet", "json"]),
    default="json",
    show_default=True,
    help="sql: a SELECT, or its list without --table. parquet: the list that readers of Parquet "
    "take as `columns`. json: an object with the types.",
)
@click.option("--table", metavar="NAME", help="sql: the table to read from, such as shop.orders.")
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    help="sql: how names are quoted.  [default: postgresql]",
)
@click.option(
    "--source",
    metavar="DATA",
    help="A table, as chaffinch run takes it: print to standard error how many of its bytes are in "
    "other columns.",
)
@store_option
def columns(
    run: str,
    form: str,
    table: str | None,
    dialect: str | None,
    source: str | None,
    store: str | Path,
) -> None:
    """Print the columns that a job must load for the features of RUN.

    RUN is the name of a finished run in the store, a name that it was promoted under, its folder,
    or its selection.json.
    """
    from chaffinch.tasks.results.previous_run import load_contract

    for option, value in {"--table": table, "--dialect": dialect}.items():
        if value is not None and form != "sql":
            raise InputError(f"{option} is for --as sql but this is --as {form}; leave it out")
    if table is not None and not all(level.strip() for level in table.split(".")):
        raise InputError(
            f"--table must be a name, or several separated by dots, such as shop.orders, but is "
            f"{table!r}; name a table, or leave it out for the columns alone"
        )
    contract = load_contract(run, store=store)
    read = None if source is None else contract.bytes_in(source)
    if form == "sql":
        echo_exactly(as_select(contract.columns, table, dialect or DIALECTS[0]))
    elif form == "parquet":
        echo_exactly(json.dumps(contract.columns, ensure_ascii=False))
    else:
        content = {
            "columns": contract.columns,
            "features": contract.kinds,
            "bytes": None if read is None else {"kept": read.kept, "all": read.all},
        }
        echo_json(content)
    if read is not None:
        click.echo(
            f"{len(contract.columns)} column{'s are' if len(contract.columns) > 1 else ' is'} "
            f"{read.kept:,} of {read.all:,} bytes: "
            f"{read.share_saved:.0%} belong to other columns",
            err=True,
        )


def as_select(names: Sequence[str], table: str | None, dialect: str) -> str:
    """Return names as a list in SQL, or as a SELECT from a table."""
    from sqlalchemy.dialects import registry

    # paramstyle: the default would double per cent signs
    quote = registry.load(dialect)(paramstyle="named").identifier_preparer.quote_identifier
    if table is None:
        return ", ".join(map(quote, names))
    levels = ".".join(map(quote, table.split(".")))
    return f"SELECT {', '.join(map(quote, names))}\nFROM {levels}"


@click.command(short_help="Update the features of an earlier run by newer rows.")
@click.argument("run")
@click.argument("data", required=False)
@config_option
@settings_options(ReselectionSettings, RESELECTION)
@settings_options(ExecutionSettings, STRICT)
@prefect_flag
@verbosity_flags
@json_flag
def reselect(
    run: str,
    data: str | None,
    config: str | None,
    with_prefect: bool | None,
    as_json: bool,
    verbosity: str | None,
    **options: Any,
) -> int:
    """Start from the features of RUN, and change them only where newer rows show a reason.

    RUN is the name of a finished run in the store, a name that it was promoted under, its folder,
    or its selection.json; DATA holds the newer rows. Settings without an option are as in RUN. The
    exit codes are those of chaffinch run.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.
    """
    server = server_of(with_prefect)
    from chaffinch.flows.cli import output
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.pipeline.progress import steps_of
    from chaffinch.tasks.pipeline.run import select_features
    from chaffinch.tasks.promotion.promote import promoted_name
    from chaffinch.tasks.results.previous_run import read_former, settings_of

    file = read_settings(config)
    data, own = data_of(file, data), group_of(file, "reselect")
    with named_in_errors(file):
        execution = execution_of(file, options)
        changes = ReselectionSettings(**merged(own, nested(options, RESELECTION)))
    settings = settings_of(read_former(run, execution.store), changes)
    source, steps = source_of(data), steps_of(with_changes=True)
    with output.progress(steps, verbosity) as shown:
        if server is None:
            name = promoted_name(run, execution.store)
            select = partial(select_features, source, settings, execution, promoted_as=name)
            result, undecided = _selected(select, shown, name)
        else:
            checked = partial(_checked, source, settings, execution)
            arguments = (run, data, changes, execution)
            result, undecided = _run_selection(server, "reselection", arguments, shown, checked)
    return _shown(result, undecided, as_json=as_json)


@click.command(short_help="Keep another number of features of a finished run.")
@click.argument("run")
@click.argument("n_features", type=int, metavar="K")
@settings_options(ExecutionSettings, AT)
@verbosity_flags
@json_flag
def at(run: str, n_features: int, as_json: bool, verbosity: str | None, **options: Any) -> int:
    """Keep exactly K features of RUN, a finished run of method auto, with a verdict on this number.

    The result is a run of its own, which can be promoted. Rows and tuned hyper-parameters are those
    of RUN; the exit codes are those of chaffinch run.
    """
    from chaffinch.flows.cli import output
    from chaffinch.tasks.pipeline.progress import steps_of
    from chaffinch.tasks.pipeline.run import select_at

    execution = ExecutionSettings(**nested(options, AT))
    former = _existing_store(execution.store).existing(run)
    with output.progress(steps_of(), verbosity) as shown:
        result, undecided = _selected(partial(select_at, former, n_features, execution), shown)
    return _shown(result, undecided, as_json=as_json)


def server_of(with_prefect: bool | None) -> Server | None:
    """Return the Prefect server of a run, by default the configured server; None to run without."""
    prepare(quiet=True)
    if with_prefect is None:
        with_prefect = is_configured()
    if not with_prefect:
        return None
    require("prefect", "a run on a Prefect server")
    return Server()


def _selected(
    select: Callable[..., "Run"], shown: Showing, promoted_as: str | None = None
) -> tuple["SelectionResult", str]:
    """Run the pipeline in this process, without Prefect; return why a person has to decide too."""
    from chaffinch.tasks.promotion.promote import compare_with_promoted, note_need, why_needed
    from chaffinch.tasks.results.result import load_result

    run = select(on_progress=shown.on_progress, warn=shown.warn, notes_decision=True)
    lines, difference = compare_with_promoted(run, name=promoted_as)
    for line in lines:
        shown.say(line)
    undecided = why_needed(load_result(run).contract, lines, difference)
    note_need(run, promoted_as, undecided)
    return load_result(run), undecided


def _checked(
    source: "Source", settings: SelectionSettings, execution: ExecutionSettings, shown: Showing
) -> None:
    """Check the inputs of a run before the server starts."""
    from chaffinch.tasks.pipeline.run import check

    shown.warn(check(source, settings, execution, on_progress=shown.on_progress))


def _run_flow(
    server: Server,
    name: str,
    arguments: tuple[Any, ...],
    shown: Showing,
    check_data: Callable[[Showing], None] | None = None,
) -> Any:
    """Run a flow with progress in the terminal, and return its final state.

    Its import follows the start of the server.
    """
    from chaffinch.tasks.pipeline.ingestion import reads_cached

    with reads_cached():
        server.check()
        if check_data is not None:
            check_data(shown)
        with shown.on_progress.stage(STARTING_PREFECT):
            server.start()
            flow = getattr(import_module(f"chaffinch.flows.{name}"), name)
            from chaffinch.flows.prefect_runtime.artifacts import watching

            # What every run needs later is loaded while the server starts.
            for library in ("pandas", "sklearn.ensemble", "scipy.stats", "matplotlib.figure"):
                import_module(library)
        with watching(shown), server.in_use():
            state = flow(*arguments, return_state=True)
            state.result()  # raises what ended the run
            return state


def _run_selection(server: Server, name: str, *arguments: Any) -> tuple["SelectionResult", str]:
    """Run a flow that selects features; return its result, and why a person has to decide."""
    state = _run_flow(server, name, *arguments)
    from chaffinch.flows.prefect_runtime import promotion

    is_undecided = state.name == promotion.NEEDS_DECISION
    undecided = state.message.removeprefix("needs a decision: ") if is_undecided else ""
    return state.result(), undecided


def _drop_option(column: str) -> str:
    """Return the option that drops a column, quoted for a shell and as a name in a list."""
    name = '"' + column.replace('"', '""') + '"' if set(column) & set(',"\n') else column
    return f"--drop {shlex.quote(name)}"


def _shown(result: "SelectionResult", undecided: str, *, as_json: bool) -> int:
    """Print a result and why a person has to decide; return the exit code."""
    from chaffinch.flows.cli import output

    output.show(result, as_json=as_json, with_warnings=False)
    return exit_code_of(undecided)


# A full device, a reader that left, a terminal that is gone: files of a store have StorageError.
_NOT_WRITTEN = (errno.ENOSPC, errno.EPIPE, errno.EIO)
# click 8.2 and newer raise it where a command needs arguments; earlier ones print help and end
_NO_ARGUMENTS = getattr(click.exceptions, "NoArgsIsHelpError", ())
_WRITERS = ("click", "rich")  # the libraries that write standard output and standard error


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="chaffinch")
def cli() -> None:
    """Select the features of a table, retrain a model on them, and report whether that helped."""


@cli.command(short_help="Select the features of a table.")
@click.argument("data", required=False)
@selection_options
@prefect_flag
@verbosity_flags
@json_flag
def run(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    with_prefect: bool | None,
    as_json: bool,
    verbosity: str | None,
) -> int:
    """Select features of DATA: CSV or TSV (plain or .gz), a Parquet file or folder.

    DATA may be several files, as in "data/2026*.parquet"; at s3://, gs:// or abfss://; a Delta
    table; or a table or query in a database, as in postgresql://host/database#table or
    "postgresql://host/database#SELECT a FROM b". Credentials come from the environment, and never
    stand in the address.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.

    Give the same command again to continue a run that was stopped.

    Exit codes: 0 done; 1 failure; 2 bad input; 3 warnings and --strict, nothing trained; 4 out of
    memory; 5 done, but a person has to decide about a data set with a promoted contract; stopped:
    130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
    """
    from chaffinch.storage.runs.refusals import noting_refusals
    from chaffinch.storage.sources import source_of

    source = source_of(data)
    with noting_refusals(execution.store, source, None):
        source.check()  # a wrong path is refused before the imports of a run
    server = server_of(with_prefect)
    from chaffinch.flows.cli import output
    from chaffinch.tasks.pipeline.progress import steps_of
    from chaffinch.tasks.pipeline.run import select_features

    steps = steps_of(with_alternatives=settings.alternatives is not None)
    with output.progress(steps, verbosity) as shown:
        if server is None:
            result, undecided = _selected(
                partial(select_features, source, settings, execution), shown
            )
        else:
            checked = partial(_checked, source, settings, execution)
            arguments = (data, settings, execution)
            flow = "feature_selection"
            result, undecided = _run_selection(server, flow, arguments, shown, checked)
    return _shown(result, undecided, as_json=as_json)


@cli.command(short_help="Check a table and the settings, and estimate memory and time.")
@click.argument("data", required=False)
@selection_options
@json_flag
def check(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    as_json: bool,
) -> None:
    """Check DATA and the settings of a run; nothing is stored.

    Prints what the target is taken for, the rows of each part, the memory and time that a run
    needs, the columns that are left out, and warnings of leaks, duplicates and the like. The time
    is from fits on a few rows. Exit codes: 0 done; 2 bad input; 3 warnings and --strict.
    """
    from chaffinch.flows.cli import output
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.pipeline.run import preflight

    lenient = execution.model_copy(update={"strict": False})
    checked = preflight(source_of(data), settings, lenient)
    output.show_check(checked, settings, as_json=as_json)
    if (warnings := checked.description.warnings) and execution.strict:
        raise StrictError(warnings, are_shown=True)


@cli.command(short_help="Write a file of settings, with comments.")
@click.argument("data", required=False)
@selection_options
@click.option(
    "--file", default="selection.toml", show_default=True, metavar="FILE", help="File to write."
)
def init(
    data: str,
    settings: SelectionSettings,
    execution: ExecutionSettings,
    file: str,
) -> None:
    """Write a TOML file for `chaffinch run --config FILE`, with every setting and what it does.

    Settings that are given as options are set in it; the others have their defaults, as comments.
    They are checked with the table, as by chaffinch check. Of a table that chaffinch run would
    refuse, the file says why in a comment, and suggests which column to drop.
    """
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.pipeline.ingestion import check_header
    from chaffinch.tasks.pipeline.run import check_settings, preflight

    path = path_from(file, "--file")
    if path.suffix != ".toml":
        raise InputError(f"--file must end with .toml but is {file}")
    if path.exists():
        raise InputError(f"{file} exists; remove it, or give another --file")
    source = source_of(data)
    source.check()
    check_settings(settings)
    check_header(source, settings)
    refused = None
    try:
        preflight(source, settings, execution, is_timed=False)
    except (InputError, TableTooLargeError) as error:
        refused = error
        why = error.in_words(_drop_option) if isinstance(error, InputError) else error
        echo(f"Warning: chaffinch run refuses this table: {why}", err=True)
    write_file(path, as_toml(data, settings, execution, refused).encode())
    first = "" if refused is None else "correct it, then "
    echo(f"Wrote {file}; {first}run it by: chaffinch run --config {file}")


@cli.command(short_help="Compare methods on tables.")
@click.argument("data", nargs=-1, metavar="TABLES")
@config_option
@settings_options(ComparisonSettings, COMPARISON, optional=True)
@click.option(
    "--time-budget",
    type=float,
    metavar="MINUTES",
    help="Minutes after which what is done by then is concluded from. By default all is done.",
)
@settings_options(ExecutionSettings, STRICT)
@prefect_flag
@verbosity_flags
@json_flag
def compare(
    data: tuple[str, ...],
    config: str | None,
    time_budget: float | None,
    with_prefect: bool | None,
    as_json: bool,
    verbosity: str | None,
    **options: Any,
) -> None:
    """Compare methods of selection on TABLES, one or more, by nested folds and over seeds.

    What is selected in a fold is scored once, on rows that the selection never saw. A comparison
    that was stopped continues where it stopped when the same command is given again. The exit codes
    are those of chaffinch run.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.
    """
    server = server_of(with_prefect)
    from chaffinch.flows.cli import output
    from chaffinch.storage.sources import source_of
    from chaffinch.tasks.comparing.run import (
        STEPS,
        check_time_budget,
        compare_methods,
        load_comparison,
    )

    check_time_budget(time_budget)
    file = read_settings(config)
    tables = data_of(file, list(data))
    shared = {name: file[name] for name in file.keys() & ComparisonSettings.model_fields.keys()}
    own = merged(shared, group_of(file, "compare"))
    with named_in_errors(file):
        settings = ComparisonSettings(**merged(own, nested(options, COMPARISON)))
        execution = execution_of(file, options)
    tables = [tables] if isinstance(tables, str) else tables
    with output.progress(STEPS, verbosity) as shown:
        if server is None:
            seconds = None if time_budget is None else 60 * time_budget
            sources = list(map(source_of, tables))
            run = compare_methods(
                sources, settings, execution, time_budget=seconds, **shown._asdict()
            )
            result = load_comparison(run)
        else:
            arguments = (tables, settings, execution, time_budget)
            result = _run_flow(server, "comparison", arguments, shown).result()
    output.show_comparison(result, as_json=as_json, with_warnings=False)


@cli.command()
@click.argument("method", required=False)
@json_flag
def methods(method: str | None, as_json: bool) -> None:
    """List the methods of selection, or the settings of METHOD."""
    if method is None:
        rows = [(kind, declared(kind).summary) for kind in kinds()]
    else:
        rows = defaults_of(type(method_of(method)))
    if as_json:
        echo_json(dict(rows))
        return
    if method is not None:
        echo(f"{method}: {declared(method).summary}")
    page = click.HelpFormatter(max_width=100)
    page.write_dl(rows)
    click.echo(page.getvalue().rstrip())


@cli.command()
@store_option
@json_flag
def runs(store: str | Path, as_json: bool) -> None:
    """List the runs of a store, newest first."""
    from chaffinch.flows.cli import output

    output.show_runs(_existing_store(store), as_json=as_json)


@cli.command(short_help="Show a finished run again, or a comparison.")
@click.argument("run")
@store_option
@json_flag
def show(run: str, store: str | Path, as_json: bool) -> None:
    """Show a finished RUN again, or a comparison; the beginning of its name is enough.

    A name that a run was promoted under, as in chaffinch promoted, stands for that run.
    """
    from chaffinch.flows.cli import output
    from chaffinch.tasks.comparing.run import load_comparison
    from chaffinch.tasks.results.result import load_result

    existing = _existing_store(store)
    compared = {comparison.name for comparison in existing.comparisons()}
    run = existing.full_name(run, with_comparisons=True)
    if run in compared:
        output.show_comparison(load_comparison(existing.comparison(run)), as_json=as_json)
    else:
        output.show(load_result(existing.existing(run)), as_json=as_json)


@cli.command(short_help="Show the runs of each data set over time.")
@click.argument("name", required=False)
@click.option(
    "--html", "as_html", is_flag=True, help="Write the page index.html of the store instead."
)
@store_option
@json_flag
def history(name: str | None, store: str | Path, *, as_html: bool, as_json: bool) -> None:
    """Show what needs a person, and the runs of the data set NAME over time; without it, of all.

    Verdicts, losses, columns that come and go, columns whose distribution moved since the
    promotion, and the decisions that runs needed.
    """
    from chaffinch.flows.cli.sections import show_sections
    from chaffinch.tasks.results.history import history_of
    from chaffinch.tasks.results.history_page import render_history, sections_of

    existing = _existing_store(store)
    runs = history_of(existing)
    if as_html:
        if name is not None:
            raise InputError(f"--html is of all data sets; leave {name} out")
        write_file(existing.path / "index.html", render_history(runs))
        echo(f"Wrote {existing.path / 'index.html'}")
        return
    runs = runs if name is None else runs.of(name)
    if as_json:
        echo_json([asdict(row) for row in runs.rows])
    else:
        show_sections(sections_of(runs))


@cli.command(short_help="Say why a column was kept, dropped or left out.")
@click.argument("run")
@click.argument("column", required=False)
@store_option
@json_flag
def why(run: str, column: str | None, store: str | Path, as_json: bool) -> None:
    """Say why COLUMN was kept, dropped or left out of RUN, in one sentence; without it, of all.

    RUN is the name of a finished run in the store, or a name that it was promoted under.
    """
    from chaffinch.storage.column_names import check_known
    from chaffinch.tasks.results.result import reasons_of

    reasons = reasons_of(_existing_store(store).existing(run))
    if column is not None:
        check_known([column], [reason.column for reason in reasons])
        reasons = [reason for reason in reasons if reason.column == column]
    if as_json:
        echo_json([reason.known() for reason in reasons])
        return
    for reason in reasons:
        price = f" {reason.price_in_words}" if reason.price_in_words else ""
        echo(f"{reason.column} ({reason.state}): {reason.why}{price}")


for command in (
    *(at, reselect, columns, export),
    *(diff, promote, promoted, rollback, serve, automations, announce),
):
    cli.add_command(command)


def exit_code(run_command: Callable[..., Any]) -> int:
    """Run a command, and print why it failed or was stopped."""
    try:
        code = run_command(prog_name="chaffinch", standalone_mode=False)
    except _NO_ARGUMENTS as error:
        error.show()
        return int(error.exit_code)
    except click.ClickException as error:
        message = error.format_message()
        if message.startswith("Got unexpected extra argument"):  # perhaps of the shell's making
            message += "; a pattern of several files, as in 'data/*.csv', goes in quotes"
        _print_error(message)
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        cause = error.__cause__ or error  # click makes an Abort of it
        click.echo(" ".join(["Stopped.", *getattr(cause, "__notes__", ())]), err=True)
        return 128 + (cause.signal if isinstance(cause, Stopped) else signal.SIGINT)
    except StrictError as error:
        for warning in () if error.are_shown else error.warnings:
            click.echo(f"Warning: {one_line(warning)}", err=True)
        _print_error(f"{error.count}, refused by --strict")
        return 3
    except InputError as error:
        _print_error(error.in_words(_drop_option))
        return 1 if isinstance(error, UnreachableError) else 2
    except (StorageError, WorkersError, ServerError) as error:
        _print_error(error)
        return 1
    except TableTooLargeError as error:
        _print_error(error)
        return OUT_OF_MEMORY
    except Exception as error:
        if is_out_of_memory(error):
            doing = next(iter(getattr(error, "__notes__", ())), "running the command")
            _print_error(f"out of memory while {doing}; give fewer rows or columns, or more memory")
            return OUT_OF_MEMORY
        if not _is_output_error(error):
            raise
        with suppress(OSError):
            _print_error(f"the output cannot be written ({error.strerror})")
        return 128 + signal.SIGHUP if error.errno == errno.EIO else 1
    return code if isinstance(code, int) else 0


def _print_error(error: object) -> None:
    click.echo(f"Error: {one_line(error)}", err=True)


def _is_output_error(error: Exception) -> TypeGuard[OSError]:
    """Return whether standard output or standard error cannot be written, not any other file."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    writer = frame.f_globals.get("__name__", "").partition(".")[0]
    return isinstance(error, OSError) and error.errno in _NOT_WRITTEN and writer in _WRITERS


def _existing_store(store: str | Path) -> Any:
    from chaffinch.storage.runs.store import Store

    return Store.find(store)
