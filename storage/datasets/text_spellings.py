"""Text that stands for numbers or dates but is not read as them.

A column of numbers in another spelling, such as 1'200, 21% or (4), would otherwise be a category
without notice, and so would a column of numbers and a few other texts, such as "?" for missing
values. Both are refused, with a remedy that loses nothing. Dates are read where they are written as
2023-01-31; in other spellings day and month may be confused, so these are only recognised.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import datetime
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.sources.formats.text_options import (
    IN_MARKS,
    ISO_DAY,
    NUMBER_IN_MARKS,
    ZONE,
    TextOptions,
    are_perhaps_thousands,
    date_formats_of,
    literal,
    marks_of,
)

_BLANK = r"[\s\p{Z}\x{FEFF}\x{200B}]"
_IN_THOUSANDS = r"^\s*[+-]?(0|[1-9]\d{0,2}(\.\d{3})?)\s*$"
_CURRENCY = r"(?:[A-Z]{0,2}\p{Sc}|(?i:USD|EUR|GBP|CHF|JPY|CNY|INR|BRL|AUD|CAD|PLN|kr\.?|zł|Rs\.?))"
_PERCENT = "[%‰٪％]"  # noqa: RUF001 - all of them are meant
_MINUS = "[\N{MINUS SIGN}\N{EN DASH}\N{FULLWIDTH HYPHEN-MINUS}]"
_SIGN = rf"(?:[+-]|{_MINUS})?"
_LIKE_NUMBER = (
    rf"^{_BLANK}*{_SIGN}{_BLANK}*(?:{_CURRENCY}{_BLANK}*)?(?:{_SIGN}{_BLANK}*{NUMBER_IN_MARKS}"
    rf"|\({_BLANK}*(?:{_CURRENCY}{_BLANK}*)?{NUMBER_IN_MARKS}{_BLANK}*(?:{_CURRENCY}|{_PERCENT})?\))"
    rf"{_BLANK}*(?:{_CURRENCY}|{_PERCENT})?{_BLANK}*(?:-|{_MINUS})?{_BLANK}*$"
)
# groups of three digits of one length, as in telephone numbers
_GROUPED_CODE, _LEAST_CODE = r"^\d{3}(?:[ \x{A0}]\d{3})+$", 11
_UNIT = rf"{_BLANK}*[\p{{L}}°µ/²³]+"
_WITH_UNIT = (
    rf"^\s*[+-]?(?:0|[1-9]\d*|[1-9]\d{{0,2}}(?:[,.'’_\p{{Zs}}]\d{{3}})+)(?:[.,]\d+)?"
    rf"(?P<unit>{_UNIT})\s*$"
)
# Units that a column may mix, or few values have without a blank; letters for thousands and more.
_UNITS = (
    rf"^{_BLANK}*(?:k|K|M|Mio|bn|[kmµ]?g|lbs?|oz|[kcm]?m|mi|ft|in|m?s|sec|min|h|hrs?|days?|[kKMGT]?B|m?l|k?W)"
    r"\s*$"
)
_GROUPED = r"\d[,.'’‘_٬\p{Zs}]\d{3}(?:\D|$)"  # noqa: RUF001
_PLAINLY = "write them as plain numbers"
_UNIT_OF, _CURRENCY_OF, _PERCENT_OF = "a unit", "a currency", "percent signs"
_MULTIPLE = r"\s*(?i:k|m|mio|mn|b|bn)\s*"  # of what a number is written in
# Beside plain numbers, as in 12 and 12B of flats, a letter is of a code; 1K and 2M are numbers.
_LETTERED_CODE = r"^\s*\d+[A-JLN-Z]\s*$"
_PLACEHOLDER = (
    r"^\s*(?i:\?+|-+|[–—]+|\.+|\*+|#?n/?a|n\.a\.?|<na>|nan|nil|none|null|\(null\)|missing|unknown|"  # noqa: RUF001
    r"unk|undefined|n\.?d\.?|tbd|no data|not (?:available|applicable|known)|\\n|#[a-z0-9/]+[!?])"
    r"\s*$"
)
# A column of at least this many numbers holds numbers and a few other texts if these are at most
# this share of the rows, or of the different texts, or all stand for missing values.
_FEWEST_NUMBERS, _OTHER_ROWS, _OTHER_TEXTS = 10, 0.05, 0.1
_SMALL, _LARGE = r"^-?\d{1,10}$", r"^-?\d{16,}$"

TRUTH = r"^(true|True|TRUE|false|False|FALSE)$"
_MONTH = r"(?i:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
_ISO = rf"^{ISO_DAY}(?:[ T]\d{{2}}:\d{{2}}(?::\d{{2}}(?:\.\d{{1,9}})?)?)?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?:\s*(?i:[ap]\.?m\.?))?"
_TWO = r"(?:0?[1-9]|[12]\d|3[01])"  # a day or a month
_DATE = (
    rf"^\s*(?:(?i:mon|tue|wed|thu|fri|sat|sun)[a-z]*,?\s+)?(?:{_TWO}[/.-]{_TWO}[/.-]\d{{4}}"
    rf"|\d{{4}}[/.-]{_TWO}[/.-]{_TWO}|{_TWO}[/-]{_TWO}[/-]\d{{2}}|\d{{2}}\.\d{{2}}\.\d{{2}}"
    rf"|{_TWO}(?:st|nd|rd|th)?[ ./-]*{_MONTH}[ .,/-]*(?:\d{{4}}|\d{{2}})"
    rf"|{_MONTH}[ .]*{_TWO}(?:st|nd|rd|th)?,?\s*(?:{_TIME}\s*(?:[A-Z]{{3,4}}\s*)?)?\d{{4}}"
    r"(?: [+-]\d{4})?)"
    rf"(?:(?:,?[ T]+|:){_TIME}(?:\s*(?:{ZONE}|[A-Z]{{3,4}}))?)?\s*$"
    rf"|^\s*(?:19|20)\d{{6}}T\d{{4}}(?:\d{{2}}(?:\.\d+)?)?{ZONE}?\s*$"
)
# 1.2.24 may be a version where no first number of a column is above 12
_SHORT_DATE = rf"^\s*{_TWO}\.(?:[1-9]|1[0-2])\.\d{{2}}\s*$"
_SURELY_A_DAY = r"^\s*(?:1[3-9]|[23]\d)\."
_MOSTLY_DATES = 0.95  # of the different texts
_FEWEST_DATES = 4
# four digits or more, and one letter at most, as in 2026-01-1O
_LIKE_A_DATE = r"^[\d/.:, TZ+-]*[A-Za-z]?[\d/.:, TZ+-]*$"
_FOUR_DIGITS = r"(?:\D*\d){4}"
# what is no category beside ISO dates
_NO_WORD = rf"^\P{{L}}*(?:\dT\d\P{{L}}*)?Z?$|{_PLACEHOLDER}"


def iso_times(texts: pa.Array, *, exact: bool = False) -> pa.Array | None:
    """Return texts such as 2023-01-31 as microseconds, or None unless all are so written.

    A time may follow the day; if all times have a zone they become UTC. If they are to be `exact`
    and one has more than six digits of a second, they are nanoseconds.
    """
    unit = "ns" if exact and pc.any(pc.match_substring_regex(texts, r"\.\d{7}")).as_py() else "us"
    for zone, kind in (("", pa.timestamp(unit)), (ZONE, pa.timestamp(unit, "UTC"))):
        if all_match(texts, f"{_ISO}{zone}$"):
            if unit == "us":
                texts = pc.replace_substring_regex(texts, r"(\.\d{6})\d+", r"\1")
            try:
                times = texts.cast(kind).cast(pa.timestamp(unit))
            except pa.ArrowInvalid:  # a month 13, or a date without the zone of the others
                return None
            return times if have_years(times) else None
    return None


def have_years(times: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether all times are in the years 1 to 9999, beyond which programs have none."""
    first, last = (pc.year(end).as_py() for end in pc.min_max(times).values())
    return first is None or (first >= 1 and last <= 9999)


