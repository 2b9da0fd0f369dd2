"""Leases: locks of a store in object storage.

A lease is an object that names its owner. It is taken by conditional writes, renewed by a thread
and given back by taking out the owner. Who waits takes it over once it has not changed for the
seconds that it names, by the clock of the storage or its own: clocks of two machines are never
compared. An owner that could not renew it for so long writes nothing more, unless it gets the lease
back. The lease of a dead process with the same cache folder is taken over at once: who holds the
lock file there is the only one.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.files import FORMAT_VERSION, to_json
from chaffinch.storage.objects.bucket import Bucket, ConflictError, Content

logger = logging.getLogger(__name__)

SECONDS = "CHAFFINCH_LEASE_SECONDS"
_SECONDS, _FEWEST = 60.0, 1.0
_RENEWALS = 6  # tries to renew it in its time
_SECONDS_BETWEEN_LOOKS = 1.0
_SECONDS_OF_ROUNDING = 2.0


def _seconds() -> float:
    text = os.environ.get(SECONDS) or str(_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _FEWEST <= seconds <= 86_400:
        raise InputError(
            f"{SECONDS} must be a number of seconds in 1..86400 but is {text!r:.40}; correct it, "
            f"or unset it for {_SECONDS:g}"
        )
    return seconds


class Lease:
    """The lease of an object, which `hold` waits for.

    `folder` identifies the cache folder, whose lock file is held.
    """

    def __init__(self, bucket: Bucket, name: str, what: str, folder: str) -> None:
        self._bucket, self._name, self._what, self._folder = bucket, name, what, folder
        self._owner, self._seconds = f"{folder}-{uuid.uuid4().hex}", _seconds()
        self._renewals, self._e_tag, self._renewed = 0, "", 0.0
        self._is_lost, self._ends = False, threading.Event()
        self._renewing = threading.Lock()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for the lease, renew it during the block, and give it back."""
        self._acquire()
        thread = threading.Thread(target=self._renew_until_ended, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ends.set()
            thread.join()
            self._give_back()

    def check(self) -> None:
        """Raise StorageError if another process may work on the same; before each write."""
        if not self._is_lost and time.monotonic() - self._renewed > self._seconds:
            self._renew()
        if self._is_lost:
            raise StorageError(
                f"another process has taken over {self._what}, as this one did not renew "
                f"{self._bucket}/{self._name} for {self._seconds:g} s; run again to continue"
            )

    def _acquire(self) -> None:
        seen, since, has_said = "", 0.0, False
        while True:
            present = self._bucket.read(self._name)
            owner, seconds = ("", self._seconds) if present is None else _parsed(present.data)
            e_tag = None if present is None else present.e_tag
            is_free = not owner or owner.startswith(self._folder)
            if present is not None and present.e_tag != seen and not is_free:
                age = self._age(present) if not seen else 0.0
                seen, since = present.e_tag, time.monotonic() - age
            began = time.monotonic()
            if is_free or began - since > seconds:
                with suppress(ConflictError):  # another was faster
                    self._e_tag, self._renewed = self._put(e_tag), began
                    return
                continue
            if not has_said:
                logger.warning("waiting for another process that works on %s", self._what)
                has_said = True
            time.sleep(min(_SECONDS_BETWEEN_LOOKS, seconds / _RENEWALS))

    def _age(self, present: Content) -> float:
        """Return for how many seconds a lease has not changed, at least; storage counts whole."""
        age = (self._bucket.now() - present.modified).total_seconds()
        return max(0.0, age - _SECONDS_OF_ROUNDING)

    def _put(self, e_tag: str | None, *, is_given_back: bool = False) -> str:
        content = to_json(
            {
                "format_version": FORMAT_VERSION,
                "owner": "" if is_given_back else self._owner,
                "seconds": self._seconds,
                "renewals": self._renewals,
            }
        )
        if e_tag is None:
            return self._bucket.create(self._name, content)
        return self._bucket.replace(self._name, content, e_tag)

    def _renew_until_ended(self) -> None:
        while not self._ends.wait(self._seconds / _RENEWALS) and not self._is_lost:
            try:
                self._renew()
            except (InputError, StorageError) as error:
                logger.info("the lease of %s is not renewed: %s", self._what, error)

    def _renew(self) -> None:
        with self._renewing:
            began = time.monotonic()
            self._renewals += 1
            try:
                self._e_tag = self._put(self._e_tag)
                self._renewed = began
            except ConflictError:
                self._is_lost = True

    def _give_back(self) -> None:
        if self._is_lost:
            return
        try:
            with suppress(ConflictError):
                self._put(self._e_tag, is_given_back=True)
        except (InputError, StorageError) as error:  # it ends by itself
            logger.warning("the lease of %s is not given back: %s", self._what, error)


def _parsed(content: bytes) -> tuple[str, float]:
    """Return the owner of a lease, empty if there is none, and its seconds."""
    try:
        lease: Any = json.loads(content)
        return str(lease["owner"]), float(lease["seconds"])
    except (ValueError, LookupError, TypeError):
        return "unknown", _SECONDS  # damaged: it is taken over unless it is renewed
