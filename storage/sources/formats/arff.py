"""ARFF files, as scipy reads them: numbers, nominal attributes and dates."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from chaffinch.errors import InputError
from chaffinch.storage.sources.source import check_same_columns, read_whole, with_whole_numbers

# what scipy raises for a file that it cannot read
_UNREADABLE = (ValueError, IndexError, KeyError, NotImplementedError, StopIteration, OSError)
_AT_DATA = re.compile(r"^\s*@data", re.IGNORECASE | re.MULTILINE)
_MISSING = b"?"
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]|~")  # scipy takes none; ~ marks what stands for them


def _read(files: Mapping[str, Any]) -> pa.Table:
    parts = {name: _parsed(name, file) for name, file in files.items()}
    first, *_ = parts
    for name, part in parts.items():
        check_same_columns(parts[first].schema, first, part.schema, name)
    return with_whole_numbers(pa.concat_tables(parts.values()), first)


def _parsed(name: str, file: Any) -> pa.Table:
    from scipy.io.arff import loadarff

    content = file.read()
    try:
        text = content.decode()
        n_above = mark.end() if (mark := _AT_DATA.search(text)) else len(text)
        # scipy looks for single quotes in the first row alone
        text = text[:n_above] + text[n_above:].replace("'", '"')
        ascii_text = _BEYOND_ASCII.sub(lambda found: f"~{ord(found[0]):x}~", text)
        values, about = loadarff(io.StringIO(ascii_text))
    except _UNREADABLE as error:
        reason = str(error) or "it has no @data"
        raise InputError(
            f"{name} is no ARFF file that can be read ({reason}): rows are lists of numbers, names "
            "in { } and dates, and no text; write the table as CSV or Parquet"
        ) from error
    return pa.table(
        {_decoded(field): _column(values[field], about[field][0]) for field in about.names()}
    )


def _decoded(text: str) -> str:
    return re.sub(r"~([\da-f]+)~", lambda code: chr(int(code[1], 16)), text)


def _column(values: Any, kind: str) -> pa.Array:
    if kind != "nominal":
        return pa.array(values, from_pandas=True)  # NaN is a missing value
    texts = pa.array(values.astype(str), mask=values == _MISSING).dictionary_encode()
    names = pa.array(map(_decoded, texts.dictionary.to_pylist()), pa.string())
    return pa.DictionaryArray.from_arrays(texts.indices, names)


ARFF = read_whole("ARFF", ".arff", _read)
