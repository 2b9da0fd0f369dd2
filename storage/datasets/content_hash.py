"""Content hash of a table and row order by content, independent of the source format."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from chaffinch.storage.datasets.column_types import CATEGORY, OTHER, TIMESTAMP
from chaffinch.storage.memory import FreedBytes

Hashes = NDArray[np.uint64]

_TYPES = {
    pa.float64(): "float64",
    pa.int64(): "int64",
    pa.bool_(): "bool",
    CATEGORY: "category",
    TIMESTAMP: "timestamp",
    OTHER: "other",
}
TYPES = {name: kind for kind, name in _TYPES.items()}
_CONTENT_VERSION = 1
_ROWS_AT_A_TIME = 2**20
_MISSING = np.uint64(0x9E6C63D0676A9A99)  # any constant that is unlikely as a value's hash


def column_types(schema: pa.Schema) -> dict[str, str]:
    """Return each column's type under the names used by datasets."""
    types = {}
    for field in schema:
        if field.type not in _TYPES:
            known = ", ".join(_TYPES.values())
            raise ValueError(f"column {field.name!r} must be one of {known} but is {field.type}")
        types[field.name] = _TYPES[field.type]
    return types


def shuffle_rows(table: pa.Table) -> pa.Table:
    """Return the typed rows in an order determined by their content, in one chunk per column.

    Each row has a hash of its values and column names; rows are sorted by it. The order does not
    depend on the order of rows or columns in the source, nor on int64 against float64 for whole
    numbers. An added row does not change the order of the others. Equal rows keep their order.
    """
    columns = dict(_arrays(table))
    return pa.table(dict(shuffled(columns, row_order(hash_rows(columns.items())))))


def hash_rows(columns: Iterable[tuple[str, pa.Array]]) -> Hashes:
    """Return the sum of the hashes of some columns for each row, shape (n,)."""
    total = np.empty(0, np.uint64)
    for number, (name, array) in enumerate(columns):
        if not number:
            total = np.zeros(len(array), np.uint64)
        # the texts of a category are hashed once, for all rows
        step = len(total) if array.type == CATEGORY else _ROWS_AT_A_TIME
        for start in range(0, len(total), max(1, step)):
            some = slice(start, start + step)
            total[some] += mix(_value_hashes(array[some]) + _hash_of_text(name))
        del array
    return total


def row_order(hashes: Hashes) -> pa.Array:
    """Return the order of `shuffle_rows`, shape (n,), from the `hash_rows` of all columns."""
    return pa.array(np.argsort(mix(hashes), kind="stable"))


def shuffled(
    columns: MutableMapping[str, pa.Array], order: pa.Array
) -> Iterator[tuple[str, pa.Array]]:
    """Yield columns in another order of the rows, removing each of them."""
    freed = FreedBytes()
    for name in list(columns):
        column = columns.pop(name).take(order)
        freed.note(column.nbytes)
        yield name, column
        del column


def content_hash(table: pa.Table) -> str:
    """Return 64 hexadecimal digits over names, types, categories and values, in their order."""
    return hash_columns(column_types(table.schema), table.num_rows, _arrays(table))


def hash_columns(
    types: Mapping[str, str], n_rows: int, columns: Iterable[tuple[str, pa.Array]]
) -> str:
    """Return the `content_hash` of an iterable of columns."""
    digest = hashlib.sha256(f"{_CONTENT_VERSION} {n_rows}\n".encode())
    for name, column in columns:
        array = _encoded(column)
        categories = array.dictionary.to_pylist() if array.type == CATEGORY else None
        digest.update(json.dumps([name, types[name], categories]).encode())
        values, missing = _values(array)
        digest.update(np.packbits(missing).data)
        digest.update(np.ascontiguousarray(values, values.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def _values(array: pa.Array) -> tuple[NDArray[np.generic], NDArray[np.bool_]]:
    """Return values (zero where missing, codes for categories) and the mask of missing values."""
    missing = array.is_null().to_numpy(zero_copy_only=False)
    if array.type == CATEGORY:
        array = array.indices
    elif array.type == TIMESTAMP:
        array = array.view(pa.int64())
    zero = False if array.type == pa.bool_() else 0
    return array.fill_null(zero).to_numpy(zero_copy_only=False), missing


def _value_hashes(array: pa.Array) -> Hashes:
    """Return 64 bits per row, shape (n,); equal values have equal bits for any numeric type."""
    array = _encoded(array)
    values, missing = _values(array)
    if array.type == CATEGORY:
        texts = [_hash_of_text(text) for text in array.dictionary.to_pylist()]
        bits = np.array(texts, dtype=np.uint64)[values.astype(np.int32, copy=False)]
    elif array.type == TIMESTAMP:
        bits = values.astype(np.int64).view(np.uint64)
    else:
        floats = values.astype(np.float64)
        bits = floats.view(np.uint64)
        if array.type == pa.int64():
            # above 2**53 float64 is not exact: the lost remainder is hashed too
            rounded = floats.clip(max=2.0**63 - 1024).astype(np.int64)
            lost = (values.astype(np.int64) - rounded).view(np.uint64)
            bits = bits + lost * np.uint64(0xD1342543DE82EF95)
    bits[missing] = _MISSING
    return bits


def _hash_of_text(text: str) -> np.uint64:
    return np.uint64(
        int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")
    )


def mix(bits: Hashes) -> Hashes:
    """Return splitmix64 of each element, so that sums of related numbers are unrelated."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(30)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(27)
    bits *= np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return bits


def _encoded(array: pa.Array) -> pa.Array:
    return array.dictionary_encode() if array.type == OTHER else array


def _arrays(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield name, column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
