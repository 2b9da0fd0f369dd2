"""Column types: every type of a source becomes one of five, with one marker for missing values.

They are float64, int64, bool, category (dictionary of int32 codes and sorted texts) and timestamp
(microseconds, UTC if a zone was given). Of any other type only its name is kept, in each row that
has a value, or the column is refused by name.

Types are inferred from all values and do not depend on their order. A text is a number or boolean
if a program could have written it so. Whole numbers are codes if some of them have leading zeros,
or are beyond 2^53, where float64 merges neighbours. All other text is a category, but for dates,
and for numbers in other spellings, which are refused (`text_spellings`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, MutableMapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaffinch.errors import InputError, about_column, short_repr
from chaffinch.storage.column_names import check_known
from chaffinch.storage.datasets.text_spellings import (
    TRUTH,
    all_match,
    are_dates,
    are_iso_dates,
    differ_in_zone,
    have_years,
    iso_times,
    refuse_large_among_small,
    refuse_points_of_thousands,
    refuse_spelling,
    text_has_zone,
)
from chaffinch.storage.memory import FreedBytes, bytes_of
from chaffinch.storage.sources.formats.text_options import ISO_DAY, date_formats_of

NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_WHOLE = r"^\s*[+-]?\d+\s*$"
_LEADING_ZERO = r"^\s*[+-]?0\d"
_PLAIN_WHOLE = re.compile("0|-?[1-9][0-9]*")
EXACT = 2**53  # whole numbers up to it are exact in float64


def typed_text(
    name: str, column: pa.ChunkedArray, categorical: bool, numeric: bool, ordered: bool = False
) -> pa.Array:
    codes, texts = _without_blanks(one_chunk(column.cast(pa.large_string())).dictionary_encode())
    present = codes.drop_null().to_numpy()
    if not len(present):
        return pa.nulls(len(codes), pa.float64())
    if categorical:
        same = _as_if_typed(texts).dictionary_encode()
        return category_of(same.indices.take(codes), same.dictionary)
    if numeric and all_match(texts, TRUTH):
        return pc.equal(pc.utf8_lower(texts), "true").take(codes)
    if not numeric and _are_codes(texts):
        return category_of(codes, texts)
    is_number = pc.match_substring_regex(texts, NUMBER).to_numpy(zero_copy_only=False)
    if is_number.all():
        if not numeric:
            refuse_points_of_thousands(name, codes, texts)
        return _parsed(name, codes, texts, numeric, ordered)
    if numeric:
        refuse_spelling(name, codes, texts, is_number, must_hold_numbers=True)
    times = iso_times(texts)
    if times is not None:
        return times.take(codes)
    if (is_iso := are_iso_dates(texts, ordered)).any():
        return pa.array(_kinds_of_iso_dates(texts, is_iso), OTHER).take(codes)
    if (is_date := are_dates(texts, ordered)).any():
        return pa.array(_kinds_of_dates(texts, is_date), OTHER).take(codes)
    refuse_spelling(name, codes, texts, is_number)
    return category_of(codes, texts)


def _kinds_of_iso_dates(texts: pa.Array, is_date: NDArray[np.bool_]) -> list[str]:
    """Return why texts of which most are dates such as 2023-01-31 are no timestamps."""
    if is_date.all() and differ_in_zone(texts):
        return [MIXED_ZONES] * len(texts)
    kinds = [_written_as(texts.filter(pa.array(is_date)))] * len(texts)
    for i in np.flatnonzero(~is_date):
        kinds[i] = f"{NO_DATE}{short_repr(texts[i].as_py())}"
    return kinds


def _kinds_of_dates(texts: pa.Array, is_date: NDArray[np.bool_]) -> list[str]:
    """Return how texts of which most are dates are written where it is not as 2023-01-31."""
    dates = texts.filter(pa.array(is_date))
    others = dates.filter(pc.invert(pc.match_substring_regex(dates, f"^{ISO_DAY}")))
    formats = " or ".join(date_formats_of(others) if len(others) else ())
    in_formats = f", in the format {formats}" if formats else ""
    return [f"{_written_as(others if len(others) else dates)}{in_formats}"] * len(texts)


def _written_as(dates: pa.Array) -> str:
    form = re.sub(r"\d", "0", pc.min(dates).as_py())  # the value itself is the user's
    return f"{DATE_IN_TEXT} written as {form!r}"


def _without_blanks(encoded: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Return codes and their texts; empty and blank texts become missing."""
    codes, texts = encoded.indices, encoded.dictionary
    is_blank = pc.match_substring_regex(texts, r"^\s*$").to_numpy(zero_copy_only=False)
    if not is_blank.any():
        return codes, texts
    place = (np.cumsum(~is_blank) - 1).astype(np.int32)
    missing = _taken(is_blank, codes, missing=True)
    return pa.array(_taken(place, codes, missing=0), mask=missing), texts.filter(~is_blank)


