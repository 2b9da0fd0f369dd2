"""One entry of a history of promotions, and which entries of a history still stand."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal, get_args

How = Literal["automatic", "by hand", "rollback"]


@dataclass(frozen=True)
class Promotion:
    """One entry of a history.

    Attributes
    ----------
    run : str
        Name of the run that the contract is of.
    contract : str
        SHA-256 of the contract's bytes, 64 hexadecimal digits.
    promoted : str
        When, UTC in ISO 8601 to the microsecond.
    how : "automatic", "by hand" or "rollback"
        Who decided: the gate or a person.
    reason : str
        Why, in the words of whoever decided.
    """

    run: str
    contract: str
    promoted: str
    how: How
    reason: str


_FIELDS = tuple(field.name for field in fields(Promotion))


def read_entry(given: Any) -> Promotion | None:
    """Return an entry as JSON holds it, without fields that are not known; None if it is none."""
    known = isinstance(given, dict) and all(isinstance(given.get(f), str) for f in _FIELDS)
    if not known or given["how"] not in get_args(How):
        return None
    return Promotion(**{field: given[field] for field in _FIELDS})


def standing(history: tuple[Promotion, ...]) -> tuple[Promotion, ...]:
    """Return the entries that rollbacks lead back through, the one in use last.

    A promotion is put on top of what stands, and a rollback takes the top away. So a second
    rollback leads further back, and never to what the first was meant to leave behind.

    Parameters
    ----------
    history : tuple of Promotion
        As `Promotions.history` gives it.

    Returns
    -------
    tuple of Promotion
        None of them a rollback. What was promoted twice in a row stands once.
    """
    stack: list[Promotion] = []
    for entry in history:
        if entry.how == "rollback":
            stack.pop()
        elif stack and stack[-1].contract == entry.contract:
            stack[-1] = entry
        else:
            stack.append(entry)
    return tuple(stack)
