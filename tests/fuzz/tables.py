"""Tables in memory and files of tables, ordinary but for a few columns, names or bytes."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import gzip
import io
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
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
    damaged,
    encodable,
    often,
    pick,
    shown,
    some,
)  # fmt: skip

_DAY, _ZONE = dt.datetime(2026, 1, 1), dt.timezone(dt.timedelta(hours=9))
_FAST = ["gbmo", "flbmo", "mrmr", "rfe", "lasso", "anova_f", "fcbf", "select_from_model"]
Maker = Callable[[Draws, int], Any]
Drawn = tuple[Any, str, str]  # a table, its target, and what it is in words
# fmt: off
# What a column is drawn from: n numbers, or a pool of values.
SPREAD: dict[str, Maker] = {
    "normal": lambda draws, n: draws.normal(size=n).round(6),
    "huge": lambda draws, n: draws.normal(size=n) * 1e300,
    "large": lambda draws, n: draws.normal(size=n) * 10.0 ** draws.integers(15, 31),
    "tiny": lambda draws, n: draws.normal(size=n) * 10.0 ** -draws.integers(15, 320),
    "shifted": lambda draws, n: 1e15 + draws.normal(size=n),
    "gaps": lambda draws, n: np.where(draws.random(n) < 0.6, np.nan, draws.normal(size=n)),
    "nearly constant": lambda draws, n: np.arange(n) == 0,
    "rows": lambda draws, n: np.arange(n),
    "two classes": lambda draws, n: np.arange(n) % 2,
    "whole": lambda draws, n: draws.integers(-3, 4, n),
    "int64": lambda draws, n: draws.integers(-(2**63), 2**63 - 1, n),
}
POOLS: dict[str, list[Any]] = {
    "some": [None, 1.0, 2.0, 3.0], "infinite": [1.0, 2.0, 3.0, float("inf")], "missing": [None],
    "constant": [1.5], "beyond int64": [10**30, 1, 2**64], "true or false": [True, False],
    "true, false or nothing": [True, False, None], "text": ["a", "b", "c"],
    "numbers as text": ["1", "2.5", "-3e4", "1e999"], "zeros as text": ["00500", "007", "1"],
    "commas as text": ["1,5", "2,25", "1.000,5"], "odd texts": [*map(encodable, NAMES), None],
    "not UTF-8": ["\ud800", "a"], "empty texts": ["", " ", None], "long": ["x" * 20_000, "y"],
    "dates": [_DAY.date(), None], "moments": [_DAY, _DAY + dt.timedelta(1), None],
    "zones": [_DAY.replace(tzinfo=dt.UTC), _DAY.replace(tzinfo=_ZONE)], "times": [_DAY.time()],
    "durations": [dt.timedelta(1), dt.timedelta(2)], "lists": [[1.0], [], None, [1.0, 2.0]],
    "decimals": [decimal.Decimal("1.5"), decimal.Decimal(2) / 7],
    "odd decimals": [decimal.Decimal("NaN"), decimal.Decimal("1e30"), decimal.Decimal(1)],
    "beyond float64": [89490200000000000007, 89490200000000000008, 89490200000000000009],
    "spelt numbers": ["1'200", "3 400\u00a0", "21%", "$2100", "(4)", "1,079.18"],
    "days first": ["31/01/2023", "28/02/2023", None], "months first": ["01/31/23", "2/28/23"],
    "bytes": [b"a", b"\xff", None], "mappings": [{"a": 1}, {"a": 2}],
}
OBJECTS: dict[str, list[Any]] = {
    "mixed": [1, "a", None, 2.5, True], "sets": [{1}, {2}], "odd numbers": NUMBERS,
    "frames": [pd.DataFrame({"a": [1, 2]})], "arrays": [np.arange(2), np.arange(3)],
    "objects": [object()], "complex": [1j, 2 + 1j], "types": [int, float],
    "uuid": [uuid.UUID(int=5)],
}
PANDAS: dict[str, list[Any]] = {
    "category": ["a", "b", None], "Int64": [1, 2, None], "boolean": [True, False, None],
    "string": ["a", "b", None], "uint64": [2**64 - 1, 2**62, 1], "float16": [1.5, 60000.0],
    "longdouble": [1.5, 2.5], "complex128": [1j, 2.0], "period[M]": ["2026-01", "2026-02"],
    "interval": [pd.Interval(0, 1), pd.Interval(1, 2)], "Sparse[float]": [0.0, 1.0],
    "datetime64[ns]": [_DAY], "datetime64[s]": [np.datetime64(2**40, "s")], "timedelta64[ns]": [5],
    "string[pyarrow]": ["a", "b", None], "double[pyarrow]": [1.0, None, 2.0],
    "Float32": [1.5, None], "datetime64[ns, Asia/Tokyo]": [_DAY], "bool": [True, False],
    "object": [1, 2.5, None], "Sparse[int]": [0, 1], "period[D]": ["2026-01-01", "2026-01-02"],
}
_DICTIONARY = pa.dictionary(pa.int32(), pa.string())
ARROW: list[tuple[pa.DataType, list[Any]]] = [
    (_DICTIONARY, ["a", "b", None]), (pa.dictionary(pa.int8(), pa.int64()), [1, 2]),
    (pa.string_view(), ["a", "b", None]), (pa.large_string(), ["a", "b"]), (pa.float16(), [1.5]),
    (pa.binary_view(), [b"\xff"]), (pa.decimal256(60, 3), [decimal.Decimal(1)]),
    (pa.null(), [None]), (pa.uint64(), [2**64 - 1, 1]),
    (pa.struct([("a", pa.int64())]), [{"a": 1}]), (pa.int8(), [1, 2]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)]]), (pa.timestamp("s", "Asia/Tokyo"), [_DAY]),
    (pa.timestamp("s"), [2**62, 5]), (pa.date64(), [_DAY]),
    (pa.month_day_nano_interval(), [(1, 2, 3)]), (pa.list_(pa.float64(), 2), [[1.0, 2.0]]),
    (pa.uuid(), [bytes(16)]), (pa.duration("ns"), [5]), (pa.list_view(pa.int64()), [[1]]),
    (pa.binary(3), [b"abc"]), (pa.decimal128(38, -2), [None]),
]
# Ways to hold text that no list becomes by itself.
_HELD: dict[str, Callable[[pa.Array], Any]] = {
    "dictionary of views": lambda text: pa.DictionaryArray.from_arrays(
        pa.array([i % 2 for i in range(len(text))], pa.int32()),
        pa.array(["a", "b"], pa.string_view())),
    "dictionary of nulls": lambda text: pa.DictionaryArray.from_arrays(
        pa.array([i % 2 for i in range(len(text))], pa.int8()), pa.array(["a", None])),
    "invalid text": lambda text: pa.Array.from_buffers(pa.string(), len(text), [
        None, pa.py_buffer(np.arange(len(text) + 1, dtype=np.int32)),
        pa.py_buffer(b"\xff" * len(text))]),
    "runs": lambda text: pa.RunEndEncodedArray.from_arrays(pa.array([len(text)], pa.int32()),
    text[:1]),
}
_TARGETS = [*["two classes"] * 4, *["normal"] * 3, "whole", "text", "true or false", "large",
            "rows", "Int64", "category", "dictionary of views", str(_DICTIONARY), "Categorical",
            "Enum"]
_OTHERS: list[Any] = [None, 5, [], {}, np.zeros((5, 2)), [[1, 2]], {"a": [1]}, object(), b"x",
                      pd.Series([1.0, 2.0])]
# fmt: on


def _from(pool: Sequence[Any], change: Callable[[list[Any]], Any] = list) -> Maker:
    return lambda draws, n: change([pick(draws, pool) for _ in range(n)])


PLAIN: dict[str, Maker] = {
    **{kind: lambda draws, n, make=make: make(draws, n).tolist() for kind, make in SPREAD.items()},
    **{kind: _from(pool) for kind, pool in POOLS.items()},
}


def columns(draws: Draws, makers: dict[str, Maker], n: int) -> tuple[dict[str, Any], str, str]:
    """Return columns by name, the name of the target, and what they are."""
    kinds = {"a": "normal", "b": "gaps", "c": "text"}
    odd = int(pick(draws, [0, 1, 1, 1, 2, 3]))
    kinds |= {name: pick(draws, [*makers]) for name in some(draws, ["a", "b", "c", "d", "e"], odd)}
    usual = [kind for kind in _TARGETS if kind in makers]
    kinds["y"] = pick(draws, usual if often(draws, 0.85) else [*makers])
    renamed = [pick(draws, NAMES) if often(draws, 0.12) else name for name in kinds]
    made = {}
    for name, kind in zip(renamed, kinds.values(), strict=True):
        try:
            made[name] = makers[kind](draws, n)
        except BaseException:  # noqa: BLE001 - what a library cannot hold, which polars panics at
            made[name] = [str(i) for i in range(n)]
    said = ", ".join(f"{name!r} {kind}" for name, kind in zip(renamed, kinds.values(), strict=True))
    return made, renamed[-1], f"{n} rows of {shown(said, 500)}"


def _n_rows(draws: Draws) -> int:
    return int(pick(draws, [60] * 16 + [80, 40, 24, 9, 3, 1, 0]))


def _as_series(values: Any, as_objects: bool) -> pd.Series:
    with suppress(UnicodeEncodeError):
        return pd.Series(values, **({"dtype": object} if as_objects else {}))
    return pd.Series(values, dtype=object)


def _pandas(draws: Draws) -> Drawn:
    makers = PLAIN | {kind: _from(pool) for kind, pool in OBJECTS.items()}
    makers |= {k: _from(p, lambda v, k=k: pd.Series(v, dtype=k)) for k, p in PANDAS.items()}
    n = _n_rows(draws)
    made, target, said = columns(draws, makers, n)
    as_objects = often(draws, 0.1)
    table = pd.DataFrame({i: _as_series(v, as_objects) for i, v in enumerate(made.values())})
    is_utf_8 = all(encodable(name) == name for name in made)  # pandas has no text for others
    table.columns = pd.Index([*made], dtype=None if is_utf_8 else object)
    how = pick(draws, ["as it is"] * 14 + ["names", "names", "index", "levels", "columns", "twice"])
    if not is_utf_8:
        how = "as it is"
    if how == "names":
        names = [pick(draws, NOT_TEXT) if often(draws, 0.3) else name for name in table.columns]
        table.columns, how = pd.Index(names, dtype=object), f"named {names!r}"
    elif how == "index":
        table.index = pd.Index(draws.normal(size=n), name=pick(draws, [*NAMES, 5, None]))
    elif how == "levels":
        names = ["k", pick(draws, ["k", "y", None])]
        table.index = pd.MultiIndex.from_arrays([np.arange(n)] * 2, names=names)
    elif how == "columns":
        table.columns = pd.MultiIndex.from_tuples([(name, 1) for name in table.columns])
    elif how == "twice":
        table = pd.concat([table, table], axis=1)
    return table, target, f"pandas, {how}: {said}"


def arrow_makers() -> dict[str, Maker]:
    """Return the makers of Arrow's columns."""
    makers = PLAIN | {str(t): _from(p, lambda v, t=t: pa.array(v, t)) for t, p in ARROW}
    return makers | {
        kind: _from("ab", lambda v, hold=hold: hold(pa.array(v))) for kind, hold in _HELD.items()
    }


