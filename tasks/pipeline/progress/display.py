"""Displays of a run's progress: lines of a log, a bar in a terminal, a bar in a notebook."""

from __future__ import annotations

import html
import multiprocessing
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from chaffinch.errors import InputError, printable, short_repr
from chaffinch.tasks.pipeline.progress import (
    STEPS,
    OnProgress,
    Progress,
    RunProgress,
    as_progress,
    duration,
)

SECONDS_BETWEEN_LINES = 30
_SECONDS_BETWEEN_FIGURES = 1  # of a notebook's bar
_SHORT = 10  # seconds; shorter runs have no line about the time that they take
# Stages that check the input; after an error in them no line is printed.
_CHECKING = ("ingest", "describe")
_LONGER = 1.1  # the next line comes after this multiple of the last line's time


class HeldLines:
    """Lines that are held back until the input is checked."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._held: list[str] | None = []

    def __call__(self, line: str) -> None:
        """Print a line, or hold it back."""
        if self._held is None:
            self._say(line)
        else:
            self._held.append(line)

    def release(self) -> None:
        """Print the held lines; later lines are printed at once."""
        held, self._held = self._held, None
        for line in held or ():
            self._say(line)


class ProgressLines(RunProgress):
    """Progress as lines, such as ``4/9 tune and train the model: 12 of 60 after 30 s``.

    `report` writes a line about the stage in progress; another thread may call it.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        stages: Sequence[str] = STEPS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(stages, clock)
        self._line = HeldLines(say)
        self._writing = threading.RLock()
        self._reported: dict[str, float] = {}  # seconds after the stage's begin

    def on_begin(self, stage: str) -> None:
        with self._writing:
            self._release_after_checks(stage)
            self._line(self.numbered(stage))

    def on_end(self, stage: str, seconds: float | None) -> None:
        with self._writing:
            self._release_after_checks(stage)
            done = "finished before" if seconds is None else f"done after {seconds:.1f} s"
            self._line(f"{self.numbered(stage)}: {done}")

    def on_estimate(self, seconds: float) -> None:
        if seconds >= _SHORT:
            with self._writing:
                self._line(f"The run takes about {duration(seconds)} in all.")

    def on_warning(self, warning: str) -> None:
        with self._writing:
            self._line(f"Warning: {warning}")

    def report(self) -> None:
        """Write the progress of the present stage, less and less often."""
        with self._writing, self.lock:
            self._line.release()
            if self.now is None:
                return
            seconds = self.seconds_in(self.now)
            if seconds < _LONGER * self._reported.get(self.now, 0.0):
                return
            self._reported[self.now] = seconds
            done = f"{self.items} after" if self.items else "after"
            left = f", {self.left} in all" if self.left else ""
            self._line(f"{self.numbered(self.now)}: {done} {seconds:.0f} s{left}")

    def _release_after_checks(self, stage: str) -> None:
        if stage not in _CHECKING:
            self._line.release()


class TerminalBar(RunProgress):
    """Progress as a line at the bottom of a terminal, which is gone at the end.

    With `keeps_stages`, finished stages stay above it with the seconds that they took.
    """

    def __init__(self, console: Console, stages: Sequence[str], *, keeps_stages: bool) -> None:
        super().__init__(stages)
        self._keeps_stages, self._console, self._spinner = keeps_stages, console, Spinner("dots")
        self._line = HeldLines(lambda line: console.print(Text(line), soft_wrap=True))
        self.live = Live(
            console=console, get_renderable=self._drawn, refresh_per_second=4, transient=True
        )

    def on_begin(self, stage: str) -> None:
        if stage not in _CHECKING:
            self._line.release()

    def on_end(self, stage: str, seconds: float | None) -> None:
        if self._keeps_stages:
            took = "finished before" if seconds is None else f"{seconds:.1f} s"
            self._line(f"✓ {self.numbered(stage)}: {took}")

    def on_warning(self, warning: str) -> None:
        self._line(f"Warning: {printable(warning)}")

    def _drawn(self) -> Table:
        with self.lock:
            title = "" if self.now is None else self.numbered(self.now)
            words = ", ".join(filter(None, [self.items, self.left]))
            share = self.share
        line = Table.grid(padding=(0, 1))
        line.add_row(self._spinner, Text(title), ProgressBar(1.0, share, width=24), Text(words))
        return line


