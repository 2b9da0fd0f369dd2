"""Warnings of libraries while cells are measured: collected, and summarised once at the end."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

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


# The filters belong to the whole process: the last thread that listens restores them.
_LOCK, _HERE, _LISTENING = threading.Lock(), threading.local(), ExitStack()
_n_listening = 0


@contextmanager
def collected_warnings() -> Iterator[set[str]]:
    """Collect the warnings of libraries in the block, by this thread, instead of showing them."""
    global _n_listening
    outer, messages = getattr(_HERE, "messages", None), set[str]()
    with _LOCK:
        if not _n_listening:
            _LISTENING.enter_context(warnings.catch_warnings())
            _listen()
        _n_listening += 1
    _HERE.messages = messages
    try:
        yield messages
    finally:
        _HERE.messages = outer
        with _LOCK:
            _n_listening -= 1
            if not _n_listening:
                _LISTENING.close()


def _listen() -> None:
    shown = warnings.showwarning

    def collect(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        messages = getattr(_HERE, "messages", None)
        if messages is not None and issubclass(category, UserWarning | RuntimeWarning):
            messages.add(_in_words(message, category))
        else:
            shown(message, category, *where, **more)

    for category in (UserWarning, RuntimeWarning):
        warnings.filterwarnings("always", category=category, module=_NOT_OURS)
    # FutureWarning is for developers who call the library
    warnings.filterwarnings("ignore", category=FutureWarning, module=_NOT_OURS)
    warnings.showwarning = collect


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
