"""Columns: every type a source may have becomes one of five, and missing becomes one thing.

float64, int64, bool, category (dictionary of int32 codes and sorted texts) and timestamp
(microseconds, UTC where a zone was given). Of any other type only its name is kept, in each row
that has a value, or the column is refused by name.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa
import pyarrow.compute as pc

from chaffinch.storage.errors import InputError, MendableError, NoFeatureError
from chaffinch.storage.memory import LetGo
from chaffinch.storage.names import check_known
from chaffinch.storage.text_columns import as_text, category_of, finite, one_chunk, typed_text

CATEGORY = pa.dictionary(pa.int32(), pa.string())
TIMESTAMP = pa.timestamp("us")
OTHER = pa.string()  # the name of a type that cannot be a feature, such as a list
_LONGEST = 60  # name of a type, which for structs holds those of their fields


def type_columns(
    table: pa.Table,
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    has_others: bool = False,
) -> pa.Table:
    """Give every column one of the five types.

    Parameters
    ----------
    table : pyarrow.Table
        As `chaffinch.storage.sources.read_source` returns it.
    categorical : collection of str
        Columns of numbers or dates that are really categories.
    numeric : collection of str
        Columns that must be numbers, whole numbers with leading zeros among them.
    has_others : bool
        Whether a column of a type that cannot be a feature, such as lists, bytes or durations,
        becomes one of `OTHER` unless it is named above. By default it is refused.

    Returns
    -------
    pyarrow.Table
        The same names and rows; one chunk per column.

    Raises
    ------
    InputError
        If a named column does not exist or is named as both; a value is infinite, no number
        where there must be one, or a whole number beyond int64; a text column is numbers but for
        a few values, or has decimal commas; or a type is none a model could take, such as lists,
        bytes or durations.
        Rows are counted from 1 in the order of the source.

    Notes
    -----
    NaN, empty text and blanks are missing. A text column of numbers alone is numeric, but whole
    numbers with leading zeros, such as 00500, are codes: categories unless named numeric. A column
    without any value is float64. Whatever the source itself declares a category stays one.

    Text that is a category stays as it is written, except where every value is a number as
    programs write it, or true or false: then it is what the same numbers, or true and false,
    become that the source holds as such, so that 1.0 is 1 and True is true. Categories are sorted
    by value where all are numbers, else by code point; none is unused. Timestamps are cut to whole
    microseconds.
    """
    columns = dict(zip(table.column_names, table.columns, strict=True))
    typed = type_and_drop(columns, categorical=categorical, numeric=numeric, has_others=has_others)
    return pa.table(typed)


def type_and_drop(
    columns: dict[str, pa.ChunkedArray],
    *,
    categorical: Collection[str] = (),
    numeric: Collection[str] = (),
    has_others: bool = False,
) -> dict[str, pa.Array]:
    """Do the same to columns that nobody needs any more: each is let go as soon as it is typed.

    Parameters
    ----------
    columns : dict of str to pyarrow.ChunkedArray
        Name -> column as the source has it; empty afterwards.
    categorical, numeric, has_others
        As above.

    Returns
    -------
    dict of str to pyarrow.Array
        Name -> typed column, in the same order.

    Raises
    ------
    InputError
        See `type_columns`.
    """
    check_known([*categorical, *numeric], columns)
    both = sorted(set(categorical) & set(numeric))
    if both:
        raise InputError(f"column {both[0]!r} is named categorical and numeric; name it once")
    typed: dict[str, pa.Array] = {}
    let_go = LetGo()
    for name in list(columns):
        n_bytes, column = columns[name].nbytes, columns.pop(name)
        try:
            typed[name] = _typed(name, column, name in categorical, name in numeric)
        except NoFeatureError as error:
            if not has_others or name in categorical or name in numeric:
                raise
            kind = pc.if_else(column.is_valid(), _short(error.kind), None)
            typed[name] = one_chunk(kind.cast(OTHER))
        del column
        let_go.note(n_bytes)
    return typed


def sorted_categories(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """Return a category column in one chunk, its categories sorted as `type_columns` sorts them."""
    whole = one_chunk(column.unify_dictionaries())
    return category_of(whole.indices, whole.dictionary)


def _typed(name: str, column: pa.ChunkedArray, categorical: bool, numeric: bool) -> pa.Array:
    kind = column.type
    if pa.types.is_dictionary(kind):
        categorical = not numeric
        column = decoded(column)
        kind = column.type
    if column.null_count == len(column):
        return pa.nulls(len(column), pa.float64())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return typed_text(name, column, categorical, numeric)
    if pa.types.is_boolean(kind):
        values = one_chunk(column)
    elif pa.types.is_integer(kind):
        values = _integers(name, column)
    elif pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = finite(name, one_chunk(column.cast(pa.float64())))
    elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        if numeric:
            raise MendableError(
                f"column {name!r} must hold numbers but holds dates",
                "leave it out of numeric",
                "give numbers, or drop the column",
            )
        values = one_chunk(_timestamps(name, column))
        if categorical:
            values = values.cast(pa.string())
    else:
        raise NoFeatureError(name, str(kind))
    if values.null_count == len(values):
        return pa.nulls(len(values), pa.float64())
    if categorical:
        encoded = values.dictionary_encode()
        texts = [as_text(value) for value in encoded.dictionary.to_pylist()]
        return category_of(encoded.indices, pa.array(texts, pa.string()))
    return values


def _short(kind: str) -> str:
    """Return the name of a type in one short line."""
    return kind if len(kind) <= _LONGEST and kind.isprintable() else kind.split("<")[0]


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a dictionary column."""
    values = column.type.value_type
    # Arrow takes rows of every kind of text but views, which polars gives
    plain = pa.large_string() if pa.types.is_string_view(values) else values
    parts = [chunk.dictionary.cast(plain).take(chunk.indices) for chunk in column.chunks]
    return pa.chunked_array(parts, plain)


def _integers(name: str, column: pa.ChunkedArray) -> pa.Array:
    try:
        return one_chunk(column.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise InputError(whole_number_too_large(name)) from error


def whole_number_too_large(name: str) -> str:
    """Return the message for a column with a whole number beyond int64."""
    return (
        f"column {name!r} holds a whole number beyond {2**63 - 1}; "
        "write it as a decimal number or as text, or drop the column"
    )


def _timestamps(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if not pa.types.is_timestamp(kind):
        return column.cast(TIMESTAMP)
    try:
        cut = column.cast(pa.timestamp("us", kind.tz), safe=kind.unit != "ns")
    except pa.ArrowInvalid as error:
        beyond = "timestamp beyond the years that microseconds can count"
        raise NoFeatureError(name, beyond) from error
    return cut.cast(TIMESTAMP)