class NotebookBar(RunProgress):
    """Progress as a line of a notebook cell's output; needs no widgets."""

    def __init__(self, stages: Sequence[str]) -> None:
        from IPython.display import display

        super().__init__(stages)
        self._warnings: list[str] = []
        self._handle: Any = display(self._drawn(), raw=True, display_id=True)

    def on_begin(self, stage: str) -> None:
        self.draw()

    def on_warning(self, warning: str) -> None:
        self._warnings.append(f"Warning: {warning}")
        self.draw()

    def draw(self) -> None:
        self._handle.update(self._drawn(), raw=True)

    def close(self) -> None:
        """Draw the line for the last time."""
        self.draw()

    def _drawn(self) -> dict[str, str]:
        with self.lock:
            title = "" if self.now is None else self.numbered(self.now)
            words = ", ".join(filter(None, [title, self.items, self.left]))
            share = self.share
        if share == 1 and not words:
            words = f"done after {duration(self.clock() - self._started)}"
        text = "\n".join([f"{share:4.0%} {words}", *self._warnings])
        marked = "<br>".join(html.escape(line) for line in [words, *self._warnings])
        bar = f'<progress value="{share:.3f}"></progress> {marked}'
        return {"text/plain": text, "text/html": bar}


@contextmanager
def lines(say: Callable[[str], None], stages: Sequence[str]) -> Iterator[ProgressLines]:
    """Write progress as lines in the block, at first at least every 30 seconds."""
    shown = ProgressLines(say, stages)
    with _call_regularly(SECONDS_BETWEEN_LINES, shown.report):
        yield shown


@contextmanager
def bar(
    console: Console, stages: Sequence[str], *, keeps_stages: bool = False
) -> Iterator[RunProgress]:
    """Draw a bar at the bottom of a terminal in the block."""
    shown = TerminalBar(console, stages, keeps_stages=keeps_stages)
    with shown.live:
        yield shown


@contextmanager
def _notebook_bar(stages: Sequence[str]) -> Iterator[RunProgress]:
    shown = NotebookBar(stages)
    try:
        with _call_regularly(_SECONDS_BETWEEN_FIGURES, shown.draw):
            yield shown
    finally:
        shown.close()


@contextmanager
def _call_regularly(seconds: float, function: Callable[[], None]) -> Iterator[None]:
    ended = threading.Event()

    def call() -> None:
        while not ended.wait(seconds):
            function()

    caller = threading.Thread(target=call, daemon=True)
    caller.start()
    try:
        yield
    finally:
        ended.set()
        caller.join()


_drawing = threading.Lock()  # a process draws one bar at a time


@contextmanager
def shown(stages: Sequence[str], verbose: bool | OnProgress | None) -> Iterator[Progress]:
    """Show the progress of a call from Python in the block.

    Parameters
    ----------
    stages : sequence of str
        The stages of the call, in order.
    verbose : bool or callable, optional
        By default a bar in a terminal or notebook, and nothing elsewhere, in processes of a pool,
        in calls by joblib (as in a grid search) or while another bar is drawn. True: lines on
        standard error where there is no terminal. False: nothing. A function is called in place of
        any display.

    Raises
    ------
    InputError
        If `verbose` is neither None, nor a truth value, nor callable.
    """
    if callable(verbose):
        yield as_progress(verbose)
        return
    if verbose is not None and not isinstance(verbose, int):  # scikit-learn has 0 and 1
        raise InputError(
            f"verbose must be True, False, None or a function but is {short_repr(verbose)}"
        )
    console = Console(stderr=True)
    is_interactive = console.is_jupyter or (console.is_terminal and not console.is_dumb_terminal)
    is_shown = is_interactive and not _is_in_pool() if verbose is None else bool(verbose)
    if not is_shown or not _drawing.acquire(blocking=False):
        yield Progress()
        return
    try:
        if console.is_jupyter:
            drawn: Any = _notebook_bar(stages)
        elif is_interactive:
            drawn = bar(console, stages)
        else:
            drawn = lines(_to_standard_error, stages)
        with drawn as progress:
            yield progress
    finally:
        _drawing.release()


def _to_standard_error(line: str) -> None:
    sys.stderr.write(f"{printable(line)}\n")
    sys.stderr.flush()


def _is_in_pool() -> bool:
    """Return whether this call comes from a process of a pool, or from joblib."""
    if multiprocessing.parent_process() is not None:
        return True
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_globals.get("__name__", "").partition(".")[0] == "joblib":
            return True
    return False
