"""Addresses: their schemes, the secrets that they must not hold, and credentials.

The text that names a source ends up in logs, in Prefect's parameters and in messages. So a text
that holds a password is refused first, and is not repeated.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from chaffinch.errors import InputError
from chaffinch.storage.sources.formats.file_name import TAKEN


def _any_case(word: str) -> str:
    """Return a pattern without flags for a word in any case, as browsers need it."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


_BARE = ("passwd", "passphrase", "pwd", "secret", "token", "access_?key")
_NAMES = "|".join([_any_case("password") + r"(?!_from\b)", *map(_any_case, _BARE)])
# What a text begins with where it holds a secret: a user and a password, with or without a
# scheme; or the name of a secret with its value, before the query of a database.
_USER = r"[^:/?#\s]*"
_AFTER_SCHEMES = rf"(?:[A-Za-z0-9+.-]*:)+/*{_USER}:(?!//)"  # such as adbc:postgresql://
SECRET = (
    rf"\s*(?:{_AFTER_SCHEMES}|[^/?#@]*//{_USER}:|{_USER}:(?!/|\w+://))[^@\s]*@"
    rf"|(?:[^#]*\?[^#]*|(?:[^#?]*[;\s])?\w*)(?:{_NAMES})\w*\s*(?:=|%3[dD])"
)
_SCHEME = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]+:)+)/")  # a Path collapses two slashes
_SHOWN = 40


def scheme_of(data: Any) -> str | None:
    """Return the scheme of an address, such as ``s3``; empty for a path, None for other objects.

    Raises InputError for empty text, the character of code 0, and an address with a secret.
    """
    if not isinstance(data, str | os.PathLike):
        return None
    text = os.fspath(data).strip()  # as pasted addresses have spaces around them
    if not text:
        raise InputError(f"a source must be named but is empty text; give {TAKEN}")
    check_no_secret(text, "the address of a source")
    if "\0" in text:
        raise InputError(f"source {text[:_SHOWN]!r} holds the character of code 0; leave it out")
    match = _SCHEME.match(text)
    if match is None:
        return ""
    if not isinstance(data, str):
        raise InputError("an address is given as text, but this is a path; leave out Path(...)")
    scheme = match[1].removesuffix(":").lower()
    if not text[match.end() :].startswith("/"):
        raise unknown_scheme(scheme)
    return scheme


def unknown_scheme(scheme: str | None) -> InputError:
    return InputError(f"nothing is read from {scheme}: addresses; give {TAKEN}")


def check_no_secret(text: str, what: str) -> None:
    """Check that an address holds neither a password nor a secret by name."""
    if re.match(SECRET, text):
        raise InputError(secret_message(what))


def secret_message(what: str) -> str:
    return (
        f"{what} holds a password or another secret, which would be kept in logs and reports; "
        "leave it out and put it into the environment"
    )


LookUp = Callable[[str], str | None]  # the name of a variable -> its value

_HIDDEN = "***"

_places: ContextVar[tuple[LookUp, ...]] = ContextVar("places", default=(os.environ.get,))


@contextmanager
def extra_credentials(look_up: LookUp) -> Iterator[None]:
    """Look up inside what the environment does not have with `look_up`."""
    before = _places.set((*_places.get(), look_up))
    try:
        yield
    finally:
        _places.reset(before)


def credentials(first: str, *others: str) -> tuple[str | None, ...]:
    """Return the values of variables, all from the first place that has the first of them.

    Credentials are read from the environment when they are needed, and kept nowhere: no setting,
    address or file holds one, so none ends up in a log, a contract or a report.
    """
    for look_up in _places.get():
        if value := look_up(first):
            return (value, *(look_up(name) or None for name in others))
    return (None,) * (1 + len(others))


def without(text: str, secrets: Iterable[str | None]) -> str:
    """Return text with every secret replaced."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, _HIDDEN)
    return text
