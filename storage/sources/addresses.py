"""Addresses: what a text says of where a table is, and that it gives no secret away.

Whatever names a source ends up in the log, in Prefect's parameters and in messages. So a text that
holds a password is refused before anything is done with it, and is not repeated.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chaffinch.storage.errors import InputError

if TYPE_CHECKING:
    from sqlalchemy import URL


TEXT_ENDINGS = (".csv", ".tsv", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
TAKEN = (
    "a path to .csv, .tsv, .txt (each plain or .gz) or Parquet, a folder of Parquet files, any of "
    "these at s3://bucket/key, postgresql://host/database#table or another database, or a table of "
    "pandas, polars or Arrow"
)


def _any_case(word: str) -> str:
    """Return a pattern of a word, for those who know no flags, as the form in a browser."""
    return "".join(f"[{letter.upper()}{letter}]" if letter.isalpha() else letter for letter in word)


_BARE = ("passwd", "passphrase", "pwd", "secret", "token", "access_?key")
_NAMES = "|".join([_any_case("password") + r"(?!_from\b)", *map(_any_case, _BARE)])
# What a text begins with where it holds a secret: a user and a password, behind a scheme or without
# one; or the name of a secret with its value, before what is asked of a database.
_SCHEMES = r"(?:(?:[A-Za-z0-9+.-]*:)+/*|[^/?#@]*//)"
SECRET = (
    rf"\s*(?:{_SCHEMES}[^:/?#\s]*:|[^:/?#\s]*:(?!/))[^@\s]*@"
    rf"|(?:[^#]*\?[^#]*|(?:[^#?]*[;\s])?\w*)(?:{_NAMES})\w*\s*(?:=|%3[dD])"
)
_SCHEME = re.compile(r"((?:[A-Za-z][A-Za-z0-9+.-]+:)+)/")  # a Path makes one slash of two
_TABLE = re.compile(r"[^\s.@\"'`;()]+(\.[^\s.@\"'`;()]+)?")
_QUERY = re.compile(r"(\s|--[^\n]*\n|/\*.*?\*/|\()*(select|with)\b", re.IGNORECASE | re.DOTALL)
_DRIVERS = {"postgresql": "postgresql+psycopg"}  # where SQLAlchemy takes another by itself
_SHOWN = 40
_PASSWORD_FROM = "password_from"  # noqa: S105 - the name of a name
PASSWORD_NAMES = "CHAFFINCH_PASSWORD_NAMES"  # noqa: S105 - the name of a list of names


@dataclass(frozen=True)
class S3Address:
    """An object, or a folder of objects, in S3-compatible storage.

    Attributes
    ----------
    bucket : str
        Its bucket.
    key : str
        Where it is there, without a slash at either end; empty for the bucket itself.
    """

    bucket: str
    key: str

    def __str__(self) -> str:
        return f"s3://{self.path}"

    @property
    def path(self) -> str:
        """Bucket and key as pyarrow takes them."""
        return f"{self.bucket}/{self.key}".rstrip("/")

    @property
    def name(self) -> str:
        """The last level of the key, or the bucket."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class SqlAddress:
    """A table in a database, or what a query gives.

    Attributes
    ----------
    url : sqlalchemy.URL
        The database, without a password.
    asked : str
        A table, perhaps with its schema, as in ``shop.orders``; or a SELECT.
    password_from : str or None
        Name of the variable that holds the password.
    """

    url: URL
    asked: str
    password_from: str | None

    def __str__(self) -> str:
        return str(self.url.set(drivername=self.backend, query={}))

    @property
    def backend(self) -> str:
        """The kind of database, such as ``postgresql``."""
        return self.url.get_backend_name()

    @property
    def what(self) -> str:
        """What is asked for, as errors call it."""
        return "the query" if self.is_query else self.asked

    @property
    def is_query(self) -> bool:
        """Whether a SELECT is asked for."""
        return _TABLE.fullmatch(self.asked) is None

    @property
    def name(self) -> str:
        """The table; of a query the database, and digits that tell queries apart."""
        if not self.is_query:
            return self.asked.rpartition(".")[2]
        database = Path(self.url.database or self.backend).stem
        return f"{database}-{hashlib.sha256(self.asked.encode()).hexdigest()[:6]}"

    @property
    def file(self) -> Path | None:
        """The file that holds the database; None where a server does."""
        if self.backend != "sqlite":
            return None
        return Path(self.url.database or "")


Place = Path | S3Address | SqlAddress


