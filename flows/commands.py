"""The command line: ``chaffinch run``, and whatever else `chaffinch --help` lists.

Exit codes: 0 done; 1 failure; 2 bad input, said in one line; 3 warnings and --strict; 130 stopped
by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP. Whatever is heavy is imported by the command that needs
it, so that help is quick.
"""

import errno
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, TypeGuard

import click

from chaffinch.flows.columns_command import columns
from chaffinch.flows.descent_commands import descend, shuffle
from chaffinch.flows.option_fields import COMPARISON, EXECUTION, SELECTION, STORE, STRICT
from chaffinch.flows.options import json_flag, nested, settings_options, verbosity_flags
from chaffinch.flows.promotion_commands import diff, promote, promoted, rollback
from chaffinch.flows.reselect_command import reselect
from chaffinch.flows.serve_commands import announce, automations, serve
from chaffinch.flows.server import Server, ServerError
from chaffinch.flows.stopped_commands import Commands
from chaffinch.storage.errors import InputError, StorageError, in_a_line, is_out_of_memory
from chaffinch.storage.names import nearest
from chaffinch.tasks.comparing.settings import ComparisonSettings
from chaffinch.tasks.errors import StrictError, WorkersError
from chaffinch.tasks.interrupts import Stopped
from chaffinch.tasks.reproducing.names import IN_WORDS
from chaffinch.tasks.selection.rivals.names import SCORES
from chaffinch.tasks.selection.rivals.refit_names import REFITTING
from chaffinch.tasks.settings import ExecutionSettings, SelectionSettings

# A full device, a reader that left, a terminal that is gone: files of a store have StorageError.
_NOT_WRITTEN = (errno.ENOSPC, errno.EPIPE, errno.EIO)
_WRITERS = ("click", "rich")  # the libraries that write standard output and standard error


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="chaffinch")
def cli() -> None:
    """Find the features worth keeping, retrain a model on them, and say honestly what it gained."""


@cli.command(short_help="Select the features of a table.")
@click.argument("data")
@click.option(
    "--method",
    default="gbmo",
    metavar="METHOD",
    help="gbmo and afs_bm find the number of features by themselves, flbmo keeps a fixed number; "
    "pefs trains a network and the probability of each feature; "
    f"to compare with, {', '.join(SCORES)} rank the features once and keep the best, and "
    f"{', '.join(REFITTING)} fit the model again and again as they search.  [default: gbmo]",
)
@click.option(
    "--n-features",
    type=int,
    metavar="K",
    help="gbmo, afs_bm, rfecv, particle_swarm: keep at most K; any other: keep exactly K.",
)
@click.option(
    "--min-score",
    type=float,
    metavar="SCORE",
    help="A ranking, in place of --n-features: keep the features whose score is at least SCORE.",
)
@settings_options(SelectionSettings, SELECTION)
@settings_options(ExecutionSettings, STRICT)
@verbosity_flags
@json_flag
def run(
    data: str,
    method: str,
    n_features: int | None,
    min_score: float | None,
    as_json: bool,
    verbosity: str | None,
    **given: Any,
) -> None:
    """Select features of DATA: CSV or TSV (plain or .gz), a Parquet file or folder.

    DATA may be at s3://bucket/key, or a table or query in a database, as in
    postgresql://host/database#table or "postgresql://host/database#SELECT a FROM b". Credentials
    come from the environment, and never stand in the address.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.

    A run that was stopped goes on where it was when the same command is given again.

    Exit codes: 0 done; 1 failure; 2 bad input; 3 warnings and --strict, nothing trained; stopped:
    130 by Ctrl-C, 143 by SIGTERM, 129 by SIGHUP.
    """
    from chaffinch.flows.prefect_environment import prepare

    prepare(quiet=True)
    server = Server()
    from chaffinch.flows import terminal
    from chaffinch.tasks.ingestion import each_read_once
    from chaffinch.tasks.select import method_settings
    from chaffinch.tasks.steps import steps_of
    from chaffinch.tasks.story import check

    asked = method_settings(method, n_features, min_score)
    chosen = {**nested(given, SELECTION), "method": asked}
    settings = SelectionSettings(**chosen)
    execution = ExecutionSettings(**nested(given, STRICT))
    steps = steps_of(with_alternatives=settings.alternatives is not None)
    with terminal.progress(steps, verbosity) as (on_progress, warn, say), each_read_once():
        server.check()
        warn(check(data, settings, execution, on_progress=on_progress))
        on_progress(terminal.STARTING_PREFECT, 0, 1)
        server.start()
        from chaffinch.flows.artifacts import watching
        from chaffinch.flows.feature_selection import feature_selection

        # What every run needs later is loaded while the server starts.
        for library in ("pandas", "sklearn.ensemble", "scipy.stats", "matplotlib.figure"):
            import_module(library)
        with watching(on_progress, say), server.in_use():
            result = feature_selection(data, settings, execution)
    terminal.show(result, as_json=as_json, with_warnings=False)