def _are_codes(texts: pa.Array) -> bool:
    """Whether texts are whole numbers, some with leading zeros, which numbers do not have."""
    has_zero = pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py()
    return bool(has_zero) and all_match(texts, _WHOLE)


def _as_if_typed(texts: pa.Array) -> pa.Array:
    """Return categories in the form they would have if the source held numbers, booleans or dates.

    They stay unchanged if a program would not write one of the values so.
    """
    if all_match(texts, TRUTH):
        return pc.utf8_lower(texts)
    if all_match(texts, NUMBER):
        numbers = pa.array(map(_as_number, texts.to_pylist()), texts.type)
        return texts if numbers.null_count else numbers
    times = iso_times(texts, exact=True)
    return texts if times is None else _days_or_times(times)


def _days_or_times(times: pa.Array) -> pa.Array:
    """Return times as text, such as 2024-01-31, or 2024-01-31 08:00:00 unless it is midnight."""
    in_microseconds = pc.replace_substring_regex(times.cast(pa.string()), r"(\.\d{6})000$", r"\1")
    return pc.replace_substring_regex(in_microseconds, r"( 00:00:00)?\.0+$", "")


def _as_number(text: str) -> str | None:
    """Return a number as `as_text` writes it; None if a program would not have written it so."""
    if _PLAIN_WHOLE.fullmatch(text):
        return text
    value = float(text)
    return as_text(value + 0.0) if text == repr(value) else None  # adding 0.0 removes -0.0


def _parsed(name: str, codes: pa.Array, texts: pa.Array, numeric: bool, ordered: bool) -> pa.Array:
    """Return texts as numbers: integers if all are; as categories if float64 would merge them."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if not all_match(trimmed, _WHOLE):
        return finite(name, trimmed.cast(pa.float64()).take(codes))
    digits = pc.replace_substring_regex(trimmed, r"^\+", "")
    try:
        return _whole(name, digits.cast(pa.int64()).take(codes), keep=numeric or ordered)
    except pa.ArrowInvalid:  # too large for int64
        if numeric:
            return finite(name, digits.cast(pa.float64()).take(codes))
        return _digits(name, digits.take(codes))


def _whole(name: str, values: pa.Array, *, keep: bool) -> pa.Array:
    """Return int64 values, or their digits as categories if a value is beyond 2^53."""
    ends = pc.min_max(values).as_py()
    if keep or ends["max"] is None or max(-ends["min"], ends["max"]) <= EXACT:
        return values
    return _digits(name, values.cast(pa.string()))


def _digits(name: str, texts: pa.Array) -> pa.DictionaryArray:
    """Return whole numbers in text as categories; InputError for a few large among small ones."""
    encoded = texts.dictionary_encode()
    refuse_large_among_small(name, encoded.indices, encoded.dictionary)
    return category_of(encoded.indices, encoded.dictionary)


def finite(name: str, values: pa.Array) -> pa.Array:
    """Return float64 values without -0.0, with NaN as missing."""
    data = values.to_numpy(zero_copy_only=False)
    infinite = np.isinf(data)
    if infinite.any():
        raise InputError(
            f"column {name!r} must hold finite numbers but row {int(np.argmax(infinite)) + 1} "
            "is infinite",
            "correct it, or leave it empty where it is a feature",
        )
    # adding zero turns -0.0 into 0.0
    return pa.array(data + 0.0, mask=np.isnan(data))


def category_of(codes: pa.Array, texts: pa.Array) -> pa.DictionaryArray:
    """Return the category column whose row i holds ``texts[codes[i]]``; sorted, none unused."""
    used = np.zeros(len(texts), dtype=bool)
    used[codes.drop_null().to_numpy()] = True
    places = np.flatnonzero(used)
    text = texts.take(pa.array(places)).cast(pa.string())
    keys = {"text": text}
    if pc.all(pc.match_substring_regex(text, NUMBER)).as_py():
        keys = {"value": pc.utf8_trim_whitespace(text).cast(pa.float64()), **keys}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    rank = np.zeros(len(texts), dtype=np.int32)
    rank[places[order.to_numpy()]] = np.arange(len(places), dtype=np.int32)
    new = pa.array(_taken(rank, codes, missing=0), mask=codes.is_null().to_numpy(False))
    return pa.DictionaryArray.from_arrays(new, text.take(order))


def as_text(value: Any) -> str:
    """Return a value as a category; an integer has the same text as int and as float."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < EXACT:
        return str(int(value))
    return str(value)


