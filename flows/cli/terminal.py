"""Lines of text, printed safely, and the functions that show what a command does."""

import json
from typing import Any, NamedTuple

import click

from chaffinch.errors import one_line, printable
from chaffinch.tasks.pipeline.progress import Progress, Say, Warn, no_messages, no_warnings

STARTING_PREFECT = "starting Prefect"
NEEDS_DECISION = 5  # the exit code


def echo(line: str, *, err: bool = False) -> None:
    """Print a line, with characters that are not printable escaped."""
    click.echo(printable(line), err=err)


def echo_exactly(text: str) -> None:
    """Print text for another program: unchanged, though click removes colours in a pipe."""
    click.echo(text, color=True)


def echo_json(content: Any) -> None:
    echo_exactly(json.dumps(content, indent=2, ensure_ascii=False))


def exit_code_of(undecided: str) -> int:
    """Print why a person has to decide, if one has, and return the exit code."""
    if not undecided:
        return 0
    click.echo(f"Needs a decision: {one_line(undecided)}", err=True)
    return NEEDS_DECISION


class Showing(NamedTuple):
    """Functions that show what a command does."""

    on_progress: Progress = Progress()
    warn: Warn = no_warnings
    say: Say = no_messages
