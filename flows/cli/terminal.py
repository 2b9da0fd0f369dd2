"""Lines of text: printed safely, and progress where there is no terminal.

A step has lines such as "4/9 train base model: 12 of 60 after 30 s, about 2 min left".
"""

import json
import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple

import click

from chaffinch.storage.errors import printable
from chaffinch.tasks.pipeline.progress import (
    STEPS,
    OnProgress,
    Say,
    Warn,
    no_messages,
    no_progress,
    no_warnings,
)

STARTING_PREFECT = "starting Prefect"
# Steps that check the input; an error in them is the only line.
_CHECKING = ("ingest", "describe")
_LONGER = 1.1  # the next line comes after this multiple of the time of the last one


def echo(line: str, *, err: bool = False) -> None:
    """Print one line, with characters that are not printable escaped."""
    click.echo(printable(line), err=err)


def echo_exactly(text: str) -> None:
    """Print text for another program: unchanged, though click removes colours in a pipe."""
    click.echo(text, color=True)


def echo_json(found: Any) -> None:
    echo_exactly(json.dumps(found, indent=2, ensure_ascii=False))


class Showing(NamedTuple):
    """Functions that show what a command does."""

    on_progress: OnProgress = no_progress
    warn: Warn = no_warnings
    say: Say = no_messages


def numbered(step: str, steps: Sequence[str]) -> str:
    """Return the number of a step and its name, such as ``3/9 split``."""
    number = f"{steps.index(step) + 1}/{len(steps)} " if step in steps else "    "
    return number + step.replace("_", " ")


def duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class ProgressLines:
    """Progress callback that writes lines with `say`; `report` writes lines in between."""

    def __init__(
        self,
        say: Callable[[str], None],
        steps: Sequence[str] = STEPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say, self._steps = say, steps
        self._clock = clock
        self._lock = Lock()  # `report` is called in another thread
        self._held: list[str] | None = []
        self._begun: dict[str, tuple[float, int]] = {}  # when, and the items done before
        self._reported: dict[str, float] = {}  # seconds after the step's begin
        self._ended: set[str] = set()
        self._now: tuple[str, int, int] | None = None

    def __call__(self, step: str, done: int, total: int) -> None:
        """Note that `done` of the `total` items of `step` are done; 1 of 1 ends it."""
        with self._lock:
            if step in self._ended:
                return  # the run finds done what the check before it has done
            if step not in _CHECKING:
                self._release()
            name, ends = numbered(step, self._steps), done == total == 1
            if step not in self._begun:
                self._begun[step] = self._clock(), done
                self._line(f"{name}: finished before" if ends else name)
            elif ends:
                self._line(f"{name}: done after {self._clock() - self._begun[step][0]:.1f} s")
            self._now = None if ends else (step, done, total)
            if ends:
                self._ended.add(step)

    def report(self) -> None:
        """Write how far the present step is; the longer it takes, the less often."""
        with self._lock:
            self._release()
            if self._now is not None:
                step, done, total = self._now
                items = f"{done} of {total} " if total > 1 else ""
                began, before = self._begun[step]
                seconds = self._clock() - began
                if seconds < _LONGER * self._reported.get(step, 0.0):
                    return
                self._reported[step] = seconds
                line = f"{numbered(step, self._steps)}: {items}after {seconds:.0f} s"
                if before < done < total:
                    left = seconds * (total - done) / (done - before)
                    line += f", about {duration(left)} left"
                self._line(line)

    def _line(self, line: str) -> None:
        if self._held is None:
            self._say(line)
        else:
            self._held.append(line)

    def _release(self) -> None:
        held, self._held = self._held, None
        for line in held or ():
            self._say(line)
