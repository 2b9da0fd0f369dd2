"""Decisions that runs need of a person: noted in a run's folder when the run ends.

A note is about what is promoted at the time: it is open until something is promoted, or rolled
back, under its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from chaffinch.errors import StorageError
from chaffinch.storage.files import FORMAT_VERSION, read_json, remove_file, to_json, write_file
from chaffinch.storage.runs.promotions import Promotion
from chaffinch.storage.runs.stages import Run, now
from chaffinch.storage.runs.store import Store

_FILE = "decision.json"
_UNKNOWN = (
    "it is not known yet whether a person has to decide; if the run was stopped, give its command "
    "again"
)


def note_decision(run: Run, name: str | None, reason: str, answer: str = "") -> None:
    """Note why a run needs a decision on what is promoted under a name; an empty reason: none.

    `answer` is that of the person who decided, if one has. Where nothing is needed any more, a
    decision that was made stays noted. A second answer is added to the first: two flow runs of a
    run may ask.
    """
    earlier = _readable(run)
    answered = "" if earlier is None else earlier.answer
    if not reason and answered:
        return
    if not (reason or name):
        remove_file(run.folder / _FILE)
        return
    if answer and answered not in ("", answer):
        answer = f"{answered}; {answer}"
    note = {"format_version": FORMAT_VERSION, "name": name, "reason": reason}
    note |= {"noted": now() if reason else ""}  # else a run ends in the same bytes
    write_file(run.folder / _FILE, to_json(note | ({"answer": answer} if answer else {})))


def note_answer(run: Run, answer: str) -> None:
    """Note the answer of a person to the decision that a run needs, if it needs any."""
    noted = _readable(run)
    if noted is not None and noted.reason:
        note_decision(run, noted.name, noted.reason, answer)


def note_open(run: Run) -> None:
    """Note that it is not known yet, since a run may be killed before `note_decision`."""
    noted = _readable(run)
    if noted is None or not noted.reason:
        note_decision(run, None, _UNKNOWN)


@dataclass(frozen=True)
class NeededDecision:
    """What a run needed when it ended: a decision on what is promoted under `name`, if any."""

    name: str | None
    reason: str  # why a person has to decide; empty: none has to
    noted: str  # UTC in ISO 8601; empty if none is needed
    answer: str = ""  # of the person who decided when the run asked

    def is_open(self, history: Sequence[Promotion]) -> bool:
        """Return whether it is needed, none answered, and nothing was promoted since.

        `history` is that of the name, oldest first.
        """
        is_settled = self.answer or (history and history[-1].promoted > self.noted)
        return bool(self.reason) and not is_settled


def noted_decision(run: Run) -> NeededDecision | None:
    """Return what was noted of a run when it ended; None if nothing was."""
    try:
        note = read_json(run.folder / _FILE, {"reason": str, "noted": str})
    except FileNotFoundError:
        return None
    return NeededDecision(
        note.get("name"), note["reason"], note["noted"], str(note.get("answer", ""))
    )


def _readable(run: Run) -> NeededDecision | None:
    """Return the note of a run; None also for a damaged one, which is replaced."""
    with suppress(StorageError):
        return noted_decision(run)
    return None


def needed_decision(run: Run) -> str:
    """Return why a run still needs a decision; empty if it needs none."""
    needed = noted_decision(run)
    history: Sequence[Promotion] = ()
    if needed is None:
        return ""
    if needed.name:
        with suppress(StorageError):  # of a damaged history it is not known, and a person looks
            history = Store.of(run.folder).promotions.history(needed.name)
    return needed.reason if needed.is_open(history) else ""
