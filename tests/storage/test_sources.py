"""Any table a person has at hand is read as it is, or refused in one line."""

import gzip
import re
import tempfile
from datetime import UTC, date, datetime, time
from itertools import permutations
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from sklearn.datasets import load_iris

from chaffinch.errors import InputError, TableTooLargeError
from chaffinch.storage.datasets.column_types import type_columns
from tests.flows.cli.programs import python
from tests.sources import column_bytes, column_names, ingest, read_source, source_fingerprint


def write(path: Path, text: str | bytes) -> Path:
    data = text if isinstance(text, bytes) else text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.csv", "a,b\n1,red\n,\n"),
        ("x.csv.gz", "a,b\n1,red\n,\n"),
        ("x.CSV", "\ufeffa,b\r\n1,red\r\n,\r\n"),
        ("x.v2.csv", 'a,"b"\n1,"red"\n,""\n'),
        ("x.tsv", "a\tb\n1\tred\n\t\n"),
        ("x.tsv.gz", "a\tb\n1\tred\n\t\n"),
        ("x.txt", "a\tb\n1\tred\n\t\n"),
        ("x.txt", "a,b\n1,red\n,\n"),
        ("x.txt.gz", "a;b\n1;red\n;\n"),
        ("x.csv", "a;b\n1;red\n;\n"),
        ("x.csv", "a|b\n1|red\n|\n"),
        ("x.csv", "a\tb\n1\tred\n\t\n"),
    ],
)
def test_delimited_text_in_every_dress(tmp_path: Path, name: str, text: str) -> None:
    table = read_source(write(tmp_path / name, text))
    assert table.to_pydict() == {"a": [1, None], "b": ["red", None]}
    assert table.schema.types == [pa.int64(), pa.string()]


@pytest.mark.parametrize(
    ("late", "expected"), [("1.5", pa.float64()), ("x", pa.string()), ("", pa.int64())]
)
def test_a_type_is_that_of_the_whole_column(tmp_path: Path, late: str, expected: Any) -> None:
    rows = "7,1,2024-01-01\n" * 200_000  # more than the block types are guessed from
    path = write(tmp_path / "x.csv", f"a,b,t\n{rows}{late},1,2024-01-01 10:00:00\n")
    table = read_source(path)
    assert table.schema.types == [expected, pa.int64(), pa.timestamp("s")]
    assert str(table["a"][0].as_py()) in ("7", "7.0")
    assert table["a"][-1].as_py() == {"1.5": 1.5, "x": "x", "": None}[late]


def test_many_columns_with_late_surprises_and_late_beginnings(tmp_path: Path) -> None:
    n = 12
    header = ",".join(f"c{i}" for i in range(4 * n)) + "\n"
    rows = (",".join(["1"] * 3 * n + [""] * n) + "\n") * 40_000
    late = ",".join(["01"] * n + ["1.5"] * n + ["late"] * 2 * n) + "\n"
    table = read_source(write(tmp_path / "x.csv", header + rows + late))
    assert table.schema.types == [pa.string()] * n + [pa.float64()] * n + [pa.string()] * 2 * n
    firsts, lasts = ([table[f"c{i}"][at].as_py() for i in range(0, 4 * n, n)] for at in (0, -1))
    assert firsts == ["1", 1.0, "1", None]
    assert lasts == ["01", 1.5, "late", "late"]


def test_a_row_may_be_wider_than_two_blocks(tmp_path: Path) -> None:
    names = [f"feature_{i:05d}" for i in range(12_000)]
    value = "x" * 180
    text = ",".join(names) + "\n" + ",".join([value] * len(names)) + "\n"
    table = read_source(write(tmp_path / "x.csv", text))
    assert table.to_pylist() == [dict.fromkeys(names, value)]


def test_quoted_fields_hold_delimiters_quotes_and_lines_across_blocks(tmp_path: Path) -> None:
    value = 'one, "two"\nthree'
    quoted = '"' + value.replace('"', '""') + '"'
    table = read_source(write(tmp_path / "x.csv", "a,b\n" + f"{quoted},1\n" * 100_000))
    assert table["a"].unique().to_pylist() == [value]
    assert table.num_rows == 100_000


@pytest.mark.parametrize("before", [0, 200_000], ids=["first", "late"])
@pytest.mark.parametrize(
    ("zip_code", "kind"),
    [
        ("00500", pa.string()),
        ('" 00500"', pa.string()),
        ("0x10", pa.string()),
        ("-05", pa.string()),
        ("+05", pa.string()),
        ("-5", pa.int64()),
        ("+5", pa.int64()),
        ("-0", pa.int64()),
        ("0", pa.int64()),
        ("00.5", pa.float64()),
        ("", pa.int64()),
    ],
)
def test_whole_numbers_with_leading_zeros_stay_text(
    tmp_path: Path, zip_code: str, kind: pa.DataType, before: int
) -> None:
    rows = "10001,7\n" * before  # more than the block that types are guessed from
    path = write(tmp_path / "x.csv.gz", f"zip,n\n{rows}{zip_code},0\n99999,10\n,1\n")
    table = read_source(path)
    assert table.schema.types == [kind, pa.int64()]
    if kind == pa.string():
        assert table["zip"].to_pylist()[before:] == [zip_code.strip('"'), "99999", None]
        assert table["zip"].slice(0, before).unique().to_pylist() == ["10001"] * bool(before)
    assert table["n"].to_pylist()[before:] == [0, 10, 1]


