"""Tables in memory and files of tables, ordinary but for a few columns, names or bytes."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import io
import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import chaffinch
from tests.fuzz.ground import CHEAP, cheap
from tests.fuzz.values import (
    NAMES,
    NOT_TEXT,
    NUMBERS,
    Broken,
    Case,
    Draws,
    Place,
    damaged,
    often,
    pick,
    shown,
    some,
)

Maker = Callable[[Draws, int], Any]
_FAST = (
    "gbmo",
    "flbmo",
    "mrmr",
    "correlation",
    "rfe",
    "lasso",
    "anova_f",
    "fcbf",
    "mutual_information",
)
_DAY = dt.datetime(2026, 1, 1)


def _objects(values: Sequence[Any]) -> Maker:
    return lambda draws, n: [pick(draws, values) for _ in range(n)]


# Of Python's values, which pandas and Arrow both take.
PLAIN: dict[str, Maker] = {
    "normal": lambda draws, n: draws.normal(size=n).round(6).tolist(),
    "huge": lambda draws, n: (draws.normal(size=n) * 1e300).tolist(),
    "large": lambda draws, n: (draws.normal(size=n) * 10.0 ** draws.integers(15, 31)).tolist(),
    "tiny": lambda draws, n: (draws.normal(size=n) * 10.0 ** -draws.integers(15, 320)).tolist(),
    "shifted": lambda draws, n: (1e15 + draws.normal(size=n)).tolist(),
    "gaps": lambda draws, n: [None if often(draws, 0.6) else float(v) for v in draws.normal(size=n)],
    "nan": lambda draws, n: np.where(draws.random(n) < 0.5, np.nan, draws.normal(size=n)).tolist(),
    "infinite": lambda draws, n: np.where(draws.random(n) < 0.1, np.inf, 1.0).tolist(),
    "missing": lambda draws, n: [None] * n,
    "constant": lambda draws, n: [1.5] * n,
    "nearly constant": lambda draws, n: [1.5] * (n - 1) + [2.5] * min(n, 1),
    "numbers of rows": lambda draws, n: list(range(n)),
    "whole": lambda draws, n: draws.integers(-3, 4, n).tolist(),
    "int64": lambda draws, n: draws.integers(-(2**63), 2**63 - 1, n).tolist(),
    "beyond int64": _objects([10**30, 1, 2**64]),
    "true or false": _objects([True, False]),
    "true, false or nothing": _objects([True, False, None]),
    "text": _objects(["a", "b", "c"]),
    "many texts": lambda draws, n: [f"id-{int(v)}" for v in draws.integers(10**9, size=n)],
    "numbers as text": _objects(["1", "2.5", "-3e4", "1e999"]),
    "zeros as text": _objects(["00500", "007", "1"]),
    "commas as text": _objects(["1,5", "2,25", "1.000,5"]),
    "odd texts": _objects([*(n for n in NAMES if n != "\ud800"), None]),
    "not utf-8": _objects(["\ud800", "a"]),
    "empty texts": _objects(["", " ", None]),
    "long texts": lambda draws, n: ["x" * 20_000 + str(i % 3) for i in range(n)],
    "dates": lambda draws, n: [_DAY.date() + dt.timedelta(int(i)) for i in range(n)],
    "moments": lambda draws, n: [_DAY + dt.timedelta(0, int(i)) for i in draws.integers(10**8, size=n)],
    "moments of zones": lambda draws, n: [dt.datetime(2026, 1, 1, i % 24, tzinfo=dt.UTC) for i in range(n)],
    "times": lambda draws, n: [dt.time(i % 24) for i in range(n)],
    "durations": lambda draws, n: [dt.timedelta(i) for i in range(n)],
    "decimals": lambda draws, n: [decimal.Decimal(int(v)) / 7 for v in draws.integers(99, size=n)],
    "odd decimals": _objects([decimal.Decimal("NaN"), decimal.Decimal("1e30"), decimal.Decimal(1)]),
    "bytes": _objects([b"a", b"\xff", None]),
    "lists": _objects([[1.0], [], None, [1.0, 2.0]]),
    "mappings": _objects([{"a": 1}, {"a": 2}]),
}  # fmt: skip
# Of objects that only pandas holds.
OBJECTS: dict[str, Maker] = {
    "mixed": _objects([1, "a", None, 2.5, True]),
    "sets": _objects([{1}, {2}]),
    "odd numbers": _objects(NUMBERS),
    "frames": lambda draws, n: [pd.DataFrame({"a": [1, 2]})] * n,
    "arrays": lambda draws, n: [np.arange(i % 3) for i in range(n)],
    "objects": lambda draws, n: [object()] * n,
    "complex": lambda draws, n: [complex(i, 1) for i in range(n)],
    "classes": _objects([int, float]),
}
PANDAS: dict[str, Maker] = {
    "categories": lambda draws, n: pd.Categorical([pick(draws, "abc") for _ in range(n)]),
    "ordered": lambda draws, n: pd.Categorical.from_codes(
        draws.integers(-1, 3, n), ["low", "mid", "high"], ordered=True
    ),
    "categories of numbers": lambda draws, n: pd.Categorical(draws.integers(0, 3, n)),
    "unused categories": lambda draws, n: pd.Categorical(["a"] * n, ["a", "b"]),
    "Int64": lambda draws, n: pd.array([None if i % 5 == 0 else i % 7 for i in range(n)], "Int64"),
    "boolean": lambda draws, n: pd.array([None if i % 5 == 0 else i % 2 for i in range(n)], "boolean"),
    "string": lambda draws, n: pd.array([pick(draws, "ab") for _ in range(n)], "string"),
    "uint64": lambda draws, n: draws.integers(2**62, 2**64 - 1, n, dtype=np.uint64),
    "float16": lambda draws, n: draws.normal(size=n).astype(np.float16),
    "longdouble": lambda draws, n: draws.normal(size=n).astype(np.longdouble),
    "complex numbers": lambda draws, n: draws.normal(size=n) + 1j,
    "periods": lambda draws, n: pd.period_range("2026-01", periods=n, freq="M"),
    "intervals": lambda draws, n: pd.interval_range(0, n),
    "sparse": lambda draws, n: pd.arrays.SparseArray(draws.integers(0, 2, n).astype(float)),
    "nanoseconds": lambda draws, n: np.arange(n).astype("datetime64[ns]"),
    "far moments": lambda draws, n: np.full(n, 2**62).astype("datetime64[s]"),
    "arrow": lambda draws, n: pd.array([pick(draws, "ab") for _ in range(n)], pd.ArrowDtype(pa.string())),
    "arrow decimals": lambda draws, n: pd.array(
        [decimal.Decimal(i) for i in range(n)], pd.ArrowDtype(pa.decimal128(9, 2))
    ),
}  # fmt: skip
ARROW: dict[str, Maker] = {
    "dictionary": lambda draws, n: pa.array([pick(draws, "abc") for _ in range(n)]).dictionary_encode(),
    "dictionary of views": lambda draws, n: pa.DictionaryArray.from_arrays(
        pa.array(draws.integers(0, 2, n), pa.int32()), pa.array(["a", "b"], pa.string_view())
    ),
    "dictionary of numbers": lambda draws, n: pa.array([i % 3 for i in range(n)]).dictionary_encode(),
    "dictionary with nulls": lambda draws, n: pa.DictionaryArray.from_arrays(
        pa.array(draws.integers(0, 2, n), pa.int8()), pa.array(["a", None])
    ),
    "views": lambda draws, n: pa.array([pick(draws, "abc") for _ in range(n)], pa.string_view()),
    "large text": lambda draws, n: pa.array([pick(draws, "abc") for _ in range(n)], pa.large_string()),
    "binary views": lambda draws, n: pa.array([b"\xff"] * n, pa.binary_view()),
    "invalid text": lambda draws, n: pa.Array.from_buffers(
        pa.string(), n, [None, pa.py_buffer(np.arange(n + 1, dtype=np.int32)), pa.py_buffer(b"\xff" * n)]
    ),
    "run ends": lambda draws, n: pa.RunEndEncodedArray.from_arrays(
        pa.array([n], pa.int32()) if n else pa.array([], pa.int32()), pa.array([1.0][: min(n, 1)])
    ),
    "wide decimals": lambda draws, n: pa.array([decimal.Decimal(i) for i in range(n)], pa.decimal256(60, 3)),
    "half": lambda draws, n: pa.array(draws.normal(size=n).astype(np.float16)),
    "uint64": lambda draws, n: pa.array([2**64 - 1 - i for i in range(n)], pa.uint64()),
    "structs": lambda draws, n: pa.array([{"a": 1}] * n),
    "maps": lambda draws, n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    "extension": lambda draws, n: pa.array(draws.normal(size=n).tolist()).cast(pa.float64()),
    "zones": lambda draws, n: pa.array([_DAY] * n, pa.timestamp("s", tz="Asia/Tokyo")),
    "far moments": lambda draws, n: pa.array([2**62 + i for i in range(n)], pa.timestamp("s")),
    "date64": lambda draws, n: pa.array([_DAY] * n, pa.date64()),
    "months": lambda draws, n: pa.array([(1, 2, 3)] * n, pa.month_day_nano_interval()),
    "fixed lists": lambda draws, n: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64(), 2)),
    "unions": lambda draws, n: pa.UnionArray.from_sparse(
        pa.array([0] * n, pa.int8()), [pa.array(np.arange(n))]
    ),
    "uuid": lambda draws, n: pa.array([bytes(16)] * n, pa.uuid()),
}  # fmt: skip
_TARGETS = ["whole", "normal", "text", "true or false", "numbers of rows", "Int64", "categories",
            "dictionary", "dictionary of views", "large"]  # fmt: skip


def columns(draws: Draws, makers: dict[str, Maker], n: int) -> tuple[dict[Any, Any], str, str]:
    """Return columns by name, the name of the target, and what they are."""
    kinds = {"a": "normal", "b": "gaps", "c": "text"}
    kinds |= {name: pick(draws, [*makers]) for name in some(draws, ["a", "b", "c", "d", "e"])}
    target = (
        pick(draws, [k for k in _TARGETS if k in makers])
        if often(draws, 0.8)
        else pick(draws, [*makers])
    )
    kinds["y"] = target
    renamed = (
        {name: pick(draws, NAMES) for name in some(draws, list(kinds), 2)}
        if often(draws, 0.4)
        else {}
    )
    made: dict[str, Any] = {}
    for name, kind in kinds.items():
        made[renamed.get(name, name)] = makers[kind](draws, n)
    said = ", ".join(f"{renamed.get(name, name)!r}: {kind}" for name, kind in kinds.items())
    return made, renamed.get("y", "y"), f"{n} rows of {shown(said, 500)}"


def _rows(draws: Draws) -> int:
    return int(pick(draws, [60] * 8 + [80, 40, 24, 9, 3, 1, 0]))


def _pandas(draws: Draws) -> tuple[Any, str, str]:
    n = _rows(draws)
    made, target, said = columns(draws, PLAIN | OBJECTS | PANDAS, n)
    table = pd.DataFrame({name: pd.Series(v, dtype=object if isinstance(v, list) and often(draws, 0.3) else None)
                          for name, v in made.items()})  # fmt: skip
    if often(draws, 0.2):
        names = [*table.columns]
        for _ in range(int(draws.integers(1, 3))):
            names[int(draws.integers(len(names)))] = pick(draws, NOT_TEXT)
        said = f"{said}; named {names!r}"
        table.columns = pd.Index(names, dtype=object)
    if often(draws, 0.1):
        how = pick(draws, ["index", "levels", "columns", "twice"])
        said = f"{said}; {how}"
        if how == "index":
            table.index = pd.Index(draws.normal(size=n), name=pick(draws, [*NAMES, 5, None]))
        elif how == "levels":
            table.index = pd.MultiIndex.from_arrays(
                [np.arange(n)] * 2, names=["k", pick(draws, ["k", "y", None])]
            )
        elif how == "columns":
            table.columns = pd.MultiIndex.from_tuples([(name, 1) for name in table.columns])
        else:
            table = pd.concat([table, table], axis=1)
    return table, target, f"pandas: {said}"


def _arrow(draws: Draws) -> tuple[Any, str, str]:
    n = _rows(draws)
    made, target, said = columns(draws, PLAIN | ARROW, n)
    arrays: list[Any] = []
    for values in made.values():
        try:
            array = values if isinstance(values, pa.Array) else pa.array(values)
        except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError):
            array = pa.array([str(i) for i in range(n)])
        arrays.append(array)
        if often(draws, 0.2):
            cuts = sorted(draws.integers(0, n + 1, 3).tolist()) + [n]
            first = [array.slice(a, b - a) for a, b in zip([0, *cuts], cuts, strict=False)]
            arrays[-1] = pa.chunked_array(first, array.type)
            said += f"; {len(arrays)}. column in chunks of {[len(chunk) for chunk in first]}"
    names = [name.encode("utf-8", "replace").decode() for name in made]
    table = pa.table(arrays, names=names)
    if often(draws, 0.1) and n:
        table, said = table.slice(1), f"{said}; without its first row"
    how = pick(draws, ["table", "table", "batches"])
    if how == "batches":
        table = table.to_reader(max_chunksize=17)
    return table, target, f"arrow {how}: {said}"


def _polars(draws: Draws) -> tuple[Any, str, str]:
    import polars as pl

    n = _rows(draws)
    texts = [pick(draws, "abc") for _ in range(n)]
    own: dict[str, Maker] = {
        "categories": lambda *_: pl.Series(texts, dtype=pl.Categorical),
        "enum": lambda *_: pl.Series(texts, dtype=pl.Enum(["a", "b", "c"])),
        "int128": lambda *_: pl.Series([2**100] * n, dtype=pl.Int128),
        "structs": lambda *_: pl.Series([{"a": 1, "b": "x"}] * n),
        "arrays": lambda *_: pl.Series([[1, 2]] * n, dtype=pl.Array(pl.Int64, 2)),
        "objects": lambda *_: pl.Series([object()] * n, dtype=pl.Object),
        "null": lambda *_: pl.Series([None] * n, dtype=pl.Null),
        "decimal": lambda *_: pl.Series([decimal.Decimal(i) for i in range(n)], dtype=pl.Decimal(10, 2)),
        "categories in lists": lambda *_: pl.Series([[t] for t in texts], dtype=pl.List(pl.Categorical)),
    }  # fmt: skip
    made, target, said = columns(draws, PLAIN | own, n)
    if often(draws, 0.1):
        target = pick(draws, ["y", target])
    frame = {}
    for name, values in made.items():
        try:
            frame[name] = pl.Series(values)
        except Exception:  # noqa: BLE001 - polars has errors of many kinds for what it cannot hold
            frame[name] = pl.Series([str(i) for i in range(n)])
    table = pl.DataFrame({name.encode("utf-8", "replace").decode(): v for name, v in frame.items()})
    if often(draws, 0.3) and n > 3:
        table, said = pl.concat([table[:3], table[3:]], rechunk=False), f"{said}; in two chunks"
    if often(draws, 0.05):
        return table.lazy(), target, f"polars, lazy: {said}"
    return table, target, f"polars: {said}"


_OTHERS: list[Any] = [
    None,
    5,
    [],
    {},
    np.zeros((5, 2)),
    [[1, 2]],
    {"a": [1]},
    object(),
    pd.Series([1.0, 2.0]),
    b"x",
]


def in_memory(draws: Draws) -> tuple[Any, str, str]:
    """Return a table in memory, its target and what it is."""
    how = pick(
        draws, [_pandas] * 5 + [_arrow] * 4 + [_polars] * 4 + [None] * (draws.random() < 0.1)
    )
    if how is None:
        value = pick(draws, _OTHERS)
        return value, "y", shown(value)
    return how(draws)


def arguments(draws: Draws, names: Sequence[str]) -> dict[str, Any]:
    """Return arguments of `chaffinch.select`, most of them by default."""
    model = pick(draws, ["lightgbm"] * 5 + [*CHEAP])
    found: dict[str, Any] = {"model": cheap(model), "method": pick(draws, ["gbmo", "gbmo", *_FAST])}
    if often(draws, 0.25):
        role = pick(draws, ["keep", "drop", "categorical", "numeric", "weight", "group", "time"])
        named = pick(draws, [*names, "absent"])
        found[role] = (
            named if role in ("weight", "group", "time") else [named, *some(draws, names, 1)]
        )
    if often(draws, 0.15):
        found["task"] = pick(draws, ["classification", "regression"])
    if often(draws, 0.1):
        found["baseline"] = pick(
            draws, ["median", "zero", {"a": 0}, {"c": "a"}, {"a": float("nan")}]
        )
    if often(draws, 0.1):
        found |= {"time": pick(draws, names), pick(draws, ["lags", "rolling"]): [2]}
        found |= {"series": pick(draws, names)} if often(draws, 0.5) else {}
    return found


def select_checked(data: Any, target: str, names: Sequence[str], **given: Any) -> None:
    """Select, and hold the result against the table."""
    before = pickle.dumps(data) if isinstance(data, pd.DataFrame) else b""
    try:
        result = chaffinch.select(data, target, **given)
    finally:
        if before and pickle.dumps(data) != before:
            raise Broken("the table of the caller was changed")
    columns_of = {str(name) for name in names}
    is_made = bool(given.get("lags") or given.get("rolling"))
    features = result.features
    if not set(features) <= set(result.candidates):
        raise Broken(f"features that were no candidates: {features!r}")
    if not is_made and not {str(f) for f in features} <= columns_of - {target}:
        raise Broken(f"features that are no columns: {features!r} of {sorted(columns_of)!r}")
    if is_made or (not hasattr(data, "columns") and not isinstance(data, str)):
        return
    predicted = result.model.predict(data)
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise Broken(f"predictions that are not finite: {predicted!r}")
    if not isinstance(data, str) and hasattr(data, "shape"):
        if len(predicted) != data.shape[0]:
            raise Broken(f"{len(predicted)} predictions of {data.shape[0]} rows")
        kept = result.transform(data)
        if [str(name) for name in getattr(kept, "column_names", kept.columns)] != [
            str(f) for f in features
        ]:
            raise Broken(f"transform gave {kept.columns!r} of {features!r}")


def _names(data: Any) -> list[str]:
    """Return the names of the columns of a table; of what has none, some."""
    if isinstance(data, pa.RecordBatchReader):
        return list(data.schema.names)
    if isinstance(data, pa.Table):
        return list(data.column_names)
    if isinstance(data, pd.DataFrame):
        return [*map(str, data.columns), *(str(name) for name in data.index.names if name)]
    return list(data.columns) if hasattr(data, "get_columns") else ["a", "y"]


def draw(draws: Draws, place: Place) -> Case:
    """Draw a selection of a table in memory."""
    data, target, said = in_memory(draws)
    names = _names(data)
    given = arguments(draws, names or ["a"])
    if often(draws, 0.3):
        given["store"] = place.store
    return Case(
        f"select({said}; target {target!r}, {shown(given)})",
        lambda: select_checked(data, target, names, **given),
    )


def draw_file(draws: Draws, place: Place) -> Case:
    """Draw a selection of a file of a table, which most often is damaged."""
    path, said = file_of_table(draws, place)
    given = arguments(draws, ["a", "b", "c"])
    if often(draws, 0.3):
        given["store"] = place.store
    target = pick(draws, ["y"] * 8 + ["a", "prize"])

    def do() -> None:
        result = chaffinch.select(str(path), target, **given)
        predicted = result.model.predict(str(path))
        if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
            raise Broken(f"predictions that are not finite: {predicted!r}")

    return Case(f"select({path.name}: {said}; target {target!r}, {shown(given)})", do)


def file_of_table(draws: Draws, place: Place) -> tuple[Any, str]:
    """Write a file of a table and damage it; return its path and what was done."""
    n = int(pick(draws, [60] * 6 + [12, 1, 0]))
    if often(draws, 0.003):
        path = place.given / "wide.csv"
        path.write_text(
            ",".join(f"c{i}" for i in range(100_000)) + "\n" + ",".join("1" * 100_000) + "\n"
        )
        return path, "100,000 columns and a row"
    if often(draws, 0.4):
        return _parquet(draws, place, n)
    return _delimited(draws, place, n)


def _parquet(draws: Draws, place: Place, n: int) -> tuple[Any, str]:
    made, _, said = columns(draws, PLAIN | ARROW, n)
    arrays = {}
    for name, values in made.items():
        try:
            column = pa.array(values) if isinstance(values, list) else values
            pq.write_table(pa.table({"a": column}), io.BytesIO())
        except Exception:  # noqa: BLE001 - what Arrow cannot hold or Parquet cannot keep
            column = pa.array([float(i % 7) for i in range(n)])
        arrays[name.encode("utf-8", "replace").decode()] = column
    table = pa.table(arrays)
    options: dict[str, Any] = {
        "compression": pick(draws, ["snappy", "zstd", "gzip", "none", "lz4"]),
        "row_group_size": pick(draws, [7, 1000]),
        "use_dictionary": often(draws, 0.5),
        "version": pick(draws, ["1.0", "2.6"]),
        "data_page_version": pick(draws, ["1.0", "2.0"]),
    }
    content = io.BytesIO()
    pq.write_table(table, content, **options)
    data = content.getvalue()
    if often(draws, 0.7):
        data, how = damaged(draws, data)
        said = f"{said}; {how}"
    if often(draws, 0.2):
        folder = place.given / pick(draws, ["parts", "parts.parquet"])
        folder.mkdir()
        pq.write_table(table, folder / "0.parquet")
        (folder / "1.parquet").write_bytes(data)
        if often(draws, 0.3):
            (folder / pick(draws, ["_SUCCESS", ".hidden", "2.csv", "_metadata"])).write_bytes(b"")
        return folder, said
    path = place.given / pick(
        draws, ["t.parquet"] * 6 + ["t.pq", "t.csv", "t.csv.gz", "t.txt", "T.PARQUET"]
    )
    path.write_bytes(data)
    return path, said


def _delimited(draws: Draws, place: Place, n: int) -> tuple[Any, str]:
    made, _, said = columns(draws, PLAIN, n)
    mark = pick(draws, [",", ",", ",", "\t", ";", "|", " "])
    end = pick(draws, ["\n", "\n", "\r\n", "\r"])
    quoting = pick(draws, [csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
    out = io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator=end, quoting=quoting)
    if often(draws, 0.95):
        writer.writerow(made)
    writer.writerows(zip(*made.values(), strict=True))
    text = out.getvalue()
    how = pick(
        draws,
        ["whole"] * 4 + ["ragged", "quote", "dot", "repeated", "header", "blank", "nul", "long"],
    )
    lines = text.split(end)
    place_of_line = int(draws.integers(len(lines)))
    if how == "ragged":
        lines[place_of_line] += mark + "1" + mark + "2"
    elif how == "quote":
        lines[place_of_line] = '"' + lines[place_of_line]
    elif how == "dot":
        lines[place_of_line] = lines[place_of_line].rpartition(mark)[0]
    elif how == "repeated":
        lines.insert(place_of_line, lines[0])
    elif how == "header":
        lines = lines[:1]
    elif how == "blank":
        lines.insert(place_of_line, "")
    elif how == "nul":
        lines[place_of_line] += "\0"
    elif how == "long":
        lines[place_of_line] += "9" * 100_000
    encoding = pick(draws, ["utf-8"] * 8 + ["utf-8-sig", "utf-16", "latin-1", "utf-32"])
    data = end.join(lines).encode(encoding, "replace" if encoding == "latin-1" else "surrogatepass")
    if often(draws, 0.3):
        data, damage = damaged(draws, data)
        how = f"{how}, {damage}"
    ending = pick(draws, ["csv"] * 5 + ["tsv", "txt", "parquet", "CSV"])
    if often(draws, 0.25):
        data, ending = gzip.compress(data, mtime=0), f"{ending}.gz"
        if often(draws, 0.5):
            data, damage = damaged(draws, data)
            how = f"{how}, compressed, {damage}"
    path = place.given / f"t.{ending}"
    path.write_bytes(data)
    return path, f"{said}; between {mark!r}, lines end with {end!r}, {encoding}, {how}"