def _taken(table: NDArray[Any], codes: pa.Array, *, missing: Any) -> NDArray[Any]:
    """Return ``table[codes]``, shape (n,), with `missing` where a code is null."""
    result: NDArray[Any] = table[codes.fill_null(0).to_numpy(zero_copy_only=False)]
    result[codes.is_null().to_numpy(zero_copy_only=False)] = missing
    return result


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


CATEGORY = pa.dictionary(pa.int32(), pa.string())
TIMESTAMP = pa.timestamp("us")
OTHER = pa.string()  # the name of a type that cannot be a feature, such as a list
DATE_IN_TEXT = "date in text"
NO_DATE = f"{DATE_IN_TEXT} but for "  # of the rows that hold none, among dates as 2023-01-31
MIXED_ZONES = f"{DATE_IN_TEXT} with a zone in some rows and without one in others"
_LONGEST = 60  # of a type name, which for structs includes all fields


def type_columns(
    table: pa.Table,
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    ordered: Collection[str] = (),
    has_others: bool = False,
) -> pa.Table:
    """Convert every column to one of the five types, in one chunk each.

    `categorical` are columns of numbers or dates to read as categories; `numeric` must be numbers,
    including whole numbers with leading zeros. `ordered` are columns such as the time, of which
    whole numbers stay exact as int64 at any size. With `has_others` a column of a type that cannot
    be a feature, such as lists, bytes, durations, or dates in text that are not written as
    2023-01-31, becomes a column of `OTHER` unless it is named.

    NaN, empty text and blanks are missing. A text column with only numbers is numeric, and one with
    only dates as 2023-01-31, which may have a time, is a timestamp. Whole numbers with leading
    zeros, such as 00500, are codes: categories unless named numeric. So are whole numbers if one is
    beyond 2^53, where float64 would make one of two. A column without any value is float64. A
    category declared by the source stays one.

    Categories keep their text, unless every value is a number as programs write it, a boolean or an
    ISO date. Then they get the text of that value, so that 1.0 is 1, True is true, and a midnight
    is its day, such as 2024-01-31, for sources with types write the same rows so. Decimals keep
    their places, as 1.10 does in text. Categories are sorted by value where all are numbers, else
    by code point; none is unused. Timestamps are truncated to microseconds unless they are
    categories.

    InputError, with rows counted from 1 in source order, if a named column does not exist or is
    named as both; a value is infinite, or not a number where one is required; a text column is
    numeric but for a few values, or holds numbers in another spelling, such as 1,5 or 21%; or a
    type is not supported.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    check_roles(categorical, numeric, columns)
    typed = typed_columns(
        columns, categorical=categorical, numeric=numeric, ordered=ordered, has_others=has_others
    )
    return pa.table(dict(typed))


def check_roles(
    categorical: Collection[str], numeric: Collection[str], columns: Collection[str]
) -> None:
    """Raise InputError for a named column that does not exist, or is named as both."""
    check_known([*categorical, *numeric], columns)
    both = sorted(set(categorical) & set(numeric))
    if both:
        raise InputError(f"column {both[0]!r} is named categorical and numeric; name it once")


def typed_columns(
    columns: MutableMapping[str, pa.ChunkedArray],
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    ordered: Collection[str] = (),
    has_others: bool = False,
    zoned: set[str] | None = None,
) -> Iterator[tuple[str, pa.Array]]:
    """Yield a table's typed columns in turn, removing each source column.

    The columns of times with a zone are added to `zoned`.
    """
    freed = FreedBytes()
    for name in list(columns):
        column = columns.pop(name)
        n_bytes = bytes_of(column)
        with about_column(name):
            typed = _typed(name, column, name in categorical, name in numeric, name in ordered)
        if typed.type == OTHER and not has_others:
            kind = pc.min(typed)
            raise InputError(f"column {name!r} is of type {kind}, which is no feature", "drop it")
        if zoned is not None and typed.type == TIMESTAMP and has_zone(column):
            zoned.add(name)
        del column
        yield name, typed
        del typed
        freed.note(n_bytes)


def has_zone(column: pa.ChunkedArray) -> bool | None:
    """Return whether times, or ISO text, have a zone; None for days, and for what is no time."""
    if pa.types.is_dictionary(column.type):
        column = decoded(column)
    if pa.types.is_timestamp(column.type):
        return column.type.tz is not None
    first = next((value for chunk in column.chunks for value in chunk.drop_null()[:1]), None)
    return text_has_zone(first.as_py()) if first is not None else None


def sorted_categories(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a category column in a single chunk, its categories sorted as in `type_columns`."""
    whole = one_chunk(column.unify_dictionaries())
    return category_of(whole.indices, whole.dictionary)


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are text, perhaps as a dictionary."""
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    kinds = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(is_kind(plain) for is_kind in kinds)


def _typed(
    name: str, column: pa.ChunkedArray, categorical: bool, numeric: bool, ordered: bool
) -> pa.Array:
    source, kind = column, column.type
    if pa.types.is_dictionary(kind):
        categorical = not numeric
        column = decoded(column)
        kind = column.type
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.float64())
    if is_text(kind):
        return typed_text(name, column, categorical, numeric, ordered)
    if pa.types.is_boolean(kind):
        values = one_chunk(column)
    elif pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        try:
            values = one_chunk(column.cast(pa.int64()))
        except pa.ArrowInvalid:  # too large for int64
            digits = column.cast(pa.string())
            return typed_text(name, digits, categorical, numeric, ordered)
        if not categorical:
            values = _whole(name, values, keep=numeric or ordered)
    elif pa.types.is_decimal(kind) and categorical:  # 1.10 keeps its places, as from text
        return typed_text(name, column.cast(pa.string()), categorical, numeric, ordered)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        if pa.types.is_decimal(kind):  # its text becomes the nearest number; Arrow's cast may not
            column = column.cast(pa.string())
        values = finite(name, one_chunk(column.cast(pa.float64())))
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if numeric:
            raise InputError(
                f"column {name!r} must hold numbers but holds dates",
                "leave it out of numeric",
            )
        try:
            values = one_chunk(_timestamps(column, exact=categorical))
        except pa.ArrowInvalid:
            return _other(source, "timestamp beyond the years 1 to 9999")
        if categorical:
            values = _days_or_times(values)
    else:
        return _other(source, str(kind))
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.float64())
    if categorical:
        encoded = values.dictionary_encode()
        texts = [as_text(value) for value in encoded.dictionary.to_pylist()]
        return category_of(encoded.indices, pa.array(texts, pa.string()))
    return values


def _other(column: pa.ChunkedArray, kind: str) -> pa.Array:
    """Return the shortened name of a type, in each row that has a value."""
    is_short = len(kind) <= _LONGEST and kind.isprintable()
    name = kind if is_short else kind.split("<")[0]
    return one_chunk(pc.if_else(column.is_valid(), name, None).cast(OTHER))


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    values = column.type.value_type
    # Arrow's `take` supports every text type but the views of polars
    plain = pa.large_string() if pa.types.is_string_view(values) else values
    parts = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(parts, plain)


def _timestamps(column: pa.ChunkedArray, *, exact: bool) -> pa.ChunkedArray:
    """Return days or times without their zone, in microseconds; `exact` nanoseconds stay so."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        unit = "ns" if exact and kind.unit == "ns" else "us"
        times = column.cast(pa.timestamp(unit, kind.tz), safe=kind.unit != "ns")
        times = times.cast(pa.timestamp(unit))
    else:
        times = column.cast(TIMESTAMP)
    if not have_years(times):
        raise pa.ArrowInvalid("no years")
    return times
