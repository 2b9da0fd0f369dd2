"""How delimited text is written where it differs from the usual: options behind its path.

``prices.csv#decimal=,&thousands=.`` names a file and two options, as one text, which is what names
a table everywhere. Other options: delimiter, date_format, na, encoding, comment. A value may be
percent-encoded, as ``%26`` for ``&``; ``tab`` is a tab.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError
from chaffinch.storage.column_names import nearest

_USUAL = r"^\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*$"  # a number with a point for decimals

_DECIMALS = range(1, 7)  # of a number that stands for a missing value


@dataclass(frozen=True)
class TextOptions:
    """How a file of delimited text is written."""

    delimiter: str = ""  # empty: by the ending and the header
    decimal: str = "."
    thousands: str = ""
    date_format: str = ""  # as of strptime: %d.%m.%Y; beside ISO dates
    na: str = ""  # words for a missing value, separated by |, beside the usual ones
    encoding: str = "utf-8"
    comment: str = ""  # what the lines above the header begin with that are left out

    @classmethod
    def parse(cls, text: str, name: str) -> TextOptions:
        """Return the options in the text after the # of a file's name."""
        known = [field.name for field in fields(cls)]
        given: dict[str, str] = {}
        for part in text.split("&"):
            option, equals, value = part.partition("=")
            if option not in known:
                raise InputError(
                    f"{name} has no option {option!r}{nearest(option, known)}; options are "
                    f"{', '.join(known)}, as in {name}#decimal=,&delimiter=tab"
                )
            if option in given or not (equals and value):
                raise InputError(f"option {option} of {name} needs one value, as in {option}=VALUE")
            given[option] = "\t" if value == "tab" else unquote(value)
        options = cls(**given)
        options._check(name)
        return options

    def _check(self, name: str) -> None:
        for option in ("delimiter", "decimal", "thousands"):
            value = getattr(self, option)
            if len(value) > 1 or value.isalnum() or value in ('"', "\n", "\r"):
                raise InputError(f"{option} of {name} must be a single mark but is {value!r}")
        if self.decimal == self.thousands:
            raise InputError(
                f"decimal and thousands of {name} must differ but are {self.decimal!r}"
            )
        try:
            "".encode(self.encoding)
        except LookupError as error:  # unknown, or none of text
            raise InputError(
                f"encoding {self.encoding!r} of {name} is unknown; give one of Python's, such as "
                "latin-1 or cp1252"
            ) from error

    @property
    def is_utf8(self) -> bool:
        return codecs.lookup(self.encoding).name == "utf-8"

    @property
    def missing(self) -> list[str]:
        """The words for a missing value; a whole number also as it is written with decimals."""
        words = self.na.split("|") if self.na else []
        whole = [word for word in words if word.lstrip("-").isdecimal()]
        return words + [f"{word}{self.decimal}{'0' * n}" for word in whole for n in _DECIMALS]

    @property
    def has_own_numbers(self) -> bool:
        return (self.decimal, self.thousands) != (".", "")

    def with_usual_numbers(
        self, column: pa.ChunkedArray, name: str, n_rows: Mapping[str, int]
    ) -> pa.ChunkedArray:
        """Return a column of text with its numbers in the usual marks, if most texts are numbers.

        `n_rows` has the number of rows of each file. InputError for a number in other marks than
        the files'.
        """
        is_number = pc.match_substring_regex(column, self.number)
        is_other = pc.and_not(pc.match_substring_regex(column, _USUAL), is_number)
        if pc.any(is_other).as_py():
            value = column[place := pc.index(is_other, True).as_py()].as_py()
            file, row = _row_in_file(place, n_rows)
            marks = f"decimal={self.decimal}" + (
                f"&thousands={self.thousands}" * bool(self.thousands)
            )
            raise InputError(
                f"column {name!r} of {file} holds {value!r} in row {row + 1}, which "
                f"is no number in the marks of #{marks}; correct the value or the marks, or name "
                "the column as categorical"
            )
        if 2 * (pc.sum(is_number).as_py() or 0) <= len(column) - column.null_count:
            return column
        plain = pc.replace_substring(column, self.thousands, "") if self.thousands else column
        return pc.if_else(is_number, pc.replace_substring(plain, self.decimal, "."), column)

    @cached_property
    def number(self) -> str:
        """Pattern of a number in these marks."""
        decimal, mark = re.escape(self.decimal), re.escape(self.thousands)
        whole = rf"(?:\d{{1,3}}(?:{mark}\d{{3}})+|\d+)" if mark else r"\d+"
        return rf"^\s*[+-]?(?:{whole}(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?\s*$"


def _row_in_file(place: int, n_rows: Mapping[str, int]) -> tuple[str, int]:
    """Return the file of a row, and its place there."""
    for file, n in n_rows.items():
        if place < n:
            return file, place
        place -= n
    raise IndexError(place)