@pytest.mark.parametrize("before", [0, 200_000], ids=["first", "late"])
def test_categories_stay_as_they_are_written(tmp_path: Path, before: int) -> None:
    header = "whole,real,yes,day,time,colour\n"
    row = "1,1.50,True,2024-01-01,08:30,red\n"
    path = write(tmp_path / "x.csv", header + ",,,,,\n" * before + row + ",,,,,\n")
    names = header.strip().split(",")
    kinds = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.string(), pa.string()]
    assert read_source(path).schema.types == kinds
    table = read_source(path, [*names, "no such column"])
    assert table.schema.types == [pa.string()] * 6
    assert [str(value) for value in table.slice(before, 1).to_pylist()[0].values()] == (
        row.strip().split(",")
    )
    assert table.slice(before + 1).to_pylist() == [dict.fromkeys(names)]


def test_the_words_for_missing_are_those_of_pandas(tmp_path: Path) -> None:
    words = ["", "NA", "NaN", "None", "<NA>", "null", "n/a", "N/A", "#N/A", "nan", "-nan", "NULL"]
    path = write(tmp_path / "x.csv", "a,b\n1,x\n" + "".join(f"{w},{w}\n" for w in words))
    table = read_source(path)
    assert table.schema.types == [pa.int64(), pa.string()]
    assert [column.null_count for column in table.columns] == [len(words)] * 2
    assert pd.read_csv(path, skip_blank_lines=False)["b"].isna().sum() == len(words)


def test_parquet_files_and_folders_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name, value in (("b.parquet", 2), ("a.pq", 1), ("c.parquet", 3)):
        pa.parquet.write_table(pa.table({"x": [value]}), tmp_path / name)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".unfinished.parquet").touch()
    (tmp_path / "_temporary").mkdir()
    assert read_source(tmp_path)["x"].to_pylist() == [1, 2, 3]
    assert read_source(str(tmp_path / "a.pq"))["x"].to_pylist() == [1]


def test_a_folder_named_like_a_partition_adds_no_column(tmp_path: Path) -> None:
    (tmp_path / "year=2024").mkdir()
    path = tmp_path / "year=2024" / "x.parquet"
    pa.parquet.write_table(pa.table({"x": [1]}), path)
    assert read_source(path).column_names == ["x"]


IRIS = load_iris(as_frame=True).frame


@pytest.mark.parametrize(
    "table",
    [
        IRIS,
        pl.from_pandas(IRIS),
        pa.Table.from_pandas(IRIS),
        pa.Table.from_pandas(IRIS).to_reader(),
        pa.RecordBatch.from_pandas(IRIS),
    ],
    ids=["pandas", "polars", "arrow", "stream", "batch"],
)
def test_tables_in_memory(table: Any) -> None:
    read = read_source(table)
    assert read.column_names == list(IRIS.columns)
    assert np.array_equal(read["petal width (cm)"].to_numpy(), IRIS["petal width (cm)"])
    assert read.schema.metadata is None


class OfSpark:
    def toArrow(self) -> pa.Table:  # noqa: N802
        return pa.Table.from_pandas(IRIS)


class OfModin:
    @property
    def modin(self) -> Any:
        return self

    def to_pandas(self) -> pd.DataFrame:
        return IRIS


class OfCudf:
    def to_arrow(self) -> pa.Table:
        return pa.Table.from_pandas(IRIS)


def test_tables_of_other_libraries_are_collected_by_their_own_methods() -> None:
    for table in (OfSpark(), OfModin()):
        assert read_source(table).equals(read_source(IRIS))
    with pytest.raises(InputError, match=r"of another library, OfCudf; give its \.to_arrow\(\)"):
        read_source(OfCudf())


def test_of_a_pandas_index_named_levels_become_columns(tmp_path: Path) -> None:
    data = {"x": [1.0, 2.0]}
    named = pd.DataFrame(data, index=pd.Index(["u", "v"], name="customer"))
    unnamed = pd.DataFrame(data, index=["u", "v"])
    named.to_parquet(tmp_path / "named.parquet")
    unnamed.to_parquet(tmp_path / "unnamed.parquet")
    for source in (named, tmp_path / "named.parquet"):
        assert read_source(source).to_pydict() == {**data, "customer": ["u", "v"]}
    unnamed.to_csv(tmp_path / "unnamed.csv")
    pd.DataFrame(data).to_csv(tmp_path / "range.csv.gz")
    files = [tmp_path / name for name in ("unnamed.parquet", "unnamed.csv", "range.csv.gz")]
    for file in files:
        assert column_names(file) == ["x"]
    assert list(column_bytes(tmp_path / "unnamed.csv")) == ["x"]
    for source in (unnamed, *files, pd.DataFrame(data)):
        assert read_source(source).to_pydict() == data


