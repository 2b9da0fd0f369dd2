"""Stages: the files and small results of one step of a run, and the manifest written last.

The manifest is the commit point: what it lists is whole, and a stage without one is done again.
While a stage is done again it has none, so that nobody takes half of a run for a finished one.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from chaffinch.storage.datasets.column_names import nearest
from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import (
    FORMAT_VERSION,
    check_name,
    is_sealed,
    make_folder,
    path_in,
    read_json,
    remove_file,
    sealed,
    sha256_of_file,
    sha256_of_written,
    write_file,
)

# Checkpoints: what a stage that takes long has got so far, for the same stage after a kill.
#
# They are an aid and no product: one that cannot be written is warned of, and the work goes on.

logger = logging.getLogger(__name__)

_FOLDER = "checkpoints"
_SECONDS_APART = 5.0
_SHARE = 0.01  # of the time that writing them may take, however slow the disk


@dataclass(frozen=True)
class Checkpoints:
    """Where one stage under one key keeps what it has got so far, one file for each of its parts.

    It may be sent to workers: one that sees the folder writes to it, another one writes nothing.

    Attributes
    ----------
    folder : Path
        There from `begin` until the stage is recorded.
    """

    folder: Path

    @classmethod
    def of(cls, run: Path, stage: str, key: str) -> Checkpoints:
        """Return those of a stage in a run's folder; makes nothing."""
        return cls(path_in(run, f"{_FOLDER}/{stage}/{key}"))

    @property
    def key(self) -> str:
        """The stage's key."""
        return self.folder.name

    def begin(self) -> None:
        """Make the folder; only then is anything kept.

        Raises
        ------
        StorageError
            If the device is full or fails.
        InputError
            If making it is not allowed.
        """
        make_folder(self.folder)

    def read(self, name: str) -> bytes | None:
        """Return what was kept under a name; None if there is nothing that can be read."""
        try:
            return path_in(self.folder, name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            _begins_anew(self.folder / name, error.strerror or str(error))
            return None

    def keep(self, name: str, make: Callable[[], bytes]) -> bool:
        """Keep something, whole or not at all, in place of what had that name before.

        Parameters
        ----------
        name : str
            Of the part that it is about.
        make : callable
            Returns it; not called where the folder is not to be seen.

        Returns
        -------
        bool
            Whether it was kept. If not, though the folder is there, a warning says why.
        """
        if not self.folder.is_dir():
            return False
        content = make()
        try:
            write_file(path_in(self.folder, name), content)
        except (InputError, StorageError) as error:
            logger.warning("the work goes on without this checkpoint: %s", error)
            return False
        return True

    def now_and_then(self, name: str) -> Callable[[Callable[[], bytes]], None]:
        """Return a `keep` for one name that may be called often: most calls do nothing.

        What it keeps is 5 seconds apart, or more if need be for it to take 1 % of the time at most.
        Where one is not kept, no other is tried.
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
        """Remove what is of no use, and say in the log that its part begins anew, and why."""
        _begins_anew(self.folder / name, reason)
        remove_file(path_in(self.folder, name))


def remove_checkpoints(run: Path, stage: str) -> None:
    """Remove what was kept of a stage, under whatever key, from a run's folder.

    A worker that is late may be adding to it: that stays, and goes the next time.
    """
    folder = path_in(run, f"{_FOLDER}/{stage}")
    if not folder.is_dir():
        return
    try:
        shutil.rmtree(folder)
        if not any((run / _FOLDER).iterdir()):
            (run / _FOLDER).rmdir()
    except OSError as error:
        logger.info("checkpoints in %s are left over: %s", folder, error.strerror or error)


def _begins_anew(path: Path, reason: str) -> None:
    logger.warning("what checkpoint %s is about begins anew: %s", path, reason)


_FIELDS = {"stage": str, "key": str, "result": dict, "files": dict, "seconds": float}


@dataclass(frozen=True)
class StageRecord:
    """What a finished stage left.

    Attributes
    ----------
    stage : str
        Its name.
    key : str
        Everything its result depends on, as one text; an equal key means an equal result.
    result : dict
        Small results, as JSON holds them.
    files : dict of str to str
        SHA-256 of each file by its name in the run folder.
    seconds : float
        Wall-clock time it took.
    folder : Path
        The run folder.
    """

    stage: str
    key: str
    result: dict[str, Any]
    files: dict[str, str]
    seconds: float
    folder: Path

    def path(self, name: str) -> Path:
        """Return where a file of this stage lies.

        Raises
        ------
        StorageError
            If the stage left no such file.
        """
        if name not in self.files:
            raise StorageError(
                f"stage {self.stage} left no file {name!r}{nearest(name, self.files)}; "
                f"remove {_manifest(self.folder, self.stage)} and run again"
            )
        return path_in(self.folder, name)

    def read(self, name: str) -> bytes:
        """Return what a file of this stage holds, after checking that it is what was written.

        Raises
        ------
        StorageError
            If the stage left no such file, or it is missing, changed or cannot be read.
        """
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
                "run the same command again and it is made anew"
            )
        return content

    def read_table(self, name: str) -> pa.Table:
        """Return the table in a Parquet file of this stage; StorageError as `read`."""
        return pyarrow.parquet.read_table(pa.BufferReader(self.read(name)))


class StageWriter:
    """Takes what a stage makes while it runs.

    Attributes
    ----------
    result : dict
        Small results to record, anything JSON can hold.
    """

    def __init__(self, folder: Path, stage: str, key: str) -> None:
        self.result: dict[str, Any] = {}
        self._folder, self._stage, self._key = folder, stage, key
        self._files: dict[str, str] = {}
        self._record: StageRecord | None = None

    def write(self, name: str, data: bytes) -> Path:
        """Write a file of the run, whole or not at all, and return where it lies.

        Raises
        ------
        InputError
            If the name is none; see `chaffinch.storage.files.path_in`.
        StorageError
            If the device is full or fails.
        """
        return self._write(name, data)

    def write_with(self, name: str, write: Callable[[Path], None]) -> Path:
        """Write a file with a function that is given a path; otherwise as `write`."""
        return self._write(name, write)

    @property
    def checkpoints(self) -> Checkpoints:
        """What this stage had got when it was killed, and room for more; gone once it is recorded.

        Raises
        ------
        InputError
            If the stage's key cannot name a folder.
        """
        return Checkpoints.of(self._folder, self._stage, self._key)

    @property
    def record(self) -> StageRecord:
        """What was recorded, once the stage has ended."""
        if self._record is None:
            raise RuntimeError("a stage has a record only after its with block")
        return self._record

    def _write(self, name: str, data: bytes | Callable[[Path], None]) -> Path:
        path = path_in(self._folder, name)
        write_file(path, data)
        self._files[name] = sha256_of_written(path)
        return path

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
        # as it will be read again, so that a fresh stage and a resumed one give the same
        result = json.loads(document)["result"]
        self._record = StageRecord(stage, key, result, dict(self._files), seconds, self._folder)


@contextmanager
def open_stage(folder: Path, stage: str, key: str) -> Iterator[StageWriter]:
    """Take a stage's files, and record the stage when the block ends without an exception.

    Parameters
    ----------
    folder : Path
        The run folder.
    stage : str
        Its name; no two stages of a run may write the same file.
    key : str
        Everything the result depends on, as one text.

    Raises
    ------
    InputError
        If the stage's name is none.
    StorageError
        If the device is full or fails.
    """
    remove_file(_manifest(folder, stage))
    began = time.perf_counter()
    writer = StageWriter(folder, stage, key)
    yield writer
    writer._commit(time.perf_counter() - began)
    remove_checkpoints(folder, stage)


def finished_stage(folder: Path, stage: str, key: str) -> StageRecord | None:
    """Return what a stage left, or None, and the log says why, if it must be done again.

    It must if it was never recorded, its key is another, or a file is missing or changed.
    """
    manifest = _manifest(folder, stage)
    try:
        record = _read(manifest, folder)
        reason = _outdated(record, key)
    except FileNotFoundError as error:
        is_new = error.filename == str(manifest)
        reason = "it was not done before" if is_new else f"{error.filename} is missing"
    except (InputError, OSError) as error:
        reason = str(error)
    if reason:
        logger.info("stage %s is to be done: %s", stage, reason)
        return None
    return record


def recorded_stages(folder: Path) -> list[StageRecord]:
    """Return every stage's record in the order of the stages' names, without a look at the files.

    Raises
    ------
    StorageError
        If a manifest is damaged, or is removed meanwhile.
    """
    try:
        return [_read(path, folder) for path in _manifests(folder)]
    except FileNotFoundError as error:
        raise StorageError(
            f"{error.filename} is missing; run the same command again and it is made anew"
        ) from error


def remove_leftover_checkpoints(folder: Path) -> None:
    """Remove checkpoints of recorded stages: the writer was killed, or a worker was late."""
    with suppress(FileNotFoundError):  # the folder is removed meanwhile
        for path in _manifests(folder):
            remove_checkpoints(folder, path.stem)


def now() -> str:
    """Return the time, UTC in ISO 8601 to the microsecond."""
    return datetime.now(UTC).isoformat(timespec="microseconds")


def _manifests(folder: Path) -> list[Path]:
    """Return the manifests in the order of the stages' names."""
    paths = sorted((folder / "stages").glob("*.json"))
    # a name that begins with a dot is no data but what a killed writer left
    return [path for path in paths if not path.name.startswith(".")]


def _read(manifest: Path, folder: Path) -> StageRecord:
    content = read_json(manifest, _FIELDS)
    if content["stage"] != manifest.stem or not is_sealed(content):
        raise StorageError(f"{manifest} is damaged (it was changed); remove it and run again")
    return StageRecord(**{field: content[field] for field in _FIELDS}, folder=folder)


def _outdated(record: StageRecord, key: str) -> str:
    """Return why a record does not hold any more, or an empty text."""
    if record.key != key:
        return "what it depends on has changed"
    for name, sha256 in record.files.items():
        if sha256_of_file(record.path(name)) != sha256:
            return f"{name} has changed"
    return ""


def _manifest(folder: Path, stage: str) -> Path:
    return folder / "stages" / f"{check_name(stage)}.json"
