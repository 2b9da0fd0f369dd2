"""``chaffinch shuffle`` and ``chaffinch descend``, which `chaffinch.flows.cli.commands` gathers."""

import json
from typing import TYPE_CHECKING, Any

import click

from chaffinch.flows.cli.options import (
    DESCENT,
    SHUFFLE,
    WORKERS,
    json_flag,
    nested,
    settings_options,
    verbosity_flags,
)
from chaffinch.flows.cli.terminal import echo, echo_exactly
from chaffinch.tasks.settings.descent import DescentSettings, SharingSettings, ShuffleSettings

if TYPE_CHECKING:
    from chaffinch.tasks.api.descend import Descended

_NAMES_SHOWN = 40


@click.command(short_help="Write files as a table in random order.")
@click.argument("files", nargs=-1, required=True, metavar="FILES")
@click.option("--to", required=True, metavar="TABLE", help="File to write; always Parquet.")
@settings_options(ShuffleSettings, SHUFFLE)
@verbosity_flags
@json_flag
def shuffle(
    files: tuple[str, ...], to: str, as_json: bool, verbosity: str | None, **options: Any
) -> None:
    """Write FILES as one table in random order, which `chaffinch descend` reads block by block.

    FILES are Parquet, files or folders, with numbers in all columns but the target; or text in the
    format of svmlight, plain or .gz. They are read once and may be of any length: what is needed is
    the memory of a few blocks and, on the disk, twice the table.

    NAMES are separated by commas. A name that holds a comma, a double quote or a newline goes in
    double quotes, and each double quote in it is doubled, as in CSV.
    """
    from chaffinch.flows.cli import output
    from chaffinch.tasks.api.shuffle import SHUFFLE as STEP
    from chaffinch.tasks.api.shuffle import shuffle_files

    settings = ShuffleSettings(**nested(options, SHUFFLE))
    with output.progress((STEP,), verbosity) as (on_progress, _, _):
        table = shuffle_files(files, to, settings, on_progress=on_progress)
    (n_rows, n_columns), n_blocks = table.shape, len(table.block_rows)
    if as_json:
        content = {
            "table": str(table.path),
            "rows": n_rows,
            "columns": n_columns,
            "blocks": n_blocks,
            "hash": table.hash,
        }
        echo_exactly(json.dumps(content, indent=2))
    else:
        shape = f"{n_rows:,} rows of {n_columns:,} columns, blocks: {n_blocks:,}"
        echo(f"Wrote {table.path}: {shape}")


@click.command(short_help="Select features of a shuffled table, larger than memory or not.")
@click.argument("table")
@click.option(
    "--to",
    required=True,
    metavar="FOLDER",
    help="Folder of features.json, and of state.safetensors, which a later descent continues from.",
)
@settings_options(DescentSettings, DESCENT)
@click.option(
    "--start",
    metavar="STATE",
    help="The state.safetensors of an earlier descent to continue from, of a table with the same "
    "columns in the same order; rows other than it saw last are taken to be newer.",
)
@settings_options(SharingSettings, WORKERS)
@verbosity_flags
@json_flag
def descend(
    table: str,
    to: str,
    start: str | None,
    as_json: bool,
    verbosity: str | None,
    **options: Any,
) -> None:
    """Choose features of TABLE for a linear model, by differentiable feature selection.

    TABLE is what `chaffinch shuffle` wrote; a few of its blocks are in memory at a time. A descent
    that was stopped, even by kill -9, continues where it was seconds before when the same command
    is given again.
    """
    from chaffinch.flows.cli import output
    from chaffinch.tasks.api import descend as descending

    settings = DescentSettings(**nested(options, DESCENT))
    sharing = SharingSettings(**nested(options, WORKERS))
    with output.progress(descending.STEPS, verbosity) as (on_progress, _, _):
        descended = descending.descend(
            table, to, settings, start=start, sharing=sharing, on_progress=on_progress
        )
    if as_json:
        echo_exactly(json.dumps(descended.content, indent=2, ensure_ascii=False))
    else:
        _show(descended)


def _show(descended: "Descended") -> None:
    """Print the features chosen, the best first, and where they are all kept."""
    best_first = sorted(descended.content["features"], key=lambda feature: -feature["score"])
    names = [feature["name"] for feature in best_first]
    more = f" and {len(names) - _NAMES_SHOWN:,} more" if len(names) > _NAMES_SHOWN else ""
    shown = ", ".join(names[:_NAMES_SHOWN])
    total = descended.content["table"]["columns"]
    best = f", the best first: {shown}{more}" if names else ""
    echo(f"Kept {len(names):,} of {total:,}{best}")
    echo(f"Features: {(descended.folder / 'features.json').resolve()}")