def _as_array(values: Any) -> Any:
    try:
        return pa.array(values) if isinstance(values, list) else values
    except (pa.ArrowException, OverflowError, UnicodeEncodeError, TypeError):
        return pa.array([str(i) for i in range(len(values))])


def _arrow(draws: Draws) -> Drawn:
    n = _n_rows(draws)
    made, target, said = columns(draws, arrow_makers(), n)
    arrays = [_as_array(values) for values in made.values()]
    for place, array in enumerate(arrays):
        if often(draws, 0.2):
            ends = [*sorted(draws.integers(0, n + 1, 3).tolist()), n]
            chunks = [array[a:b] for a, b in zip([0, *ends], ends, strict=False)]
            arrays[place] = pa.chunked_array(chunks, array.type)
            said += f"; column {place} in chunks of {[len(chunk) for chunk in chunks]}"
    table = pa.table(arrays, names=[*map(encodable, made)])
    how = pick(draws, ["table", "table", "table", "sliced", "batches"])
    if how == "sliced":
        table = table[1:]
    elif how == "batches":
        table = table.to_reader(max_chunksize=17)
    return table, encodable(target), f"arrow {how}: {said}"


def _polars(draws: Draws) -> Drawn:
    import polars as pl

    held: list[tuple[Any, list[Any]]] = [
        (pl.Categorical, ["a", "b", None]), (pl.Enum(["a", "b"]), ["a", "b"]), (pl.Null, [None]),
        (pl.Int128, [2**100, 1]), (pl.Struct({"a": pl.Int64}), [{"a": 1}]), (pl.Object, [object()]),
        (pl.Array(pl.Int64, 2), [[1, 2]]), (pl.Decimal(10, 2), [decimal.Decimal(1)]),
        (pl.List(pl.Categorical), [["a"]]), (pl.UInt64, [2**64 - 1, 1]), (pl.Time, [_DAY.time()]),
    ]  # fmt: skip
    makers = {
        str(t).partition("(")[0]: _from(p, lambda v, t=t: pl.Series(v, dtype=t)) for t, p in held
    }
    plain = {
        k: (lambda draws, n, make=make: pl.Series(make(draws, n))) for k, make in PLAIN.items()
    }
    n = _n_rows(draws)
    made, target, said = columns(draws, plain | makers, n)
    table = pl.DataFrame({encodable(name): values for name, values in made.items()})
    how = pick(draws, ["whole"] * 6 + ["in chunks"] * 3 + ["lazy"])
    if how == "in chunks":
        table = pl.concat([table[:3], table[3:]], rechunk=False)
    return table.lazy() if how == "lazy" else table, encodable(target), f"polars, {how}: {said}"