@pytest.mark.parametrize(
    "values", [["a", "b"], [1, 2], [1.5, 2.0], [True, False], [date(2024, 1, 5), date(2024, 1, 6)]]
)
def test_categories_of_dask_are_those_of_pandas(values: list[Any], tmp_path: Path) -> None:
    rows = pd.DataFrame({"x": range(8), "c": pd.Categorical([*values] * 4)})
    lazy = dd.from_pandas(rows, npartitions=2)
    assert ingest(lazy, tmp_path).hash == ingest(rows, tmp_path).hash


@pytest.mark.parametrize("door", ["pandas", "dask"])
def test_a_named_level_that_is_a_column_too_is_taken_once_or_refused(
    door: str, tmp_path: Path
) -> None:
    def read(frame: pd.DataFrame, **options: Any) -> dict[str, list[Any]]:
        source = dd.from_pandas(frame, npartitions=2, sort=False) if door == "dask" else frame
        return ingest(source, tmp_path, **options).read().sort_by("d").to_pydict()

    columns = {"x": [2, 2, 5, 7], "code": ["b", "b", "a", "c"], "d": [0.5, 1.5, 2.5, 3.5]}
    table = pd.DataFrame(columns)
    for name in columns:
        assert read(table.set_index(name, drop=False)) == columns
    other = table.set_index(pd.Index([2, 2, 5, 8], name="x"))
    with pytest.raises(InputError, match=r"^column 'x' holds 7 where the index of .* holds 8; re"):
        read(other)
    assert read(other, drop=["x"]) == {name: columns[name] for name in ("code", "d")}
    assert read(other.reset_index(drop=True)) == columns


def test_of_two_levels_of_one_name_both_hold_the_same() -> None:
    twice = pd.MultiIndex.from_arrays([[2, 2, 5]] * 2, names=["k", "k"])
    assert read_source(pd.DataFrame({"x": [1, 2, 3]}, twice))["k"].to_pylist() == [2, 2, 5]
    differ = pd.MultiIndex.from_arrays([[None, 2.0, 5.0], [None, 2, 3]], names=["k", "k"])
    with pytest.raises(InputError, match=r"'k' holds 5.0 where the index of that name holds 3"):
        read_source(pd.DataFrame({"x": [1, 2, 3]}, differ))


NAIVE, ZONED = datetime(2024, 2, 29, 5, 30), datetime(2024, 1, 31, 10, tzinfo=UTC)
TIMES_OF_ONE_KIND = [
    [date(2024, 1, 31), NAIVE],
    [date(2024, 1, 31), None, pd.NaT, pd.Timestamp(NAIVE)],
    [date(1, 1, 1), NAIVE, date(9999, 12, 31)],
    [NAIVE, pd.Timestamp(NAIVE)],
    [ZONED, pd.Timestamp("2024-01-31 10:00+05:00")],
]


@pytest.mark.parametrize("values", TIMES_OF_ONE_KIND)
@pytest.mark.parametrize("place", ["column", "index"])
def test_days_among_times_are_their_midnights_in_any_order(values: list[Any], place: str) -> None:
    for some in permutations(values):
        frame = pd.DataFrame({"n": range(len(some)), "x": pd.Series(some, dtype=object)})
        if place == "index":
            frame = frame[["n"]].set_index(pd.Index(some, dtype=object, name="x"))
        read = read_source(frame)["x"]
        assert pa.types.is_timestamp(read.type)
        midnights = [
            None
            if value is None or value is pd.NaT
            else value
            if isinstance(value, datetime)
            else datetime.combine(value, time())
            for value in some
        ]
        assert read.to_pylist() == midnights


@pytest.mark.parametrize("other", [NAIVE, pd.Timestamp(NAIVE), date(2024, 1, 31)])
def test_times_with_and_without_a_zone_are_refused_with_a_remedy(other: date) -> None:
    for some in permutations([ZONED, other, None]):
        frame = pd.DataFrame({"n": range(3), "x": pd.Series(some, dtype=object)})
        with pytest.raises(InputError, match=r"column 'x' holds .*, without a zone; give all of"):
            read_source(frame)
        assert read_source(frame, drop=["x"])["n"].to_pylist() == [0, 1, 2]
        frame["x"] = pd.to_datetime(frame["x"], utc=True)
        assert read_source(frame)["x"].null_count == 1


