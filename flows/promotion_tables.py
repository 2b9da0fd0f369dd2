"""What was promoted, as a person reads it in the terminal."""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields

from rich.table import Table
from rich.text import Text

from chaffinch.flows.output import echo, echo_exactly
from chaffinch.flows.terminal import console_of_results
from chaffinch.storage.errors import InputError, StorageError, printable
from chaffinch.storage.promotion_entries import Promotion
from chaffinch.storage.promotions import Promotions
from chaffinch.tasks.promoted_contracts import read_contract


def show_names(histories: Promotions, *, as_json: bool) -> bool:
    """Print the contract in use of every data set; return whether each can be read.

    What is damaged is told on standard error, and has no row where its history is.
    """
    last: dict[str, Promotion | None] = {}
    damage: dict[str, str] = {}
    for name in histories.names():
        last[name] = None
        try:
            last[name] = entry = histories.existing(name)[-1]
            read_contract(histories, entry)
        except (InputError, StorageError) as error:
            damage[name] = str(error)
    if as_json:
        found = [
            {"name": name, **_fields(entry), "damage": damage.get(name, "")}
            for name, entry in last.items()
        ]
        echo_exactly(json.dumps(found, indent=2, ensure_ascii=False))
    elif not last:
        echo("Nothing was promoted yet.")
    else:
        known = {name: entry for name, entry in last.items() if entry is not None}
        _print([{"data set": name, **_in_words(entry)} for name, entry in known.items()])
    for name, why in damage.items():
        echo(f"Error: what is promoted as {name} cannot be read: {why}", err=True)
    return not damage


def show_history(histories: Promotions, name: str, *, as_json: bool) -> bool:
    """Print what was promoted for a data set, the newest first, and where its contract is.

    Returns
    -------
    bool
        Whether the contract in use can be read. That an earlier one cannot be is told as well.
    """
    newest_first = histories.existing(name)[::-1]
    path = histories.path(newest_first[0])
    damage = {entry.contract: _damage(histories, entry) for entry in newest_first}
    if as_json:
        entries = [{**asdict(entry), "damage": damage[entry.contract]} for entry in newest_first]
        found = {"name": name, "contract": str(path), "history": entries}
        echo_exactly(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print([_in_words(entry) for entry in newest_first])
        echo(f"The contract in use: {path}")
    in_use = newest_first[0].contract
    for contract, why in damage.items():
        if why and contract == in_use:
            echo(f"Error: the contract in use cannot be read: {why}", err=True)
        elif why:
            echo(f"Warning: no rollback leads to an earlier contract: {why}", err=True)
    return not damage[in_use]


def _damage(histories: Promotions, entry: Promotion) -> str:
    """Return why the contract of an entry cannot be read; empty where it can."""
    try:
        read_contract(histories, entry)
    except StorageError as error:
        return str(error)
    return ""


def _fields(entry: Promotion | None) -> dict[str, str | None]:
    if entry is None:
        return dict.fromkeys(field.name for field in fields(Promotion))
    return asdict(entry)


def _in_words(entry: Promotion) -> dict[str, str]:
    return {
        "run": entry.run,
        "promoted (UTC)": entry.promoted[:19].replace("T", " "),
        "how": entry.how,
        "reason": entry.reason,
    }


def _print(rows: list[Mapping[str, str]]) -> None:
    if not rows:
        return
    table = Table()
    for column in rows[0]:
        # a name that is cut short cannot be given to a command
        table.add_column(column, no_wrap=column in ("run", "data set"))
    for row in rows:
        table.add_row(*(Text(printable(value)) for value in row.values()))
    console_of_results().print(table)