def in_memory(draws: Draws) -> Drawn:
    """Return a table in memory, its target and what it is."""
    if often(draws, 0.01):
        value = pick(draws, _OTHERS)
        return value, "y", repr(value)
    return pick(draws, [_pandas] * 5 + [_arrow] * 4 + [_polars] * 4)(draws)


def _names(data: Any) -> list[str]:
    """Return the names of a table's columns and index, as text; of what has none, some."""
    if isinstance(data, pa.RecordBatchReader):
        return list(data.schema.names)
    if isinstance(data, pd.DataFrame):
        return [*map(str, data.columns), *(str(name) for name in data.index.names if name)]
    if type(data).__name__ == "LazyFrame":
        return list(data.collect_schema().names())
    names = getattr(data, "column_names", None) or (hasattr(data, "get_columns") and data.columns)
    return list(names) if names else ["a", "y"]


_BY_NAME = ("keep", "drop", "weight", "group", "time")


def arguments(draws: Draws, names: Sequence[str]) -> dict[str, Any]:
    """Return arguments of `chaffinch.select`, most of them by default."""
    model = pick(draws, ["lightgbm"] * 6 + [*CHEAP])
    found: dict[str, Any] = {"model": cheap(model), "method": pick(draws, ["auto", "auto", *_FAST])}
    others = [name for name in names if name != "y"] or ["a"]
    named = pick(draws, [*others, *others, "absent"])
    if often(draws, 0.2):
        role = pick(draws, [*_BY_NAME, "categorical", "numeric", "split"])
        given = named if role in ("weight", "group", "time", "split") else [named]
        in_columns = role not in _BY_NAME or often(draws, 0.3)
        found |= {"columns": {role: given}} if in_columns else {role: given}
    if often(draws, 0.1):
        found["settings"] = {"task": pick(draws, ["classification", "regression"])}
    if often(draws, 0.1):
        baseline = pick(draws, ["median", "zero", {"a": 0}, {"c": "a"}])
        found["settings"] = found.get("settings", {}) | {"baseline": baseline}
    if often(draws, 0.07):
        series = {"series": pick(draws, others)} if often(draws, 0.5) else {}
        found |= {"time": named, "history": {pick(draws, ["lags", "rolling"]): [2]} | series}
    return found