def place_of(source: Any) -> Place | None:
    """Return where a source is; None for a table in memory.

    Raises
    ------
    InputError
        If it is empty text, holds the character of code 0, or is an address that holds a secret, of
        a kind that is not read, or not written as one.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source).strip()  # as pasted addresses have spaces around them
    if not text:
        raise InputError(f"a source must be named but is empty text; give {TAKEN}")
    check_no_secret(text, "the address of a source")
    if "\0" in text:
        raise InputError(f"source {text[:_SHOWN]!r} holds the character of code 0; leave it out")
    found = _SCHEME.match(text)
    if found is None:
        return Path(source)
    if not isinstance(source, str):
        raise InputError("an address is given as text, but this is a path; leave out Path(...)")
    scheme = found[1].removesuffix(":").lower()
    if text[found.end() :].startswith("/"):
        place = _s3_address(text) if scheme == "s3" else _sql_address(text)
        if place is not None:
            return place
    raise InputError(f"nothing is read from {scheme}: addresses; give {TAKEN}")


def from_anywhere(source: str) -> str:
    """Return what names the same source whatever the folder of a program: paths from the root."""
    place = place_of(source)
    if isinstance(place, Path):
        return str(place.absolute())
    if isinstance(place, SqlAddress) and place.file is not None:
        url = place.url.set(database=str(place.file.absolute()))
        return f"{url.render_as_string()}#{place.asked}"
    return source.strip()


def check_no_secret(text: str, what: str) -> None:
    """Check that an address holds neither a password nor a secret by name."""
    if re.match(SECRET, text):
        raise InputError(_tells(what))


def _tells(what: str) -> str:
    return (
        f"{what} holds a password or another secret, which would be kept in logs and reports; "
        "leave it out and put it into the environment"
    )


def kind_of_name(name: str) -> str | None:
    """Return the ending that says how a file of that name is read; None if there is none."""
    endings = [ending.lower() for ending in Path(name).suffixes]
    kind = endings[-2:-1] if endings[-1:] == [".gz"] else endings[-1:]
    if kind and (kind[0] in TEXT_ENDINGS or endings[-1] in PARQUET_ENDINGS):
        return kind[0]
    return None


def _s3_address(text: str) -> S3Address:
    bucket, _, key = text.partition("://")[2].partition("/")
    if not bucket or "?" in text or "#" in text:
        raise InputError(
            "an address in S3 is s3://bucket/key, with no ? or #; endpoint and region are those of "
            "AWS_ENDPOINT_URL and AWS_DEFAULT_REGION in the environment"
        )
    return S3Address(bucket, key.strip("/"))


def _sql_address(text: str) -> SqlAddress | None:
    """Return what ``postgresql://host/database#table`` says; None if it is of no database known.

    A URL of SQLAlchemy; then, after the first ``#``, a table or a SELECT just as it is: one text
    says it all wherever a source is asked for. In the URL ``?password_from=NAME`` names the
    variable that holds the password. It must contain PASSWORD or be listed by the operator in
    CHAFFINCH_PASSWORD_NAMES: else an address could send any variable to any host.
    """
    from sqlalchemy import exc, make_url

    before, _, asked = text.partition("#")
    try:
        url = make_url(before)
        dialect = url.get_dialect()
    except exc.NoSuchModuleError:
        return None
    except (exc.ArgumentError, ValueError):
        # without its cause, which repeats what may be half of a password
        raise InputError(
            "the address of a database cannot be read; write it as "
            "postgresql://host:5432/database#table, and @ in a name as %40"
        ) from None
    if url.password is not None:
        raise InputError(_tells("the address of a source"))
    url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
    if dialect.is_async:
        raise InputError(
            f"{url.drivername} is a driver for asynchronous programs; write "
            f"{url.get_backend_name()}:// alone, or name another"
        )
    named = url.query.get(_PASSWORD_FROM)
    address = SqlAddress(
        url.difference_update_query([_PASSWORD_FROM]),
        asked.strip(),
        named if isinstance(named, str) else None,
    )
    _check_asked(address)
    _check_password_name(address.password_from)
    return address


def _check_password_name(name: str | None) -> None:
    listed = [one.strip() for one in os.environ.get(PASSWORD_NAMES, "").split(",")]
    if name is not None and "PASSWORD" not in name.upper() and name not in listed:
        raise InputError(
            f"password_from names {name[:_SHOWN]!r}, which does not contain PASSWORD; rename the "
            f"variable, or list it in {PASSWORD_NAMES} where chaffinch runs"
        )


def _check_asked(address: SqlAddress) -> None:
    if not address.asked:
        raise InputError(
            f"{address} is a whole database; put a table or a SELECT behind it, as in "
            f"{address}#orders"
        )
    if address.is_query and not _QUERY.match(address.asked):
        raise InputError(
            f"what is asked of {address} must be a table, such as shop.orders, or begin with "
            f"SELECT or WITH, but begins with {address.asked.split()[0][:20]!r}"
        )
    if address.file is not None and str(address.file) in (".", ":memory:"):
        raise InputError("sqlite must name a file, as in sqlite:///shop.db#orders, but names none")
    if address.file is not None and "uri" in address.url.query:
        raise InputError(
            "sqlite must name a file by its path, as in sqlite:///shop.db#orders; leave out uri "
            "and write the path without file:"
        )


# Credentials: read from the environment when they are needed, and kept nowhere.
#
# No setting, address or file holds one, so that none can come back out of a log, a contract or a
# report. A door may know of another place to look in where the environment has nothing.

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
    """Return the values of variables, all from the first place that has the first of them."""
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