@cli.command(short_help="Compare methods on tables.")
@click.argument("data", nargs=-1, required=True, metavar="TABLES")
@settings_options(ComparisonSettings, COMPARISON)
@click.option(
    "--time-budget",
    type=float,
    metavar="MINUTES",
    help="Minutes after which what is done by then is concluded from. By default all is done.",
)
@settings_options(ExecutionSettings, STRICT)
@verbosity_flags
@json_flag
def compare(
    data: tuple[str, ...],
    time_budget: float | None,
    as_json: bool,
    verbosity: str | None,
    **given: Any,
) -> None:
    """Compare methods of selection on TABLES, one or more, by nested folds and over seeds.

    What is selected in a fold is scored once, on rows that the selection never saw. A comparison
    that was stopped goes on where it was when the same command is given again. The exit codes are
    those of chaffinch run.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.
    """
    from chaffinch.flows.prefect_environment import prepare

    prepare(quiet=True)
    server = Server()
    from chaffinch.flows import terminal
    from chaffinch.tasks.comparing.story import STEPS, check_time_budget

    check_time_budget(time_budget)
    settings = ComparisonSettings(**nested(given, COMPARISON))
    execution = ExecutionSettings(**nested(given, STRICT))
    with terminal.progress(STEPS, verbosity) as (on_progress, warn, say):
        server.check()
        on_progress(terminal.STARTING_PREFECT, 0, 1)
        server.start()
        from chaffinch.flows.artifacts import watching
        from chaffinch.flows.comparison import comparison

        with watching(on_progress, say, warn), server.in_use():
            result = comparison(list(data), settings, execution, time_budget)
    terminal.show_comparison(result, as_json=as_json, with_warnings=False)


@cli.command(
    short_help="Run a published experiment again.",
    help="Run a published experiment again with many seeds, and set its figures beside ours. "
    "One that was stopped goes on where it was when the same command is given again, and one with "
    f"more seeds measures only these. PAPER_TABLE is one of: {IN_WORDS}.",
)
@click.argument("paper_table")
@click.option(
    "--seeds",
    type=int,
    default=20,
    show_default=True,
    metavar="N",
    help="Run it with the seeds 0 to N-1, and with the authors' own where that is known.",
)
@click.option(
    "--data",
    metavar="FOLDER",
    help="Folder that holds the real tables which some need; synthetic ones are made.",
)
@settings_options(ExecutionSettings, EXECUTION)
@verbosity_flags
@json_flag
def reproduce(
    paper_table: str,
    seeds: int,
    data: str | None,
    as_json: bool,
    verbosity: str | None,
    **given: Any,
) -> None:
    """Run a published experiment again."""
    from chaffinch.flows import terminal
    from chaffinch.flows.reproduction_table import show_reproduction
    from chaffinch.tasks import reproduce as reproducing

    execution = ExecutionSettings(**nested(given, EXECUTION))
    with terminal.progress(reproducing.STEPS, verbosity) as (on_progress, _, _):
        found = reproducing.reproduce(
            paper_table,
            seeds=seeds,
            data=data,
            cluster=execution.cluster,
            workers=execution.workers,
            store=execution.store,
            on_progress=on_progress,
        )
    show_reproduction(found, as_json=as_json)


