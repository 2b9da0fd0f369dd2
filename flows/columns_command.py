"""``chaffinch columns``, one of the commands that `chaffinch.flows.commands` gathers."""

import json
from collections.abc import Mapping, Sequence

import click

from chaffinch.flows.option_fields import STORE
from chaffinch.flows.options import settings_options
from chaffinch.flows.output import echo_exactly
from chaffinch.storage.errors import InputError
from chaffinch.tasks.settings import ExecutionSettings

DIALECTS = ("postgresql", "mysql", "mssql", "oracle", "sqlite")


@click.command(short_help="Print the columns that a source must give.")
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
    help="A table, as chaffinch run takes it: say on standard error what of it need not be read.",
)
@settings_options(ExecutionSettings, STORE)
def columns(
    run: str,
    form: str,
    table: str | None,
    dialect: str | None,
    source: str | None,
    store: str | None,
) -> None:
    """Print the columns that a source must give for the features of RUN.

    RUN is the name of a finished run in the store, its folder, or its selection.json.
    """
    from chaffinch.tasks.former import load_contract

    _check_for_sql(form, {"--table": table, "--dialect": dialect})
    _check_levels(table)
    contract = load_contract(run, store=ExecutionSettings().store if store is None else store)
    read = None if source is None else contract.bytes_in(source)
    if form == "sql":
        echo_exactly(as_select(contract.columns, table, dialect or DIALECTS[0]))
    elif form == "parquet":
        echo_exactly(json.dumps(contract.columns, ensure_ascii=False))
    else:
        types = {feature["name"]: feature["type"] for feature in contract["features"]}
        found = {
            "columns": contract.columns,
            "features": types,
            "bytes": None if read is None else {"kept": read.kept, "all": read.all},
        }
        echo_exactly(json.dumps(found, indent=2, ensure_ascii=False))
    if read is not None:
        click.echo(
            f"{len(contract.columns)} columns are {read.kept:,} of {read.all:,} bytes: "
            f"{read.share_saved:.0%} need not be read",
            err=True,
        )


def as_select(names: Sequence[str], table: str | None, dialect: str) -> str:
    """Return names as a list in SQL, or as a SELECT from a table.

    Parameters
    ----------
    names : sequence of str
        Of columns; quoted, whatever is in them.
    table : str or None
        Its levels parted by dots; each is quoted.
    dialect : str
        One of `DIALECTS`.
    """
    from sqlalchemy.dialects import registry

    spoken = registry.load(dialect)(paramstyle="named")  # or a per cent sign would be doubled
    quote = spoken.identifier_preparer.quote_identifier
    if table is None:
        return ", ".join(map(quote, names))
    levels = ".".join(map(quote, table.split(".")))
    return f"SELECT {', '.join(map(quote, names))}\nFROM {levels}"


def _check_levels(table: str | None) -> None:
    if table is not None and not all(level.strip() for level in table.split(".")):
        raise InputError(
            f"--table must be a name, or several parted by a dot, such as shop.orders, but is "
            f"{table!r}; name a table, or leave it out for the columns alone"
        )


def _check_for_sql(form: str, given: Mapping[str, str | None]) -> None:
    for option, value in given.items():
        if value is not None and form != "sql":
            raise InputError(f"{option} is for --as sql but this is --as {form}; leave it out")
