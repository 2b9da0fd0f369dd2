"""Warnings of libraries while cells are measured: collected, and summarised once at the end."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TextIO

from chaffinch.tasks.comparing.plan import Cell, Plan
from chaffinch.tasks.comparing.text import without_figures
from chaffinch.tasks.reporting.text import counted, number

_IN_WORDS = {
    "ConvergenceWarning": "the training of a model ended before it had converged",
    "LinAlgWarning": "equations were close to singular, so that their solution is not exact",
    "RuntimeWarning": "numbers overflowed, were divided by zero, or came to no number",
    "UndefinedMetricWarning": "a score was not defined, as where rows are of one class or none is "
    "predicted, and is what scikit-learn puts in its place",
}
# Warnings of our own modules are for developers and are not collected.
_NOT_OURS = r"(?!chaffinch\b)"


class _WarningCollector:
    """Collects the warnings of each thread separately; the last thread restores the filters."""

    # the filters belong to the whole process
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_listening = 0
        self._before = warnings.catch_warnings()
        self._here = threading.local()

    @contextmanager
    def open(self) -> Iterator[set[str]]:
        messages: set[str] = set()
        outer = getattr(self._here, "messages", None)
        with self._lock:
            if not self._n_listening:
                self._listen()
            self._n_listening += 1
        self._here.messages = messages
        try:
            yield messages
        finally:
            self._here.messages = outer
            with self._lock:
                self._n_listening -= 1
                if not self._n_listening:
                    self._before.__exit__(None, None, None)

    def _listen(self) -> None:
        self._before = warnings.catch_warnings()
        self._before.__enter__()
        shown = warnings.showwarning

        def collect(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            messages = getattr(self._here, "messages", None)
            if messages is not None and issubclass(category, UserWarning | RuntimeWarning):
                messages.add(_in_words(message, category))
            else:
                shown(message, category, filename, lineno, file, line)

        for category in (UserWarning, RuntimeWarning):
            warnings.filterwarnings("always", category=category, module=_NOT_OURS)
        # FutureWarning is for developers who call the library
        warnings.filterwarnings("ignore", category=FutureWarning, module=_NOT_OURS)
        warnings.showwarning = collect


_COLLECTOR = _WarningCollector()


def collected_warnings() -> AbstractContextManager[set[str]]:
    """Collect the warnings of libraries in the block in a set, instead of showing them."""
    return _COLLECTOR.open()


def remarks_of(plan: Plan, measured: Mapping[tuple[Cell, str], Mapping[str, Any]]) -> list[str]:
    """Return the distinct warnings of libraries by table and model, with numbers of cells."""
    cells: dict[str, set[Cell]] = {}
    alike: dict[tuple[str, str], tuple[str, set[Cell]]] = {}
    for (cell, _), result in measured.items():
        about = f"{plan.sources[cell.table].label}, {plan.model(cell).name}"
        cells.setdefault(about, set()).add(cell)
        for words in result.get("warned", ()):
            _, of_words = alike.setdefault((about, without_figures(words)), (words, set()))
            of_words.add(cell)
    return [
        f"{about}: {words}, in {number(len(hit))} of {counted(len(cells[about]), 'cell')}."
        for (about, _), (words, hit) in alike.items()
    ]


def _in_words(message: Warning | str, category: type[Warning]) -> str:
    if known := _IN_WORDS.get(category.__name__):
        return known
    first, *_ = [*filter(None, map(str.strip, str(message).splitlines())), "no reason given"]
    return f"a library warned ({category.__name__}: {first.rstrip('.')})"
