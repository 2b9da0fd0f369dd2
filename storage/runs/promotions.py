"""Promotions: the contract in use for each data set, and the history of earlier ones.

Entries are never changed or removed; a rollback is an entry of its own. The contract is stored next
to the history, so that it can be read after its run was deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.files import (
    FORMAT_VERSION,
    LONGEST_STEM,
    check_name,
    is_sealed,
    locked,
    path_in,
    read_json,
    sealed,
    sweep,
    write_file,
)
from chaffinch.storage.runs.stages import now

How = Literal["automatic", "by hand", "rollback"]


@dataclass(frozen=True)
class Promotion:
    """One entry of a history.

    `contract` is the SHA-256 of the contract's bytes, 64 hexadecimal digits; `promoted` a time, UTC
    in ISO 8601 to the microsecond; `how` whether the gate or a person decided.
    """

    run: str
    contract: str
    promoted: str
    how: How
    reason: str


_FIELDS = tuple(field.name for field in fields(Promotion))


def read_entry(content: Any) -> Promotion | None:
    """Return an entry from JSON, without unknown fields; None if it is invalid."""
    known = isinstance(content, dict) and all(isinstance(content.get(f), str) for f in _FIELDS)
    if not known or content["how"] not in get_args(How):
        return None
    return Promotion(**{field: content[field] for field in _FIELDS})


def rollback_stack(history: tuple[Promotion, ...]) -> tuple[Promotion, ...]:
    """Return the entries that rollbacks go back through, the entry in use last.

    A promotion is pushed on a stack and a rollback pops it. So a second rollback goes further back,
    and never returns to what the first rolled back. A contract that was promoted twice in a row
    appears once.
    """
    stack: list[Promotion] = []
    for entry in history:
        if entry.how == "rollback":
            stack.pop()
        elif stack and stack[-1].contract == entry.contract:
            stack[-1] = entry
        else:
            stack.append(entry)
    return tuple(stack)


_REMEDY = "bring back a copy of it, or move it away and promote a run by hand"


class OvertakenError(InputError):
    """The contract in use has changed since the decision."""


_History: TypeAlias = tuple[Promotion, ...]
_Places: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Promotions:
    """The promotion histories of a store, in a folder that the first promotion creates."""

    folder: Path

    def names(self) -> list[str]:
        """Return the data sets that have a history, sorted."""
        if not self.folder.is_dir():
            return []
        return sorted(
            path.stem for path in self.folder.glob("*.json") if not path.name.startswith(".")
        )

    def history(self, name: str) -> tuple[Promotion, ...]:
        """Return the entries of a data set, oldest first; empty if nothing was promoted."""
        return self._read(name)[0]

    def pending_events(self, name: str) -> tuple[tuple[int, Promotion], ...]:
        """Return the entries, with their positions, whose event is unsent, oldest first."""
        history, pending = self._read(name)
        return tuple((place, history[place]) for place in pending)

    def existing(self, name: str) -> tuple[Promotion, ...]:
        """Return the entries of a data set; InputError if it has none."""
        history = self.history(name)
        if not history:
            raise InputError(
                f"nothing was promoted as {name!r} in {self.folder.parent}"
                f"{nearest(name, self.names())}"
            )
        return history

    def contract(self, promotion: Promotion) -> bytes:
        """Return the bytes of an entry's contract, as promoted."""
        path = self.path(promotion)
        try:
            content = path.read_bytes()
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{path} cannot be read ({why}); {_remedy(promotion)}") from error
        if hashlib.sha256(content).hexdigest() != promotion.contract:
            raise StorageError(f"{path} has changed since it was promoted; {_remedy(promotion)}")
        return content

    def path(self, promotion: Promotion) -> Path:
        return path_in(self.folder / "contracts", f"{promotion.contract}.json")

    def promote(
        self,
        name: str,
        contract: bytes,
        run: str,
        how: How,
        reason: str,
        *,
        seen: int | None = None,
        owes_event: bool = False,
    ) -> Promotion:
        """Put a contract, the content of a ``selection.json``, in use.

        `seen` is the number of entries when the decision was made: OvertakenError if there are
        more. `owes_event` records that an event is to be sent for it; see `mark_sent`.
        """
        check_name(name, LONGEST_STEM)
        with self._locked():
            history, pending = self._read(name)
            if seen not in (None, len(history)):
                raise OvertakenError(
                    f"{history[-1].run!r} was promoted as {name!r} meanwhile; compare with it, "
                    "then promote again"
                )
            entry = Promotion(run, hashlib.sha256(contract).hexdigest(), now(), how, reason)
            # contract first, so that no entry refers to a missing contract
            write_file(self.path(entry), contract)
            return self._add(name, history, entry, pending, owes_event)

    def rollback(self, name: str, reason: str, *, owes_event: bool = False) -> Promotion:
        """Put the previous contract in use again; see `rollback_stack`."""
        self.existing(name)
        with self._locked():
            history, pending = self._read(name)
            earlier = rollback_stack(history)[:-1]
            if not earlier:
                raise InputError(
                    f"{history[-1].run!r} is the first contract of {name!r}; there is none before "
                    "it to go back to"
                )
            self.contract(earlier[-1])
            run, contract = earlier[-1].run, earlier[-1].contract
            entry = Promotion(run, contract, now(), "rollback", reason)
            return self._add(name, history, entry, pending, owes_event)

    def mark_sent(self, name: str, place: int) -> None:
        """Record that the event of the entry at a position was sent."""
        with self._locked():
            history, pending = self._read(name)
            self._write(name, history, tuple(other for other in pending if other != place))

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Lock the events, so that a single process at a time sends pending events."""
        with locked(self.folder / ".events.lock", f"the events of {self.folder}"):
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock all histories, so that one process at a time adds entries."""
        with locked(self.folder / ".lock", f"the promotions in {self.folder.parent}"):
            sweep(self.folder)
            yield

    def _add(
        self,
        name: str,
        history: _History,
        entry: Promotion,
        pending: _Places,
        owes_event: bool,
    ) -> Promotion:
        places = (*pending, len(history)) if owes_event else pending
        self._write(name, (*history, entry), places)
        return entry

    def _write(self, name: str, history: _History, pending: _Places) -> None:
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "name": name,
            "entries": [asdict(entry) for entry in history],
        }
        if pending:
            document["owed"] = list(pending)
        write_file(self._history(name), sealed(document))

    def _read(self, name: str) -> tuple[_History, _Places]:
        """Return the entries of a data set, and the positions of those with unsent events."""
        path = self._history(name)
        try:
            document = read_json(path, {"name": str, "entries": list}, _REMEDY)
        except FileNotFoundError:
            return (), ()
        except StorageError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{path} cannot be read ({why}); {_REMEDY}") from error
        if not (is_sealed(document) and document["name"] == name):
            raise StorageError(f"{path} is damaged (it was changed); {_REMEDY}")
        entries, pending = document["entries"], document.get("owed", [])
        history = tuple(entry for entry in map(read_entry, entries) if entry is not None)
        if len(history) < len(entries) or not set(pending) <= set(range(len(entries))):
            raise StorageError(f"{path} is damaged (an entry is none); {_REMEDY}")
        return history, tuple(pending)

    def _history(self, name: str) -> Path:
        return path_in(self.folder, f"{check_name(name, LONGEST_STEM)}.json")


def _remedy(promotion: Promotion) -> str:
    return (
        f"bring back a copy of it, or promote run {promotion.run!r} again under the same name, or "
        "another run"
    )
