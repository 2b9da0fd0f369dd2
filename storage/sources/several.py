"""Several files as one table: a path with ``*`` in it, or a list of paths.

A place is a folder and names below it, each of which may be a pattern: ``*`` stands for any
characters of a name, and ``**`` for folders at any depth, but for names that begin with ``.`` or
``_``, which programs such as Spark give to what is no part of a table.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from textwrap import shorten

from chaffinch.errors import InputError

Place = tuple[str, tuple[str, ...]]  # a folder, and names below it; of one file its path alone
_MOST_SHOWN = 60  # characters


def place_of(path: str) -> Place:
    """Return ``data/`` and ``2026-*.csv`` for ``data/2026-*.csv``; no names without a ``*``."""
    before, star, _ = path.partition("*")
    cut = before.rfind("/") + 1
    return (path[:cut], (path[cut:],)) if star else (path, ())


def joined(places: Sequence[Place]) -> Place:
    """Return the folder that holds the files of all places, and their names below it."""
    folders = [path if names else posixpath.dirname(path) for path, names in places]
    common = posixpath.commonpath(folders)
    paths = [posixpath.join(path, name) for path, names in places for name in names or [""]]
    return common, tuple(path.rstrip("/")[len(common) :].lstrip("/") for path in paths)


def expanded(name: str, known: Iterable[str], where: str) -> list[str]:
    """Return the names among the `known` ones that a pattern stands for, in their order."""
    regex = "".join(_REGEX.get(part, re.escape(part)) for part in re.split(r"(\*\*/|\*)", name))
    names = [path for path in known if re.fullmatch(regex, path)]
    if not names:
        raise InputError(f"no file in {where or '.'} is named as {name}; correct the pattern")
    return sorted(names)


_CHARACTERS = r"(?!(?<![^/])[._])[^/]*"  # of a name; at its beginning neither of the marks
_REGEX = {"**/": f"(?:{_CHARACTERS}/)*", "*": _CHARACTERS}


def name_of(folder: str, names: Sequence[str]) -> str:
    """Return ``data-2026-*.csv`` for a pattern in a folder, and the folder's name for a list."""
    pattern = [name.replace("/", "-") for name in names if len(names) == 1 and "*" in name]
    return "-".join(filter(None, [Path(folder).name, *pattern])) or "files"


def label_of(names: Sequence[str]) -> str:
    return shorten(", ".join(names), _MOST_SHOWN, placeholder=" ...")


def options_of(options: Iterable[str]) -> str:
    """Return how the text of all files is written; InputError where they differ."""
    first, *others = dict.fromkeys(options)
    if others:
        raise InputError(
            f"the files of a list are written with other options each, {first or 'none'!r} and "
            f"{others[0] or 'none'!r}; put the same behind all"
        )
    return first
