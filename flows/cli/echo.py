"""Lines for the terminal, in which nothing that a table or a path holds can move its cursor."""

import click

from chaffinch.storage.errors import printable


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, with what is not printable escaped."""
    click.echo(printable(line), err=err)


def echo_exactly(text: str) -> None:
    """Print text for another program: as it is, in a pipe too, where click takes colours away."""
    click.echo(text, color=True)
