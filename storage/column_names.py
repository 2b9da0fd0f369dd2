"""Column names: checks for missing, repeated and unknown names, with the nearest known ones."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chaffinch.errors import InputError


def nearest(name: str, known: Iterable[str]) -> str:
    """Return up to three similar known names as the end of a sentence; empty without any."""
    close = alike(name, known)
    return f"; nearest: {', '.join(close)}" if close else ""


def alike(name: str, known: Iterable[str]) -> list[str]:
    """Return up to three similar known names, those that differ in case only first."""
    known = list(known)
    same = [other for other in known if other.casefold() == name.casefold()]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
    return list(dict.fromkeys([*same, *close]))[:3]


def nearest_or_all(name: str, known: Sequence[str]) -> str:
    """Return `nearest`, or else the known names."""
    return nearest(name, known) or (f"; there are {quoted(known)}" if known else "")


def quoted(names: Sequence[str], last: str = "and", limit: int = 5) -> str:
    """Return names as a phrase, such as ``'a', 'b' and 3 more``."""
    phrases = [repr(name) for name in names[:limit]]
    if len(names) > limit:
        phrases.append(f"{len(names) - limit} more")
    return f" {last} ".join(filter(None, [", ".join(phrases[:-1]), *phrases[-1:]]))


def quoted_with_reasons(reasons: Mapping[str, str]) -> str:
    """Return names and reasons as a phrase, such as ``'a' and 'b' (constant), 'c' (empty)``."""
    return ", ".join(
        f"{quoted([name for name in reasons if reasons[name] == reason])} ({reason})"
        for reason in dict.fromkeys(reasons.values())
    )


def check_columns(names: Sequence[str], where: str, first: int = 1) -> None:
    """Check that every column of the table called `where` has a unique, non-empty name."""
    if not names:
        raise InputError(f"{where} has no columns; give at least one")
    seen: dict[str, int] = {}
    for position, name in enumerate(names, start=first):
        if not name.strip():
            raise InputError(f"column {position} of {where} has no name; give it one or remove it")
        if name in seen:
            raise InputError(
                f"{where} names column {name!r} twice, at positions {seen[name]} and {position}; "
                "rename one"
            )
        seen[name] = position


def check_known(names: Iterable[str], known: Iterable[str]) -> None:
    there = dict.fromkeys(known)
    for name in names:
        if name not in there:
            raise InputError(f"there is no column {name!r}{nearest_or_all(name, list(there))}")


def names_in_array(n_columns: int) -> list[str]:
    """Return the names of the columns of an array, which has none of its own."""
    return [f"x{j}" for j in range(n_columns)]


def text_of_label(label: object) -> str:
    """Return the name of a pandas column as Arrow writes it, for non-text labels too."""
    return str(tuple(map(text_of_label, label))) if isinstance(label, tuple) else str(label)


def labels_of(table: Any) -> dict[str, Any]:
    """Return name as text -> label of a pandas table, which may be a whole number or a tuple.

    Empty for any other kind of table: their labels are always text.
    """
    pandas = sys.modules.get("pandas")
    is_frame = pandas is not None and isinstance(table, pandas.DataFrame)
    return {text_of_label(label): label for label in table.columns} if is_frame else {}