def _check_unchanged(before: pd.DataFrame, after: pd.DataFrame) -> None:
    try:
        pd.testing.assert_frame_equal(before, after, check_exact=True)
    except AssertionError as error:
        raise Broken("the table of the caller was changed") from error


def select_checked(data: Any, target: str, names: Sequence[str], **given: Any) -> None:
    """Select, and hold the result against the table."""
    before = data.copy() if isinstance(data, pd.DataFrame) else None
    try:
        result = chaffinch.select(data, target, **given)
    finally:
        if before is not None:
            _check_unchanged(before, data)
    features = [str(name) for name in result.features]
    if not set(features) <= {str(name) for name in result.candidates}:
        raise Broken(f"features that were no candidates: {features!r}")
    if given.get("history") or isinstance(data, pa.RecordBatchReader):
        return  # features are made, or rows are spent
    if names and not set(features) <= {*names} - {target}:
        raise Broken(f"features that are no columns: {features!r} of {names!r}")
    predicted = result.model.predict(data)
    if predicted.dtype.kind == "f" and not np.isfinite(predicted).all():
        raise Broken(f"predictions that are not finite: {predicted!r}")
    if hasattr(data, "shape"):
        if len(predicted) != data.shape[0]:
            raise Broken(f"other than one prediction for each row: {predicted.shape}")
        kept = result.transform(data)
        if [str(name) for name in getattr(kept, "column_names", kept.columns)] != features:
            raise Broken(f"transform gave other columns: {kept.columns!r} than {features!r}")


