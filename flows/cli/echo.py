"""Lines for the terminal, in which no name of a column or path can move its cursor."""

import json
from typing import Any

import click

from chaffinch.storage.errors import printable


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, with what is not printable escaped."""
    click.echo(printable(line), err=err)


def echo_exactly(text: str) -> None:
    """Print text for another program: unchanged, though click removes colours in a pipe."""
    click.echo(text, color=True)


def echo_json(found: Any) -> None:
    echo_exactly(json.dumps(found, indent=2, ensure_ascii=False))
