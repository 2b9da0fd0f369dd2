"""``chaffinch diff``, ``promote``, ``promoted`` and ``rollback``."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from chaffinch.errors import InputError, StorageError
from chaffinch.flows.cli.options import json_flag, store_option
from chaffinch.flows.cli.terminal import echo, echo_json, exit_code_of
from chaffinch.flows.prefect_runtime.server import is_configured, prepare
from chaffinch.storage.extras import require

if TYPE_CHECKING:
    from chaffinch.storage.runs.promotions import Promotion
    from chaffinch.tasks.promotion.promote import AgainstPromoted

reason_option = click.option("--reason", default="", help="Why, for the history.")


@click.command(short_help="Show the differences between two runs.")
@click.argument("before")
@click.argument("after")
@store_option
@json_flag
def diff(before: str, after: str, store: str | Path, as_json: bool) -> None:
    """Show the differences between the runs BEFORE and AFTER of one target.

    Which features were gained and lost, what that does to the loss on the test rows of AFTER, with
    both sets refitted on its rows, and how far each feature moved from one table to the other.
    BEFORE and AFTER are names of finished runs in the store, names that runs were promoted under,
    folders of runs, or selection.json files; the losses need AFTER to be a run.
    """
    from chaffinch.tasks.promotion.difference import difference, lines_of_difference

    differing = difference(before, after, store=store)
    _show(lines_of_difference(differing), differing.as_json(), as_json=as_json)


@click.command(short_help="Make the contract of a run the one in use.")
@click.argument("run")
@click.option(
    "--name",
    help="Of the data set. By default the table's, without its ending.",
)
@click.option(
    "--gate",
    is_flag=True,
    help="Promote only where the gate of nightly flows lets it.",
)
@reason_option
@click.option(
    "--mlflow",
    metavar="MODEL[@ALIAS]",
    help="A registered model of MLflow, whose alias, by default promoted, from now on names the "
    "version with the contract in use; none ends that.",
)
@store_option
@json_flag
def promote(
    run: str,
    name: str | None,
    gate: bool,
    reason: str,
    mlflow: str | None,
    store: str | Path,
    as_json: bool,
) -> int:
    """Make the contract of RUN the one in use for its data set, and show what that changes.

    This is for a person to decide, and so it is carried out in any case. With --gate, RUN is
    promoted only if it is better than what is in use and harmless; the exit code is 5 if a person
    has to decide, and 0 if the contract in use stays.

    Where a Prefect server is configured, it receives the event chaffinch.promoted. The exit code
    is 1 if an alias in MLflow is not moved yet; the next promote, rollback or promoted moves it.
    """
    from chaffinch.storage.runs.decisions import note_answer
    from chaffinch.tasks.promotion.gate import rests_on_leaks
    from chaffinch.tasks.promotion.promote import (
        against_promoted,
        default_name,
        kept_run,
        pass_gate,
        promote_by,
    )
    from chaffinch.tasks.results.result import load_result
    from chaffinch.tasks.settings.execution import PromotionSettings

    if gate:
        for option, value in {"--reason": reason, "--mlflow": mlflow}.items():
            if value:
                raise InputError(f"{option} is for a promotion by hand; leave it out, or --gate")
        settings = PromotionSettings(name=name)
        gated = pass_gate(kept_run(run, store), settings, owes_event=is_configured())
        need = {"decided": gated.lines[0], "needs_decision": gated.needs_decision or None}
        content = _as_json(gated.against, gated.promotion) | need
        _show(gated.lines, content, as_json=as_json)
        _follow(gated.against.name, store)
        return exit_code_of(gated.needs_decision)
    kept = kept_run(run, store)
    against = against_promoted(kept, default_name(kept) if name is None else name)
    entry = promote_by(
        kept,
        against.name,
        "by hand",
        reason,
        seen=len(against.history),
        owes_event=is_configured(),
        mlflow=mlflow,
    )
    note_answer(kept, f"Promoted as {against.name}")
    lines = [f"What that changes is not known: {against.damage}."] if against.damage else []
    if against.difference is not None:
        lines = against.lines
    elif not lines:
        lines = ["Nothing was promoted before."]
        if rests := rests_on_leaks(load_result(kept).contract.comparison.leaks):
            lines.append(f"Make sure that this is meant: {rests}.")
    _show(
        [*lines, f"Promoted {kept.name} as {against.name}."],
        _as_json(against, entry),
        as_json=as_json,
    )
    _follow(against.name, store)
    return 0


def _as_json(against: "AgainstPromoted", entry: "Promotion | None") -> dict[str, Any]:
    difference = against.difference
    return {
        "name": against.name,
        "promotion": None if entry is None else asdict(entry),
        "difference": None if difference is None else difference.as_json(),
        "damage": against.damage,
    }


@click.command(short_help="Show the contracts in use, or the history of a data set.")
@click.argument("name", required=False)
@store_option
@json_flag
def promoted(name: str | None, store: str | Path, as_json: bool) -> None:
    """Show what was promoted for the data set NAME, the newest first; without it, for all.

    What is damaged is named on standard error, and the rest is listed; the exit code is 1 if that
    is a contract in use. Pending events are sent, where a Prefect server is configured, and aliases
    in MLflow moved that are not yet; the exit code is 1 if that fails.
    """
    from chaffinch.flows.cli.output import show_history, show_names
    from chaffinch.storage.runs.store import Store

    histories = Store.find(store).promotions
    if name is None:
        is_whole = show_names(histories, as_json=as_json)
    else:
        is_whole = show_history(histories, name, as_json=as_json)
    for data_set in histories.names() if name is None else [name]:
        with suppress(InputError, StorageError):  # of a damaged history, which was reported
            pending = histories.pending_events(data_set)
            is_whole &= _is_moved(data_set, store)
            if pending:
                is_whole &= _send_pending(data_set, store)
    if not is_whole:
        raise click.exceptions.Exit(1)


@click.command(short_help="Return to the previous contract.")
@click.argument("name")
@reason_option
@store_option
@json_flag
def rollback(name: str, reason: str, store: str | Path, as_json: bool) -> None:
    """Go back to the contract that was in use for the data set NAME before the present one.

    Given again, it goes further back. Until a person promotes a run, nothing is promoted
    automatically after that. Where a Prefect server is configured, it receives the event
    chaffinch.promoted.
    """
    from chaffinch.storage.runs.store import Store

    histories = Store.find(store).promotions
    entry = histories.rollback(name, reason, owes_event=is_configured())
    content = {"name": name, "promotion": asdict(entry)}
    _show([f"The contract of {entry.run} is in use again for {name}."], content, as_json=as_json)
    _follow(name, store)


def _show(lines: Sequence[str], content: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        echo_json(content)
        return
    for line in lines:
        echo(line)


def _follow(name: str, store: Path | str) -> None:
    """Tell others of a promotion or rollback, which is written; exit with 1 if MLflow is not."""
    is_moved = _is_moved(name, store)
    _send_pending(name, store)
    if not is_moved:
        raise click.exceptions.Exit(1)


def _is_moved(name: str, store: Path | str) -> bool:
    """Move the alias in MLflow that follows a data set; print a warning if that fails."""
    from chaffinch.storage.runs.store import Store
    from chaffinch.tasks.exports.mlflow_alias import move_alias

    problem = move_alias(Store.find(store).promotions, name)
    if problem is not None:
        echo(f"Warning: {problem}", err=True)
    return problem is None


def _send_pending(name: str, store: Path | str) -> bool:
    """Send unsent events if a server is configured; print a warning if that fails."""
    if not is_configured():
        return True
    require("prefect", f"an event of {name} that is not sent yet")
    prepare()
    from chaffinch.flows.prefect_runtime.events import send_pending

    problem = send_pending(name, store)
    if problem is not None:
        echo(f"Warning: {problem}", err=True)
    return problem is None
