"""The same content is the same dataset, however it came."""

import datetime
import hashlib
import json
import string
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_wine

from chaffinch.errors import InputError, StorageError
from chaffinch.storage.datasets.column_types import type_columns
from chaffinch.storage.datasets.content_hash import shuffle_rows
from chaffinch.storage.datasets.dataset import Dataset, write_dataset
from chaffinch.storage.files import sha256_of_file
from tests.sources import ingest


def mixed_frame(n: int = 500) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "whole": rng.integers(-5, 5, n),
            "real": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "yes": rng.random(n) < 0.5,
            "colour": rng.choice(["red", "green", "blue", None], n),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**6, n), "s"),
        }
    )
    frame.loc[3, "day"] = pd.NaT
    return frame


def test_other_content_is_another_dataset(tmp_path: Path) -> None:
    frame = mixed_frame()
    others = [
        frame,
        frame.iloc[1:],
        frame.rename(columns={"real": "float"}),
        frame[["real", "whole", "yes", "colour", "day"]],
        frame.replace({"colour": {"red": "pink"}}),
        frame.astype({"whole": "float64"}),
        frame.assign(real=frame["real"].fillna(0.0)),
        frame.assign(yes=~frame["yes"]),
        frame.assign(day=frame["day"] + pd.Timedelta("1us")),
    ]
    hashes = {ingest(other, tmp_path).hash for other in others}
    assert len(hashes) == len(others)


def test_a_dataset_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = shuffle_rows(type_columns(pa.Table.from_pandas(mixed_frame(), preserve_index=False)))
    dataset = write_dataset(table, tmp_path)
    assert dataset.read().equals(table)
    assert Dataset.open(tmp_path, dataset.hash) == dataset
    assert dataset.path == tmp_path / dataset.hash[:16]


def test_categories_have_one_numbering_over_many_row_groups(tmp_path: Path) -> None:
    n = 300_000
    colours = pa.array([f"colour {i % 7}" for i in range(n - 1)] + ["a last one"])
    table = shuffle_rows(type_columns(pa.table({"x": range(n), "colour": colours})))
    dataset = write_dataset(table, tmp_path)
    file = pa.parquet.ParquetFile(dataset.path / "table.parquet")
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    assert [group.num_rows for group in groups] == [131_072, 131_072, 37_856]
    assert {group.column(0).compression for group in groups} == {"ZSTD"}
    assert dataset.read().equals(table)
    assert dataset.read(["colour"])["colour"].num_chunks == 1


def test_a_category_per_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    table = type_columns(pa.table({"id": [f"user {i}" for i in range(150_000)]}))
    dataset = write_dataset(shuffle_rows(table), tmp_path)
    assert dataset.read().equals(shuffle_rows(table))


def test_only_the_asked_columns_in_the_asked_order(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "a.b": [3, 4], "b": ["x", "y"]})
    dataset = ingest(table, tmp_path)
    values = {name: dataset.read()[name].to_pylist() for name in dataset.columns}
    for names in (["b", "a"], ["a.b"], ["a"], ["b", "a.b", "a"]):
        read = dataset.read(names)
        assert read.to_pydict() == {name: values[name] for name in names}
        assert read.column_names == names
    with pytest.raises(InputError, match="there is no column 'colour'"):
        dataset.read(["a", "colour"])


def test_roles_reach_the_columns_and_dropped_ones_are_never_typed(tmp_path: Path) -> None:
    table = pa.table({"zip": [10, 9], "size": ["1", "2"], "junk": [[1], [2]]})
    dataset = ingest(table, tmp_path, categorical=["zip"], numeric=["size"], drop=["junk"])
    assert dataset.columns == {"zip": "category", "size": "int64"}
    with pytest.raises(InputError, match="there is no column 'junkk'; nearest: junk"):
        ingest(table, tmp_path, drop=["junkk"])
    with pytest.raises(InputError, match="the table after dropping has no columns"):
        ingest(table, tmp_path, drop=["zip", "size", "junk"])


@pytest.mark.parametrize("values", [[1, "a", {}], [1 + 1j, 2j, 3.0]], ids=["mixed", "complex"])
def test_a_pandas_column_that_arrow_cannot_hold_may_be_dropped(tmp_path: Path, values) -> None:
    table = pd.DataFrame({"x": [1.0, 2.0, 3.0], "bad": values})
    with pytest.raises(InputError, match="bad"):
        ingest(table, tmp_path)
    assert ingest(table, tmp_path, drop=["bad"]).hash == ingest(table[["x"]], tmp_path).hash
    numbered = table.rename(columns={"bad": 7})
    assert ingest(numbered, tmp_path, drop=["7"]).hash == ingest(table[["x"]], tmp_path).hash


def test_few_whole_numbers_that_are_categories_are_labels_of_their_own_type(tmp_path: Path) -> None:
    def hash_of(values, **asked):
        return ingest(pd.DataFrame({"y": values}), tmp_path, labels="y", **asked).hash

    labels, many = pd.Series([3, 1, 3]), pd.Series(range(21))
    assert hash_of(labels.astype("category")) == hash_of(labels)
    assert hash_of(many.astype("category")) != hash_of(many)  # a quantity, had they stayed numbers
    assert hash_of(labels.astype("category"), categorical=["y"]) != hash_of(labels)