def test_a_first_column_of_measurements_needs_a_name(tmp_path: Path) -> None:
    path = write(tmp_path / "x.csv", ",b\n0.5,1\n1.5,2\n")
    with pytest.raises(InputError, match=r"column 1 of x\.csv has no name; give it one"):
        read_source(path)


def test_names_that_are_no_text_become_text() -> None:
    assert read_source(pd.DataFrame({1: [0], "b": [0]})).column_names == ["1", "b"]


def test_empty_chunks_are_left_out() -> None:
    number, text = pa.array([1.0, 2.0]), pa.array(["a", "b"])
    chunks = [text[:1], text[:0], text[1:]]
    table = pa.table({"n": number, "t": pa.chunked_array(chunks), "d": text.dictionary_encode()})
    for source in (table, table.to_reader()):
        read = read_source(source)
        assert read.combine_chunks().to_pydict() == {
            "n": [1.0, 2.0],
            "t": ["a", "b"],
            "d": ["a", "b"],
        }
        assert type_columns(read)["n"].to_pylist() == [1.0, 2.0]
    assert read_source(table[:0], may_be_empty=True).num_rows == 0


NOT_UTF8 = pa.array([b"a", b"\xff"]).view(pa.string())


@pytest.mark.parametrize("texts", [NOT_UTF8, pa.DictionaryArray.from_arrays([0, 1], NOT_UTF8)])
def test_arrow_text_that_is_not_utf8_is_refused_by_name(tmp_path: Path, texts: pa.Array) -> None:
    table = pa.table({"a": [1, 2], "t": texts})
    pa.parquet.write_table(table, tmp_path / "x.parquet")
    for source in (table, tmp_path / "x.parquet"):
        with pytest.raises(InputError, match=r"(column 't' of|no readable Parquet).*UTF8"):
            read_source(source)


@pytest.mark.parametrize("frame", [{"a\0b": [1]}, {"a": [{"b\0": 1}]}])
def test_polars_names_with_the_character_of_code_0_are_refused(frame: Any) -> None:
    with pytest.raises(InputError, match="name holds the character of code 0; rename the column"):
        read_source(pl.DataFrame(frame))


def test_a_table_in_a_cell_is_refused_in_one_line() -> None:
    frame = pd.DataFrame({"a": [pd.DataFrame({"b": range(50)})] * 2})
    with pytest.raises(InputError, match=r"\(Could not convert .*column a .*\);") as caught:
        read_source(frame)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "source", [pd.DataFrame({"a": [1, "x", [2]]}), pd.Series([1]), pl.Series([1]), pa.array([1])]
)
def test_what_arrow_cannot_hold_as_a_table_is_an_input_error(source: Any) -> None:
    with pytest.raises(InputError, match=r"column 'a' holds 1 in row 1 but 'x' in row 2|a source"):
        read_source(source)


def test_a_missing_file_is_answered_with_the_nearest(tmp_path: Path) -> None:
    write(tmp_path / "customers.csv", "a\n1\n")
    for ask in (read_source, source_fingerprint):
        with pytest.raises(InputError, match=r"no file .*custmers.csv; nearest: customers.csv"):
            ask(tmp_path / "custmers.csv")
    with pytest.raises(InputError, match=r"there is no file .*nowhere/x.csv$"):
        read_source(tmp_path / "nowhere" / "x.csv")


