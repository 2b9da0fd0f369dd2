"""Paths that a person gives: what no file can be called is refused in one line."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path

from chaffinch.storage.errors import InputError

_SHOWN = 40
GIVE_A_PATH = "give a path"


def path_from(given: str | os.PathLike[str], what: str, remedy: str = GIVE_A_PATH) -> Path:
    """Return the path that a person gave.

    Parameters
    ----------
    given : path
        As it was given; empty text is no path, where ``.`` is the present folder.
    what : str
        What it is the path of, for the error.
    remedy : str
        What to give instead.

    Raises
    ------
    InputError
        If it is no path, empty text, an address such as ``s3://bucket/key``, begins with ``~``,
        or no file can be called so; see `check_path`.
    """
    if not isinstance(given, str | os.PathLike):
        written = repr(given)
        is_short = len(written) <= _SHOWN and written.isprintable()
        value = written if is_short else f"of type {type(given).__name__}"
        raise InputError(f"{what} must be a path but is {value}; {remedy}")
    path = Path(given)
    check_named(given, what, remedy)
    if str(path).startswith("~"):  # nothing but a shell would take it for a folder of a person
        raise InputError(
            f"{what} must be a path written out but {_shown(path)!r} begins with '~'; give what "
            "os.path.expanduser makes of it"
        )
    check_path(path)
    return path


def file_to_write(path: Path, what: str) -> Path:
    """Return the file to write where a person named `path`: what a symbolic link leads to.

    So a link stays a link, whether its target is there or not.

    Parameters
    ----------
    path : Path
        As `path_from` returned it.
    what : str
        What it is the path of, for the error.

    Raises
    ------
    InputError
        If what is there is no regular file, or links lead in a circle.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise InputError(
                f"{what} must be a file but {path} leads in a circle by symbolic links; "
                "name another file"
            ) from error
        mode = None  # not there; or whoever writes it is told why that cannot be
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError(f"{what} must be a file but {path} is a folder; name a file in it")
    check_regular(path, what)
    with suppress(OSError):  # as of a stat: where nobody may look
        if path.is_symlink():
            return Path(os.path.realpath(path))
    return path


def check_regular(path: Path, what: str, remedy: str = "name another file") -> None:
    """Refuse a device, a pipe or a socket: to open one may take for ever, and so may its reading.

    A folder, and what is not there, are left to whoever opens it.

    Parameters
    ----------
    path : Path
        As `path_from` returned it.
    what : str
        What it is the path of, for the error.
    remedy : str
        What to give instead.

    Raises
    ------
    InputError
        If it is that, or a symbolic link leads to one.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(
            f"{what} must be a regular file but {path} is a device, a pipe or a socket; {remedy}"
        )


def check_named(given: object, what: str, remedy: str = GIVE_A_PATH) -> None:
    """Refuse empty text, and an address; see `path_from`.

    Raises
    ------
    InputError
        If it is that.
    """
    if isinstance(given, str) and not given.strip():
        raise InputError(f"{what} must be named but is empty text; {remedy}")
    if isinstance(given, str) and "://" in given:  # a Path makes one slash of two
        # without the address, which may hold a secret
        raise InputError(f"{what} must be on this disk but is an address; {remedy}")


def check_path(path: Path) -> None:
    """Refuse what no file of this machine can be called, whether there is one or not.

    Raises
    ------
    InputError
        If it is too long, or holds a character that no path can.
    """
    try:
        os.lstat(path)
    except ValueError as error:
        raise InputError(
            f"{_shown(path)!r} holds a character that no path can, such as the one of code 0; "
            "leave it out"
        ) from error
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise too_long(path) from error


def too_long(path: Path) -> InputError:
    """Return what is said of a path that is too long for the disk."""
    level = max(len(os.fsencode(part)) for part in path.parts)
    return InputError(
        f"path {_shown(path)!r} is too long, with {len(os.fsencode(path)):,} bytes and "
        f"{level:,} in one level of it; most disks take 4,095 and 255: give a shorter one"
    )


def _shown(path: Path) -> str:
    text = str(path)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
