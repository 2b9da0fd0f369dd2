"""What was promoted, as a person reads it in the terminal."""

import json
from collections.abc import Mapping
from dataclasses import asdict

import click
from rich.table import Table
from rich.text import Text

from chaffinch.flows.terminal import console_of_results
from chaffinch.storage.promotions import Promotion, Promotions


def show_names(histories: Promotions, *, as_json: bool) -> None:
    """Print the contract in use of every data set."""
    last = {name: histories.existing(name)[-1] for name in histories.names()}
    if as_json:
        found = [{"name": name, **asdict(entry)} for name, entry in last.items()]
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
    elif not last:
        click.echo("Nothing was promoted yet.")
    else:
        _print([{"data set": name, **_in_words(entry)} for name, entry in last.items()])


def show_history(histories: Promotions, name: str, *, as_json: bool) -> None:
    """Print what was promoted for a data set, the newest first, and where its contract is."""
    newest_first = histories.existing(name)[::-1]
    path = histories.path(newest_first[0])
    if as_json:
        entries = [asdict(entry) for entry in newest_first]
        found = {"name": name, "contract": str(path), "history": entries}
        click.echo(json.dumps(found, indent=2, ensure_ascii=False))
        return
    _print([_in_words(entry) for entry in newest_first])
    click.echo(f"The contract in use: {path}")


def _in_words(entry: Promotion) -> dict[str, str]:
    return {
        "run": entry.run,
        "promoted (UTC)": entry.promoted[:19].replace("T", " "),
        "how": entry.how,
        "reason": entry.reason,
    }


def _print(rows: list[Mapping[str, str]]) -> None:
    table = Table()
    for column in rows[0]:
        # a name that is cut short cannot be given to a command
        table.add_column(column, no_wrap=column in ("run", "data set"))
    for row in rows:
        table.add_row(*(Text(value) for value in row.values()))
    console_of_results().print(table)
