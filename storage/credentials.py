"""Credentials: read from the environment when they are needed, and kept nowhere.

No setting, address or file holds one, so that none can come back out of a log, a contract or a
report. A door may know of another place to look in where the environment has nothing.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LookUp = Callable[[str], str | None]  # the name of a variable -> its value

_HIDDEN = "***"

_places: ContextVar[tuple[LookUp, ...]] = ContextVar("places", default=(os.environ.get,))


@contextmanager
def looked_up_too(look_up: LookUp) -> Iterator[None]:
    """Ask `look_up` as well, for what the environment does not have."""
    before = _places.set((*_places.get(), look_up))
    try:
        yield
    finally:
        _places.reset(before)


def credentials(first: str, *others: str) -> tuple[str | None, ...]:
    """Return the values of variables, all from the first place that has the first of them.

    Parameters
    ----------
    first, *others : str
        Names, such as ``"AWS_ACCESS_KEY_ID"``; what belongs together is asked for together, so that
        the key of one account never meets the secret of another.

    Returns
    -------
    tuple of str or None
        In the order of the names; None where there is none, or it is empty.
    """
    for look_up in _places.get():
        if value := look_up(first):
            return (value, *(look_up(name) or None for name in others))
    return (None,) * (1 + len(others))


def without(text: str, secrets: Iterable[str | None]) -> str:
    """Return text in which no secret stands any more."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text
