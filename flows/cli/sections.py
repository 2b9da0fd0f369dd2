"""Sections and tables of reports, printed in the terminal."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from chaffinch.errors import printable
from chaffinch.tasks.reporting.section import Folded, Paragraph, Section, text_of
from chaffinch.tasks.reporting.section import Table as ReportTable

_WIDTH_OF_A_FILE = 160


def console_of_results() -> Console:
    """Return a console as wide as the terminal, or wide enough for a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH_OF_A_FILE)


def print_line(console: Console, line: str, style: str = "") -> None:
    console.print(Text(printable(line), style), soft_wrap=True)


def print_table(console: Console, of_report: ReportTable, *, wraps_names: bool = True) -> None:
    """Print a table of a report, its marked row in bold."""
    table = Table()
    for heading, kind in of_report.columns.items():
        table.add_column(
            Text(printable(f"{heading[:1].lower()}{heading[1:]}")),
            justify="right" if kind == "number" else "left",
            no_wrap=kind == "name" and not wraps_names,
            overflow="fold" if wraps_names else "ellipsis",
        )
    for place, row in enumerate(of_report.rows):
        style = "bold" if place == of_report.marked else None
        table.add_row(*(Text(printable(cell)) for cell in row), style=style)
    console.print(table)


def show_sections(sections: Sequence[Section]) -> None:
    """Print the paragraphs and tables of sections; a terminal has no charts."""
    console = console_of_results()
    for section in sections:
        print_line(console, section.heading, "bold")
        for block in section.blocks:
            if isinstance(block, Paragraph):
                print_line(console, text_of(block.parts))
            elif isinstance(block, ReportTable | Folded):
                table = block.table if isinstance(block, Folded) else block
                print_line(console, f"{table.caption}:")
                print_table(console, table)
