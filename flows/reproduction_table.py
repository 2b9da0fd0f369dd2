"""What a person sees of a reproduction: published figures beside ours."""

import json

from rich.table import Table
from rich.text import Text

from chaffinch.flows.terminal import console_of_results, short
from chaffinch.tasks.reporting.wording import counted
from chaffinch.tasks.reproducing.outcome import ReproducedFigure, Reproduction

_IN_WORDS = {True: "yes", False: "no", None: ""}


def show_reproduction(found: Reproduction, *, as_json: bool) -> None:
    """Print published figures beside ours: as a table, or with every seed's in JSON."""
    console = console_of_results()
    if as_json:
        console.out(json.dumps(found.as_json(), indent=2), highlight=False)
        return
    console.print(Text(found.source, style="bold"), soft_wrap=True)
    title = found.title[:1].upper() + found.title[1:]
    console.print(Text(f"{title}; ours over {counted(len(found.seeds), 'seed')}"), soft_wrap=True)
    table = Table()
    for heading in ("", "", "published", "ours", "lowest", "highest", "inside"):
        table.add_column(heading, justify="right" if heading else "left")
    if found.authors_seed is not None:
        table.add_column(f"ours, seed {found.authors_seed}", justify="right")
    above = None
    for figure in found.figures:
        table.add_row(
            "" if figure.row == above else figure.row,
            figure.column,
            short(figure.published),
            _ours(figure),
            short(figure.lowest),
            short(figure.highest),
            _IN_WORDS[figure.is_inside],
            *([] if found.authors_seed is None else [short(figure.at_authors_seed)]),
        )
        above = figure.row
    console.print(table)
    for note in (found.meaning, *found.notes):
        console.print(Text(note), soft_wrap=True)


def _ours(figure: ReproducedFigure) -> str:
    if figure.deviation is None:
        return short(figure.mean)
    return f"{short(figure.mean)} \N{PLUS-MINUS SIGN} {figure.deviation:.2g}"
