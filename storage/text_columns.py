"""Columns of text: what they hold is told from every one of their values, in whatever order.

A text is a number if a program could have written it so, true or false likewise; whole numbers of
which some lead with a zero are codes, and what is neither is a category.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaffinch.storage.errors import InputError, MendableError

_NUMBER = r"^\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*$"
_WHOLE = r"^\s*[+-]?\d+\s*$"
_WITHOUT_SIGN = r"^\s*\d+\s*$"
_LEADING_ZERO = r"^\s*0\d"
# 2,5 and 1.234,5 and 1,234.5
_WITH_COMMAS = r"^\s*[+-]?(\d*,\d+|\d{1,3}(\.\d{3})+,\d+|\d{1,3}(,\d{3})+(\.\d+)?)\s*$"
_PLAIN_WHOLE = re.compile("0|-?[1-9][0-9]*")
_TRUTH = r"^(true|True|TRUE|false|False|FALSE)$"
# A text column with at least this share of numbers, and this many, is a numeric one with a slip.
_SLIP_SHARE, _SLIP_COUNT = 0.95, 10
_EXACT = 2**53  # whole numbers below are exact in float64


def typed_text(name: str, column: pa.ChunkedArray, categorical: bool, numeric: bool) -> pa.Array:
    """Return a column of text as numbers, true and false, or a category.

    Parameters
    ----------
    name : str
        Of the column, for the errors.
    column : pyarrow.ChunkedArray
        Text of any kind.
    categorical, numeric : bool
        Whether the user named it so.

    Raises
    ------
    InputError
        If it is nearly numeric or named so and a value is no number, or is written with commas.
    """
    codes, texts = _without_blanks(one_chunk(column.cast(pa.large_string())).dictionary_encode())
    present = codes.drop_null().to_numpy()
    if not len(present):
        return pa.nulls(len(codes), pa.float64())
    if categorical:
        return category_of(codes, _as_if_typed(texts))
    if numeric and _all_match(texts, _TRUTH):
        return pc.equal(pc.utf8_lower(texts), "true").take(codes)
    if not numeric and _are_codes(texts):
        return category_of(codes, texts)
    is_number = pc.match_substring_regex(texts, _NUMBER).to_numpy(zero_copy_only=False)
    n_numbers = int(np.count_nonzero(is_number[present]))
    n_slips = len(present) - n_numbers
    is_nearly_numeric = n_numbers >= max(_SLIP_COUNT, _SLIP_SHARE * len(present))
    if n_slips and not numeric and not is_nearly_numeric:
        _refuse_commas(name, codes, texts, ~is_number)
        return category_of(codes, texts)
    if n_slips:
        row, text = _first(codes, texts, ~is_number)
        remedy = "leave it out of numeric" if numeric else "name the column as categorical"
        raise MendableError(
            f"column {name!r} must hold numbers but row {row} holds {text!r}",
            f"mend it or {remedy}",
            "mend it or drop the column",
        )
    return _parsed(name, codes, texts)


def _without_blanks(encoded: pa.DictionaryArray) -> tuple[pa.Array, pa.Array]:
    """Return codes and their texts, where nothing and blanks alone are missing."""
    codes, texts = encoded.indices, encoded.dictionary
    is_blank = pc.match_substring_regex(texts, r"^\s*$").to_numpy(zero_copy_only=False)
    if not is_blank.any():
        return codes, texts
    place = (np.cumsum(~is_blank) - 1).astype(np.int32)
    missing = _taken(is_blank, codes, missing=True)
    return pa.array(_taken(place, codes, missing=0), mask=missing), texts.filter(~is_blank)


def _all_match(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())


def _are_codes(texts: pa.Array) -> bool:
    """Whether texts are whole numbers of which some have leading zeros, which a number has not."""
    has_zero = pc.any(pc.match_substring_regex(texts, _LEADING_ZERO)).as_py()
    return bool(has_zero) and _all_match(texts, _WITHOUT_SIGN)


def _refuse_commas(
    name: str, codes: pa.Array, texts: pa.Array, is_other: NDArray[np.bool_]
) -> None:
    """Refuse what would pass for text unnoticed: numbers with commas, and nothing but numbers."""
    if not _all_match(texts.filter(is_other), _WITH_COMMAS):
        return
    row, text = _first(codes, texts, is_other)
    raise MendableError(
        f"column {name!r} is written with commas in its numbers, such as {text!r} in row {row}",
        "write them with a decimal point alone, or name the column as categorical",
        "write them with a decimal point alone, or drop the column",
    )


def _first(codes: pa.Array, texts: pa.Array, is_meant: NDArray[np.bool_]) -> tuple[int, str]:
    """Return the first row, counted from 1, that holds one of the texts meant, and its text."""
    row = int(np.argmax(_taken(is_meant, codes, missing=False)))
    return row + 1, texts[codes[row].as_py()].as_py()


def _as_if_typed(texts: pa.Array) -> pa.Array:
    """Return categories as they would be if the source held numbers, or true and false.

    They are left as they are if a program would not write the values so, or two would become one.
    """
    if _all_match(texts, _TRUTH):
        typed = pc.utf8_lower(texts)
    elif _all_match(texts, _NUMBER):
        typed = pa.array(map(_as_number, texts.to_pylist()), texts.type)
    else:
        return texts
    is_one_for_one = pc.count_distinct(typed).as_py() == len(texts)
    return typed if is_one_for_one else texts


def _as_number(text: str) -> str | None:
    """Return a number as `as_text` writes it; None if a program would not have written it so."""
    if _PLAIN_WHOLE.fullmatch(text):
        return text
    value = float(text)
    return as_text(value + 0.0) if text == repr(value) else None  # 0.0 is added against -0.0


def _parsed(name: str, codes: pa.Array, texts: pa.Array) -> pa.Array:
    """Return numbers out of their texts: whole where all are, and fit."""
    trimmed = pc.utf8_trim_whitespace(texts)
    if pc.all(pc.match_substring_regex(trimmed, _WHOLE)).as_py():
        try:
            return trimmed.cast(pa.int64()).take(codes)
        except pa.ArrowInvalid:
            pass  # too long for int64, or with a plus sign: float64 takes both
    return finite(name, trimmed.cast(pa.float64()).take(codes))


def finite(name: str, values: pa.Array) -> pa.Array:
    """Return float64 values without -0.0, missing where NaN.

    Raises
    ------
    InputError
        If one is infinite; the row is named.
    """
    data = values.to_numpy(zero_copy_only=False)
    infinite = np.isinf(data)
    if infinite.any():
        raise InputError(
            f"column {name!r} must hold finite numbers but row {int(np.argmax(infinite)) + 1} "
            "is infinite; mend it, or leave it empty where it is a feature"
        )
    # adding zero turns -0.0 into 0.0
    return pa.array(data + 0.0, mask=np.isnan(data))


def category_of(codes: pa.Array, texts: pa.Array) -> pa.DictionaryArray:
    """Return the category column in which row i holds ``texts[codes[i]]``, sorted, none unused."""
    used = np.zeros(len(texts), dtype=bool)
    used[codes.drop_null().to_numpy()] = True
    places = np.flatnonzero(used)
    text = texts.take(pa.array(places)).cast(pa.string())
    keys = {"text": text}
    if pc.all(pc.match_substring_regex(text, _NUMBER)).as_py():
        keys = {"value": pc.utf8_trim_whitespace(text).cast(pa.float64()), **keys}
    order = pc.sort_indices(pa.table(keys), sort_keys=[(key, "ascending") for key in keys])
    rank = np.zeros(len(texts), dtype=np.int32)
    rank[places[order.to_numpy()]] = np.arange(len(places), dtype=np.int32)
    new = pa.array(_taken(rank, codes, missing=0), mask=codes.is_null().to_numpy(False))
    return pa.DictionaryArray.from_arrays(new, text.take(order))


def as_text(value: Any) -> str:
    """Return a value as a category; a whole number is written alike whether int or float."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return str(int(value))
    return str(value)


def _taken(table: NDArray[Any], codes: pa.Array, *, missing: Any) -> NDArray[Any]:
    """Return ``table[codes]``, shape (n,), with `missing` where a code is null."""
    result: NDArray[Any] = table[codes.fill_null(0).to_numpy(zero_copy_only=False)]
    result[codes.is_null().to_numpy(zero_copy_only=False)] = missing
    return result


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    whole = column.combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