def draw(draws: Draws, place: Path) -> Case:
    """Draw a selection of a table in memory."""
    data, target, said = in_memory(draws)
    names = _names(data)
    given = arguments(draws, names)
    if often(draws, 0.3):
        given["store"] = place / "store"
    what = f"select({said}; target {target!r}, {shown(given)})"
    return Case(what, lambda: select_checked(data, target, names, **given))


def draw_file(draws: Draws, place: Path) -> Case:
    """Draw a selection of a file, which half of the time is damaged."""
    path, said = file_of_table(draws, place)
    target = pick(draws, ["y"] * 12 + ["a", "prize"])
    given = arguments(draws, ["a", "b", "c"])
    if often(draws, 0.3):
        given["store"] = place / "store"
    what = f"select({path.name}, {said}; target {target!r}, {shown(given)})"
    return Case(what, lambda: select_checked(str(path), target, (), **given))


def file_of_table(draws: Draws, place: Path) -> tuple[Path, str]:
    """Write a file of a table, or a folder; return its path and what it is."""
    if often(draws, 0.003):
        path, many = place / "in" / "wide.csv", 100_000
        path.write_text(",".join(f"c{i}" for i in range(many)) + "\n" + ",".join("1" * many) + "\n")
        return path, "100,000 columns and a row"
    if often(draws, 0.01):
        path = place / "in" / "t.csv"
        path.symlink_to(pick(draws, ["/proc/self/mem", "/dev/zero", "t.csv", "/"]))
        return path, f"a link to {path.readlink()}"
    return (_parquet if often(draws, 0.4) else _delimited)(draws, place)