BAD_TEXT = {
    "nothing": ("x.csv", "", r"x.csv is empty; give a header and at least one row"),
    "blank lines": ("x.csv", "\n \n\n", r"x.csv is empty"),
    "no rows": ("x.csv", "a,b\n", r"x.csv has columns but no rows; give at least one"),
    "same name": ("x.csv", "a,b,a\n1,2,3\n", r"names column 'a' twice, at positions 1 and 3"),
    "no name": ("x.csv", ",b\n1,2\n1,3\n", r"column 1 of x.csv has no name; give it one or"),
    "no name within": ("x.csv", ",b,\n1,2,3\n", r"column 3 of x.csv has no name; give it one or"),
    "Parquet": ("x.csv", b"PAR1\x15\x04\x15", r"x.csv is a Parquet file; rename"),
    "gzip": ("x.tsv", b"\x1f\x8b\x08\0", r"x.tsv is compressed by gzip; .* it ends in .tsv.gz"),
    "too many": ("x.csv", "a,b\n1,2\n1,2,3\n", r"row 2 of x.csv must have 2 fields .* has 3;"),
    "too few": ("x.csv", "a,b\n1,2\n1,2\n1\n", r"row 3 of x.csv must have 2 fields .* has 1;"),
    "too many late": (
        "x.csv",
        "a,b\n" + "1,2\n" * 500_000 + "1,2,3\n",
        r"row 500001 of x.csv must have 2 fields as the header but has 3; correct it, or quote",
    ),
    "a mark of Excel alone": ("x.csv", "sep=;\n", r"x.csv is empty"),
    "too many below a mark": ("x.csv", "sep=;\na;b\n1;2\n1;2;3\n", r"row 2 of x.csv must have 2 "),
    "header not UTF-8": ("x.csv", b"caf\xe9,b\n1,2\n", r"the header of x.csv is not UTF-8"),
    "UTF-16": ("x.csv", "a,b\n1,2\n".encode("utf-16"), r"begins with the mark of UTF-16; give its"),
    "UTF-16 without a mark": (
        "x.csv",
        "a,b\n1,2\n".encode("utf-16le"),
        r"header of x.csv is not UTF",
    ),
    "an image": ("x.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0", r"header of x.csv is not UTF-8"),
    "a workbook": ("x.csv.gz", b"PK\x03\x04\x14\0\x06\0\x08\0", r"header of x.csv.gz is not UTF-8"),
    "a database": (
        "x.csv",
        b"SQLite format 3\0\x10\0\x01,\n\0,\xff,\n",
        r"header of x.csv is not UTF",
    ),
    "bytes in a row too long": (
        "x.csv",
        b"a,b\n1,2\n\xca\xfe,\0,3\n",
        r"row 2 of x.csv must have 2",
    ),
    "value not UTF-8": ("x.csv", b"a,b\n1,x\n2,caf\xe9\n", r"row 2 of column 'b' .* not UTF-8"),
    "late value not UTF-8": (
        "x.csv",
        b"a,b\n" + b"1,x\n" * 500_000 + b"2,caf\xe9\n",
        r"row 500001 of column 'b' of x.csv is not UTF-8; save it as UTF-8",
    ),
    "open quote": (
        "x.csv",
        'a,b\n1,"2\n' + "3,4\n" * 600_000,
        r"a row of x.csv is longer than 1048576 bytes; correct it, perhaps a quote is never closed",
    ),
    "ending": ("x.xlsx", "a\n1\n", r"x.xlsx has no known ending; give a path to .csv"),
    "only gz": ("x.gz", "a\n1\n", r"x.gz has no known ending"),
    "no Parquet footer": (
        "x.parquet",
        b"PAR1" + b"\xff" * 40 + b"\x14\0\0\0PAR1",
        r"x.parquet is no readable Parquet file: Couldn't deserialize thrift",
    ),
    "damaged Parquet": ("x.parquet", "PAR1PAR1", r"x.parquet is no readable Parquet file"),
}


