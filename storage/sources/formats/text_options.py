"""How delimited text is written where it differs from the usual: options behind its path.

``prices.csv#decimal=,&thousands=.`` names a file and two options, as one text, which is what names
a table everywhere. Other options: delimiter, date_format, na, encoding, comment. A value may be
percent-encoded, as ``%26`` for ``&``; ``tab`` is a tab.
"""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta, timezone
from functools import cached_property
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.errors import InputError
from chaffinch.storage.column_names import nearest

_USUAL = r"^\s*[+-]?\d*\.\d+(?:[eE][+-]?\d+)?\s*$"  # a number with a point for decimals
_MARK = r"[,.'’‘_٬\p{Zs}]"  # of thousands  # noqa: RUF001
_POINT = "[.,\N{ARABIC DECIMAL SEPARATOR}]"
_DIGITS = (
    rf"(?:\p{{Nd}}{{1,3}}(?:{_MARK}\p{{Nd}}{{3}})+|\p{{Nd}}{{1,2}}(?:,\p{{Nd}}{{2}})+,\p{{Nd}}{{3}}"
    rf"|\p{{Nd}}+)(?:{_POINT}\p{{Nd}}*)?|{_POINT}\p{{Nd}}+"
)
NUMBER_IN_MARKS = rf"(?:{_DIGITS})(?:[eE][+-]?\d+)?"  # of any kind, without a sign
IN_MARKS = rf"^\s*[+-]?{NUMBER_IN_MARKS}\s*$"

DELIMITERS = {";": ";", "\t": "tab", "|": "|"}  # but for the comma, with what stands for them

ISO_DAY = r"\d{4}-\d{2}-\d{2}"
ZONE = r"(?:Z|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?)"
_SOME_TIME = datetime(2023, 10, 28, 10, 30, tzinfo=timezone(timedelta(hours=2)))
_FEW = 10  # values that tell nearly always that a column holds no dates

_ORDERS = ("dmY", "mdY", "Ymd", "Ydm", "dmy", "mdy", "ymd")  # of the fields of a date
_DECIMALS = range(1, 7)  # of a number that stands for a missing value


