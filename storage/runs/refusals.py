"""Refusals of a promoted data set's tables: noted in the store, as there may be no run to note.

A note stays until a table of the data set is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import ChaffinchError, InputError, StorageError
from chaffinch.storage.files import (
    FORMAT_VERSION,
    path_in,
    read_json,
    refresh,
    refresh_file,
    remove_file,
    to_json,
    write_file,
)
from chaffinch.storage.runs.stages import now
from chaffinch.storage.runs.store import Store
from chaffinch.storage.sources.data_set_name import name_of_table
from chaffinch.storage.sources.source import Source


@dataclass(frozen=True)
class Refusal:
    """When a table was refused, UTC in ISO 8601, and why."""

    noted: str
    reason: str


def refusals(store: Store) -> dict[str, Refusal]:
    """Return the last refusal of each data set of which no table was read since.

    A damaged note has no time, and the reason is the damage.
    """
    folder = _folder(store)
    refresh(folder)
    notes = {}
    for path in sorted(folder.glob("[!.]*.json")):
        try:
            note = read_json(path, {"noted": str, "reason": str})
        except FileNotFoundError:  # a table was read meanwhile
            continue
        except StorageError as error:
            note = {"noted": "", "reason": str(error)}
        notes[path.stem] = Refusal(note["noted"], note["reason"])
    return notes


@contextmanager
def noting_refusals(store: Path | str, source: Source, promoted_as: str | None) -> Iterator[None]:
    """Note an error of the block for the data set of a source, if something is promoted as it."""
    try:
        yield
    except ChaffinchError as error:
        with suppress(ChaffinchError):  # the first error is the one to raise
            name, there = _data_set(source, promoted_as), Store.at(store)
            if name in there.promotions.names():
                note = {"format_version": FORMAT_VERSION, "noted": now(), "reason": str(error)}
                write_file(_path(there, name), to_json(note))
        raise


def forget_refusal(store: Path | str, source: Source, promoted_as: str | None) -> None:
    """Remove the note of a data set, a table of which is read."""
    if name := _data_set(source, promoted_as):
        path = _path(Store.at(store), name)
        refresh_file(path)
        if path.exists():
            remove_file(path)


def _data_set(source: Source, promoted_as: str | None) -> str:
    """Return the name of the data set of a source; empty for a table that has none."""
    try:
        return promoted_as or name_of_table(source.name, "")
    except InputError:
        return ""


def _path(store: Store, name: str) -> Path:
    return path_in(_folder(store), f"{name}.json")


def _folder(store: Store) -> Path:
    return store.path / "refusals"
