"""Files by reference: what names a file is sent, and who reads it finds or fetches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TypeVar

from chaffinch.errors import StorageError
from chaffinch.storage.files import FileState, has_sha256, mirror_of, state_of
from chaffinch.storage.objects.cache_limit import mark_used
from chaffinch.storage.objects.mirror import mirror_at

Read = TypeVar("Read")


@dataclass(frozen=True)
class SharedFile:
    """A file of a store that other processes read, on this machine or on others.

    `path` is where the process that wrote it sees it; `sha256` has 64 hexadecimal digits. In
    object storage it is `name` in the store of the address `store`; both are empty otherwise.
    """

    path: Path
    sha256: str
    store: str = ""
    name: str = ""

    @classmethod
    def of(cls, path: Path, sha256: str) -> SharedFile:
        """Return the reference to a file that has this SHA-256."""
        path = path.absolute()  # a worker may have another working directory
        if (mirror := mirror_of(path)) is None:
            file = cls(path, sha256)
        else:
            name = path.relative_to(mirror.folder).as_posix()
            file = cls(path, sha256, mirror.address, name)
        _known[file] = path, state_of(path)
        return file

    def here(self) -> Path:
        """Return where this process reads the file, after checking it once.

        That is `path` if the file is there. Otherwise it is the process's own cache of the store,
        into which the object is downloaded with the credentials in its environment.

        Raises
        ------
        InputError
            If the credentials, the bucket or the cache folder cannot be used.
        StorageError
            If the file or the object is missing, or has another SHA-256.
        """
        with _one_at_a_time:
            path, state = _known.get(self, (self.path, None))
            if state is None or state_of(path) != state:
                path = self.path
                if not has_sha256(path, self.sha256):
                    path = self._fetched()
                _known[self] = path, state_of(path)
            if self.store:
                mark_used(path)
            return path

    def use(self, read: Callable[[Path], Read]) -> Read:
        """Return what `read` makes of the file, which may leave a cache before it is opened."""
        while True:
            path = self.here()
            try:
                return read(path)
            except FileNotFoundError:
                if not self.store:
                    raise

    def _fetched(self) -> Path:
        if self.store:
            mirror = mirror_at(self.store)
            mirror.fetch(path := mirror.folder / self.name, self.sha256)
            return path
        if self.path.exists():
            raise StorageError(f"{self.path} is damaged, or of another run; run again")
        raise StorageError(
            f"{self.path} is not there; put the store in a folder that all workers see at the same "
            "path, or in object storage, or set cluster to none"
        )


# files that were checked, in this process
_known: dict[SharedFile, tuple[Path, FileState | None]] = {}
_one_at_a_time = Lock()