@dataclass(frozen=True)
class TextOptions:
    """How a file of delimited text is written."""

    delimiter: str = ""  # empty: by the ending and the header
    decimal: str = "."
    thousands: str = ""
    date_format: str = ""  # as of strptime: %d.%m.%Y; beside ISO dates; an offset, %z, is last
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
                f"decimal and thousands of {name} must differ but are {self.decimal!r}; give both, "
                f"as in {name}#decimal=,&thousands=."
            )
        try:
            "".encode(self.encoding)
        except LookupError as error:  # unknown, or none of text
            raise InputError(
                f"encoding {self.encoding!r} of {name} is unknown; give one of Python's, such as "
                "latin-1 or cp1252"
            ) from error
        if self.date_format and not self._reads_dates():
            raise InputError(
                f"date_format of {name} is {self.date_format!r}, by which no dates are read; give "
                "the year, the month and the day, and at the end the time and its offset if it has "
                "them, as in %d.%m.%Y %H:%M:%S%z"
            )

    def _reads_dates(self) -> bool:
        try:
            (year,) = pc.year(dates_in(pa.array([self._some_date]), self.date_format)).to_pylist()
        except pa.ArrowInvalid:  # of %Z, the name of a zone
            return False
        return bool(year == _SOME_TIME.year)

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

    @property
    def _some_date(self) -> str:
        return _SOME_TIME.strftime(self.date_format)

    @cached_property
    def _has_dates_like_numbers(self) -> bool:
        return bool(self.date_format and re.match(self.number, self._some_date))

    def hold_dates(self, numbers: pa.StringArray) -> bool:
        """Return whether some numbers may be dates in the format, such as 20240131."""
        if not self._has_dates_like_numbers:
            return False
        n = len(self._some_date)
        is_long = pc.is_in(pc.binary_length(numbers), pa.array([n, n + len(".0")], pa.int32()))
        if not pc.any(is_long).as_py():
            return False
        dates = dates_in(numbers.filter(is_long), self.date_format)
        return bool(dates.null_count < len(dates))

    def with_iso_dates(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return a column of text with its dates in ISO form, if most different texts are dates."""
        dates = dates_in(column, self.date_format)
        if dates.null_count == len(dates):
            return column
        texts = column.unique().drop_null()
        is_iso = pc.match_substring_regex(texts, f"^{ISO_DAY}")
        is_date = pc.or_(dates_in(texts, self.date_format).is_valid(), is_iso)
        if 2 * is_date.true_count <= len(texts):
            return column
        zone = "Z" if dates.type.tz else ""
        iso = pc.strftime(dates, format=f"%Y-%m-%dT%H:%M:%S{zone}")
        return pc.coalesce(pc.replace_substring_regex(iso, "T00:00:00$", ""), column)

    def with_usual_numbers(
        self, column: pa.ChunkedArray, name: str, n_rows: Mapping[str, int]
    ) -> pa.ChunkedArray:
        """Return a column of text with its numbers in the usual marks, if most texts are numbers.

        `n_rows` has the number of rows of each file. InputError for a number in other marks than
        the files'.
        """
        is_number = pc.match_substring_regex(column, self.number)
        are_numbers = 2 * (pc.sum(is_number).as_py() or 0) > len(column) - column.null_count
        like = pc.match_substring_regex(column, IN_MARKS if are_numbers else _USUAL)
        is_other = pc.and_not(like, is_number)
        if pc.any(is_other).as_py():
            value = column[place := pc.index(is_other, True).as_py()].as_py()
            file, row = _row_in_file(place, n_rows)
            fit = marks_of(column.drop_null())
            others = " or ".join(own.marks for own in fit)
            those = f", such as {others}" if fit and all(o.has_own_numbers for o in fit) else ""
            raise InputError(
                f"column {name!r} of {file} holds {literal(value)} in row {row + 1}, which "
                f"is no number in the marks of {self.marks}; correct the value or the marks"
                f"{those}, or name the column as categorical"
            )
        if not are_numbers:
            return column
        plain = pc.replace_substring(column, self.thousands, "") if self.thousands else column
        return pc.if_else(is_number, pc.replace_substring(plain, self.decimal, "."), column)

    @cached_property
    def number(self) -> str:
        """Pattern of a number in these marks."""
        decimal, mark = re.escape(self.decimal), re.escape(self.thousands)
        plain = rf"(?:\d+(?:{decimal}\d*)?|{decimal}\d+)(?:[eE][+-]?\d+)?"
        in_groups = rf"|[1-9]\d{{0,2}}(?:{mark}\d{{3}})+(?:{decimal}\d*)?" * bool(mark)
        if mark == ",":  # as in India
            in_groups += rf"|[1-9]\d?(?:,\d{{2}})+,\d{{3}}(?:{decimal}\d*)?"
        return rf"^\s*[+-]?(?:{plain}{in_groups})\s*$"

    @property
    def marks(self) -> str:
        """The options of these marks, as they are typed."""
        marks = {"decimal": self.decimal} if self.decimal != "." else {}
        marks |= {"thousands": self.thousands} if self.thousands else {}
        return "#" + "&".join(f"{option}={quote(mark, ',')}" for option, mark in marks.items())


def marks_of(texts: pa.Array | pa.ChunkedArray) -> list[TextOptions]:
    """Return the marks in which every text is a number, each of which some text has.

    They are several if commas may be decimal or of thousands, as in 3,406.
    """
    held = pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), r"[\deE+-]+", "").unique()
    marks = sorted(set("".join(held.to_pylist())))
    options = [
        TextOptions(decimal=decimal, thousands=mark)
        for mark in ["", *(mark for mark in marks if _has(mark, _MARK))]
        for decimal in (".", ",")
        if decimal != mark and (decimal in marks or (decimal == ".") == (mark != "."))
    ]
    fitting = [own for own in options if _are_all(texts, own.number)]
    sure = [own for own in fitting if not are_perhaps_thousands(texts, own.decimal)]
    return sorted(sure or fitting, key=lambda own: own.decimal, reverse=True)


def are_perhaps_thousands(numbers: pa.Array | pa.ChunkedArray, mark: str = ".") -> bool:
    """Return whether some text ends in a zero after a mark, and another is whole without one.

    So are 2.560 and 806 where the point marks thousands; no program writes decimals so.
    """
    forms = (rf"^\s*[+-]?[1-9]\d{{0,2}}\{mark}\d\d0\s*$", r"^\s*[+-]?[1-9]\d{0,2}\s*$")
    return all(pc.any(pc.match_substring_regex(numbers, form)).as_py() for form in forms)


def dates_in(texts: pa.Array | pa.ChunkedArray, form: str) -> pa.Array | pa.ChunkedArray:
    """Return dates in a format, in UTC if it ends in %z, with null for what is none.

    None are a 31st of June and a year below 1000.
    """
    if form.endswith("%z"):  # pyarrow reads offsets behind a blank alone, and not on all systems
        parts = pc.extract_regex(texts, rf"^(?P<time>.*?)(?P<zone>{ZONE})\s*$")
        time, zone = (pc.struct_field(parts, name).cast(pa.string()) for name in ("time", "zone"))
        dates = dates_in(time, form.removesuffix("%z"))
        iso = pc.strftime(dates, format="%Y-%m-%dT%H:%M:%S")
        return pc.binary_join_element_wise(iso, zone, "").cast(pa.timestamp("s", "UTC"))
    # pandas writes 20240131.0 where others are missing
    if form.replace("%", "").isalpha() and pc.any(pc.ends_with(texts, ".0")).as_py():
        texts = pc.replace_substring_regex(texts, r"^(\d+)\.0$", r"\1")
    dates = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    if dates.null_count == len(dates):
        return dates
    rewritten, original = (
        pc.replace_substring_regex(pc.utf8_lower(pc.utf8_trim_whitespace(text)), r"\b0+(\d)", r"\1")
        for text in (pc.strftime(dates, format=form), texts)
    )
    is_date = pc.and_(pc.equal(rewritten, original), pc.greater_equal(pc.year(dates), 1000))
    return pc.if_else(is_date, dates, pa.scalar(None, dates.type))


def dates_of_all(texts: pa.Array, form: str) -> pa.Array:
    """Return dates in a format; ArrowInvalid if a text is none."""
    for some in (texts[:_FEW], texts):
        encoded = some.dictionary_encode()  # a date is often in many rows
        dates = dates_in(encoded.dictionary, form)
        if dates.null_count:
            raise pa.ArrowInvalid("no dates in the format of this file")
    return dates.take(encoded.indices)


def date_formats_of(texts: pa.Array) -> list[str]:
    """Return the formats of numbers, such as %d.%m.%Y, in which every text is a date."""
    time = r"(?P<time>([ T]\d+:\d+)?(:\d+)?)"
    written = re.fullmatch(
        rf"\s*\d+(?P<mark>[/.-]?)\d+(?P=mark)\d+{time}(?P<zone> ?{ZONE})?\s*", texts[0].as_py()
    )
    if written is None:
        return []
    # a pattern such as 10:30:05 becomes %H:%M:%S
    names = iter(("%H", "%M", "%S"))
    end = re.sub(r"\d+", lambda _: next(names), written["time"])
    if written["zone"]:
        end += " %z" if written["zone"].startswith(" ") else "%z"
    formats = [written["mark"].join(f"%{field}" for field in order) + end for order in _ORDERS]
    return [form for form in formats if _are_dates(texts, form)]


def _are_dates(texts: pa.Array, form: str) -> bool:
    try:
        dates_of_all(texts, form)
    except pa.ArrowInvalid:
        return False
    return True


def literal(text: str) -> str:
    """Return text as in Python, with characters that cannot be seen by their names."""
    return re.sub(r"(?<!\\)(?:\\x[\da-f]{2}|\\u[\da-f]{4})", _named, repr(text))


def _named(escape: re.Match[str]) -> str:
    name = unicodedata.name(chr(int(escape[0][2:], 16)), "")
    return f"\\N{{{name}}}" if name else escape[0]


def _has(text: str, pattern: str) -> bool:
    return _are_all(pa.array([text]), pattern)


def _are_all(texts: pa.Array | pa.ChunkedArray, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _row_in_file(place: int, n_rows: Mapping[str, int]) -> tuple[str, int]:
    """Return the file of a row, and its place there."""
    for file, n in n_rows.items():
        if place < n:
            return file, place
        place -= n
    raise IndexError(place)