def _parquet(draws: Draws, place: Path) -> tuple[Path, str]:
    made, _, said = columns(draws, arrow_makers(), _n_rows(draws))
    arrays = {}
    for name, values in made.items():
        arrays[encodable(name)] = _as_array(values)
        try:
            pq.write_table(pa.table({"a": arrays[encodable(name)]}), io.BytesIO())
        except (pa.ArrowException, OSError):  # what Parquet cannot keep
            arrays[encodable(name)] = pa.array([float(i % 7) for i in range(len(values))])
    table, content = pa.table(arrays), io.BytesIO()
    compression = pick(draws, ["snappy", "zstd", "gzip", "none", "lz4"])
    pq.write_table(table, content, compression=compression, row_group_size=pick(draws, [7, 1000]))
    data = content.getvalue()
    if often(draws, 0.5):
        data, how = damaged(draws, data)
        said = f"{said}; {how}"
    if often(draws, 0.2):
        folder = place / "in" / pick(draws, ["parts", "parts.parquet"])
        folder.mkdir()
        pq.write_table(table, folder / "0.parquet")
        (folder / "1.parquet").write_bytes(data)
        (folder / pick(draws, ["_SUCCESS", ".hidden", "2.csv", "_metadata"])).write_bytes(b"")
        return folder, said
    path = (
        place / "in" / pick(draws, ["t.parquet"] * 9 + ["t.pq", "t.csv", "t.txt.gz", "T.PARQUET"])
    )
    path.write_bytes(data)
    return path, said


def _delimited(draws: Draws, place: Path) -> tuple[Path, str]:
    made, _, said = columns(draws, PLAIN, _n_rows(draws))
    ending = pick(draws, ["csv"] * 8 + ["tsv", "txt", "parquet", "CSV"])
    mark = "\t" if ending == "tsv" else pick(draws, [*[","] * 14, "\t", ";", "|", " "])
    end, out = pick(draws, ["\n", "\n", "\r\n", "\r"]), io.StringIO()
    writer = csv.writer(out, delimiter=mark, lineterminator=end, quoting=pick(draws, [0, 0, 1, 2]))
    writer.writerows([made, *zip(*made.values(), strict=True)])
    lines = out.getvalue().split(end)
    how = pick(
        draws, ["whole"] * 12 + ["more", "less", "quote", "header twice", "blank", "nul", "long"]
    )
    at = int(draws.integers(len(lines)))
    lines[at] = {
        "more": lines[at] + mark + "1",
        "less": lines[at].rpartition(mark)[0],
        "quote": '"' + lines[at],
        "header twice": f"{lines[at]}{end}{lines[0]}",
        "blank": f"{lines[at]}{end}",
        "nul": f"{lines[at]}\0",
        "long": lines[at] + "9" * 100_000,
    }.get(how, lines[at])
    encoding = pick(draws, ["utf-8"] * 24 + ["utf-8-sig", "utf-16", "latin-1", "utf-32"])
    failing = "replace" if encoding == "latin-1" else "surrogatepass"
    data = end.join(lines).encode(encoding, failing)
    if often(draws, 0.2):
        data, damage = damaged(draws, data)
        how = f"{how}, {damage}"
    if often(draws, 0.25):
        data, ending = gzip.compress(data, mtime=0), f"{ending}.gz"
        if often(draws, 0.4):
            data, damage = damaged(draws, data)
            how = f"{how}, gz: {damage}"
    path = place / "in" / f"t.{ending}"
    path.write_bytes(data)
    return path, f"{said}; {mark!r}, {end!r}, {encoding}, {how}"
