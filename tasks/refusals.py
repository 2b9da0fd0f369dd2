"""A setting that cannot be, in one line: the limit, the value, and where it helps the remedy.

Pydantic checks the settings; its own messages are written for programmers and take four lines.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from chaffinch.storage.names import nearest
from chaffinch.tasks.selection.errors import in_one_line

# Pydantic's kind of error -> what must hold, with the limits from the error's context.
_MUST = {
    "greater_than_equal": "must be at least {ge}",
    "greater_than": "must be above {gt}",
    "less_than_equal": "must be at most {le}",
    "less_than": "must be below {lt}",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "string_type": "must be text",
    "literal_error": "must be {expected}",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "tuple_type": "must be a list",
    "too_short": "must hold at least {min_length}",
    "dict_type": "must be names with values",
    "path_type": "must be a path",
}


def refusal(
    error: ValidationError, fields: Iterable[str], said: Mapping[str, str] | None = None
) -> str:
    """Return the first thing that is wrong, in one line.

    Parameters
    ----------
    error : ValidationError
        From one model of settings.
    fields : iterable of str
        The names of that model's settings.
    said : mapping of str to str, optional
        Those that are known by another name where they are given.

    Returns
    -------
    str
        Such as ``"folds must be at least 2 but is 1"``.
    """
    first = error.errors(include_url=False)[0]
    kind, place, given = first["type"], first["loc"], first.get("input")
    if kind == "value_error":  # a sentence of our own
        return str(first["ctx"]["error"])
    if not place:  # of a name that is no text that UTF-8 can hold
        return f"there is no setting {in_one_line(given)}"
    name = (said or {}).get(str(place[0]), str(place[0]))
    if kind == "extra_forbidden":
        known = [field for field in fields if field != "kind"]
        near = nearest(name, known) or f"; there are {', '.join(known)}"
        return f"there is no setting {name!r}{near}"
    if kind == "missing":
        return f"{place[0]} must be given"
    return f"{name} {_must(kind, first['msg'], first.get('ctx', {}))} but is {in_one_line(given)}"


def _must(kind: str, message: str, limits: Mapping[str, Any]) -> str:
    if kind in _MUST:
        return _MUST[kind].format(**limits)
    return message.replace("Input should be", "must be", 1)
