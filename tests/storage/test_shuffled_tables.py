"""Tables in random order: whatever the source, every row once, and nothing wrong gets in or out."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import chaffinch
from chaffinch import InputError, StorageError
from chaffinch.storage import parquet_pieces, pieces, svmlight
from chaffinch.storage.shuffling import Shuffled

FORMS = pytest.mark.parametrize("form", ["dense", "sparse"])


def made_up(n_rows=5000, n_columns=30, seed=0):
    """Rows sorted by their target; the first column is the number of the row."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n_rows, n_columns)) * (random.random((n_rows, n_columns)) < 0.3)
    X[n_rows // 2] = 0
    X[:, 0] = np.arange(n_rows)
    return X, X[:, 0] * 2 + 1


def as_form(X, form):
    return scipy.sparse.csr_array(X) if form == "sparse" else X


def all_rows(table):
    blocks = [table.read(block) for block in range(len(table.block_rows))]
    stacked = [X.toarray() if scipy.sparse.issparse(X) else X for X, _ in blocks]
    assert [len(X) for X in stacked] == list(table.block_rows)
    return np.vstack(stacked), np.concatenate([y for _, y in blocks])


@FORMS
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_row_is_there_once_with_its_target_in_an_order_that_tells_nothing(
    tmp_path, form, dtype
) -> None:
    X, y = made_up()
    X = X.astype(dtype)
    table = chaffinch.shuffle_pieces([(as_form(X, form), y)], tmp_path / "x.parquet")
    assert table.shape == X.shape
    rows, target = all_rows(table)
    assert rows.dtype == dtype
    order = rows[:, 0].astype(int)
    assert sorted(order) == list(range(5000))
    assert (rows == X[order]).all()
    assert (target == y[order]).all()
    assert abs(np.corrcoef(order, np.arange(5000))[0, 1]) < 0.05
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.05


@FORMS
def test_each_block_is_a_sample_and_none_is_small(tmp_path, form) -> None:
    X, y = made_up()
    table = chaffinch.shuffle_pieces(
        [(as_form(X, form), y)], tmp_path / "x.parquet", block_rows=1200
    )
    assert table.block_rows == (1250, 1250, 1250, 1250)
    for block in range(4):
        assert table.read(block)[1].mean() == pytest.approx(y.mean(), rel=0.05)


@FORMS
def test_only_the_seed_decides_the_order(tmp_path, form, monkeypatch) -> None:
    X, y = made_up()

    def written(name, size, **options):
        parts = [
            (as_form(X[first : first + size], form), y[first : first + size])
            for first in range(0, 5000, size)
        ]
        path = tmp_path / name
        return chaffinch.shuffle_pieces(iter(parts), path, block_rows=1000, **options).hash

    once = written("once.parquet", 5000)
    assert written("pieces.parquet", 777) == once
    monkeypatch.setattr(pieces, "_MOST_VALUES", 5000)
    assert written("smaller.parquet", 5000) == once
    bytes_of = [(tmp_path / name).read_bytes() for name in ("once.parquet", "smaller.parquet")]
    assert bytes_of[0] == bytes_of[1]
    assert written("other.parquet", 5000, seed=1) != once


def test_buckets_that_are_too_large_are_parted_again_without_a_trace(tmp_path) -> None:
    orders = []
    for most_bytes in (2**26, 1000, 50):
        folder = tmp_path / str(most_bytes)
        folder.mkdir()
        shuffled = Shuffled(folder, 7, most_bytes)
        shuffled.scatter({"x": pa.array(np.arange(n, n + 500))} for n in range(0, 3000, 500))
        orders.append(np.concatenate([table["x"].to_numpy() for table in shuffled.tables()]))
        assert [path for path in folder.rglob("*") if path.is_file()] == []
    assert sorted(orders[0]) == list(range(3000))
    assert (orders[0] == orders[1]).all()
    assert (orders[0] == orders[2]).all()


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.parametrize("ending", [".svmlight", ".txt.gz"])
def test_svmlight_is_read_in_pieces_as_scikit_learn_reads_it(
    tmp_path, monkeypatch, zero_based, ending
) -> None:
    X, y = made_up(600)
    text = tmp_path / "x.svmlight"
    dump_svmlight_file(X, y, str(text), zero_based=zero_based, comment="two\nlines")
    lines = text.read_bytes().replace(b"\n3 ", b"\n\n# nothing\n3 ")
    source = tmp_path / f"given{ending}"
    source.write_bytes(gzip.compress(lines) if ending.endswith("gz") else lines.rstrip(b"\n"))
    expected, target = load_svmlight_file(str(text), zero_based=zero_based)
    monkeypatch.setattr(svmlight, "_BYTES_AT_A_TIME", 1000)
    table = chaffinch.shuffle_svmlight(
        source, tmp_path / "x.parquet", zero_based=zero_based, n_columns=40
    )
    rows, found = all_rows(table)
    assert rows.shape == (600, 40)
    order = rows[:, 0].astype(int)
    assert (rows[:, :30] == expected.toarray()[order]).all()
    assert (found == target[order]).all()
    single = chaffinch.shuffle_svmlight(
        source, tmp_path / "y.parquet", zero_based=zero_based, dtype="float32"
    )
    assert single.shape == (600, 30)
    assert [single.name_of(column) for column in (0, 29)] == (
        ["0", "29"] if zero_based else ["1", "30"]
    )
    assert all_rows(single)[0].dtype == np.float32


def test_what_gzip_wrote_is_read_whatever_its_ending(tmp_path) -> None:
    text, packed = tmp_path / "x.svm", tmp_path / "y.svm"
    text.write_text("1 1:2 3:1\n0 2:1\n" * 50)
    packed.write_bytes(gzip.compress(text.read_bytes()))
    plain, unpacked = (
        chaffinch.shuffle_svmlight(source, tmp_path / "x.parquet", zero_based=False).hash
        for source in (text, packed)
    )
    assert plain == unpacked


@pytest.mark.parametrize("compress", [bz2.compress, lzma.compress])
def test_what_another_program_compressed_is_said_to_be_that(tmp_path, compress) -> None:
    (tmp_path / "x.svm").write_bytes(compress(b"1 1:2\n"))
    with pytest.raises(InputError, match=r"x.svm is compressed by (bzip2|xz); unpack it, or give"):
        chaffinch.shuffle_svmlight(tmp_path / "x.svm", tmp_path / "x.parquet", zero_based=False)


@pytest.mark.parametrize("value", ["1e39", "-1e39"])
def test_a_value_that_float32_cannot_hold_is_told_to_be_kept_as_float64(tmp_path, value) -> None:
    source, path = tmp_path / "x.svm", tmp_path / "x.parquet"
    source.write_text(f"1 1:2\n# so\n0 1:1 2:{value}\n1 2:inf\n")
    said = rf"line 3 of x.svm has {value[:-2]}\+39 in column 2, which float32 cannot .* to float64"
    with pytest.raises(InputError, match=said):
        chaffinch.shuffle_svmlight(source, path, zero_based=False, dtype="float32")
    with pytest.raises(
        InputError, match=r"line 4 of x.svm has inf in column 2, which is no number"
    ):
        chaffinch.shuffle_svmlight(source, path, zero_based=False)
    source.write_text(f"1 1:2\n0 1:1 2:{value}\n1 2:1\n")
    table = chaffinch.shuffle_svmlight(source, path, zero_based=False)
    assert float(value) in table.read(0)[0].data


def test_parquet_files_of_a_folder_are_one_table_of_numbers(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(parquet_pieces, "_VALUES_AT_A_TIME", 2000)
    X, y = made_up(3000, 5)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["whole"], frame["yes"] = np.arange(3000), y > 3000
    frame["label"] = np.where(y > 1500, "high", "low")
    frame["day"] = pd.Timestamp("2024-01-01")
    (tmp_path / "in").mkdir()
    frame[:1700].to_parquet(tmp_path / "in" / "1.parquet", index=False)
    frame[1700:].to_parquet(tmp_path / "in" / "2.parquet", index=False, row_group_size=500)
    table = chaffinch.shuffle_parquet(
        tmp_path / "in", tmp_path / "x.parquet", target="label", drop=["day"]
    )
    assert table.columns == ("a", "b", "c", "d", "e", "whole", "yes")
    assert table.labels.tolist() == ["high", "low"]
    rows, target = all_rows(table)
    order = rows[:, 5].astype(int)
    assert sorted(order) == list(range(3000))
    expected = frame.drop(columns=["label", "day"]).to_numpy(float)
    assert (rows == expected[order]).all()
    assert (target == frame["label"].to_numpy()[order]).all()
    sparse = chaffinch.shuffle_parquet(
        tmp_path / "in", tmp_path / "y.parquet", target="label", drop=["day"], sparse=True
    )
    assert sparse.columns == table.columns
    assert sparse.read(0)[0].nnz == np.count_nonzero(expected)
    assert (all_rows(sparse)[0] == rows).all()


def test_a_footer_may_be_as_large_as_that_of_a_million_columns(tmp_path) -> None:
    table = pa.table({"a": [1.0, 0.0], "y": [0.0, 1.0]})
    large = table.replace_schema_metadata(dict.fromkeys(map(str, range(1_000_002)), ""))
    pyarrow.parquet.write_table(large, tmp_path / "in.parquet")
    with pytest.raises(OSError, match="Exceeded size limit"):
        pyarrow.parquet.ParquetFile(tmp_path / "in.parquet")
    shuffled = chaffinch.shuffle_parquet(tmp_path / "in.parquet", tmp_path / "x", target="y")
    assert shuffled.shape == (2, 1)


def test_several_files_are_one_table_the_same_as_if_they_were_one(tmp_path) -> None:
    X, y = made_up(2500, 6)
    X[2000:, 4:] = 0  # the last of three texts goes up to a lower column
    ends = ((0, 900), (900, 2000), (2000, 2500))
    texts, files, frame = [], [], pd.DataFrame(X, columns=list("abcdef")).assign(y=y)
    for number, (first, last) in enumerate(ends):
        texts.append(tmp_path / f"{number}.svm")
        dump_svmlight_file(X[first:last], y[first:last], str(texts[-1]), zero_based=True)
        files.append(tmp_path / f"{number}.parquet")
        frame[first:last].to_parquet(files[-1])
    (tmp_path / "all.svm").write_bytes(b"".join(text.read_bytes() for text in texts))
    frame.to_parquet(tmp_path / "all.parquet")
    for several, one, shuffle, asked in (
        (texts, "all.svm", chaffinch.shuffle_svmlight, {"zero_based": True}),
        (files, "all.parquet", chaffinch.shuffle_parquet, {"target": "y"}),
    ):
        of_one = shuffle(tmp_path / one, tmp_path / "x", **asked)
        of_several = shuffle([str(several[0]), *several[1:]], tmp_path / "y", **asked)
        assert of_several.shape == (2500, 6)
        assert of_several.hash == of_one.hash
    texts[1].write_text("1 0:2\n1 0:nan\n")
    with pytest.raises(InputError, match="line 2 of 1\\.svm has nan in column 0"):
        chaffinch.shuffle_svmlight(texts, tmp_path / "z", zero_based=True)
    for wrong, said in (
        ([], "must be at least one file but is none"),
        ([texts[0], tmp_path / "9.svm"], "there is no file .*9.svm; nearest"),
        (["s3://shop/0.svm"], "0.svm must be a file on this disk, .* copy it here first"),
        ([texts[0], tmp_path / "z"], "there is no file"),
        ([texts[0], texts[2]], "is the source itself"),
    ):
        with pytest.raises(InputError, match=said):
            chaffinch.shuffle_svmlight(wrong, texts[2], zero_based=True)


@pytest.mark.parametrize(
    ("y", "kind", "labels"),
    [
        (np.arange(1200) % 3, "i", [0, 1, 2]),
        (np.arange(1200) % 2 == 0, "b", [False, True]),
        (np.arange(1200) % 2 * 0.5, "f", [0, 0.5]),
        (np.arange(1200) / 7, "f", None),
        (np.arange(1200, dtype=np.uint8) % 4, "i", [0, 1, 2, 3]),
        (np.array(["ä", "b"] * 600), "U", ["b", "ä"]),
        (np.array(["x", "yy"] * 600, dtype=object), "U", ["x", "yy"]),
    ],
)
def test_targets_keep_their_type_and_say_what_labels_there_are(tmp_path, y, kind, labels) -> None:
    X = np.arange(2400.0).reshape(1200, 2)
    pieces_of = [(X[:500], y[:500]), (X[500:], y[500:])]
    table = chaffinch.shuffle_pieces(pieces_of, tmp_path / "x.parquet")
    assert table.target_type.kind == kind
    assert (None if table.labels is None else table.labels.tolist()) == labels
    rows, target = all_rows(table)
    assert (target == y[(rows[:, 0] / 2).astype(int)]).all()


def svmlight_file(text):
    def write(folder):
        (folder / "x.svmlight").write_text(text)
        return chaffinch.shuffle_svmlight(
            folder / "x.svmlight", folder / "x.parquet", zero_based=False, n_columns=5
        )

    return write


def of_pieces(*given, **options):
    return lambda folder: chaffinch.shuffle_pieces(given, folder / "x.parquet", **options)


def parquet_file(frame, **options):
    def write(folder):
        pd.DataFrame(frame).to_parquet(folder / "in.parquet", row_group_size=1)
        return chaffinch.shuffle_parquet(
            folder / "in.parquet", folder / "x.parquet", **{"target": "y", **options}
        )

    return write


X3, Y3 = np.eye(3), np.arange(3.0)
FRAME3 = pd.DataFrame(X3, columns=["a", "b", "c"])
BAD = {
    "unsorted": (svmlight_file("1 1:2 3:1\n\n0 4:1 2:1\n"), "line 3 of x.svmlight cannot be read"),
    "twice": (svmlight_file("1 1:2\n0 2:1 2:1\n"), "line 2 .*sorted and unique.*columns that asc"),
    "zero": (
        svmlight_file("1 1:2\n1 0:2\n"),
        "line 2 of x.svmlight has column 0 but columns are counted from 1; .* --zero-based",
    ),
    "negative": (svmlight_file("1 1:2\n1 -4:2\n"), "line 2 of x.svmlight cannot be read .Invalid"),
    "huge index": (
        svmlight_file("1 1:2\n1 4294967296:2\n"),
        r"line 2 of x.svmlight has column 4294967296 but columns must be in 1\.\.2147483647; mend",
    ),
    "longer index": (
        svmlight_file(f"1 1:2\n1 1:1 {'9' * 5000}:2\n"),
        r"line 2 of x.svmlight has column 9{80}\.\.\. but columns must be in 1\.\.2147483647; mend",
    ),
    "table of another format": (
        svmlight_file(",".join(map(str, range(20_000)))),
        r"^line 1 of x.svmlight cannot be read .{81}\.\.\.., as in `1 1:0\.5`: [^`]{100,150}$",
    ),
    "compressed": (
        svmlight_file("BZh91AY&SY"),
        "x.svmlight is compressed by bzip2; unpack it, or give it as .gz",
    ),
    "label": (svmlight_file("1 1:2\nspam 2:1\n"), "line 2 .*'?spam.*a label that is a number"),
    "too far": (
        svmlight_file("1 1:2\n# so\n0 2:1 6:1\n"),
        r"line 3 of x.svmlight has a value in column 6 but columns are 1\.\.5; mend the row, or",
    ),
    "nan": (svmlight_file("1 1:2\n0 2:nan\n"), "line 2 of x.svmlight has nan in column 2,"),
    "infinite": (svmlight_file("1 1:2\n0 2:inf\n"), "line 2 of x.svmlight has inf in column 2,"),
    "no target": (svmlight_file("1 1:2\nnan 2:1\n"), "line 2 of x.svmlight has the target nan"),
    "empty": (svmlight_file("# nothing\n"), "the source has no rows"),
    "dense nan": (of_pieces((X3 * np.nan, Y3)), "row 1 has nan in column 0"),
    "later nan": (
        of_pieces((X3, Y3), (np.where(X3 > 0, X3, np.nan), Y3)),
        "row 4 has nan in column 1",
    ),
    "columns": (
        of_pieces((X3, Y3), (X3[:, :2], Y3)),
        "row 4 has 2 columns but .* have 3; give all",
    ),
    "form": (
        of_pieces((X3, Y3), (scipy.sparse.csr_array(X3), Y3)),
        "row 4 is sparse float64 but those before are dense float64; give all pieces alike",
    ),
    "names": (
        of_pieces((FRAME3, Y3), (X3, Y3), (FRAME3[["a", "c", "b"]], Y3)),
        "column 1 of a piece is 'c' but 'b' in the first; give every piece the same columns in",
    ),
    "targets": (of_pieces((X3, Y3[:2])), r"row 1 begins a piece of 3 rows but \(2,\) targets"),
    "kinds": (of_pieces((X3, Y3), (X3, ["a"] * 3)), "row 4 has text as target but .* have numbers"),
    "gap": (
        of_pieces((X3, np.array(["a", None, "b"]))),
        "row 2 has the target None; leave out rows without one",
    ),
    "gap in a list of text": (
        of_pieces((X3, ["a", "b", np.nan])),
        "row 3 has the target nan; leave out rows without one",
    ),
    "gap in true and false": (
        parquet_file({"a": [1, 2], "y": pd.array([True, None], "boolean")}),
        "row 2 of in.parquet has the target None; leave out rows without one",
    ),
    "types": (
        of_pieces((X3, ["a", 1, "b"])),
        "row 2 has the target 1 among text; give all targets in one type, such as text",
    ),
    "objects": (
        of_pieces((X3, np.array([{1}, {2}, {3}]))),
        r"must hold numbers, .* or text but holds objects, as \{1\} in row 1; convert it",
    ),
    "no columns": (of_pieces((X3[:, :0], Y3)), r"a piece must be a table .* of shape \(3, 0\)"),
    "one target": (
        of_pieces((X3, 1)),
        r"row 1 begins a piece of 3 rows but \(\) targets; give one",
    ),
    "no pair": (of_pieces(X3), "pieces must be several .* one is of type ndarray; of one table"),
    "three": (of_pieces((X3, Y3, Y3)), r"one is of type tuple of length 3; of one .* \[\(X, y\)\]"),
    "no pieces": (
        lambda folder: chaffinch.shuffle_pieces(None, folder / "x.parquet"),
        "pieces must be several .* but are of type NoneType; of one",
    ),
    "mask": (
        of_pieces((np.ma.masked_equal(X3, 1), Y3)),
        "X of a piece must have no masked values, .* but has 3; leave out those rows, or .* by X.f",
    ),
    "masked target": (
        of_pieces((X3, np.ma.masked_equal(Y3, 1))),
        "target of a piece must have no masked values, .* but has 1; leave out the rows without",
    ),
    "masked entry": (
        of_pieces((X3, [0.5, np.ma.masked, 1.0])),
        "the target of a piece must have no masked values; leave out the rows without a target",
    ),
    "gap among objects": (
        of_pieces((X3, np.array([0.5, np.nan, 1], object))),
        "row 2 has the target nan; leave out rows without one",
    ),
    "infinite object": (
        of_pieces((X3, np.array([0.5, 2, -np.inf], object))),
        "row 3 has the target -inf",
    ),
    "long numbers": (
        of_pieces((X3, [2**70, 1, 2])),
        "but holds objects, as 1180591620717411303424 in row 1; convert it",
    ),
    "text": (of_pieces((X3.astype(str), Y3)), "a piece must be a table of numbers but is <U"),
    "none": (of_pieces(), "the source has no rows"),
    "seed": (of_pieces((X3, Y3), seed=-1), "seed must be a whole number, at least 0, but is -1"),
    "blocks": (
        of_pieces((X3, Y3), block_rows=40),
        "block_rows must be .* at least 1000, but is 40",
    ),
    "classes": (
        of_pieces((np.ones((1500, 1)), np.arange(1500).astype(str))),
        "the target must have at most 1000 classes but has more by row 1500; give numbers",
    ),
    "category": (parquet_file({"a": ["x"], "y": [1]}), "column 'a' must hold numbers but is"),
    "no such": (parquet_file({"a": [1], "z": [1]}), "there is no column 'y'"),
    "dropped": (
        parquet_file({"a": [1], "y": [1]}, drop=["y"]),
        "'y' is the target and cannot be dropped; leave it out of drop",
    ),
    "missing": (
        parquet_file({"a": [1, None], "y": [1, 2]}),
        "row 2 of in.parquet has nan in column 'a',",
    ),
    "large": (
        parquet_file({"a": [1, 2], "id": [2**53, -(2**53) - 1], "y": [1, 2]}),
        "row 2 of in.parquet has -9007199254740993 in column 'id', a whole number beyond "
        "9007199254740992 that would be rounded; drop the column",
    ),
    "unsigned": (
        parquet_file({"id": pd.Series([None, 2**64 - 1], dtype="UInt64"), "y": [1, 2]}),
        "row 2 of in.parquet has 18446744073709551615 in column 'id', a whole number beyond",
    ),
    "of a frame": (
        of_pieces((pd.DataFrame({"a": [1.0], "b": [np.inf]}), [1.0])),
        "row 1 has inf in column 'b',",
    ),
    "alone": (parquet_file({"y": [1]}), "no columns but the target"),
    "sparse gap": (
        parquet_file({"a": [0.0, None, 1.0], "b": [0.0] * 3, "y": Y3}, sparse=True),
        "row 2 of in.parquet has nan in column 'a',",
    ),
    "sparse large": (
        parquet_file({"id": [1, 2, 2**53 + 1], "y": Y3}, sparse=True),
        "row 3 of in.parquet has 9007199254740993 in column 'id', a whole number beyond",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_is_refused_in_one_line_that_names_the_row_and_leaves_nothing(
    tmp_path, name
) -> None:
    write, said = BAD[name]
    with pytest.raises(InputError, match=said) as refusal:
        write(tmp_path)
    assert "\n" not in str(refusal.value)
    assert not (tmp_path / "x.parquet").exists()
    assert not list(tmp_path.glob(".aside*"))


# --- reading ------------------------------------------------------------------------------------


def by_another_writer(path, indices, values, **said):
    """Write a file of the format with one row of these indices and values beside a good one."""
    table = pa.table(
        {
            "indices": pa.array([[0, 1], indices], pa.list_(pa.int32())),
            "values": pa.array([[1.0, 2.0], values], pa.list_(pa.float64())),
            "target": pa.array([1.0, 2.0]),
        }
    )
    footer = {
        "format_version": 1, "format": "chaffinch shuffled table", "form": "sparse", "n_rows": 2,
        "n_columns": 4, "hash": "0" * 64, **said,
    }  # fmt: skip
    metadata = {b"chaffinch": json.dumps(footer).encode()}
    pyarrow.parquet.write_table(table.replace_schema_metadata(metadata), path)


@pytest.mark.parametrize(
    ("indices", "values", "said"),
    [
        ([2, 1], [1.0, 1.0], "row 2 of x.parquet has column 1 after column 2; sort the columns"),
        ([2, 2], [1.0, 1.0], "row 2 of x.parquet has column 2 twice; sort the columns"),
        ([2, 4], [1.0, 1.0], r"row 2 of x.parquet has a value in column 4 but columns are 0\.\.3"),
        ([-1, 2], [1.0, 1.0], "row 2 of x.parquet has a value in column -1 but"),
        ([2, 3], [1.0, np.nan], "row 2 of x.parquet has nan in column 3, which is no number"),
        ([2, 3], [np.inf, 1.0], "row 2 of x.parquet has inf in column 2, which is no number"),
    ],
)
def test_rows_that_another_writer_got_wrong_are_named(tmp_path, indices, values, said) -> None:
    path = tmp_path / "x.parquet"
    by_another_writer(path, [2, 3], [1.0, 1.0])
    assert chaffinch.open_shuffled(path).read(0)[0].toarray().tolist()[1] == [0, 0, 1, 1]
    by_another_writer(path, indices, values)
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(path).read(0)


def test_a_row_that_another_writer_got_wrong_names_its_column(tmp_path) -> None:
    by_another_writer(tmp_path / "x.parquet", [2, 3], [1.0, np.nan], columns=list("abcd"))
    with pytest.raises(InputError, match=r"row 2 of x.parquet has nan in column 'd', which is no"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)
    by_another_writer(tmp_path / "x.parquet", [2, 4], [1.0, 1.0], columns=list("abcd"))
    with pytest.raises(InputError, match=r"has a value in column 4 but columns are 'a'\.\.'d'"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)


@pytest.mark.parametrize("block", [1, -1, "0", 0.5, None])
def test_a_block_that_is_not_there_is_no_damage(tmp_path, block) -> None:
    table = of_pieces((X3, Y3))(tmp_path)
    with pytest.raises(InputError, match=f"block must be a whole number in 0..0 but is {block!r}"):
        table.read(block)


def test_whole_numbers_that_float64_holds_stay_as_they_are(tmp_path) -> None:
    table = parquet_file({"a": [2**53, -(2**53), 7] * 400, "y": [1, 2, 3] * 400})(tmp_path)
    rows, target = all_rows(table)
    assert set(zip(rows[:, 0].tolist(), target.tolist(), strict=True)) == {
        (2.0**53, 1), (-(2.0**53), 2), (7.0, 3),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("said", "error", "message"),
    [
        ({"format_version": 2}, StorageError, "was written by a later release"),
        ({"n_rows": 3}, StorageError, "its columns or rows are not those that it names"),
        ({"form": "dense"}, StorageError, "its columns or rows are not those that it names"),
        ({"format": "other"}, StorageError, "is damaged: its format is 'other'"),
        ({"hash": 3}, StorageError, "is damaged"),
    ],
)
def test_a_footer_that_does_not_fit_is_refused(tmp_path, said, error, message) -> None:
    by_another_writer(tmp_path / "x.parquet", [2], [1.0], **said)
    with pytest.raises(error, match=message):
        chaffinch.open_shuffled(tmp_path / "x.parquet")


def test_rows_of_as_many_indices_as_values_are_needed(tmp_path) -> None:
    by_another_writer(tmp_path / "x.parquet", [2, 3], [1.0])
    with pytest.raises(StorageError, match="a row has not as many indices as values; write it"):
        chaffinch.open_shuffled(tmp_path / "x.parquet").read(0)


def test_files_that_are_not_of_the_format_are_refused_with_the_way_there(tmp_path) -> None:
    X, y = made_up(1200)
    pd.DataFrame(X).add_prefix("x").assign(y=y).to_parquet(tmp_path / "plain.parquet")
    said = "may have its rows in an order of their own, .* by chaffinch.shuffle_parquet"
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(tmp_path / "plain.parquet")
    with pytest.raises(
        InputError, match=r"there is no file .*plane.parquet; nearest: plain.parquet"
    ):
        chaffinch.open_shuffled(tmp_path / "plane.parquet")
    with pytest.raises(InputError, match="the table must be a path but is 3; give a path"):
        chaffinch.open_shuffled(3)
    with pytest.raises(InputError, match="the table must be a path but is of type DataFrame; give"):
        chaffinch.open_shuffled(pd.DataFrame(X))
    with pytest.raises(InputError, match="is a folder; name a file"):
        chaffinch.open_shuffled(tmp_path)
    with pytest.raises(InputError, match="the table must be on this disk but is an address; give"):
        chaffinch.open_shuffled("s3://shop/plain.parquet")
    with pytest.raises(InputError, match="the table must be on this disk but is an address; give"):
        chaffinch.shuffle_pieces([(X, y)], "s3://shop/plain.parquet")
    (tmp_path / "text.parquet").write_text("1 3:0.5")
    said = "text.parquet is not a table in random order, as it is not Parquet; .* chaffinch shuffle"
    with pytest.raises(InputError, match=said):
        chaffinch.open_shuffled(tmp_path / "text.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "plain.parquet").read_bytes()[:-9])
    with pytest.raises(StorageError, match=r"cut.parquet is damaged: .*; write it again"):
        chaffinch.open_shuffled(tmp_path / "cut.parquet")


def test_a_flipped_byte_and_a_file_that_was_replaced_are_noticed(tmp_path) -> None:
    X, y = made_up(1200)
    path = tmp_path / "x.parquet"
    table = chaffinch.shuffle_pieces([(X, y)], path)
    whole = path.read_bytes()
    for place in (300, len(whole) // 3, len(whole) // 2):
        broken = bytearray(whole)
        broken[place] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(StorageError, match=r"x.parquet is damaged: .*; write it again"):
            chaffinch.open_shuffled(path).read(0)
    chaffinch.shuffle_pieces([(X, y + 1)], path)
    with pytest.raises(StorageError, match="was written anew since it was opened; open it again"):
        table.read(0)


# --- sudden ends --------------------------------------------------------------------------------

ENDLESS = """
import sys, numpy as np, chaffinch
from pathlib import Path
def pieces():
    X = np.random.default_rng(0).normal(size=(4000, 20))
    while True:
        yield X, X[:, 0]
chaffinch.shuffle_pieces(pieces(), Path(sys.argv[1]))
"""


def test_a_writer_that_is_killed_leaves_what_was_there_and_the_next_one_cleans_up(tmp_path) -> None:
    X, y = made_up(1200)
    path = tmp_path / "x.parquet"
    before = chaffinch.shuffle_pieces([(X, y)], path).hash
    writer = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)])
    try:
        until = time.monotonic() + 60
        while not list(tmp_path.glob(".aside-x.parquet/*.arrow")) and time.monotonic() < until:
            time.sleep(0.02)
        assert list(tmp_path.glob(".aside-x.parquet/*.arrow"))
    finally:
        os.kill(writer.pid, signal.SIGKILL)
        writer.wait()
    assert chaffinch.open_shuffled(path).hash == before
    assert [p.name for p in tmp_path.iterdir() if p.name[0] != "."] == ["x.parquet"]
    after = chaffinch.shuffle_pieces([(X, y + 1)], path)
    assert after.hash != before
    assert not list(tmp_path.glob(".aside*"))
    assert (all_rows(after)[1] - 1 == 2 * all_rows(after)[0][:, 0] + 1).all()


FULL = """
import resource, sys, numpy as np, chaffinch
from pathlib import Path
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
X = np.random.default_rng(0).normal(size=(4000, 20))
try:
    chaffinch.shuffle_pieces([(X, X[:, 0])], Path(sys.argv[1]))
except chaffinch.StorageError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [5_000, 100_000], ids=["buckets", "file"])
def test_a_full_disk_is_said_in_one_line_and_leaves_nothing(tmp_path, limit) -> None:
    arguments = [str(tmp_path / "x.parquet"), str(limit)]
    done = subprocess.run(
        [sys.executable, "-c", FULL, *arguments], capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    assert done.stdout == (
        f"no space left for a file of this size on the device of {tmp_path} while writing "
        "x.parquet: free some or name another place\n"
    )
    assert not (tmp_path / "x.parquet").exists()
    assert not list(tmp_path.glob(".aside*"))


def test_a_table_behind_a_link_is_written_where_the_link_leads(tmp_path) -> None:
    (tmp_path / "disk").mkdir()
    link, behind = tmp_path / "x.parquet", tmp_path / "disk" / "rows.parquet"
    link.symlink_to(behind)
    written = chaffinch.shuffle_pieces([(np.eye(3), np.arange(3.0))], link)
    assert link.is_symlink()
    assert chaffinch.open_shuffled(behind).hash == written.hash
    assert {path.name for path in tmp_path.iterdir()} == {"disk", "x.parquet"}


def test_a_source_is_never_written_over(tmp_path) -> None:
    text, folder = tmp_path / "rows.svm", tmp_path / "parts"
    text.write_text("1 1:2\n" * 5)
    folder.mkdir()
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [0.0, 1.0]})
    frame.to_parquet(folder / "one.parquet")
    (tmp_path / "link.parquet").symlink_to(folder / "one.parquet")
    before = text.read_bytes(), (folder / "one.parquet").read_bytes()
    with pytest.raises(InputError, match="is the source itself, which would be lost"):
        chaffinch.shuffle_svmlight(text, text, zero_based=False)
    for source, path in (("parts", "parts/one.parquet"), ("parts/one.parquet", "link.parquet")):
        with pytest.raises(InputError, match="parquet is the source itself"):
            chaffinch.shuffle_parquet(tmp_path / source, tmp_path / path, target="y")
    assert (text.read_bytes(), (folder / "one.parquet").read_bytes()) == before