def text_has_zone(text: object) -> bool | None:
    """Return whether a time such as 2023-01-31 08:00Z has a zone; None for all but such text."""
    if not isinstance(text, str) or not re.match(rf"{ISO_DAY}[ T]\d{{2}}:\d{{2}}", text):
        return None
    return re.search(rf"{ZONE}$", text[len("2023-01-31 08:00") :]) is not None


def are_dates(texts: pa.Array, ordered: bool = False) -> NDArray[np.bool_]:
    """Return which texts are dates in any spelling, if nearly all are; otherwise none is."""
    is_date = _matches(texts, _DATE)
    if _matches(texts, _SURELY_A_DAY).any():
        is_date |= _matches(texts, _SHORT_DATE)
    return _if_mostly(is_date, texts, ordered, beside=_PLACEHOLDER)


def are_iso_dates(texts: pa.Array, ordered: bool = False) -> NDArray[np.bool_]:
    """Return which texts are dates such as 2023-01-31, if nearly all are; otherwise none is."""
    is_iso = _matches(texts, f"{_ISO}(?:{ZONE})?$")
    if 2 * is_iso.sum() > len(texts):
        place = np.flatnonzero(is_iso)
        is_iso[place] = [_is_time(texts[i].as_py()) for i in place]
    return _if_mostly(is_iso & (2 * is_iso.sum() > len(texts)), texts, ordered, beside=_NO_WORD)


