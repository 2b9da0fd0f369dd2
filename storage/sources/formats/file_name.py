"""The formats of files, by the ending of a name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from chaffinch.errors import InputError
from chaffinch.storage.sources.formats.arff import ARFF
from chaffinch.storage.sources.formats.csv import DELIMITED
from chaffinch.storage.sources.formats.ipc import IPC
from chaffinch.storage.sources.formats.orc import ORC
from chaffinch.storage.sources.formats.parquet import PARQUET
from chaffinch.storage.sources.formats.svmlight import SVMLIGHT
from chaffinch.storage.sources.source import Format

FORMATS = [DELIMITED, PARQUET, IPC, ORC, SVMLIGHT, ARFF]
TAKEN = (
    f"a path to {' or '.join(known.listed for known in FORMATS)}, with * for several files, a "
    "folder of Parquet files, any of these at s3://bucket/key, gs:// or abfss://, a Delta table, "
    "iceberg://catalog/shop.orders, postgresql://host/database#table or another database, or a "
    "table of pandas, polars or Arrow"
)


def find_format(name: str) -> Format | None:
    """Return the format of a file of that name; None if its ending is unknown."""
    ends = name.lower()[1:]  # a name that is an ending alone has none
    return next((known for known in FORMATS if ends.endswith(known.endings)), None)


def format_of(name: str, options: str = "") -> Format:
    """Return the format of a file of that name, written as its options say."""
    if (known := find_format(name)) is None:
        raise InputError(f"{name} has no known ending; give {TAKEN}")
    if not options:
        return known
    if known.with_options is None:
        raise InputError(f"{name} takes no options; leave out #{options}")
    return known.with_options(options, name)


def format_of_all(names: Iterable[str], options: str = "") -> Format:
    """Return the format of files of these names; InputError if it is not the same for all."""
    first, *others = names
    for name in others:
        if find_format(name) is not find_format(first):
            raise InputError(
                f"{first} and {name} are of different formats; give files of one format as a table"
            )
    return format_of(first, options)


def join_options(path: str, options: str) -> str:
    """Return the text that `split_options` splits."""
    return f"{path}#{options}" if options else path


def split_options(path: str) -> tuple[str, str]:
    """Return the path and the options of ``prices.csv#decimal=,``; none without a known ending."""
    file, mark, options = path.partition("#")
    return (file, options) if mark and find_format(file) else (path, "")


def without_endings(name: str) -> str:
    """Return ``orders.v2`` for ``orders.v2.csv.gz``."""
    endings = "".join(end for known in FORMATS for end in known.endings)
    suffixes = {f".{part}" for part in endings[1:].split(".")}
    while Path(name).suffix.lower() in suffixes:
        name = Path(name).stem
    return name
