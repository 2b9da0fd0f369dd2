"""The header of delimited text: what its columns are called, and what parts its fields."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from dataclasses import dataclass
from typing import Any

from chaffinch.storage.errors import InputError
from chaffinch.storage.names import check_columns


@dataclass(frozen=True)
class Header:
    """What the first line that is not blank says.

    Attributes
    ----------
    names : list of str
        Of the columns, in their order.
    delimiter : str
        What parts one field from the next.
    n_characters : int
        How long the line is.
    """

    names: list[str]
    delimiter: str
    n_characters: int


def read_header(file: Any, name: str, kind: str) -> Header:
    """Read the header of a text file, and nothing behind it.

    Parameters
    ----------
    file : binary file
        Its bytes, from the first on; it is not closed.
    name : str
        Of the file; what ends in ``.gz`` is unpacked on the way.
    kind : ".csv", ".tsv" or ".txt"
        Fields are parted by tabs in .tsv, and in .txt with a tab in the header; otherwise by
        commas, or by semicolons if the header has those and no comma.

    Raises
    ------
    InputError
        If the file is empty or damaged, or the header cannot be read, is not UTF-8, lacks a name or
        has one twice.
    """
    packed = gzip.GzipFile(fileobj=file) if name.lower().endswith(".gz") else file
    # bytes that are no UTF-8 may follow the header: they are found with the rows
    text = io.TextIOWrapper(packed, "utf-8-sig", errors="surrogateescape", newline="")
    try:
        header = _read(text, name, kind)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{name} is damaged ({error}); write it again") from error
    finally:
        text.detach()
    try:
        "".join(header.names).encode()
    except UnicodeEncodeError as error:
        raise InputError(_no_text(name)) from error
    check_columns(header.names, name)
    return header


def _read(text: io.TextIOWrapper, name: str, kind: str) -> Header:
    first = next((line for line in text if line.strip()), "")
    if not first:
        raise InputError(f"{name} is empty; give a header and at least one row")
    if "\0" in first:  # as in UTF-16, and in nearly all files that are no text
        raise InputError(_no_text(name))
    if kind == ".tsv" or (kind == ".txt" and "\t" in first):
        delimiter = "\t"
    else:
        delimiter = ";" if ";" in first and "," not in first else ","
    text.seek(0)  # a name in quotes may go on in the next line
    try:
        names = next(row for row in csv.reader(text, delimiter=delimiter) if row)
    except csv.Error as error:
        raise InputError(f"{name} has no readable header ({error}); mend it") from error
    return Header(names, delimiter, len(first))


def _no_text(name: str) -> str:
    return f"the header of {name} is not UTF-8 text; save the table as CSV in UTF-8"