def test_damaged_gzip(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "a,b\n" + "".join(f"{x},{y}\n" for x, y in rng.normal(size=(20_000, 2)))
    whole = gzip.compress(text.encode())
    for name, data in (("cut.csv.gz", whole[: len(whole) // 2]), ("plain.csv.gz", text.encode())):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=rf"{name} is damaged \(.*\); write it again"):
            read_source(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "kind"), [("x.parquet", "Parquet"), ("x.feather", "Arrow"), ("x.orc", "ORC")]
)
def test_a_cut_file_is_one_line(name: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    frame = pd.DataFrame({"x": range(1000)})
    {"Parquet": frame.to_parquet, "Arrow": frame.to_feather, "ORC": frame.to_orc}[kind](path)
    path.write_bytes(path.read_bytes()[:-20])
    for ask in (read_source, column_names):
        with pytest.raises(InputError, match=rf"^{name} is no readable {kind} file") as caught:
            ask(path)
        assert "\n" not in str(caught.value)


ARFF = "@relation x\n@attribute a real\n@attribute b {x, y}\n@attribute t date yyyy-MM-dd\n@data\n"


def test_arff_has_numbers_categories_and_dates(tmp_path: Path) -> None:
    path = write(tmp_path / "x.arff", ARFF + "1.5, x, 2024-01-31\n?, ?, ?\n2, 'y', 2024-02-01\n")
    table = read_source(path)
    assert [str(kind) for kind in table.schema.types[::2]] == ["double", "date32[day]"]
    assert pa.types.is_dictionary(table.schema.field("b").type)
    assert table.to_pylist()[1:] == [
        {"a": None, "b": None, "t": None},
        {"a": 2.0, "b": "y", "t": date(2024, 2, 1)},
    ]


@pytest.mark.parametrize("names", [("grün", "rot"), ("大", "~小"), ("~fc~", "a b"), ("Ü%", "\\x")])
def test_arff_in_utf_8_keeps_its_names(tmp_path: Path, names: tuple[str, str]) -> None:
    one, two = (f"'{name}'" for name in names)
    head = f"% größe\n@relation x\n@attribute {one} real\n@attribute c {{{one},{two}}}"
    path = write(tmp_path / "x.arff", f"{head}\n@data\n1,{two}\n2,{one}\n")
    assert read_source(path).to_pydict() == {names[0]: [1, 2], "c": [names[1], names[0]]}
    assert column_names(path) == [names[0], "c"]


SMALL = {
    "x.arff": [
        ("", r"it has no @data"),
        ("a,b\n1,x\n", r"it has no @data"),
        (ARFF + "1, z, ?\n", r"z value not in"),
        (ARFF + "n, x, ?\n", r"could not convert string to float: 'n'"),
        (ARFF + "1, x\n", r"list index out of range"),
        (ARFF + "{0 1, 1 x}\n", r"could not convert string to float"),
        (ARFF.replace("real", "string"), r"String attributes not supported"),
        (ARFF.encode("utf-16"), r"codec can't decode"),
        (ARFF + "9007199254740993, x, ?\n", r"column 'a' of x.arff holds whole numbers beyond"),
        (ARFF, r"x.arff has columns but no rows"),
    ],
    "x.svm": [
        ("", r"x.svm has columns but no rows"),
        ("label,a\n1,2\n", r"could not convert string to float"),
        ("1,2 1:0.5\n", r"could not convert string to float: b'1,2'\), as in `1 1:0.5"),
        ("1 2:1 1:1\n", r"should be sorted and unique"),
        ("1 99999999999:1\n", r"too large"),
        ("1 qid:1 1:1\n2 1:1\n", r"qid is named in 1 of 2 rows of x.svm; name it in all or none"),
        ("1 1:9007199254740993\n", r"column '1' of x.svm holds whole numbers beyond"),
    ],
}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [*BAD_TEXT.values(), *((name, *case) for name, cases in SMALL.items() for case in cases)],
)
def test_bad_files_are_refused_in_one_line(
    tmp_path: Path, name: str, text: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_source(write(tmp_path / name, text))
    assert "\n" not in str(caught.value)


def test_svmlight_that_is_too_large_as_a_dense_table_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "x.svm", "1 2000000000:1\n" * 1000)
    with pytest.raises(TableTooLargeError, match=r"16,000.0 GB as a dense .*load_svmlight_file"):
        read_source(path)


def test_folders_without_parquet_with_other_folders_or_with_two_schemas(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"has no .parquet files"):
        read_source(tmp_path)
    pa.parquet.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "a.parquet")
    for other, message in (
        ({"x": [1.5], "y": [1]}, "column 'x' is int64 in a.parquet but double in b.parquet"),
        ({"x": [1]}, "column 'y' is in a.parquet but not in b.parquet"),
        ({"y": [1], "x": [1]}, "a.parquet and b.parquet order their columns differently"),
    ):
        pa.parquet.write_table(pa.table(other), tmp_path / "b.parquet")
        with pytest.raises(InputError, match=message):
            read_source(tmp_path)
    (tmp_path / "b.parquet").unlink()
    (tmp_path / "year=2024").mkdir()
    assert read_source(tmp_path).num_rows == 1
    pa.parquet.write_table(pa.table({"x": [1], "y": [1]}), tmp_path / "year=2024" / "b.parquet")
    with pytest.raises(InputError, match=r"partitions of different columns, a.parquet and year=2"):
        read_source(tmp_path)
    (tmp_path / "old").mkdir()
    with pytest.raises(InputError, match="holds the folder old, which is no partition"):
        read_source(tmp_path)


@pytest.mark.parametrize("other", ["b.csv", "b.TSV.gz", "b.feather", "year=2024/b.csv"])
def test_a_folder_with_tables_of_other_formats_is_refused(tmp_path: Path, other: str) -> None:
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    for name in ("README.txt", "_SUCCESS", ".b.csv.crc", "schema.json"):
        write(tmp_path / name, "no table")
    assert read_source(tmp_path).num_rows == 1
    (tmp_path / other).parent.mkdir(exist_ok=True)
    write(tmp_path / other, "x\n2\n")
    with pytest.raises(InputError, match=rf"holds {re.escape(other)} beside Parquet files"):
        read_source(tmp_path)
    assert read_source(tmp_path / "*.parquet").num_rows == 1


def test_partitions_are_columns_at_every_depth(tmp_path: Path) -> None:
    """As Spark and Hive write them; a single partition has the same columns as many."""
    for year in (2023, 2024):
        for shop in ("a b", None):
            name = "__HIVE_DEFAULT_PARTITION__" if shop is None else "a%20b"
            folder = tmp_path / "sales" / f"year={year}" / f"shop={name}"
            folder.mkdir(parents=True)
            pa.parquet.write_table(pa.table({"x": [year / 2]}), folder / "part.parquet")
    table = read_source(tmp_path / "sales")
    assert table.column_names == ["x", "year", "shop"]
    rows = {(row["x"], row["year"], row["shop"]) for row in table.to_pylist()}
    assert rows == {(y / 2, y, shop) for y in (2023, 2024) for shop in ("a b", None)}
    single = read_source(tmp_path / "sales" / "year=2024")
    assert single.column_names == ["x", "shop"]
    (tmp_path / "sales" / "year=2024" / "shop=a%20b" / "part.parquet").unlink()
    (tmp_path / "sales" / "year=2023").rename(tmp_path / "elsewhere")
    assert read_source(tmp_path / "sales").to_pylist() == [
        {"x": 1012.0, "year": 2024, "shop": None}
    ]


@pytest.mark.parametrize("target", [None, "left"], ids=["no target", "target"])
def test_columns_of_partitions_are_read_alone(
    target: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where one is the target, or where a table has so many rows that a column is a batch."""
    rows = pd.DataFrame({"x": range(6), "left": [1, 0] * 3})
    for left in (0, 1):
        (folder := tmp_path / "orders" / f"left={left}").mkdir(parents=True)
        rows[rows.left == left].drop(columns="left").to_parquet(folder / "part.parquet")
    expected = ingest(rows, tmp_path / "store", labels=target).hash
    if not target:
        monkeypatch.setattr("chaffinch.storage.sources.source._CELLS_AT_A_TIME", 1)
    assert ingest(tmp_path / "orders", tmp_path / "other", labels=target).hash == expected


def test_columns_of_the_same_name_in_memory_and_in_parquet(tmp_path: Path) -> None:
    arrow = pa.table([[1], [2]], names=["a", "a"])
    pa.parquet.write_table(arrow, tmp_path / "x.parquet")
    for source in (
        arrow,
        tmp_path / "x.parquet",
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.DataFrame([[1, 2]], columns=["1", 1]),
    ):
        with pytest.raises(InputError, match=r"twice, at positions 1 and 2; rename one"):
            read_source(source)


def test_a_pandas_column_named_by_bytes() -> None:
    with pytest.raises(InputError, match=r"a column is named by bytes, b'a'; name it by text"):
        read_source(pd.DataFrame([[1, 2]], columns=["a", b"a"]))


def test_a_pandas_index_named_by_a_number_is_no_warning() -> None:
    table = pd.DataFrame({"a": [1]}, index=pd.Index([7], name=5))
    assert read_source(table).column_names == ["a", "5"]  # warnings are errors


def test_a_table_without_rows_or_columns_in_memory() -> None:
    with pytest.raises(InputError, match="the table has columns but no rows"):
        read_source(pd.DataFrame({"a": []}))
    with pytest.raises(InputError, match="the table has no columns"):
        read_source(pd.DataFrame())


def test_a_fingerprint_is_of_the_bytes(tmp_path: Path) -> None:
    one, other = write(tmp_path / "a.csv", "a\n1\n"), write(tmp_path / "b.csv", "a\n1\n")
    assert source_fingerprint(one) == source_fingerprint(str(other))
    write(other, "a\n2\n")
    assert source_fingerprint(one) != source_fingerprint(other)
    assert source_fingerprint(IRIS) is None


def test_the_fingerprint_of_a_folder_covers_names_and_bytes(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    before = source_fingerprint(tmp_path)
    (tmp_path / "_SUCCESS").touch()
    assert source_fingerprint(tmp_path) == before
    (tmp_path / "a.parquet").rename(tmp_path / "b.parquet")
    assert source_fingerprint(tmp_path) != before


FORBIDDEN = """
import os, sys
from chaffinch.errors import InputError, TableTooLargeError
from chaffinch.storage.sources import source_of
if os.getuid() == 0:
    os.setuid(65534)
for path in sys.argv[1:]:
    for ask in (source_of(path).read, source_of(path).fingerprint):
        try:
            ask()
        except InputError as error:
            print(error)
"""


def test_a_file_that_may_not_be_read() -> None:
    # not below tmp_path, which only its owner may enter
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        paths = [Path(folder) / name for name in ("x.csv", "x.csv.gz", "x.parquet")]
        for path in paths:
            path.touch(0o000)
        done = python(FORBIDDEN, *paths)
    assert done.stderr == ""
    refusal = "reading {} is not allowed; change its permissions\n"
    assert done.stdout == "".join(2 * refusal.format(path) for path in paths)


def test_a_pattern_stands_for_files_in_the_order_of_their_names(tmp_path: Path) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name, value in (("b", 2), ("a", 1), ("deep/er/c", 3), ("deep/d", 4)):
        write(tmp_path / f"{name}.csv", f"x\n{value}\n")
    for value, name in enumerate(
        (".hidden", "_f", "_temporary/0/deep/e", "deep/.g", "deep/_h"), 20
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        write(tmp_path / f"{name}.csv", f"x\n{value}\n")
    write(tmp_path / "a[1].csv", "x\n6\n")
    for pattern, values in {
        "*.csv": [1, 6, 2],
        "deep/*.csv": [4],
        "**/*.csv": [1, 6, 2, 4, 3],
        "*/er/*.csv": [3],
        "a[1]*": [6],
        "_*.csv": [21],
        "_temporary/*/*/*.csv": [22],
        "*/_h*": [24],
    }.items():
        assert read_source(f"{tmp_path}/{pattern}")["x"].to_pylist() == values, pattern
    write(tmp_path / "literal*.csv", "x\n7\n")
    assert read_source(tmp_path / "literal*.csv")["x"].to_pylist() == [7]


def test_the_types_of_text_are_those_of_the_rows_of_all_files(tmp_path: Path) -> None:
    for name, text in {"a": "x;y\n1,5;1\n;2", "b": "x;y\n1.234,5;0x\n", "c": "x;y\n"}.items():
        write(tmp_path / f"{name}.csv", text)
    table = read_source(f"{tmp_path}/*.csv#decimal=,&thousands=.")
    assert table.to_pydict() == {"x": [1.5, None, 1234.5], "y": ["1", "2", "0x"]}
    write(tmp_path / "b.csv", "x;y\n1234.5;1\n")
    with pytest.raises(InputError, match=r"column 'x' of b.csv holds '1234.5' in row 1, which is"):
        read_source([tmp_path / f"{name}.csv#decimal=," for name in "ab"])


def _files_of_many_kinds(folder: Path) -> None:
    write(folder / "a.csv", "x,y\n1,2\n")
    write(folder / "b.csv", "x,z\n1,2\n")
    write(folder / "bad.csv", "x,y\n1,2\n1,2,3\n")
    write(folder / "index.csv", ",x,y\n1,1,2\n1,1,2\n")
    (folder / "link.csv").symlink_to(folder / "a.csv")
    pa.parquet.write_table(pa.table({"x": [1]}), folder / "a.parquet")
    pa.parquet.write_table(pa.table({"x": [1.5]}), folder / "b.parquet")
    (folder / "year=1").mkdir()
    pa.parquet.write_table(pa.table({"x": [1]}), folder / "year=1" / "c.parquet")
    (folder / "orders.delta" / "_delta_log").mkdir(parents=True)
    pa.parquet.write_table(pa.table({"x": [1]}), folder / "orders.delta" / "old.parquet")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("2026-*.csv", r"^no file in .* is named as 2026-\*.csv; correct the pattern$"),
        ("[ab].csv*", r"^no file in .* is named as \[ab\].csv\*; correct the pattern$"),
        ("[ab].csv", r"^there is no file .*; nearest: "),
        ("no/*.csv", r"^there is no file .*/no"),
        ("?.*", r"^no file in .* is named as \?"),
        ("*.parquet", r"^column 'x' is int64 in a.parquet but double in b.parquet; write both"),
        ("a.*", r"^a.csv and a.parquet are of different formats; give files of one format"),
        ("year*", r"^year=1 is a folder; name its files, as in year=1/\*.parquet$"),
        ("orders.delta/*.parquet", r"orders.delta is a Delta table; give that folder as the table"),
        ("**/old.parquet", r"orders.delta is a Delta table; give that folder as the table"),
        (["a.csv", "a.csv"], r"^a.csv and a.csv are one file; give each file once$"),
        (["a.csv", "*.csv"], r"^a.csv and a.csv are one file; give each file once$"),
        (["a.csv", "link.csv"], r"^a.csv and link.csv are one file; give each file once$"),
        (["a.csv", "b.csv"], r"^column 'y' is in a.csv but not in b.csv; write both"),
        (["a.csv", "bad.csv"], r"^row 2 of bad.csv must have 2 fields as the header but has 3"),
        (["index.csv"], r"^column 1 of index.csv has no name; give it one or remove it$"),
        (["a.csv", "aa.csv"], r"^there is no file .*/aa.csv; nearest: a.csv"),
        (["a.csv#na=x", "b.csv"], r"^the files of a list are written with other options each, 'na"),
        (["a.parquet", "year=1/c.parquet"], r"has partitions of different columns, a.parquet and"),
        (["a.csv", "s3://shop/a.csv"], r"^a list names files in one place, but .* and s3://shop/a"),
        (["s3://shop/a.csv", "s3://other/a.csv"], r"^a list names files in one bucket, but shop"),
        (["duckdb:///a.duckdb#x"], r"^a list names files of one table, but .* is no file$"),
        (["a.csv", 1], r"^a source must be a path to .* but is list; give one table"),
        ([], r"^a source must be a path to .* but is list; give one table"),
    ],
)
def test_files_that_are_no_table_together_are_one_line(
    names: Any, message: str, tmp_path: Path
) -> None:
    _files_of_many_kinds(tmp_path)

    def at(name: Any) -> Any:
        return name if "://" in str(name) or name == 1 else f"{tmp_path}/{name}"

    with pytest.raises(InputError, match=message) as one:
        read_source([at(name) for name in names] if isinstance(names, list) else at(names))
    assert "\n" not in str(one.value)
