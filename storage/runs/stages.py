"""Runs, their stages and checkpoints: files, small results, and a manifest written last.

The manifest is the commit point: its files are complete, and a stage without it is run again.
While a stage is running it has no manifest, so that a partial stage is never taken for finished.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.column_names import nearest
from chaffinch.storage.files import (
    FORMAT_VERSION,
    check_name,
    is_sealed,
    locked,
    make_folder,
    path_in,
    read_json,
    refresh,
    remove_file,
    remove_folder,
    sealed,
    sha256_of_file,
    sha256_of_written,
    shown,
    sweep,
    to_json,
    write_file,
)

logger = logging.getLogger(__name__)

_RUN, _REFUSAL = "run.json", "refusal.json"
ROWS = "rows"  # folder of the row numbers that workers read while the run lasts
_FOLDER = "checkpoints"
_SECONDS_APART = 5.0
_SHARE = 0.01  # of the run time, at most, for writing checkpoints


@dataclass(frozen=True)
class Checkpoints:
    """Checkpoints of a stage under a key, a file per part.

    They are optional: if writing fails, a warning is logged and the work continues.

    May be sent to workers: those that can access the folder write to it, others write nothing. The
    folder exists from `begin` until the stage is recorded.
    """

    folder: Path

    @classmethod
    def of(cls, run: Path, stage: str, key: str) -> Checkpoints:
        """Return the checkpoints of a stage in a run's folder; creates nothing."""
        return cls(path_in(run, f"{_FOLDER}/{stage}/{key}"))

    @property
    def key(self) -> str:
        return self.folder.name

    def begin(self) -> None:
        """Create the folder; before that nothing is stored."""
        make_folder(self.folder)

    def read(self, name: str) -> bytes | None:
        """Return the content stored under a name; None if it is missing or unreadable."""
        try:
            return path_in(self.folder, name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _begins_again(self.folder / name, error.strerror or str(error))
            return None

    def keep(self, name: str, make: Callable[[], bytes]) -> bool:
        """Store a checkpoint atomically, replacing any earlier checkpoint of that name.

        `make` is not called where the folder is not accessible. Returns whether it was stored; if
        writing fails, a warning is logged.
        """
        if not self.folder.is_dir():
            return False
        content = make()
        try:
            write_file(path_in(self.folder, name), content)
        except (InputError, StorageError) as error:
            logger.warning("the work continues without this checkpoint: %s", error)
            return False
        return True

    def now_and_then(self, name: str) -> Callable[[Callable[[], bytes]], None]:
        """Return a `keep` for a name that may be called often: most calls do nothing.

        Writes are at least 5 seconds apart, and take at most 1 % of the time. After a failed
        write no other is tried.
        """
        due = monotonic() + _SECONDS_APART

        def keep(make: Callable[[], bytes]) -> None:
            nonlocal due
            began = monotonic()
            if began < due:
                return
            is_kept = self.keep(name, make)
            ended = monotonic()
            due = ended + max(_SECONDS_APART, (ended - began) / _SHARE) if is_kept else math.inf

        return keep

    def discard(self, name: str, reason: str) -> None:
        """Remove an unusable checkpoint, and log a warning that its part starts again, and why."""
        _begins_again(self.folder / name, reason)
        remove_file(path_in(self.folder, name))


def _remove_checkpoints(run: Path, stage: str) -> None:
    """Remove the checkpoints of a stage, under any key, from a run's folder.

    A late worker may still be adding to the folder: then it stays until the next call.
    """
    folder = path_in(run, f"{_FOLDER}/{stage}")
    if not folder.is_dir():
        return
    try:
        remove_folder(folder)
        if not any((run / _FOLDER).iterdir()):
            (run / _FOLDER).rmdir()
    except OSError as error:
        logger.info("checkpoints in %s are left over: %s", folder, error.strerror or error)
    except StorageError as error:
        logger.info("checkpoints in %s are left over: %s", folder, error)


def _begins_again(path: Path, reason: str) -> None:
    logger.warning("checkpoint %s cannot be used, so its work starts again: %s", path, reason)


_FIELDS = {"stage": str, "key": str, "result": dict, "files": dict, "seconds": float}


@dataclass(frozen=True)
class StageRecord:
    """Record of a finished stage.

    `key` is everything its result depends on, as one text; equal keys mean equal results. `result`
    has small results, as stored in JSON; `files` the SHA-256 of each file by its name in the run
    folder.
    """

    stage: str
    key: str
    result: dict[str, Any]
    files: dict[str, str]
    seconds: float
    folder: Path

    def path(self, name: str) -> Path:
        if name not in self.files:
            raise StorageError(
                f"stage {self.stage} left no file {name!r}{nearest(name, self.files)}; "
                f"remove {_manifest(self.folder, self.stage)} and run again"
            )
        return path_in(self.folder, name)

    def read(self, name: str) -> bytes:
        """Return the content of a file of this stage after checking its hash."""
        try:
            content = self.path(name).read_bytes()
            whole = hashlib.sha256(content).hexdigest() == self.files[name]
            reason = "" if whole else "has changed since it was written"
        except StorageError:
            raise
        except FileNotFoundError:
            reason = "is missing"
        except InputError as error:
            reason = f"is refused: {error}"
        except OSError as error:
            reason = f"cannot be read ({error.strerror or error})"
        if reason:
            raise StorageError(
                f"{name} of run {self.folder.name!r} {reason}; "
                "make the same selection again to replace it"
            )
        return content

    def read_table(self, name: str) -> pa.Table:
        """Return the table in a Parquet file of this stage; StorageError as `read`."""
        # without threads, of which read_table always starts one: one that still starts when a
        # short command exits aborts it
        file = pyarrow.parquet.ParquetFile(pa.BufferReader(self.read(name)), pre_buffer=False)
        return file.read(use_threads=False)


class StageWriter:
    """Collects the output of a stage while it runs.

    Attributes
    ----------
    result : dict
        Small results to record, serialisable as JSON.
    """

    def __init__(self, folder: Path, stage: str, key: str) -> None:
        self.result: dict[str, Any] = {}
        self._folder, self._stage, self._key = folder, stage, key
        self._files: dict[str, str] = {}
        self._record: StageRecord | None = None

    def write(self, name: str, data: bytes | Callable[[Path], None]) -> None:
        """Write a file of the run atomically: bytes, or what a function writes to a path."""
        path = path_in(self._folder, name)
        write_file(path, data)
        self._files[name] = sha256_of_written(path)

    def write_all(self, folder: str, files: Callable[[], Mapping[str, bytes]]) -> None:
        """Write the files that a function returns by name into a folder of the run."""
        for name, content in files().items():
            self.write(f"{folder}/{name}", content)

    @property
    def checkpoints(self) -> Checkpoints:
        """Checkpoints of this stage from a killed run; removed once the stage is recorded."""
        return Checkpoints.of(self._folder, self._stage, self._key)

    @property
    def record(self) -> StageRecord:
        """The stage's record, once it has ended."""
        if self._record is None:
            raise RuntimeError("a stage has a record only after its with block")
        return self._record

    def _commit(self, seconds: float) -> None:
        stage, key = self._stage, self._key
        manifest = {
            "format_version": FORMAT_VERSION,
            "stage": stage,
            "key": key,
            "result": self.result,
            "files": self._files,
            "seconds": seconds,
            "finished": now(),
        }
        document = sealed(manifest)
        write_file(_manifest(self._folder, stage), document)
        # round trip through JSON, so that a fresh and a resumed stage are equal
        result = json.loads(document)["result"]
        self._record = StageRecord(stage, key, result, dict(self._files), seconds, self._folder)


def now() -> str:
    """Return the current time, UTC in ISO 8601 to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


@dataclass(frozen=True)
class Run:
    """One run: its description, its stages and their files, in a folder named after it."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def exists(self) -> bool:
        """Whether the run was described."""
        return (self.folder / _RUN).is_file()

    @property
    def created(self) -> str:
        """Time of the description, UTC in ISO 8601; empty if it cannot be read."""
        try:
            return str(self._document()["created"])
        except (StorageError, OSError):
            return ""

    @property
    def description(self) -> dict[str, Any]:
        return dict(self._document()["description"])

    def describe(self, description: dict[str, Any]) -> None:
        """Write the run's description once; writing it again changes nothing."""
        if not self.exists:
            document = {
                "format_version": FORMAT_VERSION,
                "name": self.name,
                "created": now(),
                "description": description,
            }
            write_file(self.folder / _RUN, to_json(document))
            return
        before = self.description
        after = json.loads(to_json(description))
        for field in [*before, *after]:
            if before.get(field) != after.get(field):
                raise InputError(
                    f"run {self.name!r} began with {field} {before.get(field)!r} but is now asked "
                    f"for {after.get(field)!r}; give another run name or the same {field}"
                )

    @property
    def refusal(self) -> str:
        """Why a stage refused the run when it was last given; empty if none did."""
        try:
            return str(read_json(self.folder / _REFUSAL, {"reason": str})["reason"])
        except FileNotFoundError:
            return ""

    def note_refusal(self, reason: str) -> None:
        """Note why a stage refused the run; an empty reason removes the note."""
        if reason:
            note = {"format_version": FORMAT_VERSION, "reason": reason}
            write_file(self.folder / _REFUSAL, to_json(note))
        else:
            remove_file(self.folder / _REFUSAL)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Lock the run, so that one process at a time works on it; see `locked`.

        A run that was refused before it wrote anything leaves no folder.
        """
        lock, rows = self.folder / ".lock", self.folder / ROWS
        with locked(lock, f"run {self.name}"):
            refresh(self.folder)
            sweep(self.folder)
            with suppress(FileNotFoundError):  # the folder was removed meanwhile
                for path in _manifests(self.folder):  # left by a killed writer or a late worker
                    _remove_checkpoints(self.folder, path.stem)
            try:
                yield
            finally:
                # what stays is removed by the next to lock the run
                with suppress(OSError, InputError):
                    if rows.is_dir():
                        remove_folder(rows)
                with suppress(OSError):
                    if [*self.folder.iterdir()] == [lock]:
                        lock.unlink()
                        self.folder.rmdir()

    def finished(self, stage: str, key: str) -> StageRecord | None:
        """Return a stage's record; None, with the reason in the log, if it must run again.

        It must if it was never recorded, has another key, or a file is missing or changed.
        """
        manifest, level = _manifest(self.folder, stage), logging.INFO
        try:
            record = _read(manifest, self.folder)
            reason = _outdated(record, key)
        except FileNotFoundError as error:
            is_new = error.filename == str(manifest)
            reason = "it was not done before" if is_new else f"{error.filename} is missing"
            level = logging.DEBUG if is_new else level
        except (InputError, OSError) as error:
            reason = str(error)
        if reason:
            logger.log(level, "stage %s is to be done: %s", stage, reason)
            return None
        return record

    def records(self) -> list[StageRecord]:
        """Return the records of all stages, sorted by stage name, without checking the files."""
        try:
            return [_read(path, self.folder) for path in _manifests(self.folder)]
        except FileNotFoundError as error:
            raise StorageError(
                f"{error.filename} is missing; make the same selection again to replace it"
            ) from error

    def record(self, stage: str) -> StageRecord | None:
        """Return the record of one stage, without checking its files; None if it is not done."""
        try:
            return _read(_manifest(self.folder, stage), self.folder)
        except FileNotFoundError:
            return None

    @contextmanager
    def stage(self, stage: str, key: str) -> Iterator[StageWriter]:
        """Collect a stage's output, and record the stage if the block ends without an exception.

        `key` is everything the result depends on. No two stages of a run may write the same file.
        """
        remove_file(_manifest(self.folder, stage))
        began = time.perf_counter()
        writer = StageWriter(self.folder, stage, key)
        yield writer
        writer._commit(time.perf_counter() - began)
        _remove_checkpoints(self.folder, stage)

    def rewrite(self, record: StageRecord, files: Mapping[str, bytes]) -> None:
        """Replace files of a finished stage; the rest of its record stays."""
        writer = StageWriter(self.folder, record.stage, record.key)
        writer.result, writer._files = record.result, dict(record.files)
        for name, data in files.items():
            writer.write(name, data)
        writer._commit(record.seconds)

    def _document(self) -> dict[str, Any]:
        try:
            return read_json(self.folder / _RUN, {"created": str, "description": dict})
        except FileNotFoundError as error:
            raise StorageError(f"run {self.name} has no {_RUN} yet; start it again") from error


def _manifests(folder: Path) -> list[Path]:
    """Return the manifests, sorted by stage name."""
    paths = sorted((folder / "stages").glob("*.json"))
    # names with a leading dot are temporary files of a killed writer
    return [path for path in paths if not path.name.startswith(".")]


def _read(manifest: Path, folder: Path) -> StageRecord:
    content = read_json(manifest, _FIELDS)
    if content["stage"] != manifest.stem or not is_sealed(content):
        raise StorageError(
            f"{shown(manifest)} is damaged (it was changed); remove it and run again"
        )
    return StageRecord(**{field: content[field] for field in _FIELDS}, folder=folder)


def _outdated(record: StageRecord, key: str) -> str:
    """Return why a record is outdated, or an empty text."""
    if record.key != key:
        return "what it depends on has changed"
    for name, sha256 in record.files.items():
        if sha256_of_file(record.path(name)) != sha256:
            return f"{name} has changed"
    return ""


def _manifest(folder: Path, stage: str) -> Path:
    return folder / "stages" / f"{check_name(stage)}.json"
