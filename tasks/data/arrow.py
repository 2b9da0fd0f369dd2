"""Conversion of typed Arrow columns to numpy vectors."""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from chaffinch.errors import InputError
from chaffinch.storage.column_names import alike, quoted
from chaffinch.storage.datasets.column_types import EXACT, NO_DATE, OTHER
from chaffinch.storage.sources.formats.text_options import DELIMITERS
from chaffinch.tasks.selection.core import Floats

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = re.compile(r"\s*-?[0-9]+\s*")
_TRUTH = ("true", "True", "TRUE", "false", "False", "FALSE")

ColumnKind = Literal["float64", "int64", "bool", "category", "timestamp"]


def column_of(table: Any, name: str, role: str) -> Any:
    names = table.column_names  # Arrow's own lookup fails for a name that is not UTF-8
    if name not in names:
        nearest = alike(name, names)
        has = f"it has {quoted(names)}" if names else "it has no columns"
        remedy = f"did you mean {quoted(nearest, 'or')}?" if nearest else has
        for mark, option in DELIMITERS.items():
            if any(name in text.split(mark) for text in names):
                remedy = f"if {mark!r} separates the fields, add #delimiter={option} to the path"
        raise InputError(f"{role} {name!r} is no column of the table; {remedy}")
    return table.column(names.index(name))


def kind_of(name: str, column: Any) -> ColumnKind:
    arrow_type = column.type
    if pa.types.is_dictionary(arrow_type):
        return "category"
    if pa.types.is_timestamp(arrow_type):
        return "timestamp"
    kinds: dict[Any, ColumnKind] = {
        pa.float64(): "float64",
        pa.int64(): "int64",
        pa.bool_(): "bool",
    }
    if arrow_type not in kinds:
        raise InputError(
            f"column {name!r} has type {arrow_type} but must hold numbers, true/false, text or "
            "timestamps: drop or convert it"
        )
    return kinds[arrow_type]


def other_type(column: Any) -> str | None:
    """Return the name of a type that cannot be a feature; None for all other types."""
    if column.type != OTHER:
        return None
    return str(pc.min(column))


def no_date_in(column: Any) -> str | None:
    """Return the first row of dates in text that holds none, with its text; None if all do."""
    row = pc.index(pc.starts_with(column, NO_DATE), True).as_py()
    return None if row < 0 else f"row {row + 1} holds {str(column[row]).removeprefix(NO_DATE)}"


def categories_of(column: Any) -> tuple[str, ...]:
    """Return the categories that occur in a dictionary column, in the dictionary's order."""
    merged = column.unify_dictionaries()
    used = [np.unique(chunk.indices.drop_null().to_numpy()) for chunk in merged.chunks]
    if not used:
        return ()
    occurring = pa.array(np.unique(np.concatenate(used)))
    return tuple(merged.chunk(0).dictionary.take(occurring).to_pylist())


def as_numbers(column: Any, categories: Sequence[str] | None = None) -> Floats:
    """Return a column as float64, shape (n,), with NaN where it is missing.

    bool becomes 0 and 1, a timestamp its microseconds since 1970, a category its position in
    `categories`. A text that is not a category is matched to the only category of equal meaning:
    500 and 00500, 1.0 and 1, True and true, a day and its midnight, 08:00+01:00 and 07:00 of a day.
    Any other text becomes NaN.
    """
    if pa.types.is_dictionary(column.type):
        position = _Positions(categories or ())
        codes = [np.empty(0)]
        for chunk in column.chunks:
            known = [position[value] for value in chunk.dictionary.to_pylist()]
            # a missing value has index -1, which selects the NaN at the end
            codes.append(np.array([*known, np.nan])[chunk.indices.fill_null(-1).to_numpy()])
        return np.concatenate(codes) if len(codes) > 2 else codes[-1]
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(), dtype=np.float64)


def alike_categories(texts: Iterable[str], categories: Sequence[str]) -> list[str]:
    """Return categories of equal meaning that one of some texts denotes, or [] if none does."""
    meant: dict[Any, list[str]] = {}
    for category in categories:
        meant.setdefault(_meaning(category), []).append(category)
    denoted = (meant.get(_meaning(text), []) for text in texts)
    return next((alike for alike in denoted if len(alike) > 1), [])


class _Positions(dict[str, float]):
    """Category -> position; other texts map to the only category of equal meaning."""

    def __init__(self, categories: Sequence[str]) -> None:
        super().__init__((category, float(code)) for code, category in enumerate(categories))
        self._meant: dict[Any, float] = {}

    def __missing__(self, text: str) -> float:
        if not self._meant:
            for category, position in self.items():
                meaning = _meaning(category)
                # two categories of equal meaning are ambiguous
                self._meant[meaning] = np.nan if meaning in self._meant else position
        return self._meant.get(_meaning(text), np.nan)


def _meaning(text: str) -> Any:
    """Return the value that a text denotes: a number, true or false, a time, or the text itself."""
    bare = text.strip()
    if NUMBER.fullmatch(bare):
        return int(bare) if bare.lstrip("+-").isdigit() and len(bare) < 100 else float(bare)
    if bare in _TRUTH:
        return bare.lower()
    try:
        time = datetime.fromisoformat(bare)
        # as the category that is made of it where every value is a time
        return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):  # no time, or one beyond the years 1 to 9999
        return text


def are_beyond_exact(categories: Sequence[str]) -> bool:
    """Return whether categories are whole numbers, some of which float64 would round."""
    are_whole = all(map(_WHOLE.fullmatch, categories))
    return are_whole and any(abs(int(text)) > EXACT for text in categories)


def if_numbers(name: str, column: Any) -> str:
    """Return the remedy for a text column of numbers, such as those with leading zeros, or ""."""
    if kind_of(name, column) != "category" or not all(map(NUMBER.fullmatch, categories_of(column))):
        return ""
    return f", or name {name!r} as numeric"


def as_keys(column: Any) -> NDArray[Any]:
    """Return a column without missing values as a vector that can be sorted and compared.

    Integers and timestamps stay exact as int64; categories become their rank in alphabetical
    order.
    """
    if pa.types.is_dictionary(column.type):
        return as_numbers(column, sorted(categories_of(column))).astype(np.int64)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    keys: NDArray[Any] = column.to_numpy()
    return keys


def first_missing(column: Any) -> int:
    """Return the first row, counted from 1, with a missing value; 0 without any."""
    return int(pc.index(column.is_null(), True).as_py()) + 1
