"""Addresses: what a text says of where a table is, and that it gives no secret away.

Whatever names a source ends up in the log, in Prefect's parameters and in messages. So a text that
holds a password is refused before anything is done with it, and is not repeated.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaffinch.storage.errors import InputError

TEXT_ENDINGS = (".csv", ".tsv", ".txt")
PARQUET_ENDINGS = (".parquet", ".pq")
TAKEN = (
    "a path to .csv, .tsv, .txt (each plain or .gz) or Parquet, a folder of Parquet files, any of "
    "these at s3://bucket/key, or a table of pandas, polars or Arrow"
)

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")  # a Path makes one slash of two
_PASSWORD = re.compile(r"://[^:/?#\s]*:[^@\s]*@")
_NAMED_SECRET = re.compile(
    r"(?i)(password(?!_from\b)|passwd|passphrase|pwd|secret|token|access_?key)\w*\s*(=|%3d)"
)


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


def place_of(source: Any) -> Path | S3Address | None:
    """Return where a source is; None for a table in memory.

    Raises
    ------
    InputError
        If it is an address that holds a secret, of a kind that is not read, or not written as one.
    """
    if not isinstance(source, str | os.PathLike):
        return None
    text = os.fspath(source)
    found = _SCHEME.match(text)
    if found is None:
        return Path(source)
    if not isinstance(source, str):
        raise InputError("an address is given as text, but this is a path; leave out Path(...)")
    check_no_secret(text, "the address of a source")
    scheme = found[1].lower()
    if scheme == "s3" and text[found.end() - 1 :].startswith("//"):
        return _s3_address(text)
    raise InputError(f"nothing is read from {scheme}: addresses; give {TAKEN}")


def check_no_secret(text: str, what: str) -> None:
    """Check that an address holds neither a password nor a secret by name.

    Raises
    ------
    InputError
        Which does not repeat the address.
    """
    if _PASSWORD.search(text) or _NAMED_SECRET.search(text.partition("#")[0]):
        raise InputError(
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
