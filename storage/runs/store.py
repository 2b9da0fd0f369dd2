"""The run catalog: each run is a folder of a store, named after it.

See README.md in this folder for the format, and stages.py for the stages of a run.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from chaffinch.errors import InputError
from chaffinch.storage.column_names import nearest, quoted
from chaffinch.storage.files import (
    FORMAT_VERSION,
    check_name,
    locked,
    make_folder,
    mirror_of,
    path_in,
    read_json,
    refresh,
    refresh_file,
    shown,
    sweep_old,
    to_json,
    write_file,
)
from chaffinch.storage.objects.mirror import BucketMirror, attached, local_folder
from chaffinch.storage.runs.promotions import Promotion, Promotions
from chaffinch.storage.runs.stages import Run

__all__ = ["Run", "Store"]

logger = logging.getLogger(__name__)

_STORE = "store.json"
_RUNS, _COMPARISONS = "runs", "comparisons"
_LISTED = ("run.json", "decision.json", "refusal.json", "selection.json")
# Folders that many processes write to at once, each to its own files, so they need no lock.
_SHARED = ("", "datasets", "tables", "cells/stages", "dependencies/stages", "dependencies")


@dataclass(frozen=True)
class Store:
    """A folder with datasets and runs.

    In object storage `path` is a cache of it: it is brought up to date in what is looked up here,
    and what is written below it is uploaded.
    """

    path: Path

    def __str__(self) -> str:
        """Return what the user named: a path or an address."""
        return shown(self.path)

    @classmethod
    def at(cls, path: Path | str) -> Store:
        """Return the store at a path or address, which may be missing; writes nothing to it."""
        return cls(local_folder(path))

    @classmethod
    def open(cls, path: Path | str) -> Store:
        """Return the store at a path or address, created if missing, after a test write."""
        store = cls.at(path)
        if isinstance(mirror := mirror_of(store.path), BucketMirror):
            mirror.check_conditions()
        refresh_file(store.path / _STORE)
        try:
            read_json(store.path / _STORE, {})
        except FileNotFoundError:
            logger.info("making a store at %s", store)
            _check_can_be_made(store.path)
        except NotADirectoryError as error:
            raise InputError(
                f"store {store.path} cannot be made because a file has its place; "
                "name another store"
            ) from error
        except PermissionError as error:
            raise InputError(
                f"reading store {store.path} is not allowed; "
                "change its permissions or name another store"
            ) from error
        # written every time, to check that writing works
        write_file(store.path / _STORE, to_json({"format_version": FORMAT_VERSION}))
        for shared in _SHARED:
            sweep_old(store.path / shared)
        return store

    @classmethod
    def find(cls, path: Path | str) -> Store:
        """Return the existing store at a path or address; writes nothing."""
        store = cls.at(path)
        refresh_file(store.path / _STORE)
        if not (store.path / _STORE).is_file():
            raise InputError(f"there is no store at {store}; name the one that runs were given")
        read_json(store.path / _STORE, {})
        return store

    @classmethod
    def of(cls, run: Path) -> Store:
        """Return the store of a run, or of a comparison, by the folder of it."""
        return cls(attached(run.absolute().parent.parent))

    @property
    def datasets(self) -> Path:
        return self.path / "datasets"

    @property
    def tables(self) -> Path:
        """Tables in memory that were given to flows, as files."""
        return self.path / "tables"

    def run(self, name: str) -> Run:
        """Return the run of that name, created if missing."""
        return Run(make_folder(path_in(self.path / _RUNS, check_name(name))))

    def named(self, name: str) -> Run:
        """Return the run of that name, which may be missing."""
        run = Run(path_in(self.path / _RUNS, check_name(name)))
        refresh(run.folder)
        return run

    def comparison(self, name: str) -> Run:
        """Return the comparison of that name, created if missing."""
        return _opened(path_in(self.path / _COMPARISONS, check_name(name)))

    @property
    def cells(self) -> Run:
        """Measurements of all comparisons, each a stage named after its key."""
        return _opened(self.path / "cells")

    @property
    def dependencies(self) -> Run:
        """Pairwise dependencies of features, each a stage named after its key."""
        return _opened(self.path / "dependencies")

    @property
    def promotions(self) -> Promotions:
        """Promotion histories of the data sets."""
        return Promotions(self.path / "promotions")

    @contextmanager
    def turn(self, data_set: str) -> Iterator[None]:
        """Hold the lock of a data set: one run at a time; others log a warning and wait."""
        path = self.path / _RUNS / f".{check_name(data_set)}.lock"
        with locked(path, f"data set {data_set}"):
            yield

    def existing(self, name: str) -> Run:
        """Return a run by its name or the beginning of it, or the run promoted under a name.

        InputError for another name, or if several begin so.
        """
        promotion = self.in_use(name)
        run = self.named(promotion.run if promotion else name)
        if run.exists:
            return run
        if promotion is None:
            return self.existing(self.full_name(name))
        raise InputError(
            f"run {run.name!r}, which is in use as {name!r}, is no longer in {self}; its "
            f"contract is kept, and `chaffinch columns {name}` reads it"
        )

    def in_use(self, name: str) -> Promotion | None:
        """Return what is promoted under a name, or the beginning of it; None if it names a run."""
        if self.named(name).exists:
            return None
        names = self.promotions.names()
        if name not in names:
            with suppress(InputError):  # there is none, or several begin so
                name = self.full_name(name)
        return self.promotions.existing(name)[-1] if name in names else None

    def full_name(self, begin: str, *, with_comparisons: bool = False) -> str:
        """Return the only name of a run or a promotion that is or begins with a text.

        InputError if there is none, or several begin so.
        """
        known = [*(run.name for run in self.runs()), *self.promotions.names()]
        what = "run"
        if with_comparisons:
            known, what = [*known, *(run.name for run in self.comparisons())], "run or comparison"
        if begin in known:
            return begin
        begun = [name for name in known if name.startswith(begin)]
        if len(begun) == 1:
            return begun[0]
        near = f"; {quoted(begun)} begin with it" if begun else nearest(begin, known)
        if any(name.partition("-")[0] == begin for name in begun):  # a data set, not in use yet
            near += f", and none is promoted as {begin}; `chaffinch promote RUN` takes one into use"
        remedy = near or "; `chaffinch runs` lists those there are"
        raise InputError(f"there is no {what} {begin!r} in {self}{remedy}")

    def runs(self) -> list[Run]:
        """Return every described run, newest first, damaged ones last."""
        return _described(self.path / _RUNS)

    def comparisons(self) -> list[Run]:
        """Return every described comparison, newest first; see `runs`."""
        return _described(self.path / _COMPARISONS)


def _opened(folder: Path) -> Run:
    """Return what is in a folder, which is created if missing and brought up to date."""
    make_folder(folder)
    refresh(folder)
    return Run(folder)


def _check_can_be_made(path: Path) -> None:
    """Refuse a store in a folder such as ``/proc`` that cannot have subfolders; InputError."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileNotFoundError as error:
        raise InputError(f"no folder can be made at {path}; name another store") from error
    except OSError:
        return  # the test write that follows raises a clearer error


def _is_listed(name: str) -> bool:
    """Return whether listings read a file of a run, which is small."""
    _, _, inside = name.partition("/")
    return inside in _LISTED or (inside.startswith("stages/") and inside.endswith(".json"))


def _described(folder: Path) -> list[Run]:
    """Return the described runs in a folder, newest first."""
    refresh(folder, _is_listed)
    if not folder.is_dir():
        return []
    runs = [run for path in folder.iterdir() if (run := Run(path)).exists]
    return sorted(runs, key=lambda run: (run.created, run.name), reverse=True)