def differ_in_zone(texts: pa.Array) -> bool:
    """Return whether some of the dates, which are such as 2023-01-31, have a zone and some none."""
    n_zoned = int(_matches(texts, rf":.*{ZONE}$").sum())
    return 0 < n_zoned < len(texts)


def stands_for_missing(text: str) -> bool:
    """Return whether a text among dates is a word for a missing value, or a time that is none."""
    if _has(text, _PLACEHOLDER):
        return True
    if not _has(text, rf"^[\d/.: T-]+{ZONE}?$") or _is_time(text):
        return False
    return _has(text, f"^{ISO_DAY}") or not date_formats_of(pa.array([text]))


def _if_mostly(
    is_date: NDArray[np.bool_], texts: pa.Array, ordered: bool, *, beside: str
) -> NDArray[np.bool_]:
    """Return `is_date` if texts are dates but for a few, or for some like `beside`; else none is.

    Among few texts a single other one is a wrong date only if it looks like one, and not a
    category such as never. Text in an `ordered` column, such as the time, is wrong anyway.
    """
    n_others = len(texts) - is_date.sum()
    are_most = 2 * n_others < len(texts)
    if (ordered and are_most) or n_others <= (1 - _MOSTLY_DATES) * len(texts):
        return is_date
    others = texts.filter(pa.array(~is_date))
    are_beside = are_most and all_match(others, beside)
    is_few = n_others == 1 and len(texts) > _FEWEST_DATES
    is_like = is_few and all_match(others, _LIKE_A_DATE) and all_match(others, _FOUR_DIGITS)
    return is_date if are_beside or is_like else np.zeros(len(texts), dtype=bool)


def _is_time(text: str) -> bool:
    try:
        datetime.fromisoformat(text)
    except ValueError:  # a month 13
        return False
    return True


def refuse_points_of_thousands(name: str, codes: pa.Array, texts: pa.Array) -> None:
    """Raise InputError for whole numbers with points as marks of thousands, as 2.560 and 806."""
    if all_match(texts, _IN_THOUSANDS) and are_perhaps_thousands(texts):
        is_meant = _matches(texts, r"\.")
        row, text = _first(codes, texts, is_meant)
        raise InputError(
            f"column {name!r} seems to be written with points as marks of thousands, such as "
            f"{text!r} in row {row}",
            "or name the column as numeric if these are decimal points",
            how=_spelling(text, texts)[1],
        )


def refuse_large_among_small(name: str, codes: pa.Array, digits: pa.Array) -> None:
    """Raise InputError for whole numbers of which a few are beyond 2^53 and all others small."""
    is_small = _matches(digits, _SMALL)
    n_rows = np.bincount(codes.drop_null().to_numpy(), minlength=len(digits))
    n_small, n_large = n_rows[is_small].sum(), n_rows[~is_small].sum()
    if n_small < _FEWEST_NUMBERS or n_large > _OTHER_ROWS * n_rows.sum():
        return
    if all_match(digits.filter(pa.array(~is_small)), _LARGE):
        row, text = _first(codes, digits, ~is_small)
        raise InputError(
            f"column {name!r} holds small whole numbers but row {row} holds {text}, which is "
            "beyond 2^53",
            "or name the column as numeric or categorical",
            how="leave it empty if it stands for a missing value",
        )


def refuse_spelling(
    name: str,
    codes: pa.Array,
    texts: pa.Array,
    is_number: NDArray[np.bool_],
    *,
    must_hold_numbers: bool = False,
) -> None:
    """Raise InputError for a column of numbers but for their spelling, or for a few other texts.

    Row i holds ``texts[codes[i]]``; some text is no number. A column that must hold numbers is
    refused in any case.
    """
    if must_hold_numbers:
        is_like = is_number | _matches(texts, _LIKE_NUMBER)
        is_other = ~is_number & ~_matches(texts, TRUTH)  # true and false are numbers by themselves
        is_wrong = is_other if is_other.any() else ~is_number
        _refuse_text(name, codes, texts, is_wrong, is_like, "leave it out of numeric")
    is_like = ~is_number & _are_like_numbers(texts, is_number)
    is_other = ~is_number & ~is_like
    if not is_other.any():
        _refuse_numbers(name, codes, texts, is_like, texts)
    n_rows = np.bincount(codes.drop_null().to_numpy(), minlength=len(texts))
    n_numbers, n_others = n_rows[~is_other].sum(), n_rows[is_other].sum()
    if n_numbers >= _FEWEST_NUMBERS and (
        n_others <= _OTHER_ROWS * n_rows.sum()
        or is_other.sum() <= _OTHER_TEXTS * (~is_other).sum()
        or all_match(texts.filter(pa.array(is_other)), _PLACEHOLDER)
    ):
        if is_like.any():
            _refuse_numbers(name, codes, texts, is_like, texts.filter(pa.array(~is_other)))
        _refuse_text(name, codes, texts, is_other, ~is_other, "name the column as categorical")


