"""Promotions: the contract in use for each data set, and the history of earlier ones.

Entries are never changed or removed; a rollback is an entry of its own. The contract is stored next
to the history, so that it can be read after its run was deleted. An alias in MLflow's registry may
follow a history: the history says how far it has followed, so that what a kill left is caught up.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
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
    refresh,
    refresh_file,
    sealed,
    shown,
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


NO_ALIAS = "none"
_ALIAS = re.compile(r"(?!(?i:latest|v\d+)$)[A-Za-z0-9_-]+")  # which MLflow accepts
_PROMOTED = "promoted"  # the alias by default


@dataclass(frozen=True)
class Alias:
    """An alias of a model in MLflow's registry, which follows a history.

    It names the version of entry number `moved`, counted from 1; 0 if it was never moved.
    """

    model: str
    alias: str = _PROMOTED
    moved: int = 0

    def __str__(self) -> str:
        return f"{self.model}@{self.alias}"


def alias_from(text: str) -> Alias | None:
    """Return the alias that ``model@alias`` or ``model`` names; None for ``none``."""
    if text == NO_ALIAS:
        return None
    model, mark, alias = text.partition("@")
    if not model.strip() or set(model) & set("/:'`"):
        raise InputError(
            f"a registered model must have a name without / : ' ` but is {model!r}; give one, as "
            "in shop or shop@promoted"
        )
    if mark and not _ALIAS.fullmatch(alias):
        raise InputError(
            f"an alias must be of A-Z a-z 0-9 _ - and neither latest nor like v1 but is {alias!r}; "
            "give another, as in shop@promoted"
        )
    return Alias(model, alias or _PROMOTED)


_History: TypeAlias = tuple[Promotion, ...]
_Places: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class _Content:
    """Content of the file of a data set."""

    history: _History = ()
    pending: _Places = ()  # positions of the entries with unsent events
    alias: Alias | None = None


@dataclass(frozen=True)
class Promotions:
    """The promotion histories of a store, in a folder that the first promotion creates."""

    folder: Path

    def names(self) -> list[str]:
        """Return the data sets that have a history, sorted."""
        refresh(self.folder, lambda name: "/" not in name)
        if not self.folder.is_dir():
            return []
        return sorted(
            path.stem for path in self.folder.glob("*.json") if not path.name.startswith(".")
        )

    def history(self, name: str) -> tuple[Promotion, ...]:
        """Return the entries of a data set, oldest first; empty if nothing was promoted."""
        return self._read(name).history

    def pending_events(self, name: str) -> tuple[tuple[int, Promotion], ...]:
        """Return the entries, with their positions, whose event is unsent, oldest first."""
        content = self._read(name)
        return tuple((place, content.history[place]) for place in content.pending)

    def alias(self, name: str) -> Alias | None:
        """Return the alias in MLflow's registry that follows a data set, if any."""
        return self._read(name).alias

    def behind(self, name: str) -> tuple[Alias, Promotion] | None:
        """Return the alias of a data set, as moved to its last entry, and this; None if it is."""
        content = self._read(name)
        if content.alias is None or content.alias.moved == len(content.history):
            return None
        return replace(content.alias, moved=len(content.history)), content.history[-1]

    def existing(self, name: str) -> tuple[Promotion, ...]:
        """Return the entries of a data set; InputError if it has none."""
        history = self.history(name)
        if not history:
            raise InputError(
                f"nothing was promoted as {name!r} in {shown(self.folder.parent)}"
                f"{nearest(name, self.names())}"
            )
        return history

    def contract(self, promotion: Promotion) -> bytes:
        """Return the bytes of an entry's contract, as promoted."""
        path = self.path(promotion)
        refresh_file(path)
        try:
            content = path.read_bytes()
        except OSError as error:
            why = error.strerror or error
            raise StorageError(
                f"{shown(path)} cannot be read ({why}); {_remedy(promotion)}"
            ) from error
        if hashlib.sha256(content).hexdigest() != promotion.contract:
            raise StorageError(
                f"{shown(path)} has changed since it was promoted; {_remedy(promotion)}"
            )
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
        alias: str | None = None,
    ) -> Promotion:
        """Put a contract, the content of a ``selection.json``, in use.

        `seen` is the number of entries when the decision was made: OvertakenError if there are
        more. `owes_event` records that an event is to be sent for it; see `mark_sent`. `alias`, as
        ``model@alias``, follows the data set from now on, and no other; see `mark_moved`.
        """
        check_name(name, LONGEST_STEM)
        with self._locked():
            content = self._read(name)
            if seen not in (None, len(content.history)):
                raise OvertakenError(
                    f"{content.history[-1].run!r} was promoted as {name!r} meanwhile; compare with "
                    "it, then promote again"
                )
            entry = Promotion(run, hashlib.sha256(contract).hexdigest(), now(), how, reason)
            # contract first, so that no entry refers to a missing contract
            write_file(self.path(entry), contract)
            if alias is not None:
                content = replace(content, alias=alias_from(alias))
            return self._add(name, content, entry, owes_event)

    def rollback(self, name: str, reason: str, *, owes_event: bool = False) -> Promotion:
        """Put the previous contract in use again; see `rollback_stack`."""
        self.existing(name)
        with self._locked():
            content = self._read(name)
            earlier = rollback_stack(content.history)[:-1]
            if not earlier:
                raise InputError(
                    f"{content.history[-1].run!r} is the first contract of {name!r}; there is none "
                    "before it to go back to"
                )
            self.contract(earlier[-1])
            run, contract = earlier[-1].run, earlier[-1].contract
            entry = Promotion(run, contract, now(), "rollback", reason)
            return self._add(name, content, entry, owes_event)

    def mark_sent(self, name: str, place: int) -> None:
        """Record that the event of the entry at a position was sent."""
        with self._locked():
            content = self._read(name)
            pending = tuple(other for other in content.pending if other != place)
            self._write(name, replace(content, pending=pending))

    def mark_moved(self, name: str, alias: Alias) -> None:
        """Record to which entry an alias was moved, unless another alias follows meanwhile."""
        with self._locked():
            content = self._read(name)
            if content.alias is not None and str(content.alias) == str(alias):
                self._write(name, replace(content, alias=alias))

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Lock the events, so that a single process at a time sends pending events."""
        with locked(self.folder / ".events.lock", f"the events of {shown(self.folder)}"):
            yield

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Lock the aliases, so that a single process at a time moves one."""
        with locked(self.folder / ".aliases.lock", f"the aliases of {shown(self.folder)}"):
            yield

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock all histories, so that one process at a time adds entries."""
        with locked(self.folder / ".lock", f"the promotions in {shown(self.folder.parent)}"):
            sweep(self.folder)
            yield

    def _add(self, name: str, content: _Content, entry: Promotion, owes_event: bool) -> Promotion:
        history, pending = content.history, content.pending
        places = (*pending, len(history)) if owes_event else pending
        self._write(name, replace(content, history=(*history, entry), pending=places))
        return entry

    def _write(self, name: str, content: _Content) -> None:
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "name": name,
            "entries": [asdict(entry) for entry in content.history],
        }
        if content.pending:
            document["owed"] = list(content.pending)
        if content.alias is not None:
            document["mlflow"] = asdict(content.alias)
        write_file(self._history(name), sealed(document), is_exchange=True)

    def _read(self, name: str) -> _Content:
        """Return the content of the file of a data set, which may be missing."""
        path = self._history(name)
        refresh_file(path)
        try:
            document = read_json(path, {"name": str, "entries": list}, _REMEDY)
        except FileNotFoundError:
            return _Content()
        except StorageError:
            raise
        except OSError as error:
            why = error.strerror or error
            raise StorageError(f"{shown(path)} cannot be read ({why}); {_REMEDY}") from error
        if not (is_sealed(document) and document["name"] == name):
            raise StorageError(f"{shown(path)} is damaged (it was changed); {_REMEDY}")
        entries, pending = document["entries"], document.get("owed", [])
        history = tuple(entry for entry in map(read_entry, entries) if entry is not None)
        if len(history) < len(entries) or not set(pending) <= set(range(len(entries))):
            raise StorageError(f"{shown(path)} is damaged (an entry is none); {_REMEDY}")
        kept = document.get("mlflow")
        alias = None if kept is None else Alias(kept["model"], kept["alias"], kept["moved"])
        return _Content(history, tuple(pending), alias)

    def _history(self, name: str) -> Path:
        return path_in(self.folder, f"{check_name(name, LONGEST_STEM)}.json")


def _remedy(promotion: Promotion) -> str:
    return (
        f"bring back a copy of it, or promote run {promotion.run!r} again under the same name, or "
        "another run"
    )