def test_labels_may_be_categories_of_polars_or_views_of_text(tmp_path: Path) -> None:
    labels = ["no", "yes", "no"]
    views = pa.array([0, 1, 0]), pa.array(["no", "yes"], pa.string_view())
    sources = [
        pl.DataFrame({"y": labels}),
        pl.DataFrame({"y": pl.Series(labels, dtype=pl.Categorical)}),
        pl.DataFrame({"y": pl.Series(labels, dtype=pl.Enum(["yes", "no"]))}),
        pa.table({"y": pa.DictionaryArray.from_arrays(*views)}),
    ]
    assert len({ingest(source, tmp_path, labels="y").hash for source in sources}) == 1


# --- the order of the rows ---------------------------------------------------------------------

CELLS = {
    "number": st.one_of(st.none(), st.integers(-(2**53), 2**53).map(float), st.floats(-9, 9)),
    "whole": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
    "yes": st.one_of(st.none(), st.booleans()),
    "text": st.one_of(st.none(), st.text(string.ascii_letters, min_size=1, max_size=3)),
}
KINDS = {"number": pa.float64(), "whole": pa.int64(), "yes": pa.bool_(), "text": pa.string()}
ROWS = st.lists(st.tuples(*CELLS.values()), min_size=1, max_size=30)


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True)
    return type_columns(
        pa.table({n: pa.array(c, KINDS[n]) for n, c in zip(CELLS, columns, strict=True)}),
        categorical=["text"],
    )


@given(ROWS, st.randoms())
def test_the_order_of_rows_and_columns_in_the_source_changes_nothing(
    rows: list[tuple[Any, ...]], random: Any
) -> None:
    names = list(CELLS)
    random.shuffle(names)
    other = random.sample(rows, len(rows))
    shuffled = shuffle_rows(table_of(rows))
    assert shuffle_rows(table_of(other).select(names)).select(list(CELLS)).equals(shuffled)
    assert sorted(map(str, shuffled.to_pylist())) == sorted(map(str, table_of(rows).to_pylist()))


@given(st.lists(st.integers(-(2**53), 2**53), min_size=1, max_size=30))
def test_whole_numbers_are_ordered_alike_as_int_and_as_float(values: list[int]) -> None:
    as_int = shuffle_rows(pa.table({"x": pa.array(values, pa.int64())}))
    as_float = shuffle_rows(pa.table({"x": pa.array(values, pa.float64())}))
    assert as_int["x"].to_pylist() == as_float["x"].to_pylist()


def test_numbers_that_float64_cannot_tell_apart_still_have_one_order() -> None:
    values = [2**63 - 1 - i for i in range(700)] + [2**60 + i for i in range(700)]
    one = shuffle_rows(pa.table({"x": pa.array(values)}))
    other = shuffle_rows(pa.table({"x": pa.array(values[::-1])}))
    assert one.equals(other)


def test_one_row_more_leaves_the_order_of_the_others_alone() -> None:
    table = type_columns(pa.table({"x": np.random.default_rng(0).normal(size=100)}))
    all_rows = shuffle_rows(table)["x"].to_pylist()
    fewer = shuffle_rows(table.slice(1))["x"].to_pylist()
    assert fewer == [x for x in all_rows if x != table["x"][0].as_py()]


def test_the_order_tells_nothing_about_the_values() -> None:
    frame = load_breast_cancer(as_frame=True).frame.sort_values("target")
    table = shuffle_rows(type_columns(pa.Table.from_pandas(frame, preserve_index=False)))
    position = np.arange(table.num_rows)
    for name in table.column_names:
        correlation = np.corrcoef(position, table[name].to_numpy())[0, 1]
        assert abs(correlation) < 4 / np.sqrt(table.num_rows), name