def _are_like_numbers(texts: pa.Array, is_number: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which texts are numbers in another spelling, shape (n_texts,)."""
    is_like = _matches(texts, _LIKE_NUMBER)
    others = texts.filter(pa.array(~is_number))
    if all_match(others, _GROUPED_CODE) and pc.min(pc.utf8_length(others)).as_py() >= _LEAST_CODE:
        return np.zeros(len(texts), dtype=bool)
    if not is_like[~is_number].any():
        units = pc.extract_regex(others, _WITH_UNIT)
        unit, are_few = units.field("unit"), len(texts) < _FEWEST_NUMBERS
        is_one_unit = len(unit.unique()) == 1
        are_numbers = not units.null_count and (is_one_unit or all_match(unit, _UNITS))
        if are_few:  # 4G and 2WD may be names; two values are the same as a category
            is_sure = is_one_unit and all_match(unit, rf"^{_BLANK}|{_UNITS}")
            are_numbers = are_numbers and is_sure and 2 < len(others) == len(texts)
        are_codes = (are_few or is_number.any()) and all_match(others, _LETTERED_CODE)
        if are_numbers and not are_codes:
            return ~is_number
    return is_like


def _refuse_numbers(
    name: str, codes: pa.Array, texts: pa.Array, is_meant: NDArray[np.bool_], numbers: pa.Array
) -> NoReturn:
    # $5 and 1,234 show more than 4,5 does
    has_more, in_groups = ~_matches(texts, IN_MARKS), _matches(texts, _GROUPED)
    choices = is_meant & has_more, is_meant & in_groups, is_meant
    shown = next(some for some in choices if some.any())
    row, text = _first(codes, texts, shown)
    marks, how = _spelling(text, numbers)
    raise InputError(
        f"column {name!r} is written with {marks} in its numbers, such as {literal(text)} in row "
        f"{row}",
        "or name the column as categorical",
        how=how,
    )


def _refuse_text(
    name: str,
    codes: pa.Array,
    texts: pa.Array,
    is_meant: NDArray[np.bool_],
    is_like: NDArray[np.bool_],
    otherwise: str,
) -> NoReturn:
    row, text = _first(codes, texts, is_meant)
    if _has(text, _PLACEHOLDER):
        option = f", or add #na={text} to the path of delimited text" * text.isalnum()
        how = (
            f"if it stands for a missing value, leave it empty, as na_values=[{text!r}] of "
            f"pandas.read_csv or {_null_if(name, text)} of SQL does{option}; else correct it"
        )
    elif _has(text, _LIKE_NUMBER):
        how = _spelling(text, texts.filter(pa.array(is_like)))[1]
    else:
        how = "correct it"
    raise InputError(
        f"column {name!r} must hold numbers but row {row} holds {literal(text)}",
        f"or {otherwise}",
        how=how,
    )


def _null_if(name: str, text: str) -> str:
    column, word = name.replace('"', '""'), text.replace("'", "''")
    return f"NULLIF(\"{column}\", '{word}')"


def _spelling(text: str, numbers: pa.Array) -> tuple[str, str]:
    """Return what makes a text no plain number, and how to write all `numbers` as plain ones."""
    if _has(text, r"[^\x00-\x7f]") and _has(text, r"[\p{Nd}]") and not _has(text, r"[0-9]"):
        return "digits of another script", f"{_PLAINLY}, as column.map(float) does in pandas"
    kinds: list[str] = []
    made, left, example = "column", numbers, text
    while (place := pc.index(pc.match_substring_regex(left, IN_MARKS), False).as_py()) >= 0:
        unread = example if not _has(example, IN_MARKS) else left[place].as_py()
        kind, call, pattern, to = _step(unread)
        if kind in kinds or not call:  # several units, or several marks as in - 38.1 %
            are_several = kind in kinds and kind in (_UNIT_OF, _CURRENCY_OF)
            how = "write all of them as plain numbers in one unit" if are_several else _PLAINLY
            return kinds[0] if kinds else kind, how
        kinds.append(kind)
        made += f".{call}"
        # marks of thousands are none before an exponent, but are before a sign of per cent
        left = pc.replace_substring_regex(left, pattern, "" if kind == _PERCENT_OF else to)
        example = pc.replace_substring_regex(pa.array([example]), pattern, to)[0].as_py()
    fit = marks_of(left)
    has_comma = pc.any(pc.match_substring(left, ",")).as_py()
    if not kinds:
        names = dict.fromkeys(_name_of_marks(own, has_comma) for own in fit)
        kinds = [" or ".join(names) or "several marks"]
    ways = []
    for own in fit:
        calls, number = made, example
        for mark, to in ((own.thousands, ""), (own.decimal, ".")):
            if mark not in ("", to) and (mark != "," or has_comma):
                calls += f".str.replace({literal(mark)}, {to!r})"
                number = number.replace(mark, to)
        if_it_is = f"if {literal(text)} is {number.strip()}, " if len(fit) > 1 else ""
        at_path = f", or add {own.marks} to the path of delimited text, for all its columns"
        option = at_path if made == "column" else ""
        ways.append(f"{if_it_is}{_PLAINLY}, as {calls}.astype(float) does in pandas{option}")
    return kinds[0], "; ".join(ways) or _PLAINLY


def _name_of_marks(own: TextOptions, has_comma: bool) -> str:
    """Return the marks in words, such as no-break spaces as marks of thousands."""
    name = "point" if own.thousands == "." else unicodedata.name(own.thousands or " ").lower()
    thousands = f"{name}s as marks of thousands" if own.thousands else ""
    decimals = "decimal commas" if own.decimal == "," and has_comma else ""
    return " and ".join(filter(None, [thousands, decimals]))


def _step(text: str) -> tuple[str, str, str, str]:
    """Return a mark of the text, what removes it in pandas, and the pattern that does."""
    if sign := _part(text, _PERCENT):
        power = "e-3" if sign == "‰" else "e-2"  # only of what has the sign
        call = rf"str.replace(r'\s*{sign}', {power!r}, regex=True)"
        return _PERCENT_OF, call, f"{_BLANK}*{sign}", power
    if sign := _part(text, _CURRENCY):
        return _CURRENCY_OF, f"str.replace({sign!r}, '')", re.escape(sign), ""
    if "(" in text:
        call = r"str.replace(r'\((.*)\)', r'-\1', regex=True)"
        return "brackets", call, r"\((.*)\)", r"-\1"
    if sign := _part(text, _MINUS):
        return "another minus sign", f"str.replace({sign!r}, '-')", sign, "-"
    if _has(text, r"\.-\s*$"):  # 3.- is 3 of a currency, and not below 0
        return "a dash for no decimals", "str.replace('.-', '')", r"\.-", ""
    if _has(text, r"\d\s*-"):
        call = r"str.replace(r'(.*\d)\s*-\s*$', r'-\1', regex=True)"
        return "the minus behind", call, r"(.*\d)\s*-\s*$", r"-\1"
    if unit := _part(text, rf"{_UNIT}\s*$"):
        # 3.0k is no 3.0
        call = "" if _has(unit, rf"^{_MULTIPLE}$") else f"str.removesuffix({literal(unit)})"
        return _UNIT_OF, call, rf"{re.escape(unit)}$", ""
    strange = "".join(sorted({c for c in text if not c.isalnum() and c not in "+-.,"}))
    of_them = f"[{re.escape(strange)}]+"
    if not strange:
        return "several signs", "", "", ""
    return "stray blanks", f"str.strip({literal(strange)})", f"^{of_them}|{of_them}$", ""


def _part(text: str, pattern: str) -> str:
    """Return the first part of a text that matches, or an empty text."""
    match = pc.extract_regex(pa.array([text]), f"(?P<part>{pattern})")[0].as_py()
    return match["part"] if match else ""


def _has(text: str, pattern: str) -> bool:
    return all_match(pa.array([text]), pattern)


def _matches(texts: pa.Array, pattern: str) -> NDArray[np.bool_]:
    matches: NDArray[np.bool_] = pc.match_substring_regex(texts, pattern).to_numpy(False)
    return matches


def all_match(texts: pa.Array, pattern: str) -> bool:
    """Return whether every text matches a pattern."""
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _first(codes: pa.Array, texts: pa.Array, is_meant: NDArray[np.bool_]) -> tuple[int, str]:
    """Return the first row, counted from 1, whose text `is_meant`, and that text."""
    row = pc.index(pa.array(is_meant).take(codes), True).as_py()
    return row + 1, texts[codes[row].as_py()].as_py()
