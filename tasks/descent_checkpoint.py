"""Where a descent was last, on the disk, so that one that is killed goes on from there."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from chaffinch.storage.files import remove_file, write_file
from chaffinch.storage.sources import reading
from chaffinch.tasks.selection.dfs.descent import Descent, Step
from chaffinch.tasks.selection.dfs.state import DescentState, state_of, to_bytes, with_words

logger = logging.getLogger(__name__)

SECONDS_BETWEEN = 10.0
_TIMES_ITS_COST = 20  # of a million columns 60 MB are written


class Checkpoint:
    """One file, written now and then.

    Parameters
    ----------
    path : Path
    key : str
        Everything that the result depends on.
    """

    def __init__(self, path: Path, key: str) -> None:
        self._path, self._key = path, key
        self._due = time.monotonic() + SECONDS_BETWEEN

    def read(self) -> tuple[DescentState, list[Step]] | None:
        """Return where this very descent was last, and its way there; None if nothing is known.

        A file that is damaged or of another descent is worth nothing, and the log says so.

        Raises
        ------
        InputError
            If reading it is not allowed.
        """
        if not self._path.exists():
            return None
        with reading(self._path):
            content = self._path.read_bytes()
        try:
            state, words = with_words(content)
        except ValueError as error:
            logger.warning("%s is of no use: %s", self._path, error)
            return None
        if words.get("key") != self._key:
            logger.info("%s is of another descent; this one begins anew", self._path)
            return None
        way = [Step(*one) for one in json.loads(words["way"])]
        logger.info("%d steps were made before", len(way))
        return state, way

    def keep(self, descent: Descent, way: Sequence[Step]) -> None:
        """Write where a descent is, if it is a while since the last time.

        Raises
        ------
        StorageError
            If the device is full or fails.
        InputError
            If writing there is not allowed.
        """
        began = time.monotonic()
        if began < self._due:
            return
        words = {"key": self._key, "way": json.dumps([astuple(step) for step in way])}
        write_file(self._path, to_bytes(state_of(descent), words))
        now = time.monotonic()
        self._due = now + max(SECONDS_BETWEEN, _TIMES_ITS_COST * (now - began))

    def remove(self) -> None:
        """Remove it, now that the descent is done."""
        remove_file(self._path)