def text_hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def splitmix64(state: int) -> int:
    z = (state + 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def value_hash(value: Any) -> int:
    if value is None:
        return 0x9E6C63D0676A9A99
    if isinstance(value, str):
        return text_hash(value)
    if isinstance(value, datetime.datetime):
        return round((value - datetime.datetime(1970, 1, 1)).total_seconds() * 10**6) % 2**64
    bits = int.from_bytes(struct.pack("<d", float(value)), "little")
    lost = value - min(int(float(value)), 2**63 - 1024) if isinstance(value, int) else 0
    return (bits + lost * 0xD1342543DE82EF95) % 2**64


def test_the_order_is_the_one_the_format_describes() -> None:
    frame = mixed_frame(50).assign(large=2**63 - 1 - 7 * np.arange(50))
    table = type_columns(pa.Table.from_pandas(frame, preserve_index=False))
    rows = table.to_pylist()

    def row_hash(row: dict[str, Any]) -> int:
        return splitmix64(sum(splitmix64(value_hash(v) + text_hash(n)) for n, v in row.items()))

    assert shuffle_rows(table).to_pylist() == sorted(rows, key=row_hash)


def test_a_known_hash_and_order(tmp_path: Path) -> None:
    # what one release wrote, the next must find again
    table = pa.table({"x": [0.0, 1.0, 2.0, None], "colour": ["a", "b", None, "a"]})
    dataset = ingest(table, tmp_path)
    assert dataset.read()["x"].to_pylist() == [1.0, 0.0, 2.0, None]
    assert dataset.hash[:16] == "953526dfffb15a2d"


# --- what is on disk ---------------------------------------------------------------------------


def test_a_whole_dataset_is_not_written_again_and_a_damaged_one_is(tmp_path: Path) -> None:
    frame = load_wine(as_frame=True).frame
    dataset = ingest(frame, tmp_path)
    path = dataset.path / "table.parquet"
    before = path.stat().st_mtime_ns
    assert ingest(frame, tmp_path) == dataset
    assert path.stat().st_mtime_ns == before
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    assert ingest(frame, tmp_path) == dataset
    assert path.read_bytes() == whole


def test_the_manifest_says_what_is_there(tmp_path: Path) -> None:
    dataset = ingest(pa.table({"b": [1, 2], "a": ["x", "y"]}), tmp_path)
    assert json.loads((dataset.path / "dataset.json").read_bytes()) == {
        "format_version": 1,
        "hash": dataset.hash,
        "n_rows": 2,
        "columns": {"b": "int64", "a": "category"},
        "files": {"table.parquet": sha256_of_file(dataset.path / "table.parquet")},
    }
    assert sorted(p.name for p in dataset.path.iterdir()) == ["dataset.json", "table.parquet"]


def test_missing_and_damaged_datasets_are_storage_errors_with_a_remedy(tmp_path: Path) -> None:
    dataset = ingest(pa.table({"x": [1, 2]}), tmp_path)
    with pytest.raises(StorageError, match=r"dataset 0000000000000000 is not in .*; select again"):
        Dataset.open(tmp_path, "0" * 64)
    manifest = dataset.path / "dataset.json"
    good = manifest.read_bytes()
    for bad, message in (
        (b"{", "is damaged"),
        (b"{}", "must have format_version 1 but has None"),
        (good.replace(dataset.hash.encode(), b"0" * 64), "is damaged; run on its source again"),
        (good.replace(b"n_rows", b"rows"), "no int n_rows"),
        (good.replace(b"table.parquet", b"other.parquet"), "is damaged; run on its source"),
    ):
        assert bad != good
        manifest.write_bytes(bad)
        with pytest.raises(StorageError, match=message):
            Dataset.open(tmp_path, dataset.hash)
    manifest.write_bytes(good)
    (dataset.path / "table.parquet").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="is damaged; run on its source again"):
        Dataset.open(tmp_path, dataset.hash)
    with pytest.raises(StorageError, match=r"is damaged, or of another run; run again"):
        dataset.read()
    (dataset.path / "table.parquet").unlink()
    (dataset.path / "table.parquet").mkdir()
    with pytest.raises(StorageError, match=r"cannot be read .*; run on its source again"):
        Dataset.open(tmp_path, dataset.hash)


def test_a_table_that_was_not_typed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"column 'x' must be one of float64, .* but is int8"):
        write_dataset(pa.table({"x": pa.array([1], pa.int8())}), tmp_path)


def test_ingesting_leaves_the_callers_table_alone(tmp_path: Path) -> None:
    frame = mixed_frame()
    before = frame.copy(deep=True)
    ingest(frame, tmp_path)
    pd.testing.assert_frame_equal(frame, before)


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "in memory"])
def test_a_dataset_can_be_put_in_the_order_of_its_source(tmp_path: Path, name: str) -> None:
    frame = pd.DataFrame({"x": np.random.default_rng(0).permutation(200), "y": ["a", "b"] * 100})
    orders = [frame, frame[::-1]]  # of one dataset
    for number, rows in enumerate(orders):
        path = tmp_path / f"{number}{name}"
        if name == "in memory":
            source = rows
        else:
            rows.to_csv(path, index=False) if name == "x.csv" else rows.to_parquet(path)
            source = path
        for _ in range(2):  # the second time a file is not read
            dataset = ingest(source, tmp_path / "store")
            assert dataset.in_source_order()["x"].to_pylist() == rows["x"].to_list()
    assert len([*(tmp_path / "store").glob("source-*")]) == len(orders)


@pytest.mark.parametrize("damage", [b"", b"PAR1", b"{}"])
def test_a_damaged_note_of_a_source_is_written_again(tmp_path: Path, damage: bytes) -> None:
    path, store = tmp_path / "x.csv", tmp_path / "store"
    path.write_text("x\n3\n1\n2\n")
    dataset = ingest(path, store)
    (note,) = store.glob("source-*")
    note.write_bytes(damage)
    assert ingest(path, store) == dataset
    assert ingest(path, store).in_source_order()["x"].to_pylist() == [3, 1, 2]
