"""Names of columns: each has one, each its own, and a wrong one is answered with the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence

from chaffinch.storage.errors import InputError


def nearest(name: str, known: Iterable[str]) -> str:
    """Return up to three known names like `name` as the end of a sentence; empty if none is."""
    close = difflib.get_close_matches(name, list(known), n=3, cutoff=0.6)
    return f"; nearest: {', '.join(close)}" if close else ""


def quoted(names: Sequence[str], last: str = "and", limit: int = 5) -> str:
    """Return names as a phrase, such as ``'a', 'b' and 3 more``."""
    phrases = [repr(name) for name in names[:limit]]
    if len(names) > limit:
        phrases.append(f"{len(names) - limit} more")
    return f" {last} ".join(filter(None, [", ".join(phrases[:-1]), *phrases[-1:]]))


def quoted_with_reasons(reasons: Mapping[str, str]) -> str:
    """Return names and their reasons as a phrase, such as ``'a' and 'b' (constant), 'c' (empty)``.

    Parameters
    ----------
    reasons : mapping of str to str
        Of each name.
    """
    return ", ".join(
        f"{quoted([name for name in reasons if reasons[name] == reason])} ({reason})"
        for reason in dict.fromkeys(reasons.values())
    )


def check_columns(names: Sequence[str], where: str) -> None:
    """Check that every column of the table called `where` has a name, and no two the same.

    Raises
    ------
    InputError
        Naming the column and its positions, counted from 1.
    """
    if not names:
        raise InputError(f"{where} has no columns; give at least one")
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=1):
        if not name.strip():
            raise InputError(f"column {position} of {where} has no name; give it one or remove it")
        if name in seen:
            raise InputError(
                f"{where} names column {name!r} twice, at positions {seen[name]} and {position}; "
                "rename one"
            )
        seen[name] = position


def check_known(names: Iterable[str], known: Iterable[str]) -> None:
    """Check that columns a person named exist.

    Raises
    ------
    InputError
        For the first that does not, with the nearest that do, or else the first that do.
    """
    there = dict.fromkeys(known)
    for name in names:
        if name not in there:
            there_are = nearest(name, there) or f"; there are {quoted(list(there))}"
            raise InputError(f"there is no column {name!r}{there_are}")


def text_of_label(label: object) -> str:
    """Return the name of a pandas column as Arrow writes it, for labels that are not text too."""
    return str(tuple(map(text_of_label, label))) if isinstance(label, tuple) else str(label)