@cli.command()
@settings_options(ExecutionSettings, STORE)
@json_flag
def runs(store: str | None, as_json: bool) -> None:
    """List the runs of a store, newest first."""
    from chaffinch.flows import terminal

    terminal.show_runs(_existing_store(store), as_json=as_json)


def _require_known(name: str, store: Any) -> None:
    known = [one.name for one in (*store.runs(), *store.comparisons())]
    if name not in known:
        remedy = nearest(name, known) or "; `chaffinch runs` lists those there are"
        raise InputError(f"there is no run or comparison {name!r} in {store.path}{remedy}")


@cli.command()
@click.argument("run")
@settings_options(ExecutionSettings, STORE)
@json_flag
def show(run: str, store: str | None, as_json: bool) -> None:
    """Show a finished RUN again, or a comparison."""
    from chaffinch.flows import terminal
    from chaffinch.tasks.comparing.result import load_comparison
    from chaffinch.tasks.result import load_result

    existing = _existing_store(store)
    compared = {comparison.name: comparison for comparison in existing.comparisons()}
    _require_known(run, existing)
    if run in compared:
        terminal.show_comparison(load_comparison(compared[run]), as_json=as_json)
    else:
        terminal.show(load_result(existing.existing(run)), as_json=as_json)


for command in (
    *(reselect, columns, shuffle, descend),
    *(diff, promote, promoted, rollback, serve, automations, announce),
):
    cli.add_command(command)


def exit_code(run_command: Callable[..., Any]) -> int:
    """Run a command, and say in one line why it ended, if that is not well.

    Parameters
    ----------
    run_command : callable
        As ``click.Command.main``.

    Returns
    -------
    int
        One of the exit codes above.
    """
    try:
        code = run_command(prog_name="chaffinch", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        _say(error.format_message())
        return error.exit_code
    except (click.exceptions.Abort, KeyboardInterrupt) as error:
        cause = error.__cause__ or error  # click makes an Abort of it
        click.echo(" ".join(["Stopped.", *getattr(cause, "__notes__", ())]), err=True)
        return 128 + (cause.signal if isinstance(cause, Stopped) else signal.SIGINT)
    except StrictError as error:
        for warning in error.warnings:
            click.echo(f"Warning: {in_a_line(warning)}", err=True)
        _say(f"{error.count} (--strict), so nothing was trained")
        return 3
    except InputError as error:
        _say(error)
        return 2
    except (StorageError, WorkersError, ServerError) as error:
        _say(error)
        return 1
    except Exception as error:
        if is_out_of_memory(error):
            doing = next(iter(getattr(error, "__notes__", ())), "running the command")
            _say(f"out of memory while {doing}; give fewer rows or columns, or more memory")
            return 1
        if not _is_of_the_output(error):
            raise
        with suppress(OSError):
            _say(f"the output cannot be written ({error.strerror})")
        return 128 + signal.SIGHUP if error.errno == errno.EIO else 1
    return code if isinstance(code, int) else 0


def _say(error: object) -> None:
    click.echo(f"Error: {in_a_line(error)}", err=True)


def _is_of_the_output(error: Exception) -> TypeGuard[OSError]:
    """Return whether standard output or standard error cannot be written, not any other file."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    writer = frame.f_globals.get("__name__", "").partition(".")[0]
    return isinstance(error, OSError) and error.errno in _NOT_WRITTEN and writer in _WRITERS


def _existing_store(store: str | None) -> Any:
    from chaffinch.storage.runs import Store

    return Store.find(ExecutionSettings().store if store is None else store)
