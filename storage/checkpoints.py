"""Checkpoints: what a stage that takes long has got so far, for the same stage after a kill.

They are an aid and no product: one that cannot be written is warned of, and the work goes on.
"""

from __future__ import annotations

import logging
import math
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from chaffinch.storage.errors import InputError, StorageError
from chaffinch.storage.files import make_folder, path_in, remove_file, write_file

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
        """Return those of a stage in a run's folder; makes nothing.

        Raises
        ------
        InputError
            If the stage or the key is no name.
        """
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

    def now_and_then(self, name: str, among: int = 1) -> Callable[[Callable[[], bytes]], None]:
        """Return a `keep` for one name that may be called often: most calls do nothing.

        What it keeps is 5 seconds apart, or more if need be for it to take 1 % of the time at most.
        Where one is not kept, no other is tried.

        Parameters
        ----------
        name : str
            Of the part that it is about.
        among : int, at least 1
            How many parts are kept in this way by one process at the same time: the 1 % is theirs
            together.
        """
        due = monotonic() + _SECONDS_APART

        def keep(make: Callable[[], bytes]) -> None:
            nonlocal due
            began = monotonic()
            if began < due:
                return
            is_kept = self.keep(name, make)
            ended = monotonic()
            due = (
                ended + max(_SECONDS_APART, among * (ended - began) / _SHARE)
                if is_kept
                else math.inf
            )

        return keep

    def discard(self, name: str, reason: str) -> None:
        """Remove what is of no use, and say in the log that its part begins anew, and why.

        Raises
        ------
        StorageError
            If the device fails.
        InputError
            If removing it is not allowed.
        """
        _begins_anew(self.folder / name, reason)
        remove_file(path_in(self.folder, name))


def remove_checkpoints(run: Path, stage: str) -> None:
    """Remove what was kept of a stage, under whatever key, from a run's folder.

    A worker that is late may be adding to it: that stays, and goes the next time.

    Raises
    ------
    InputError
        If a symbolic link leads out of the run's folder.
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
